"""Twelve prepared runs whose bottleneck is known, as records without threads."""

from __future__ import annotations

from collections.abc import Callable

from miniray.core.records import SchedulingClass, units
from tests.observe.timeline.timeline_sessions import Session, raised


def busy_actor() -> Session:
    """Six tasks on sixteen CPUs call one actor, and wait for it."""
    session = Session(cpus=16)
    server = session.actor("Server")
    tasks = [session.task("client", 0, 0, 0.001, 0.002, 9.9, 10, worker=session.worker()) for _ in range(6)]
    for turn in range(30):
        at, task = turn * 0.33, tasks[turn % 6]
        asked = max(0.01, at - 1.6)
        session.task("push", asked, asked, at + 0.01, at + 0.01, at + 0.33, at + 0.335, actor=server, inside=task)
        session.wait(task, asked, at + 0.335)
    session.wait(None, 0, 9.9)
    return session


def busy_async_actor() -> Session:
    """An async actor runs two calls at once; all others queue."""
    session = Session(cpus=8)
    fetcher = session.actor("Fetcher", is_async=True)
    for number in range(20):
        at = number // 2 * 1.0
        session.task("get", 0, 0, at, at + 0.001, at + 0.99, at + 0.999, actor=fetcher)
    session.wait(None, 0, 10)
    return session


def straggler() -> Session:
    """One of sixteen tasks takes ten times as long; the others are over long before."""
    session = Session(cpus=4)
    workers = [session.worker() for _ in range(4)]
    for number in range(16):
        at, length = number // 4 * 1.0, 10.0 if number == 15 else 1.0
        session.task("fold", 0, 0, at, at, at + length, at + length, worker=workers[number % 4])
    session.wait(None, 0, 13)
    return session


def straggler_before_a_join() -> Session:
    """The same before a task that takes all results."""
    session = straggler()
    made = tuple(session.cluster.tasks.values())
    session.wait(None, 13, 13.5)
    session.task("join", 0, 13, 13, 13, 13.5, 13.5, after=made)
    return session


def slow_driver() -> Session:
    """The driver computes for nine tenths of the time between its rounds of tasks."""
    session = Session(cpus=2)
    for number in range(5):
        at = number * 2.0
        session.task("step", at, at, at, at, at + 0.2, at + 0.2)
        session.wait(None, at, at + 0.2)
    return session


def get_in_a_loop() -> Session:
    """The driver gets each result before it submits the next task."""
    session = Session(cpus=8)
    for number in range(20):
        at = number * 1.0
        session.task("step", at, at, at, at, at + 0.98, at + 0.98)
        session.wait(None, at, at + 0.98)
    return session


def retries() -> Session:
    """A task fails three times before it succeeds."""
    session = Session(cpus=4)
    task = session.task("fetch", 0, 0, 0, 0, 2, 2)
    for number in range(1, 4):
        at = number * 2.0
        session.again(task, raised(ConnectionError("reset by peer")), at, at, at, at, at + 2, at + 2)
    session.wait(None, 0, 8)
    return session


def full_store() -> Session:
    """Tasks read back values that did not fit into the object store."""
    session = Session(cpus=2)
    store = session.head.store
    store.capacity = 100 << 20
    store.counters.update(spilled=40, spilled_bytes=400 << 20, restored=38, restored_bytes=380 << 20)
    before: tuple = ()
    for number in range(10):
        at = number * 1.0
        before = (session.task("merge", 0, at, at, at + 0.7, at + 0.8, at + 1.0, after=before),)
    session.wait(None, 0, 10)
    return session


def too_few_cpus() -> Session:
    """Forty tasks on two CPUs."""
    session = Session(cpus=2)
    workers = [session.worker() for _ in range(2)]
    for number in range(40):
        at = number // 2 * 1.0
        session.task("work", 0, 0, at, at, at + 0.99, at + 0.999, worker=workers[number % 2])
    session.wait(None, 0, 20)
    return session


def one_gpu() -> Session:
    """Ten tasks need the only GPU; fifteen of sixteen CPUs are free."""
    session = Session(cpus=16)
    session.head.total.update(units({"GPU": 1}))
    worker = session.worker()
    for number in range(10):
        task = session.task("train", 0, 0, number, number, number + 0.99, number + 0.999, worker=worker)
        need = units({"CPU": 1, "GPU": 1})
        task.spec.scheduling_class = SchedulingClass(need, need)
    session.wait(None, 0, 10)
    return session


def chain() -> Session:
    """Each task takes the result of the one before."""
    session = Session(cpus=8)
    before: tuple = ()
    for number in range(10):
        before = (session.task("step", 0, number, number, number, number + 0.99, number + 0.999, after=before),)
    session.wait(None, 0, 10)
    return session


def one_task() -> Session:
    """A single long task, after a short one that nobody waits for."""
    session = Session(cpus=8)
    session.task("short", 0, 0, 0, 0, 0.1, 0.1, worker=session.worker())
    session.task("long", 0, 0, 0, 0, 10, 10, worker=session.worker())
    session.wait(None, 0, 10)
    return session


RUNS: list[tuple[Callable[[], Session], str, str, str]] = [
    (busy_actor, "actor", "IDLE", "Actor Server was busy: its 30 calls ran one at a time"),
    (busy_async_actor, "actor", "IDLE", "Actor Fetcher was busy: its 20 calls ran as many at once as it allows"),
    (straggler, "straggler", "STRAGGLER", "1 of 16 tasks fold ran for 10 s, 10 times the median"),
    (straggler_before_a_join, "straggler", "STRAGGLER", "1 of 16 tasks fold ran for 10 s, 10 times the median"),
    (slow_driver, "driver", "IDLE", "The driver's own code took"),
    (get_in_a_loop, "driver", "IDLE", "waited for each result before it submitted the next task: 20 tasks"),
    (
        retries,
        "retries",
        "RETRIES",
        "1 task fetch took 4 attempts; 3 of them ended with ConnectionError: reset by peer",
    ),
    (full_store, "memory", "SPILLING", "40 values (400.0 MiB) were written to files and 38 read back"),
    (too_few_cpus, "cpus", "", "Tasks queued for a CPU"),
    (one_gpu, "resource", "IDLE", "Tasks queued for 1 GPU"),
    (chain, "dependencies", "", "10 tasks could only run one after the other (step)"),
    (one_task, "work", "", "One task, long, determined 100% of the time"),
]
"""The run, the kind of its bottleneck, the doctor's symptom ("" if the doctor finds nothing), and the evidence."""
