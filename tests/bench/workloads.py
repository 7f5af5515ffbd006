"""The workloads. Each takes a backend and a size, and returns (operations, seconds[, other figures])."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.bench.backend import WORKERS, Backend, children
from tests.bench.peers import Plain

clock = time.perf_counter


# ---------------------------------------------------------------- what the tasks do


def identity(x=None):
    return x


def add_one(x):
    return x + 1


def total(*xs):
    return sum(xs)


def spin(loops):
    x = 0
    for i in range(loops):
        x = (x * 31 + i) & 0xFFFFFF
    return x


def compute_100us():
    until = time.perf_counter() + 100e-6
    while time.perf_counter() < until:
        pass


def wait_for_file(path):
    while not os.path.exists(path):
        time.sleep(0.005)


class Counter:
    """An actor's class."""

    def __init__(self):
        self.n = 0

    def incr(self, by=1):
        self.n += by
        return self.n


def local_counter():
    """The same class as one of a script, which workers cannot import: it travels by value."""

    class LocalCounter:
        def __init__(self):
            self.n = 0

        def incr(self, by=1):
            self.n += by
            return self.n

    return LocalCounter


class Gate:
    """The class of an async actor: many calls wait until one call opens the gate."""

    def __init__(self):
        self.event = None

    async def wait(self):
        self.event = self.event or asyncio.Event()
        await self.event.wait()
        return 1

    async def open(self):
        self.event = self.event or asyncio.Event()
        self.event.set()


def memory_mb() -> float:
    """The proportional set size of this process and its descendants, in MB; 0 on a system other than Linux."""
    size = 0
    for pid in [os.getpid(), *children(os.getpid())]:
        path = pathlib.Path(f"/proc/{pid}/smaps_rollup")
        if path.exists():
            size += sum(int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith("Pss:"))
    return size / 1024


# ---------------------------------------------------------------- the register


@dataclass
class Workload:
    """One measurement. `unit`: ns, us or ms per operation. `peer`: the backend with which the ratio is formed."""

    name: str
    n: int
    run: Callable[..., tuple]
    about: str
    peer: str = "tpe"
    unit: str = "us"
    scaled: bool = True  # slow backends get a smaller n


WORKLOADS: dict[str, Workload] = {}


def workload(name: str, n: int, **more: Any) -> Callable[[Callable], Callable]:
    """Register a workload. `more` holds fields of Workload; its other entries become arguments of the function.

    If one function has several decorators, the lowest is registered first, and so measured first.
    """

    def register(fn: Callable) -> Callable:
        own = {key: more.pop(key) for key in ("peer", "unit", "scaled") if key in more}
        WORKLOADS[name] = Workload(name, n, functools.partial(fn, **more), (fn.__doc__ or "").split("\n")[0], **own)
        return fn

    return register


# ---------------------------------------------------------------- tasks


@workload("startup", 1, unit="ms", scaled=False)
def startup(b, n):
    """a complete process: import, init, one task, shutdown ("plain": an empty program)"""
    if b.hello is None:
        raise NotImplementedError("no hello")
    t0 = clock()
    subprocess.run([sys.executable, "-c", b.hello], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return 1, clock() - t0


@workload("task_recorded", 20_000, peer="miniray-unrecorded")
@workload("task_async", 20_000)
def task_async(b, n):
    """submit n empty tasks, then get them all"""
    submit = b.task(identity)
    t0 = clock()
    refs = [submit(i) for i in range(n)]
    t1 = clock()
    b.get(refs)
    t2 = clock()
    return n, t2 - t0, {"submit_us": (t1 - t0) / n * 1e6}


@workload("task_in_a_file", 200_000, peer="miniray")
def task_in_a_file(b, n):
    """task_async, ten times as many; miniray-in-a-file records them meanwhile"""
    submit = b.task(identity)
    t0 = clock()
    b.get([submit(i) for i in range(n)])
    return n, clock() - t0


@workload("task_100us_in_a_file", 20_000, peer="miniray")
def task_100us_in_a_file(b, n):
    """tasks that compute for 100 us; miniray-in-a-file records them meanwhile"""
    submit = b.task(compute_100us)
    t0 = clock()
    b.get([submit() for _ in range(n)])
    return n, clock() - t0


@workload("task_list", 20_000)
def task_list(b, n):
    """the same with a small list as argument and result; each side gets its own copy"""
    submit = b.task(identity)
    t0 = clock()
    got = b.get([submit([i, i + 1, i + 2]) for i in range(n)])
    spent = clock() - t0
    assert b.inline or got[-1] == [n - 1, n, n + 1]
    return n, spent


@workload("task_sync", 5_000)
def task_sync(b, n):
    """get(task()) n times"""
    submit, get = b.task(identity), b.get
    t0 = clock()
    for i in range(n):
        get(submit(i))
    return n, clock() - t0


@workload("fan", 10_000)
def fan(b, n):
    """n tasks, and n/10 tasks that take ten results each"""
    leaf, join = b.task(identity), b.task(total)
    t0 = clock()
    refs = [leaf(i) for i in range(n)]
    groups = [refs[i : i + 10] for i in range(0, n, 10)]
    if not b.resolves_refs:
        groups = [b.get(g) for g in groups]
    b.get([join(*g) for g in groups])
    return n + n // 10, clock() - t0


@workload("chain_10k", 10_000)
@workload("chain_1k", 1_000)
def chain(b, n):
    """a chain of n tasks, each taking the result of the one before (must be linear in n)"""
    step = b.task(add_one) if b.resolves_refs else b.after(add_one)
    first = b.task(identity)
    t0 = clock()
    ref = first(0)
    for _ in range(n):
        ref = step(ref)
    assert b.get(ref) == n
    return n, clock() - t0


@workload("nested", 2_000)
def nested(b, n):
    """n tasks that each submit a task and get it"""
    submit = b.nested(identity)
    t0 = clock()
    b.get([submit(i) for i in range(n)])
    return n, clock() - t0


@workload("cpu", 60, peer="plain", unit="ms", scaled=False)
def cpu(b, n):
    """n tasks of pure Python, about 10 ms each"""
    submit = b.task(spin)
    t0 = clock()
    b.get([submit(150_000) for _ in range(n)])
    return n, clock() - t0


# ---------------------------------------------------------------- actors


@workload("actor_async", 20_000, peer="queue")
def actor_async(b, n):
    """n calls of one actor's method, then get them all"""
    actor = b.actor(Counter)
    call = b.method(actor, "incr")
    t0 = clock()
    refs = [call(1) for _ in range(n)]
    b.get(refs)
    spent = clock() - t0
    b.kill(actor)
    return n, spent


@workload("actor_sync", 5_000, peer="queue")
def actor_sync(b, n):
    """get(actor.method()) n times"""
    actor = b.actor(Counter)
    call, get = b.method(actor, "incr"), b.get
    t0 = clock()
    for _ in range(n):
        get(call(1))
    spent = clock() - t0
    b.kill(actor)
    return n, spent


@workload("actors_1000", 1_000, peer="queue")
@workload("actors_100", 100, peer="queue")
def actors(b, n):
    """create n actors of a class that travels by value, as those of a script do, and call each once"""
    counter = local_counter()
    m0, t0 = memory_mb(), clock()
    handles = [b.actor(counter) for _ in range(n)]
    b.get([b.method(a, "incr")(1) for a in handles])
    spent = clock() - t0
    grown = memory_mb() - m0
    for a in handles:
        b.kill(a)
    return n, spent, {"mb": grown, "kb_each": grown * 1024 / n}


@workload("actors_idle", 10_000, peer="plain")
def actors_idle(b, n):
    """create n actors that are never called ("plain": a dict for each)"""
    create = b.actor_record
    m0, t0 = memory_mb(), clock()
    handles = [create(Counter) for _ in range(n)]
    spent = clock() - t0
    return len(handles), spent, {"mb": memory_mb() - m0, "ms": spent * 1e3}


@workload("async_actor", 1_000, peer="asyncio", scaled=False)
def async_actor(b, n):
    """n calls that await an event in one async actor, until one more call sets the event"""
    actor = b.async_actor(Gate, n + 1)
    wait, release = b.method(actor, "wait"), b.method(actor, "open")
    t0 = clock()
    refs = [wait() for _ in range(n)]
    refs.append(release())
    b.get(refs)
    spent = clock() - t0
    b.kill(actor)
    return n, spent


# ---------------------------------------------------------------- wait, objects, queues


@workload("wait_10k", 10_000, scaled=False)
@workload("wait_5k", 5_000, scaled=False)
@workload("wait_1k", 1_000, scaled=False)
def drain(b, n):
    """wait() for one ref at a time until none of n finished ones is left (must be linear in n)"""
    submit = b.task(identity)
    refs = [submit(i) for i in range(n)]
    b.get(refs)
    t0 = clock()
    b.drain(refs)
    return n, clock() - t0


@workload("put_100MB", 3, peer="plain", scaled=False, make=lambda: os.urandom(1_000_000) * 100)
@workload("put_1MB", 200, peer="plain", make=lambda: os.urandom(1_000_000))
@workload("put_1KB", 5_000, peer="plain", make=lambda: bytes(1_000))
def put_get(b, n, make):
    """put a value and get it back, n times"""
    value = make()
    size = getattr(value, "nbytes", None) or len(value)
    put_s = get_s = grown = 0.0
    for _ in range(n):
        m0 = memory_mb() if size > 1e7 else 0
        t0 = clock()
        ref = b.put(value)
        t1 = clock()
        got = b.get(ref)
        t2 = clock()
        if size > 1e7:
            grown = max(grown, memory_mb() - m0)
        put_s, get_s = put_s + t1 - t0, get_s + t2 - t1
        del ref, got
    return (
        n,
        put_s + get_s,
        {
            "put_us": put_s / n * 1e6,
            "get_us": get_s / n * 1e6,
            "mb": grown,
            "put_MB/s": size * n / put_s / 1e6,
            "get_MB/s": size * n / get_s / 1e6,
        },
    )


@workload("put_np100MB", 3, peer="plain", scaled=False)
def put_numpy(b, n):
    """the same with a numpy array of 100 MB, which get must not copy"""
    try:
        import numpy
    except ImportError:
        raise NotImplementedError("no numpy")
    return put_get(b, n, lambda: numpy.arange(12_500_000, dtype=numpy.int64))


@workload("spill_10MB", 20, peer="plain", unit="ms", scaled=False, size=10_000_000)
@workload("spill_1MB", 80, peer="plain", unit="ms", size=1_000_000)
@workload("spill_200KB", 400, peer="plain", size=200_000)
def spill(b, n, size):
    """write n large values to a store that holds a tenth of them, then read and drop each ("plain": files)"""
    values = [bytes([i % 256]) * size for i in range(n)]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        write, read = b.disk(folder, n * size // 10)
        t0 = clock()
        kept = [write(value) for value in values]
        t1 = clock()
        for i in range(n):
            assert read(kept[i])[0] == i % 256
            kept[i] = None
        t2 = clock()
    return n, t2 - t0, {"write_MB/s": size * n / (t1 - t0) / 1e6, "read_MB/s": size * n / (t2 - t1) / 1e6}


@workload("nodes_100", 10_000)
def nodes_100(b, n):
    """n tasks on 100 nodes of 2 CPUs each; slower_x: CPU time compared with one node of 200 CPUs"""
    spent = {}
    for nodes, cpus in 2 * ((1, 200), (100, 2)):
        b.restart(nodes, cpus)
        submit = b.task(identity)
        b.get([submit(i) for i in range(500)])  # start all workers before the measurement
        t0, c0 = clock(), time.process_time()
        b.get([submit(i) for i in range(n)])
        wall, cpu = clock() - t0, time.process_time() - c0
        best = spent.get(nodes, (wall, cpu))
        spent[nodes] = min(wall, best[0]), min(cpu, best[1])
    return n, spent[100][0], {"slower_x": spent[100][1] / spent[1][1], "cpu_us": spent[100][1] / n * 1e6}


@workload("queued_1M", 1_000_000)
@workload("queued_100k", 100_000)
def queued(b, n):
    """n tasks queued behind busy workers, then run; memory per queued and per finished task"""
    if b.inline:
        raise NotImplementedError("this backend has no queue")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        gate = os.path.join(folder, "gate")
        submit, block = b.task(identity), b.task(wait_for_file)
        blockers = [block(gate) for _ in range(WORKERS)]
        time.sleep(0.2)
        gc.collect()
        m0, t0 = memory_mb(), clock()
        refs = [submit(None) for _ in range(n)]
        t1 = clock()
        m1 = memory_mb()
        t2 = clock()
        open(gate, "w").close()
        b.get(refs)
        t3 = clock()
        del refs
        b.get(blockers)
    gc.collect()
    m2 = memory_mb()
    return (
        n,
        t1 - t0 + t3 - t2,
        {
            "submit_us": (t1 - t0) / n * 1e6,
            "run_us": (t3 - t2) / n * 1e6,
            "mb": m1 - m0,
            "B_queued": (m1 - m0) * 2**20 / n,
            "B_finished": (m2 - m0) * 2**20 / n,
        },
    )


@workload("behind_stuck", 1_000, scaled=False)
def behind_stuck(b, n):
    """n tasks that can run, behind 1,000 that no node can run"""
    stuck, submit = b.infeasible(identity), b.task(identity)
    b.get([submit(i) for i in range(100)])
    t0 = clock()
    b.get([submit(i) for i in range(n)])
    free = clock() - t0
    refs = [stuck(i) for i in range(1_000)]
    t0 = clock()
    b.get([submit(i) for i in range(n)])
    spent = clock() - t0
    b.forget(refs)
    return n, spent, {"us_without": free / n * 1e6, "slower_x": spent / free}


# ---------------------------------------------------------------- observing


@workload("list_100k", 100_000, peer="plain")
def list_tasks(b, n):
    """list_tasks() over n finished tasks; the time is per listed task"""
    b.list_tasks(1)  # the first call imports what it needs
    run_tasks(b, n)
    t0 = clock()
    listed = b.list_tasks(n)
    t1 = clock()
    b.summarize()
    t2 = clock()
    return max(listed, 1), t1 - t0, {"list_ms": (t1 - t0) * 1e3, "listed": listed, "summarize_ms": (t2 - t1) * 1e3}


@workload("timeline_html", 100_000, peer="plain", suffix=".html")
@workload("timeline_json", 100_000, peer="plain", suffix=".json")
def timeline(b, n, suffix):
    """timeline() of n finished tasks, written to a file; the time is per task"""
    run_tasks(b, n)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = os.path.join(folder, "timeline" + suffix)
        t0 = clock()
        b.timeline(path)
        spent = clock() - t0
        size = os.path.getsize(path)
    return n, spent, {"ms": spent * 1e3, "file_mb": size / 1e6}


_EVENTS = "FROM task_attempts a JOIN task_events e ON e.task_id = a.task_id AND e.attempt_number = a.attempt_number"
_SINCE = (
    "e.timestamp_us - lag(e.timestamp_us) OVER (PARTITION BY e.task_id, e.attempt_number ORDER BY e.timestamp_us) AS us"
)


@workload("sql_count", 100_000, peer="plain", statement="SELECT state, count(*) FROM tasks GROUP BY state")
@workload(
    "sql_join",
    100_000,
    peer="plain",
    statement="SELECT name, avg(us), max(us) FROM (SELECT a.name, e.timestamp_us - lag(e.timestamp_us) OVER "
    f"(PARTITION BY a.name ORDER BY e.timestamp_us) AS us {_EVENTS} WHERE e.state = 'RUNNING') GROUP BY name",
)
@workload(
    "sql_waits",
    100_000,
    peer="plain",
    statement=f"SELECT name, avg(us), max(us) FROM (SELECT a.name, e.state, {_SINCE} {_EVENTS} WHERE e.state IN "
    "('PENDING_NODE_ASSIGNMENT', 'RUNNING')) WHERE state = 'RUNNING' GROUP BY name",
)
@workload(
    "sql_all_events",
    100_000,
    peer="plain",
    statement=f"SELECT state, avg(us), max(us) FROM (SELECT e.state, {_SINCE} {_EVENTS}) GROUP BY state",
)
def sql(b, n, statement):
    """one SQL statement over n finished tasks: counts by state; attempts joined with n, 2 n and 5 n events, a window
    over them, and a row for each name or state. "plain": tables made for it"""
    run_tasks(b, n)
    t0 = clock()
    b.sql("SELECT count(*) FROM task_attempts")
    t1, cpu = clock(), time.process_time()
    assert b.sql(statement) > 0
    spent = clock() - t1
    return n, spent, {"ms": spent * 1e3, "cpu_ms": (time.process_time() - cpu) * 1e3, "first_ms": (t1 - t0) * 1e3}


def run_tasks(b: Backend, n: int) -> None:
    """Run n tasks, so that the backend's tables list them."""
    if isinstance(b, Plain):
        b.ran = n
        return
    settle = b.settle  # before any task runs: the benchmark skips a backend that has no tables
    submit = b.task(identity)
    for start in range(0, n, 10_000):
        b.get([submit(i) for i in range(start, min(n, start + 10_000))])
    settle()


@workload("histogram", 200_000, peer="prom", unit="ns", scaled=False, which=2)
@workload("counter_bound", 200_000, peer="prom", unit="ns", scaled=False, which=1)
@workload("counter_tags", 200_000, peer="prom", unit="ns", scaled=False, which=0)
def metric(b, n, which):
    """n updates of a metric: a Counter with tags, a Counter with default tags, a Histogram"""
    *fns, args = b.counter()
    fn = fns[which]
    args = args if which == 2 else ()
    t0 = clock()
    for _ in range(n):
        fn(*args)
    return n, clock() - t0
