"""A wait that is over has left nothing behind: neither in the tables nor in the worker, whichever way it ended."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

import miniray as ray
from miniray import state
from miniray.core.actions import Wake
from miniray.core.records import Waiter
from miniray.exceptions import GetTimeoutError, ObjectLostError, RaySystemError, TaskCancelledError
from miniray.process import context
from miniray.runtime.getting import ArgumentLost
from miniray.runtime.waiting import LEND_AFTER_S, session_over, waits_for_a_cpu
from tests.runtime.several_nodes import until


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    """A session with two CPUs."""
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def waiters_of(ref: ray.ObjectRef) -> list | None:
    """Who is attached to the object."""
    runtime = context.running()
    with runtime.locked() as cluster:
        return next(obj.waiters for obj in cluster.objects.values() if obj.hex == ref.hex())


@ray.remote
def never_placed() -> None:
    """It fits no node."""


@ray.remote(max_retries=0)
def fails() -> float:
    """It raises."""
    return 1 / 0


def pending() -> ray.ObjectRef:
    """A reference whose value never comes."""
    return never_placed.options(num_cpus=9).remote()


@ray.remote(num_cpus=0)
def gets(refs: list) -> None:
    """It waits for a task inside."""
    ray.get(refs)


def test_while_it_lasts_it_is_explained():
    """The worker knows what its thread waits for."""
    waiting = gets.remote([pending()])
    assert until(lambda: state.explain(waiting).chain[0]["reason"] == "waits_in_get"), str(state.explain(waiting))
    assert "never_placed" in str(state.explain(waiting))


@pytest.mark.parametrize("number", [1, 3])
def test_a_get_that_ran_out_of_time_is_forgotten(number):
    """In the program's own thread, for one reference as for several."""
    refs = [pending() for _ in range(number)]
    with pytest.raises(GetTimeoutError):
        ray.get(refs, timeout=0.001)
    assert [waiters_of(ref) for ref in refs] == [None] * number and not context.running().driver_waiters


def test_a_wait_for_some_of_several_is_forgotten():
    """The others are not there yet, and nobody waits for them."""
    there, missing = ray.put(1), pending()
    assert ray.wait([there, missing], num_returns=1) == ([there], [missing])
    assert ray.wait([there, missing], num_returns=2, timeout=0.001) == ([there], [missing])
    assert waiters_of(missing) is None and not context.running().driver_waiters


def test_a_wait_that_one_of_several_has_ended_is_forgotten_by_the_others():
    """The value came while the program waited."""
    first, missing = pending(), pending()

    def cancel_first() -> None:
        assert until(lambda: waiters_of(missing))
        ray.cancel(first)

    thread = threading.Thread(target=cancel_first)
    thread.start()
    assert ray.wait([first, missing], num_returns=1) == ([first], [missing])
    thread.join()
    assert waiters_of(missing) is None and not context.running().driver_waiters


def test_a_wait_inside_a_task_is_forgotten():
    """The worker takes its CPU back and goes on; its handle names nothing that it waits for."""
    missing = pending()

    @ray.remote
    def waits(refs: list) -> tuple:
        with pytest.raises(GetTimeoutError):
            ray.get(refs, timeout=0.02)
        handle = context.current.get().worker.handle
        return handle.waiter, list(handle.waiting), ray.available_resources()["CPU"]

    assert ray.get(waits.remote([missing])) == (None, [], 1.0)
    assert waiters_of(missing) is None


def test_a_wait_that_was_cancelled_is_forgotten():
    """The error is the cancellation, and the object has nobody attached."""
    missing = pending()

    @ray.remote
    def waits(refs: list) -> None:
        ray.get(refs)

    task = waits.remote([missing])
    assert until(lambda: waiters_of(missing))
    ray.cancel(task)
    with pytest.raises(TaskCancelledError):
        ray.get(task)
    assert until(lambda: waiters_of(missing) is None)


def test_what_the_program_has_dropped_goes_before_a_sleep_and_not_after_it():
    """`time.sleep` of the program is a moment at which the tables are brought up to date."""
    ref = ray.put("a value")
    number = len(context.running().cluster.objects)
    del ref
    time.sleep(0)
    assert len(context.running().cluster.objects) == number - 1


def test_what_the_program_has_dropped_is_reported_with_the_next_event():
    """Whichever event that is."""
    ref, runtime = ray.put("a value"), context.running()
    number = len(runtime.cluster.objects)
    del ref
    runtime.tell(runtime.cluster.settled)
    assert len(runtime.cluster.objects) == number - 1


def test_a_reference_inside_a_value_that_is_dropped_goes_with_the_value():
    """The thread that drops the value reports the reference, too: nobody may come after it."""

    class Holder:
        """A value of the program."""

    runtime, holder = context.running(), Holder()
    holder.ref = ray.put("a value")
    number = len(runtime.cluster.objects)
    runtime.cluster.references.freed.append(holder)
    del holder
    runtime.carry_out([])
    assert len(runtime.cluster.objects) == number - 1


def test_a_reader_of_the_tables_reports_an_event_only_when_something_was_dropped():
    """Hooks would take a mere look for a change; what was dropped is gone before the reader looks."""
    ref = ray.put("a value")
    runtime, events = context.running(), []
    hook = lambda now: events.append(now) or []
    runtime.cluster.after_event.append(hook)
    with runtime.locked() as cluster:
        number = len(cluster.objects)
    assert not events
    del ref
    with runtime.locked() as cluster:
        assert len(cluster.objects) == number - 1
    assert len(events) == 1
    runtime.cluster.after_event.remove(hook)


@ray.remote
def catches(refs: list, pipe: int) -> None:
    """It would go on after any error."""
    try:
        ray.get(refs)
    except Exception:
        os.write(pipe, b"it goes on; ")
    finally:
        os.write(pipe, b"it has ended")


def test_a_task_that_waits_at_the_end_of_the_session_ends_with_it():
    """What ends it is no error that its code could take for an answer, and go on."""
    missing, (read, write) = pending(), os.pipe()
    ref = catches.remote([missing], write)
    assert until(lambda: waiters_of(missing)) and ref
    ray.shutdown()
    assert os.read(read, 100) == b"it has ended"
    os.close(read), os.close(write)


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_thread_with_a_timeout_does_not_wait_for_ever(timeout):
    """It may go on and change something, so there is no deadlock as long as there is one."""
    missing, ended = pending(), []

    def get() -> None:
        with pytest.raises(RaySystemError):
            ray.get(missing, timeout=timeout)
        ended.append(True)

    thread = threading.Thread(target=get)
    thread.start()
    assert until(lambda: waiters_of(missing))
    assert context.running().waits_forever(thread.ident) is (timeout is None)
    ray.shutdown()
    thread.join()
    assert ended == [True]


def test_a_sleep_inside_a_wait_leaves_the_wait_alone():
    """A finaliser may sleep on a thread that waits: the handle still names what is waited for."""

    @ray.remote
    def sleeps() -> tuple:
        handle = context.current.get().worker.handle
        handle.waiter = "what it waits for"
        time.sleep(0.001)
        during, handle.waiter = handle.waiter, None
        time.sleep(0.001)
        return during, handle.waiter

    assert ray.get(sleeps.remote()) == ("what it waits for", None)


@pytest.mark.parametrize(("seconds", "error"), [("1", TypeError), (-1, ValueError)])
def test_what_cannot_be_slept_is_refused_by_the_real_sleep(seconds, error):
    """In a task as anywhere."""

    @ray.remote(max_retries=0)
    def sleeps() -> None:
        time.sleep(seconds)

    with pytest.raises(error):
        ray.get(sleeps.remote())


def test_what_a_call_is_answered_with_when_the_session_has_ended():
    """A task is ended; a thread of the program gets an error that it can catch."""

    @ray.remote
    def answer() -> tuple:
        return type(session_over()).__name__, isinstance(session_over(), Exception)

    assert ray.get(answer.remote()) == ("SessionEnded", False) and type(session_over()) is RaySystemError


def record_of(ref: ray.ObjectRef):
    """What the core keeps about the object."""
    with context.running().locked() as cluster:
        return next(obj for obj in cluster.objects.values() if obj.hex == ref.hex())


def test_an_argument_is_never_waited_for():
    """It was there when the task was given to its worker: if it is not now, it is lost, and an error is an error."""
    argument_of, there, missing = context.running().argument_of, ray.put(7), pending()
    failed = fails.remote()
    ray.wait([failed])
    assert argument_of(record_of(there)) == 7
    with pytest.raises(ArgumentLost):
        argument_of(record_of(missing))
    with pytest.raises(ZeroDivisionError):
        argument_of(record_of(failed))


def test_an_id_that_names_nothing_is_not_waited_for_among_others():
    """Without a timeout `get` raises at once, since it would wait forever; with a timeout, the time runs out."""
    refs = [ray.put(1), ray.ObjectRef(b"x" * 28)]
    with pytest.raises(ObjectLostError):
        ray.get(refs)
    with pytest.raises(GetTimeoutError):
        ray.get(refs, timeout=0.001)


def test_which_waits_may_need_the_cpu_of_the_one_that_waits():
    """One for a task that no worker has: not for a call of an actor, what was put, or what runs already."""

    @ray.remote
    class Actor:
        def call(self) -> None:
            ray.get(refs)

    refs = [missing := pending()]
    call, put = Actor.remote().call.remote(), ray.put(1)
    assert until(lambda: record_of(call).task.worker is not None and waiters_of(missing))
    records = {ref: [record_of(ref)] for ref in (missing, call, put)}
    assert [waits_for_a_cpu(one) for one in records.values()] == [True, False, False]
    assert waits_for_a_cpu(records[put] + records[missing])


def test_a_short_wait_for_a_task_that_runs_lends_no_cpu():
    """Another task, which needs a CPU, is not started meanwhile."""

    @ray.remote
    def runs() -> None:
        time.sleep(60)

    @ray.remote
    def waits(refs: list) -> tuple:
        third = runs.remote()
        answer = ray.wait(refs, timeout=LEND_AFTER_S)
        leased_at = record_of(third).task.t_leased
        ray.cancel(third)
        return answer[0], leased_at

    running = runs.remote()
    assert until(lambda: record_of(running).task.worker is not None)
    assert ray.get(waits.remote([running])) == ([], 0.0)
    ray.cancel(running)


def test_what_the_core_asks_for_when_a_large_value_is_read_is_carried_out():
    """It may have to spill others, to make room for the copy."""
    ref, runtime, woken = ray.put(b"x" * 200_000), context.running(), []
    waiter = Waiter(1, lambda: woken.append(True))
    hook = lambda now: [Wake(waiter)]
    obj = record_of(ref)
    runtime.cluster.after_event.append(hook)
    runtime._note_use(obj)
    runtime.cluster.after_event.remove(hook)
    assert woken == [True]
