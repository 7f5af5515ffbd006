"""Concurrency groups: each kind of method gets threads of its own, so that the slow ones cannot shut out the quick ones.

`compute` runs one call at a time and waits for permission to end; `status`, in a group of its own, answers meanwhile, and
`allow` gives the permission. In an actor without groups neither would get its turn before `compute` has ended.

Prints:

    asked while it computes: computing
    the computation ended with 42
    asked afterwards: idle
"""
import threading

import miniray as ray


@ray.remote(concurrency_groups={"io": 2, "compute": 1})
class Service:
    def __init__(self):
        self.state = "idle"
        self.started, self.allowed = threading.Event(), threading.Event()

    @ray.method(concurrency_group="compute")
    def compute(self):
        self.state = "computing"
        self.started.set()
        self.allowed.wait()
        self.state = "idle"
        return 42

    @ray.method(concurrency_group="io")
    def status_once_started(self):
        self.started.wait()
        return self.state

    @ray.method(concurrency_group="io")
    def allow(self):
        self.allowed.set()


ray.init(num_cpus=1)

service = Service.remote()
result = service.compute.remote()
print("asked while it computes:", ray.get(service.status_once_started.remote()))
service.allow.remote()
print("the computation ended with", ray.get(result))
print("asked afterwards:", ray.get(service.status_once_started.remote()))

ray.shutdown()
