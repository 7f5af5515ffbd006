"""Another thread acts between two steps of a call of ours. Each test creates the situation on purpose; by chance it
would take a million tries."""

from __future__ import annotations

import _thread
import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import miniray as ray
from miniray.core.records import Waiter
from miniray.exceptions import ActorDiedError, RaySystemError, ReferenceCountingAssertionError, TaskCancelledError
from miniray.object_ref import ObjectRef
from miniray.observe.explain import explanation as explain
from miniray.process import context
from miniray.runtime.local_async import LocalAsyncWorker
from miniray.runtime.local_mode import LocalRuntime
from miniray.runtime.waiting import Waiting
from miniray.util import state
from tests.runtime.several_nodes import Threads, settle, until


@pytest.fixture
def session() -> Iterator[Any]:
    """Two CPUs."""
    ray.init(num_cpus=2, log_to_driver=False)
    yield context.running()
    ray.shutdown()


@ray.remote
class Loop:
    """An async actor whose loop can be blocked."""

    def hold(self, here: int, pipe: int) -> None:
        """Write to `here`, then block the loop until something is written to the pipe."""
        os.write(here, b"!")
        os.read(pipe, 1)

    async def go(self) -> str:
        """A call."""
        return "went"

    async def cancel_the_others(self) -> None:
        """Cancel everything else in the loop, as some programs do at their end."""
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


@pytest.fixture
def held(session: Any) -> Iterator[tuple[Any, Any]]:
    """An async actor whose loop is blocked, and a function that lets it continue."""
    ends = (come, here), (read_end, write_end) = os.pipe(), os.pipe()
    actor = Loop.remote()
    actor.hold.remote(here, read_end)
    os.read(come, 1)
    yield actor, lambda: os.write(write_end, b"!")
    for pipe in ends:
        os.close(pipe[0])
        os.close(pipe[1])


def test_a_coroutine_that_is_cancelled_before_its_first_step_is_answered(held: Any):
    """asyncio then never enters the coroutine, so nothing reported its end, and `get` waited forever."""
    actor, go_on = held
    refs = [actor.go.remote() for _ in range(3)]
    for ref in refs:
        ray.cancel(ref)
    go_on()
    for ref in refs:
        with pytest.raises(TaskCancelledError):
            ray.get(ref, timeout=20)
    assert ray.get(actor.go.remote(), timeout=20) == "went"


def test_a_coroutine_that_another_call_cancels_before_its_first_step_is_answered(held: Any):
    """The same, if the actor's own code cancels everything."""
    actor, go_on = held
    actor.cancel_the_others.remote()
    ref = actor.go.remote()
    go_on()
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=20)


def test_an_actor_may_die_before_its_second_thread_is_started(session: Any, monkeypatch: pytest.MonkeyPatch):
    """The thread was ordered, and the code that was to start it found no first thread with which to share a space."""

    @ray.remote(max_concurrency=2)
    class Pair:
        def wait(self, pipe: int) -> None:
            os.read(pipe, 1)

    actor, (read_end, write_end) = Pair.remote(), os.pipe()
    ray.get(actor.__ray_ready__.remote())
    start, record = session.start_worker, actor._record.actor
    first = actor.wait.remote(read_end)

    def start_after_its_death(ordered: Any) -> None:
        session.tell(session.cluster.kill_actor, record)
        start(ordered)

    monkeypatch.setattr(session, "start_worker", start_after_its_death)
    second = actor.wait.remote(read_end)
    os.write(write_end, b"!!")
    for ref in (first, second):
        with pytest.raises(ActorDiedError):
            ray.get(ref, timeout=20)
    for handle in list(session.threads):  # the end of a thread is no event of the core
        assert handle.record.actor is not record or handle.done.acquire(timeout=20)
    os.close(read_end)
    os.close(write_end)


class Leaving(dict):
    """A table of waiters that leave it at the wrong moment: each waiter that is seen in it is gone at the next look."""

    def __contains__(self, waiter: object) -> bool:
        return False

    def items(self) -> Any:
        """Each item; after each one, an item leaves."""
        for item in super().items():
            yield item
            self.popitem()


@ray.remote
def endless() -> None:
    """A task that waits forever."""
    ray.get(never.remote())


@ray.remote(num_cpus=1_000)
def never() -> None:
    """It fits nowhere."""


def a_thread_that_waits(session: Any) -> tuple[threading.Thread, list[BaseException]]:
    """A thread of the driver in `get`, and a list that receives the error that ends it."""
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            ray.get(ref)
        except BaseException as error:
            errors.append(error)

    ref = never.remote()
    thread = threading.Thread(target=wait)
    thread.start()
    assert until(lambda: len(session.driver_waiters) == 1)
    return thread, errors


def test_a_thread_that_stops_waiting_while_the_session_ends_is_woken_once(session: Any):
    """Its waiter was woken as one that waits, and again as one that has subscribed, because it had left the table in
    between. The end of the session raised `release unlocked lock`."""
    thread, errors = a_thread_that_waits(session)
    session.driver_waiters = Leaving(session.driver_waiters)
    ray.shutdown()
    thread.join(20)
    assert [type(error) for error in errors] == [RaySystemError]


def test_other_threads_may_stop_waiting_during_the_stuck_check(session: Any):
    """A `get` that has waited for a while checks whether it can ever return. The check raised `dictionary changed size
    during iteration`."""
    ready = ray.put(1)
    session.driver_waiters = Leaving({Waiter(1, None): [], Waiter(1, None): []})
    assert explain.find_deadlock(session, [ready._record]) is None
    session.driver_waiters = {}


@ray.remote
def sleeps_in_turns() -> None:
    """A task that is often between two waits."""
    import time

    while True:
        time.sleep(1000)


@ray.remote
def runs_on() -> None:
    """A task that continues with code of its own."""
    import time

    time.sleep(0.001)
    while True:
        pass


@ray.remote(_generator_backpressure_num_objects=1)
def yields() -> Iterator[int]:
    """A generator that waits for its consumer."""
    yield 1
    yield 2


class Between:
    """Holds a thread back just before a step, until the end of the session has looked for waiters."""

    def __init__(self, session: Any, monkeypatch: pytest.MonkeyPatch):
        self.came, self.over = threading.Event(), threading.Event()
        end = session.spill.remove  # the last step of the end of a session before it waits for the threads
        monkeypatch.setattr(session.spill, "remove", lambda: (end(), self.over.set()))
        session.threads = self.threads = Threads(session.threads)

    def wait(self) -> None:
        """Called in the thread."""
        self.came.set()
        assert self.over.wait(20)


def test_a_task_that_begins_to_sleep_while_the_session_ends_is_ended(session: Any, monkeypatch: pytest.MonkeyPatch):
    """Nothing would ever wake it: it slept on in a thread that was left behind."""
    between, sleep = Between(session, monkeypatch), Waiting.sleep
    monkeypatch.setattr(session, "sleep", lambda *args: (between.wait(), sleep(session, *args))[1])
    sleeps_in_turns.remote()
    assert between.came.wait(20)
    ray.shutdown()
    assert between.threads.empty.wait(20)


def test_a_task_that_was_in_a_call_of_ours_when_the_session_ended_is_ended(
    session: Any, monkeypatch: pytest.MonkeyPatch
):
    """It could not be interrupted there, and then ran its own code forever."""
    between = Between(session, monkeypatch)
    monkeypatch.setattr(session, "sleep", lambda *args: (between.wait(), True)[1])
    runs_on.remote()
    assert between.came.wait(20)
    ray.shutdown()
    assert between.threads.empty.wait(20)


def test_a_generator_that_begins_to_wait_while_the_session_ends_is_ended(session: Any, monkeypatch: pytest.MonkeyPatch):
    """Like a task that sleeps."""
    between = Between(session, monkeypatch)

    def allocate_lock() -> Any:
        if context.current.get() is not None:  # in the generator's thread
            between.wait()
        return _thread.allocate_lock()

    monkeypatch.setattr(session, "allocate_lock", allocate_lock)
    stream = yields.remote()
    assert between.came.wait(20)
    ray.shutdown()
    assert between.threads.empty.wait(20)
    del stream


def test_an_object_is_looked_up_and_counted_in_one_step(session: Any):
    """Otherwise another thread could drop the last reference in between."""

    class Watched(dict):
        def get(self, *args: Any) -> Any:
            looks.append(session.lock.locked())
            return super().get(*args)

    looks: list[bool] = []
    ref = ray.put([ray.put(1)])
    session.cluster.objects = Watched(session.cluster.objects)
    again = ObjectRef(ref.binary())
    ray.get(again)
    assert looks and all(looks)


def test_getting_a_released_value_is_an_error_and_no_endless_loop(session: Any):
    """It cannot happen while references are counted correctly. Otherwise `get` would look forever."""
    ref = ray.put(1)
    record = ref._record
    del ref
    settle()
    uncounted = ObjectRef._adopt(record)
    with pytest.raises(ReferenceCountingAssertionError):
        ray.get(uncounted)


class Curious(dict[str, str]):
    """Uses the session whenever its items are looked at."""

    def items(self) -> Any:
        assert ray.get(ray.put("shown")) == "shown"
        return super().items()


def test_showing_a_runtime_environment_runs_no_code_of_the_program(session: Any):
    """If it ran while the core's lock was held, a call of miniray in it would wait forever."""

    @ray.remote(runtime_env={"env_vars": Curious(A="1")})
    def one() -> int:
        return 1

    assert ray.get(one.remote()) == 1
    assert [row.success for row in state.list_runtime_envs()] == [True]
    shown = state.list_tasks(detail=True)[0].runtime_env_info["serialized_runtime_env"]
    assert shown == '{"env_vars": {"A": "1"}}'


class TellsOf:
    """An attribute of an actor class: when the class is captured, it passes this very class to a task."""

    def __reduce__(self) -> Any:
        if context.current.get() is None:
            names.append(ray.get(name_of.remote(actor_classes[0])))
        return TellsOf, ()


names: list[str] = []
actor_classes: list[Any] = []


@ray.remote
def name_of(actor_class: Any) -> str:
    """The repr of an actor class as a worker sees it."""
    return repr(actor_class)


def test_an_actor_class_that_is_being_captured_may_be_sent_by_another_thread(session: Any):
    """A worker that got the class had no copy of it and raised AttributeError."""

    class Told:
        tells = TellsOf()

    actor_classes[:] = [ray.remote(Told)]
    assert ray.get(name_of.remote(actor_classes[0])) == "ActorClass(Told)"
    assert set(names) == {"ActorClass(Told)"}


# ---------------------------------------------------------------- local_mode, where every thread runs what is runnable


@pytest.fixture
def often() -> Iterator[None]:
    """Python switches threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def local() -> Iterator[LocalRuntime]:
    """A session in which every thread of the program may run tasks."""
    ray.init(num_cpus=2, log_to_driver=False, local_mode=True)
    yield context.running()
    ray.shutdown()


@ray.remote
class Sleeper:
    """An async actor in local_mode."""

    async def nap(self, x: int) -> int:
        """Wait a moment."""
        await asyncio.sleep(0.001)
        return x

    async def answer(self) -> None:
        """At once."""


def test_a_loop_that_is_woken_as_its_turn_ends_has_another_turn(local: LocalRuntime, monkeypatch: pytest.MonkeyPatch):
    """The waking thread sees that the loop still runs and leaves the work to the running thread, which did not look
    again."""
    actor = Sleeper.remote()
    ray.get(actor.answer.remote())
    loop, came = actor._record.actor.worker.handle.loop, []
    run = loop.loop.run_forever

    def run_and_be_woken() -> None:
        run()
        if not came:
            came.append("woken")
            monkeypatch.setattr(loop.loop, "is_running", lambda: True)
            loop.loop.call_soon_threadsafe(came.append, "looked at")
            monkeypatch.delattr(loop.loop, "is_running")

    monkeypatch.setattr(loop.loop, "run_forever", run_and_be_woken)
    ray.get(actor.answer.remote())
    ray.get(ray.put(None))
    assert came == ["woken", "looked at"]


def test_threads_that_wait_for_one_loop_hand_it_over(local: LocalRuntime, often: None):
    """When the thread that ran the loop left, the parked threads never looked again: they waited forever."""
    actor, errors = Sleeper.remote(), []

    def call() -> None:
        try:
            for x in range(20):
                assert ray.get(actor.nap.remote(x), timeout=20) == x
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors and not any(thread.is_alive() for thread in threads)


def test_a_task_that_waits_on_another_thread_ends_with_the_session(local: LocalRuntime):
    """In local_mode the task runs on a thread of the driver, which would wait forever."""

    @ray.remote
    def waits() -> None:
        ray.get(never.remote())

    ended: list[BaseException] = []

    def call() -> None:
        try:
            waits.remote()
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert until(
        lambda: any(
            task.spec.name == "never" and task.returns[0].waiters for task in list(local.cluster.tasks.values())
        )
    )
    ray.shutdown()
    thread.join(20)
    assert not thread.is_alive()


def test_an_actor_of_local_mode_may_be_killed_just_before_its_call(
    local: LocalRuntime, monkeypatch: pytest.MonkeyPatch
):
    """Its loop is then closed, which must not be an error of the calling code."""
    actor, begin = Sleeper.remote(), LocalAsyncWorker.begin

    def begin_after_its_death(loop: LocalAsyncWorker, task: Any) -> None:
        ray.kill(actor)
        begin(loop, task)

    ray.get(actor.nap.remote(0))
    monkeypatch.setattr(LocalAsyncWorker, "begin", begin_after_its_death)
    ref = actor.nap.remote(1)
    with pytest.raises(ActorDiedError):
        ray.get(ref, timeout=20)


def test_a_sleep_whose_time_is_over_when_the_session_ends_does_not_return(
    session: Any, monkeypatch: pytest.MonkeyPatch
):
    """Nobody has woken it. Its task must not go on, since nothing is left of its session."""
    monkeypatch.setattr(session, "closed", False)  # so that it is restored
    monkeypatch.setattr(session, "park", lambda lock, seconds: setattr(session, "closed", True))
    handle = SimpleNamespace(interrupted=None, waiter=None)
    execution: Any = SimpleNamespace(worker=SimpleNamespace(handle=handle), thread=_thread.get_ident())
    with pytest.raises(RaySystemError):
        session.sleep(execution, 1)
    assert handle.waiter is None
