"""The peers of miniray: other libraries, and the same work done by hand."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import importlib
import itertools
import json
import os
import pickle
import queue
import sqlite3
import threading

from tests.bench.backend import WORKERS, Backend


class ThreadPool(Backend):
    """concurrent.futures, the peer for tasks. References as arguments are resolved by hand, in callbacks."""

    name, package = "tpe", "concurrent.futures"
    hello = """from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    assert pool.submit(lambda x: x, 1).result() == 1"""
    resolves_refs = False

    def start(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(WORKERS)
        self.outer = concurrent.futures.ThreadPoolExecutor(WORKERS)
        self.actors = []

    def stop(self):
        for pool in [self.pool, self.outer, *self.actors]:
            pool.shutdown()

    def task(self, fn):
        return functools.partial(self.pool.submit, fn)

    def after(self, fn):
        """A function that submits fn when the future given to it is done."""
        submit, Future = self.pool.submit, concurrent.futures.Future

        def call(dependency):
            result = Future()

            def start(done):
                submit(fn, done.result()).add_done_callback(lambda f: result.set_result(f.result()))

            dependency.add_done_callback(start)
            return result

        return call

    def nested(self, fn):
        submit = self.pool.submit
        return functools.partial(self.outer.submit, lambda x: submit(fn, x).result())

    def get(self, refs):
        return [r.result() for r in refs] if isinstance(refs, list) else refs.result()

    def drain(self, refs):
        done = sum(1 for _ in concurrent.futures.as_completed(refs))
        assert done == len(refs)

    def actor(self, cls):
        pool = concurrent.futures.ThreadPoolExecutor(1)
        self.actors.append(pool)
        return pool, pool.submit(cls).result()

    def method(self, actor, name):
        pool, instance = actor
        return functools.partial(pool.submit, getattr(instance, name))

    def kill(self, actor):
        actor[0].shutdown()


class Reply:
    """A result that is set once: the cheapest way in pure Python to pass a value to another thread."""

    __slots__ = ("lock", "value")

    def __init__(self):
        self.lock = threading.Lock()
        self.lock.acquire()

    def result(self):
        """Wait for the value."""
        self.lock.acquire()
        self.lock.release()
        return self.value


class Queue(Backend):
    """Threads that read a queue.SimpleQueue: the lower limit for a runtime of threads.

    It has no error handling, no pickling and no ids: it only passes calls and values between threads.
    """

    name, package = "queue", "queue"
    resolves_refs = False
    get = ThreadPool.get

    def start(self):
        self.inbox = queue.SimpleQueue()
        for _ in range(WORKERS):
            threading.Thread(target=self.serve, args=(self.inbox,), daemon=True).start()

    def stop(self):
        for _ in range(WORKERS):
            self.inbox.put(None)

    @staticmethod
    def serve(inbox):
        """A worker's loop."""
        while item := inbox.get():
            reply, fn, args = item
            reply.value = fn(*args)
            reply.lock.release()

    @staticmethod
    def _submitter(inbox, fn):
        def call(*args):
            reply = Reply()
            inbox.put((reply, fn, args))
            return reply

        return call

    def task(self, fn):
        return self._submitter(self.inbox, fn)

    def actor(self, cls):
        inbox = queue.SimpleQueue()
        threading.Thread(target=self.serve, args=(inbox,), daemon=True).start()
        return inbox, self._submitter(inbox, cls)().result()

    def method(self, actor, name):
        inbox, instance = actor
        return self._submitter(inbox, getattr(instance, name))

    def kill(self, actor):
        actor[0].put(None)


class Dask(Backend):
    """dask.distributed with threads in this process."""

    name, package = "dask", "distributed"
    hello = """import distributed
with distributed.Client(processes=False, n_workers=1, dashboard_address=None) as client:
    assert client.submit(lambda x: x, 1).result() == 1"""
    scale = 0.05
    limits = {"queued_1M": 5_000}

    def start(self):
        import logging

        import distributed

        logging.disable(logging.CRITICAL)
        self.lib = distributed
        self.cluster = distributed.LocalCluster(
            n_workers=1, threads_per_worker=WORKERS, processes=False, dashboard_address=None, memory_limit=0
        )
        self.client = distributed.Client(self.cluster)

    def stop(self):
        self.client.close()
        self.cluster.close()

    def task(self, fn):
        return functools.partial(self.client.submit, fn, pure=False)

    def infeasible(self, fn):
        return functools.partial(self.client.submit, fn, pure=False, resources={"nowhere": 1})

    def nested(self, fn):
        from distributed import worker_client

        def outer(x):
            with worker_client() as client:
                return client.submit(fn, x, pure=False).result()

        return self.task(outer)

    def get(self, refs):
        if isinstance(refs, list) and refs and isinstance(refs[0], self.lib.Future):
            return self.client.gather(refs)
        return [r.result() for r in refs] if isinstance(refs, list) else refs.result()

    def forget(self, refs):
        self.client.cancel(refs)

    def put(self, value):
        return self.client.scatter([value], hash=False)[0]

    def drain(self, refs):
        done = sum(1 for _ in self.lib.as_completed(refs))
        assert done == len(refs)

    def actor(self, cls):
        return self.client.submit(cls, actor=True, pure=False).result()

    def method(self, actor, name):
        return getattr(actor, name)

    def kill(self, actor):
        """The actor ends with its last reference."""


class Pykka(Backend):
    """pykka's threading actors."""

    name = package = "pykka"

    def start(self):
        self.lib = importlib.import_module("pykka")

    def stop(self):
        self.lib.ActorRegistry.stop_all()

    def actor(self, cls):
        lib = self.lib

        class Actor(cls, lib.ThreadingActor):
            def __init__(self):
                lib.ThreadingActor.__init__(self)
                cls.__init__(self)

        return Actor.start()

    def method(self, actor, name):
        return getattr(actor.proxy(), name)

    def get(self, refs):
        return [r.get() for r in refs] if isinstance(refs, list) else refs.get()

    def kill(self, actor):
        actor.stop()


class Asyncio(Backend):
    """One event loop, run by the measuring thread: the lower limit for an async actor."""

    name = package = "asyncio"

    def start(self):
        self.loop = asyncio.new_event_loop()

    def stop(self):
        self.loop.close()

    def async_actor(self, cls, concurrency):
        return cls()

    def method(self, actor, name):
        method, spawn = getattr(actor, name), self.loop.create_task
        return lambda *args: spawn(method(*args))

    def get(self, refs):
        async def gather():
            return await asyncio.gather(*refs)

        return self.loop.run_until_complete(gather() if isinstance(refs, list) else refs)

    def kill(self, actor):
        """It is an object like others."""


class Pickled:
    """A value as `put` stores it: the pickle, with its buffers beside it."""

    def __init__(self, data, buffers):
        self.data, self.buffers = data, buffers


ROW = (
    "task_id attempt name state job_id actor_id type func node_id worker_id pid error "
    "lang resources runtime_env parent placement events start end"
).split()


STATES = "PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER", "RUNNING", "FINISHED"


def made_tables(n):
    """A database with n finished tasks in `tasks` and `task_attempts`, and five events of each in `task_events`."""
    tables = sqlite3.connect(":memory:")
    for name in ("tasks", "task_attempts"):
        tables.execute(
            f"CREATE TABLE {name} (task_id TEXT, attempt_number INTEGER, name TEXT, state TEXT, "
            "PRIMARY KEY (task_id, attempt_number)) WITHOUT ROWID"
        )
        tables.executemany(f"INSERT INTO {name} VALUES (?, 0, 'f', 'FINISHED')", [(f"{i:048x}",) for i in range(n)])
    tables.execute(
        "CREATE TABLE task_events (task_id TEXT, attempt_number INTEGER, timestamp_us INTEGER, state TEXT, "
        "PRIMARY KEY (task_id, attempt_number, timestamp_us)) WITHOUT ROWID"
    )
    tables.executemany(
        "INSERT INTO task_events VALUES (?, 0, ?, ?)",
        ((f"{i:048x}", 10**15 + 20 * i + step, state) for i in range(n) for step, state in enumerate(STATES)),
    )
    return tables


class Plain(Backend):
    """No runtime: a function call, a pickle, a dict. This is the cost of the work itself."""

    name, package = "plain", "pickle"
    hello = "pass"
    inline = True
    tables: sqlite3.Connection | None = None

    def task(self, fn):
        return fn

    def nested(self, fn):
        return lambda x: fn(x)

    def actor(self, cls):
        return cls()

    def actor_record(self, cls):
        return dict(zip(ROW, range(len(ROW))))

    def method(self, actor, name):
        return getattr(actor, name)

    def kill(self, actor):
        """It is an object like others."""

    def drain(self, refs):
        taken = sum(1 for _ in refs)
        assert taken == len(refs)

    def put(self, value):
        buffers = []
        data = pickle.dumps(value, 5, buffer_callback=buffers.append)
        return Pickled(data, [b.raw().tobytes() for b in buffers])

    def get(self, ref):
        if isinstance(ref, Pickled):
            return pickle.loads(ref.data, buffers=ref.buffers)
        return ref

    def disk(self, folder, capacity):
        numbers = itertools.count()

        def write(value):
            path = f"{folder}/{next(numbers)}"
            with open(path, "wb") as file:
                file.write(value)
            return path

        def read(path):
            with open(path, "rb") as file:
                value = file.read()
            os.unlink(path)
            return value

        return write, read

    def counter(self):
        table, lock = {}, threading.Lock()

        def inc(by=1, **tags):
            key = tuple(tags.items())
            with lock:
                table[key] = table.get(key, 0) + by

        return functools.partial(inc, kind="a", place="b"), inc, inc, (1,)

    def list_tasks(self, n):
        rows = [dict(zip(ROW, range(len(ROW)))) for _ in range(n)]
        return len([r for r in rows if r["state"] != "x"])

    def sql(self, statement):
        """Tables that hold what the statements ask for, and nothing else."""
        if self.tables is None:
            self.tables = made_tables(self.ran)
        return len(self.tables.execute(statement).fetchall())

    def summarize(self):
        totals = {}
        for i in range(self.ran):
            key = ("f", "FINISHED" if i else "x")
            totals[key] = totals.get(key, 0) + 1
        return totals

    def settle(self):
        """Do nothing: the list of tasks is always current."""

    def timeline(self, path):
        events = [
            {
                "cat": "task",
                "name": "identity",
                "ph": "X",
                "ts": i,
                "dur": 10,
                "pid": "node",
                "tid": "worker",
                "args": {"task_id": f"{i:048x}"},
            }
            for i in range(self.ran)
        ]
        with open(path, "w") as f:
            f.write("<script>x=" if path.endswith(".html") else "")
            f.write(json.dumps(events))
            f.write("</script>" if path.endswith(".html") else "")


class Prometheus(Backend):
    """prometheus_client, the peer for metrics."""

    name, package = "prom", "prometheus_client"

    def counter(self):
        lib = importlib.import_module(self.package)
        c = lib.Counter("bench_counter", "x", ["kind", "place"])
        h = lib.Histogram("bench_histogram", "x", buckets=[1, 2, 5, 10, 20, 50])
        return (lambda: c.labels("a", "b").inc()), c.labels("a", "b").inc, h.observe, (1,)
