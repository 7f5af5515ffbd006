"""Ray, and miniray in its modes. They share one adapter, since they share one API."""

from __future__ import annotations

import importlib
import os
import pathlib
import tempfile
import time

from tests.bench.backend import WORKERS, Backend, children


def share_weight() -> None:
    """Give Ray's processes the same weight in Linux's scheduler as this one. They run in sessions of their own."""
    try:
        weight = pathlib.Path("/proc/self/autogroup").read_text().split()[-1]
        for pid in children(os.getpid()):
            pathlib.Path(f"/proc/{pid}/autogroup").write_text(weight)
    except OSError as error:
        print("Ray's processes keep their own weight:", error)


class Ray(Backend):
    """Real Ray, and the base of everything that has Ray's API."""

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
        self.actor_classes = {}
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

    def actor_class(self, cls):
        """The actor class of this class, which is decorated once, as a program does."""
        if cls not in self.actor_classes:
            self.actor_classes[cls] = self.ray.remote(cls)
        return self.actor_classes[cls]

    def actor(self, cls):
        return self.actor_class(cls).remote()

    actor_record = actor

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
        time.sleep(4)  # Ray's workers send their task events to the GCS once a second

    def timeline(self, path):
        if path.endswith(".html"):
            raise NotImplementedError
        self.ray.timeline(path)


class Miniray(Ray):
    """miniray with worker threads. Its tables are always current, and Ray's limits do not apply."""

    name = package = "miniray"
    hello = Ray.hello.replace("import ray", "import miniray as ray")
    scale = 1.0
    limits: dict[str, int] = {}
    keep_worker = False

    def after_start(self):
        """Do nothing: there are no other processes whose weight could differ."""

    def init_options(self):
        return {}

    def restart(self, nodes, cpus, **options):
        """Start a new session. cpus: of each node."""
        self.ray.shutdown()
        self.ray.init(num_nodes=nodes, num_cpus=cpus, **{**self.init_options(), **options})
        self.after_start()

    def disk(self, folder, capacity):
        """Two functions: one writes a value to a store of this capacity, which spills to the folder; one reads it."""
        self.restart(1, WORKERS, object_store_memory=capacity, object_spilling_directory=folder)
        return self.put, self.get

    def list_tasks(self, n):
        state = importlib.import_module("miniray.state")
        return len(state.list_tasks())

    def sql(self, statement):
        return len(self.ray.sql(statement, limit=None))

    def settle(self):
        """Do nothing: the tables are always current."""

    def timeline(self, path):
        if path.endswith(".html"):
            self.ray.timeline(html=path)
        else:
            self.ray.timeline(path)


class MinirayLocal(Miniray):
    """miniray in local_mode, which runs a task inside the call that submits it."""

    name = "miniray-local"
    inline = True

    def init_options(self):
        return {"local_mode": True}


class MinirayInAFile(Miniray):
    """miniray with worker threads, whose sessions are recorded in a file: `init(telemetry=...)`."""

    name = "miniray-in-a-file"

    def init_options(self):
        self.folder = tempfile.TemporaryDirectory()
        return {"telemetry": os.path.join(self.folder.name, "run.db")}

    def stop(self):
        self.ray.shutdown()
        self.folder.cleanup()


class MinirayUnrecorded(Miniray):
    """miniray with worker threads, which forgets a task as soon as the task has ended and its value is dropped."""

    name = "miniray-unrecorded"

    def after_start(self):
        with importlib.import_module("miniray.process.context").running().locked() as cluster:
            cluster.history.limit = 0

    def sql(self, statement):
        raise NotImplementedError("no task is recorded")
