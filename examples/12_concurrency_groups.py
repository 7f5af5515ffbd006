"""Concurrency groups: each kind of method gets its own threads, so that slow methods cannot block quick ones.

`compute` runs one call at a time and waits for permission to finish. `status_once_started`, in a group of its own,
answers meanwhile, and `allow` gives the permission. In an actor without groups, neither would run until `compute` had
ended.

Prints:

    status during the computation: computing
    the computation returned 42
    status afterwards: idle
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
print("status during the computation:", ray.get(service.status_once_started.remote()))
service.allow.remote()
print("the computation returned", ray.get(result))
print("status afterwards:", ray.get(service.status_once_started.remote()))

ray.shutdown()
