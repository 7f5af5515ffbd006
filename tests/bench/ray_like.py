"""Ray, and miniray in its modes: one adapter, since the API is one."""

from __future__ import annotations

import importlib
import os
import pathlib
import time

from tests.bench.backend import WORKERS, Backend, children


def share_weight() -> None:
    """Give the processes that Ray started, in sessions of their own, the weight of this one in the scheduler's eyes."""
    try:
        weight = pathlib.Path("/proc/self/autogroup").read_text().split()[-1]
        for pid in children(os.getpid()):
            pathlib.Path(f"/proc/{pid}/autogroup").write_text(weight)
    except OSError as error:
        print("processes keep their weight:", error)


class Ray(Backend):
    """Ray's API: real Ray, and anything that copies it."""

    name = package = "ray"
    hello = """import ray
ray.init(num_cpus=2)
assert ray.get(ray.remote(lambda x: x).remote(1)) == 1
ray.shutdown()"""
    scale = 0.1
    limits = {"actors_1000": 20, "actors_idle": 20, "queued_1M": 20_000}
    keep_worker = True
    max_listed = 10_000

    def start(self):
        self.ray = importlib.import_module(self.package)
        self.ray.init(num_cpus=WORKERS, **self.init_options())
        self.get, self.put = self.ray.get, self.ray.put
        self.after_start()

    def after_start(self):
        share_weight()

    def init_options(self):
        return {"log_to_driver": False, "logging_level": "ERROR"}

    def stop(self):
        self.ray.shutdown()

    def task(self, fn):
        return self.ray.remote(fn).remote

    def infeasible(self, fn):
        return self.ray.remote(fn).options(resources={"nowhere": 1}).remote

    def nested(self, fn):
        ray, inner = self.ray, self.ray.remote(fn)

        def outer(x):
            return ray.get(inner.remote(x))

        return ray.remote(outer).remote

    def forget(self, refs):
        for ref in refs:
            self.ray.cancel(ref)

    def actor(self, cls):
        return self.ray.remote(cls).remote()

    def actor_record(self, cls):
        return self.ray.remote(cls).remote()

    def async_actor(self, cls, concurrency):
        return self.ray.remote(cls).options(max_concurrency=concurrency).remote()

    def method(self, actor, name):
        return getattr(actor, name).remote

    def kill(self, actor):
        self.ray.kill(actor)

    def drain(self, refs):
        wait = self.ray.wait
        while refs:
            _, refs = wait(refs)

    def counter(self):
        metrics = importlib.import_module(self.package + ".util.metrics")
        c = metrics.Counter("bench_counter", description="x", tag_keys=("kind", "place"))
        h = metrics.Histogram("bench_histogram", description="x", boundaries=[1, 2, 5, 10, 20, 50])
        d = metrics.Counter("bench_bound", description="x", tag_keys=("kind", "place"))
        d.set_default_tags({"kind": "a", "place": "b"})
        return (lambda: c.inc(1, tags={"kind": "a", "place": "b"})), d.inc, h.observe, (1,)

    def list_tasks(self, n):
        state = importlib.import_module(self.package + ".util.state")
        return len(state.list_tasks(limit=min(n, self.max_listed), raise_on_missing_output=False))

    def summarize(self):
        state = importlib.import_module(self.package + ".util.state")
        return state.summarize_tasks(raise_on_missing_output=False)

    def settle(self):
        time.sleep(4)  # task events reach the head once a second

    def timeline(self, path):
        if path.endswith(".html"):
            raise NotImplementedError
        self.ray.timeline(path)


class Miniray(Ray):
    """miniray with worker threads: the same API in one process, current at once, and without Ray's limits."""

    name = package = "miniray"
    hello = Ray.hello.replace("import ray", "import miniray as ray")
    scale = 1.0
    limits: dict[str, int] = {}
    keep_worker = False

    def after_start(self):
        """There are no other processes to weigh."""

    def init_options(self):
        return {}

    def restart(self, nodes, cpus, **options):
        """A new session, of so many nodes with so many CPUs each."""
        self.ray.shutdown()
        self.ray.init(num_nodes=nodes, num_cpus=cpus, **{**self.init_options(), **options})
        self.after_start()

    def disk(self, folder, capacity):
        """How to write a value that may have to go to a file, and how to read it."""
        self.restart(1, WORKERS, object_store_memory=capacity, object_spilling_directory=folder)
        return self.put, self.get

    def list_tasks(self, n):
        state = importlib.import_module("miniray.state")
        return len(state.list_tasks())

    def settle(self):
        """Its tables are current."""

    def timeline(self, path):
        if path.endswith(".html"):
            self.ray.timeline(html=path)
        else:
            self.ray.timeline(path)


class MinirayLocal(Miniray):
    """The debugging mode that runs a task inside the call that submits it."""

    name = "miniray-local"
    inline = True

    def init_options(self):
        return {"local_mode": True}


class MinirayUnrecorded(Miniray):
    """The same without a memory: a task's record goes as soon as the task is over and its value is gone."""

    name = "miniray-unrecorded"

    def after_start(self):
        with self.ray.api.running().locked() as cluster:
            cluster.history.limit = 0
