"""`state.stacks()` of coroutines: what each awaits, the whole chain of awaits."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from functools import partial

import pytest

import miniray as ray
from miniray import state
from miniray._common.test_utils import wait_for_condition
from miniray.observe.stacks.coroutines import MOST_LINKS, chain_of
from miniray.observe.stacks.report import pending_report
from miniray.process import context

until = partial(wait_for_condition, retry_interval_ms=1)


@pytest.fixture
def session():
    """A session with four CPUs."""
    ray.init(num_cpus=4, log_to_driver=False)
    yield
    ray.shutdown()


def rows(name: str):
    """The rows of this name."""
    return [row for row in state.stacks() if row["name"].partition(" (")[0] == name]


def _report_text():
    """What `miniray stack` prints."""
    return pending_report(context.session)


@ray.remote
def sleep_on():
    """A task that waits in a way that ends with the session."""
    time.sleep(1000)


@ray.remote
class Waiter:
    """An async actor whose calls wait in every way."""

    async def on_reference(self, refs):
        """Wait for an object."""
        await refs[0]

    async def through_task(self, refs):
        """Wait for an asyncio task that waits for an object."""
        await asyncio.create_task(self.on_reference(refs), name="inner one")

    async def gathers(self, refs):
        """Wait for several things."""
        await asyncio.gather(asyncio.sleep(0), self.on_reference(refs))

    async def iterates(self):
        """Wait in an asynchronous generator."""
        async for _ in self.items():
            return

    async def items(self):
        """Yield after an event that never comes."""
        await asyncio.Event().wait()
        yield 1

    async def in_context(self, refs):
        """Wait with a time limit."""
        await asyncio.wait_for(self.on_reference(refs), 1000)

    async def computes(self, path):
        """Compute until a file is there."""
        while not os.path.exists(path):
            time.time()


def test_a_coroutine_has_what_it_awaits(session):
    """The chain goes through coroutines, asyncio tasks, gather and asynchronous generators, to the reference."""
    never = sleep_on.remote()
    waiter = Waiter.options(max_concurrency=10).remote()
    names = ["on_reference", "through_task", "gathers", "in_context"]
    calls = {name: getattr(waiter, name).remote([never]) for name in names}
    calls["iterates"] = waiter.iterates.remote()
    reference = f"ObjectRef({never.hex()}) of sleep_on"
    until(lambda: all(rows(f"Waiter.{name}") and rows(f"Waiter.{name}")[0]["awaits"] for name in calls))
    until(lambda: len([row for row in state.stacks() if reference in row["awaits"]]) >= 6)
    found = {name: rows(f"Waiter.{name}")[0] for name in calls}
    for name, row in found.items():
        assert (row["kind"], row["state"], row["thread_id"]) == ("task", "WAITING", None)
        assert row["task_id"] == calls[name].task_id().hex()
        assert row["stack"][0]["function"] == name
    assert found["on_reference"]["awaits"] == [reference]
    inner, last = found["through_task"]["awaits"]
    assert inner.startswith("asyncio task inner one: Waiter.on_reference, at ") and last == reference
    assert inner.endswith("in on_reference")
    assert found["gathers"]["awaits"][0] == "gather of 2, 1 of them not done"
    assert found["gathers"]["awaits"][-1] == reference
    assert [frame["function"] for frame in found["iterates"]["stack"]][:2] == ["iterates", "items"]
    assert found["iterates"]["awaits"] == ["asyncio.Event.wait"]
    assert found["in_context"]["awaits"][-1] == reference


class OwnLock(asyncio.Lock):
    """A subclass of the program's own."""


@ray.remote
class Idler:
    """An async actor whose calls wait in asyncio's own functions."""

    async def step(self):
        """Wait in a coroutine of the program's."""
        await asyncio.sleep(1000.5)

    async def sleeps(self):
        """Sleep."""
        await asyncio.sleep(1000)

    async def gathers(self):
        """Wait for two coroutines."""
        await asyncio.gather(self.step(), self.step())

    async def limits(self):
        """Wait with a time limit."""
        await asyncio.wait_for(self.step(), 1000)

    async def limits_reference(self, refs):
        """Wait for an object with a time limit."""
        await asyncio.wait_for(refs[0], 1000)

    async def gathers_references(self, refs):
        """Wait for an object in a gather."""
        await asyncio.gather(*refs)

    async def waits(self):
        """Wait for asyncio tasks."""
        await asyncio.wait([asyncio.create_task(self.step())])

    async def completes(self):
        """Take results as they come."""
        for one in asyncio.as_completed([self.step()]):
            await one

    async def locks(self):
        """Take a lock twice."""
        lock = OwnLock()
        async with lock, lock:
            raise AssertionError

    async def acquires(self):
        """Take a semaphore that has no room."""
        await asyncio.Semaphore(0).acquire()

    async def queues(self):
        """Take from an empty queue."""
        await asyncio.Queue().get()

    async def conditions(self):
        """Wait for a condition."""
        condition = asyncio.Condition()
        async with condition:
            await condition.wait()

    async def threads(self):
        """Wait for a function in a thread."""
        await asyncio.to_thread(ray.get, sleep_on.remote())

    async def connects(self):
        """Wait for a line that never comes."""
        near, far = socket.socketpair()
        with far:
            reader, writer = await asyncio.open_connection(sock=near)
            await reader.readline()
            writer.close()


ENDS = {
    "sleeps": "asyncio.sleep(1000)",
    "gathers": "asyncio.sleep(1000.5)",
    "limits": "asyncio.sleep(1000.5)",
    "waits": "asyncio.sleep(1000.5)",
    "completes": "asyncio.as_completed",
    "locks": "async with asyncio.Lock",
    "acquires": "asyncio.Semaphore.acquire",
    "queues": "asyncio.Queue.get",
    "conditions": "asyncio.Condition.wait",
    "threads": "asyncio.to_thread",
    "connects": "asyncio.StreamReader.readline",
}


def test_a_stack_ends_in_the_program_and_asyncio_is_one_sentence(session):
    """It used to end in a line of asyncio/tasks.py, and the end of the chain was a future without a name."""
    never = sleep_on.remote()
    idler = Idler.options(max_concurrency=20).remote()
    calls = [getattr(idler, name).remote() for name in ENDS]
    references = ("limits_reference", "gathers_references")
    calls += [getattr(idler, name).remote([never]) for name in references]
    ends = {**ENDS, **{name: f"ObjectRef({never.hex()}) of sleep_on" for name in references}}

    def found():
        return {name: row for name in ends for row in rows(f"Idler.{name}") if row["awaits"]}

    until(lambda: {name: row["awaits"][-1] for name, row in found().items()} == ends)
    seen = state.stacks()
    for row in seen:
        if row["name"].startswith("Idler."):
            assert row["stack"][0]["file"] == row["stack"][-1]["file"] == __file__, row
            assert "asyncio" + os.sep not in " ".join(row["awaits"]) and "a Future" not in " ".join(row["awaits"]), row
    assert found()["gathers"]["awaits"][0] == "gather of 2, 2 of them not done"
    assert ", at " in found()["gathers"]["awaits"][1] and found()["gathers"]["awaits"][1].endswith(" in step")
    text = _report_text()
    for name, end in ends.items():
        assert f"  awaits {end}\n" in text + "\n", name
    assert ", in sleep\n" not in text
    every = {row["name"]: row for row in state.stacks(all_frames=True)}
    assert every["Idler.sleeps"]["stack"][-1]["function"] == "sleep"
    del calls


def test_an_asyncio_task_of_a_call_has_a_row_of_its_own(session):
    """It belongs to the call that has made it."""
    never = sleep_on.remote()
    waiter = Waiter.remote()
    call = waiter.through_task.remote([never])
    until(lambda: any(row["kind"] == "coroutine" and row["awaits"] for row in state.stacks()))
    (row,) = [row for row in state.stacks() if row["kind"] == "coroutine"]
    assert row["name"] == "Waiter.on_reference (inner one)" and row["stack"][-1]["code"] == "await refs[0]"
    assert row["task_id"] == call.task_id().hex() and row["actor_id"] == waiter._actor_id.hex()


def test_a_coroutine_that_runs_is_on_its_loop_s_thread(session, tmp_path):
    """It is told from those that are suspended meanwhile."""
    waiter = Waiter.options(max_concurrency=2).remote()
    waiter.on_reference.remote([sleep_on.remote()])
    until(lambda: rows("Waiter.on_reference") and rows("Waiter.on_reference")[0]["awaits"])
    call = waiter.computes.remote(str(tmp_path / "end"))
    until(lambda: any(row["thread_id"] for row in rows("Waiter.computes")))
    (row,) = rows("Waiter.computes")
    assert (row["state"], row["awaits"], row["task_id"]) == ("RUNNING", [], call.task_id().hex())
    assert row["stack"][0]["function"] == "computes"
    (tmp_path / "end").touch()
    ray.get(call)


def test_the_driver_s_own_coroutines_are_rows(session):
    """Of the loop that runs on the driver's thread: the one that asks is the driver's row, the others have theirs."""

    async def main():
        never = sleep_on.remote()

        async def child():
            await never

        task = asyncio.create_task(child(), name="kid")
        await asyncio.sleep(0)
        found = state.stacks()
        task.cancel()
        return found, never

    found, never = asyncio.run(main())
    (kid,) = [row for row in found if row["kind"] == "coroutine"]
    assert kid["name"].endswith("child (kid)") and kid["awaits"] == [f"ObjectRef({never.hex()}) of sleep_on"]
    assert kid["task_id"] is None and kid["worker_id"] == found[0]["worker_id"]
    assert found[0]["name"] == "driver" and found[0]["stack"][-1]["function"] == "main"


def test_a_circle_of_asyncio_tasks_ends():
    """Two tasks that await each other are told once each, and a very long chain is cut."""

    async def main():
        tasks = []

        async def one():
            await tasks[1]

        async def two():
            await tasks[0]

        tasks += [asyncio.create_task(one(), name="one"), asyncio.create_task(two(), name="two")]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        circle = chain_of(tasks[0].get_coro(), tasks[0]).awaits

        async def deep(n):
            await (asyncio.Event().wait() if not n else asyncio.create_task(deep(n - 1)))

        long = asyncio.create_task(deep(2 * MOST_LINKS))
        for _ in range(2 * MOST_LINKS + 5):
            await asyncio.sleep(0)
        found = chain_of(long.get_coro(), long).awaits
        everybody = asyncio.all_tasks() - {asyncio.current_task()}
        for task in [long, *everybody]:
            task._fut_waiter  # noqa: B018  # still readable
        return circle, found, everybody

    loop = asyncio.new_event_loop()
    try:
        circle, found, everybody = loop.run_until_complete(main())
        assert [line.partition(":")[0] for line in circle] == ["asyncio task two", "asyncio task one"]
        assert len(found) == MOST_LINKS
    finally:
        for task in everybody:
            task._log_destroy_pending = False
        loop.close()
