"""Many threads of the program do everything at once, under seeds. Each call is answered, and nothing is left."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import miniray as ray
from miniray import state
from miniray.core.invariants import check
from miniray.core.transitions import ActorStatus, TaskStatus
from miniray.exceptions import GetTimeoutError, RayActorError, TaskCancelledError, WorkerCrashedError
from miniray.process import context
from miniray.util import state as util_state
from tests.runtime.several_nodes import Threads, until

THREADS, STEPS = 6, 25
PATIENCE_S = 40
"""Longer than any seed takes. A call that has not been answered by then hangs."""
ENDED = (TaskCancelledError, RayActorError, WorkerCrashedError)


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Python switches threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@ray.remote(max_retries=0)
def double(x: int) -> int:
    """A task."""
    return 2 * x


@ray.remote(max_retries=0)
def total(refs: list) -> int:
    """A task that waits for other tasks."""
    return sum(ray.get(refs))


@ray.remote(max_retries=0)
def parent(x: int) -> int:
    """A task that submits tasks."""
    return sum(ray.get([double.remote(x), double.remote(x)]))


@ray.remote(max_retries=0)
def waits() -> None:
    """A task that ends when it is cancelled."""
    time.sleep(1000)


@ray.remote(num_cpus=1_000)
def never() -> None:
    """It fits nowhere."""


@ray.remote
def count_up(length: int) -> Iterator[int]:
    """A generator."""
    for x in range(length):
        yield x


@ray.remote(num_cpus=0)
class Counter1:
    """An actor with one thread."""

    def __init__(self) -> None:
        self.n = 0

    def add(self) -> int:
        """One more."""
        self.n += 1
        return self.n


@ray.remote(num_cpus=0, max_concurrency=3)
class Several:
    """An actor with several threads."""

    def echo(self, x: int) -> int:
        """The same."""
        return x


@ray.remote(num_cpus=0)
class Loop:
    """An actor with an event loop."""

    async def echo(self, x: int) -> int:
        """The same."""
        import asyncio

        await asyncio.sleep(0)
        return x


class Program:
    """One thread of the program: a random choice of steps. Each step checks its own answer."""

    def __init__(self, seed: int, shared: dict[str, Any]):
        self.chance, self.shared, self.seed = random.Random(seed), shared, seed
        self.steps: list[Callable[[], None]] = [
            self.task,
            self.put,
            self.nested,
            self.tasks_in_tasks,
            self.chain,
            self.wait,
            self.cancelled,
            self.cancelled_in_time,
            self.stream,
            self.dropped,
            self.own_actor,
            self.named_actor,
            self.shared_actor,
            self.coroutine,
            self.timeout,
            self.look,
        ]

    def run(self) -> None:
        """Run all steps."""
        for _ in range(STEPS):
            self.chance.choice(self.steps)()

    def get(self, refs: Any) -> Any:
        """The answer. It must arrive in time."""
        return ray.get(refs, timeout=PATIENCE_S)

    def task(self) -> None:
        """One task, then a few at once."""
        x = self.chance.randrange(1000)
        assert self.get(double.remote(x)) == 2 * x
        assert self.get([double.remote(y) for y in range(5)]) == [0, 2, 4, 6, 8]

    def put(self) -> None:
        """A value of each kind."""
        for value in (1, [1, [2]], {"a": bytes(10)}, bytes(150_000)):
            assert self.get(ray.put(value)) == value

    def nested(self) -> None:
        """References inside a value."""
        assert self.get(total.remote([double.remote(1), ray.put(5), double.remote(2)])) == 11
        outer = ray.put([ray.put("inner")])
        assert self.get(self.get(outer)[0]) == "inner"

    def tasks_in_tasks(self) -> None:
        """A task that submits tasks."""
        assert self.get(parent.remote(3)) == 12

    def chain(self) -> None:
        """Each task takes the result of the one before."""
        ref = double.remote(1)
        for _ in range(5):
            ref = double.remote(ref)
        assert self.get(ref) == 64

    def wait(self) -> None:
        """All results arrive in the end."""
        refs = [double.remote(x) for x in range(4)]
        left, ready = refs, []
        while left:
            some, left = ray.wait(left, num_returns=self.chance.randint(1, len(left)), timeout=PATIENCE_S)
            assert some
            ready += some
        assert sorted(self.get(ready)) == [0, 2, 4, 6]

    def cancelled(self) -> None:
        """A task that would never end."""
        ref = waits.remote()
        ray.cancel(ref, force=self.chance.random() < 0.3)
        with pytest.raises((TaskCancelledError, WorkerCrashedError)):
            self.get(ref)

    def cancelled_in_time(self) -> None:
        """A task that may have ended by then."""
        ref = double.remote(1)
        ray.cancel(ref)
        try:
            assert self.get(ref) == 2
        except TaskCancelledError:
            return

    def stream(self) -> None:
        """Take all items, or only the first."""
        stream = count_up.remote(6)
        if self.chance.random() < 0.5:
            assert self.get(list(stream)) == list(range(6))
        else:
            assert self.get(next(stream)) == 0

    def dropped(self) -> None:
        """Nobody waits for these."""
        double.remote(ray.put(1))
        Counter1.remote().add.remote()

    def own_actor(self) -> None:
        """An actor of this thread alone: its calls run in order, until it is killed."""
        actor = Counter1.remote()
        refs = [actor.add.remote() for _ in range(4)]
        if self.chance.random() < 0.4:
            ray.kill(actor)
            for ref in refs:
                try:
                    assert 1 <= self.get(ref) <= 4
                except ENDED:
                    continue
            with pytest.raises(RayActorError):
                self.get(actor.add.remote())
        else:
            assert self.get(refs) == [1, 2, 3, 4]

    def named_actor(self) -> None:
        """All threads get, create and kill actors with the same few names."""
        name = f"name {self.chance.randrange(3)}"
        actor = Counter1.options(name=name, get_if_exists=True, lifetime="detached").remote()
        try:
            assert self.get(actor.add.remote()) >= 1
            if self.chance.random() < 0.3:
                ray.kill(ray.get_actor(name))
        except (*ENDED, ValueError):  # another thread has killed the actor
            return

    def shared_actor(self) -> None:
        """An actor with several threads that all threads of the program call."""
        refs = [self.shared["several"].echo.remote(x) for x in range(5)]
        assert self.get(refs) == list(range(5))

    def coroutine(self) -> None:
        """An async actor that all threads call; one call is cancelled."""
        refs = [self.shared["loop"].echo.remote(x) for x in range(4)]
        ray.cancel(refs[0])
        assert self.get(refs[1:]) == [1, 2, 3]
        try:
            assert self.get(refs[0]) == 0
        except TaskCancelledError:
            return

    def timeout(self) -> None:
        """A wait whose timeout expires."""
        ref = never.remote()
        assert ray.wait([ref], timeout=0.0001) == ([], [ref])
        with pytest.raises(GetTimeoutError):
            ray.get(ref, timeout=0.0001)
        ray.cancel(ref)

    def look(self) -> None:
        """Read the tables while they change."""
        read = self.chance.choice(
            (
                state.list_tasks,
                state.list_actors,
                state.list_objects,
                state.list_workers,
                util_state.list_tasks,
                util_state.list_objects,
                util_state.summarize_tasks,
                ray.nodes,
                ray.cluster_resources,
                ray.timeline,
            )
        )
        assert read() is not None
        ref = double.remote(1)
        assert state.explain(ref) and self.get(ref) == 2
        with context.running().locked() as cluster:
            check(cluster)


def test_many_threads_do_everything_at_once(seed: int):
    """Every call is answered, the core's invariants hold, and when everything has been dropped every table is empty."""
    ray.init(num_cpus=3, log_to_driver=False, namespace="threads")
    try:
        runtime, cluster = context.running(), context.running().cluster
        runtime.threads = left = Threads(runtime.threads)
        shared = {"several": Several.remote(), "loop": Loop.remote()}
        problems: list[BaseException] = []

        def run(number: int) -> None:
            try:
                Program(100 * seed + number, shared).run()
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for problem in problems:
            raise problem
        shared.clear()
        for name in ray.util.list_named_actors():
            ray.kill(ray.get_actor(name))
        assert until(lambda: at_rest(runtime)), left_over(cluster)
        with runtime.locked():
            check(cluster, refs={})
            assert not cluster.objects, left_over(cluster)
            assert not runtime.driver_waiters
            assert all(node.available == node.total and not node.store.used for node in cluster.scheduler.alive)
    finally:
        ray.shutdown()
    assert left.empty.wait(PATIENCE_S)


def at_rest(runtime: Any) -> bool:
    """Whether nothing runs or waits to run, and nothing that the program has dropped is still kept."""
    with runtime.locked() as cluster:  # this reports the dropped references first
        return (
            not cluster.objects
            and all(task.status in (TaskStatus.FINISHED, TaskStatus.FAILED) for task in cluster.tasks.values())
            and all(actor.status is ActorStatus.DEAD for actor in cluster.actors.values())
        )


def left_over(cluster: Any) -> str:
    """The entries that should not be left."""
    tasks = [task for task in cluster.tasks.values() if task.status not in (TaskStatus.FINISHED, TaskStatus.FAILED)]
    objects, actors = list(cluster.objects.values()), list(cluster.actors.values())
    return f"objects: {objects[:10]}\ntasks: {tasks[:10]}\nactors: {actors[:5]}"
