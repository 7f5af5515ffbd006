"""Programs that await references in an event loop of their own."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import miniray as ray


@pytest.fixture(autouse=True, params=["threaded", "local_mode"])
def session(request):
    """A session of each kind."""
    with ray.init(num_cpus=2, local_mode=request.param == "local_mode", log_to_driver=False):
        yield request.param


@ray.remote
def double(n):
    return 2 * n


@ray.remote
def fails():
    raise LookupError("as it should")


@ray.remote
class Bell:
    """Rings on request."""

    def __init__(self):
        self.rung = asyncio.Event()

    async def wait(self):
        await self.rung.wait()
        return "ding"

    async def ring(self):
        self.rung.set()


def test_references_are_awaited_and_gathered():
    """Results come in the order of the references; an error is raised where it is awaited."""

    async def main():
        assert await double.remote(1) == 2
        assert await asyncio.gather(*[double.remote(n) for n in range(300)]) == [2 * n for n in range(300)]
        with pytest.raises(LookupError):
            await fails.remote()
        one, error = await asyncio.gather(double.remote(1), fails.remote(), return_exceptions=True)
        assert one == 2 and isinstance(error, LookupError)
        done, rest = await asyncio.wait([asyncio.ensure_future(_of(double.remote(n))) for n in range(5)])
        assert sorted(task.result() for task in done) == [0, 2, 4, 6, 8] and not rest
        ref = double.remote(4)
        assert [await ref, await ref, ray.get(ref)] == [8, 8, 8]

    asyncio.run(main())


async def _of(ref):
    return await ref


def test_a_coroutine_that_awaits_is_cancelled_and_the_task_goes_on():
    """As in Ray: to stop waiting for a value does not cancel its task. Other coroutines that await the same reference
    get the value."""

    async def main():
        bell = Bell.remote()
        ref = bell.wait.remote()
        gives_up, stays = asyncio.create_task(_of(ref)), asyncio.create_task(_of(ref))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_of(ref), timeout=0.01)
        gives_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gives_up
        await bell.ring.remote()
        assert await stays == await ref == "ding"

    asyncio.run(main())


def test_a_reference_outlives_the_loop_that_awaited_it():
    """Several loops in turn, in one session; one of them ends while a reference is still awaited in it."""
    bell = Bell.remote()
    ref = bell.wait.remote()

    async def abandons():
        asyncio.get_running_loop().call_soon(asyncio.ensure_future, _of(ref))
        await asyncio.sleep(0)
        return await double.remote(1)

    assert [asyncio.run(abandons()) for _ in range(3)] == [2, 2, 2]
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(_of(bell.ring.remote()))
        assert loop.run_until_complete(_of(ref)) == "ding"
    finally:
        loop.close()
    assert ray.get(ref) == asyncio.run(_of(ref)) == "ding"


def test_loops_on_several_threads_at_once():
    """Each loop gets its own values, on its own thread."""
    answers = {}

    def run(start):
        async def main():
            return [await double.remote(n) for n in range(start, start + 20)]

        answers[start] = asyncio.run(main())

    threads = [threading.Thread(target=run, args=(start,)) for start in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {start: [2 * n for n in range(start, start + 20)] for start in (0, 100, 200)}


def test_a_stream_is_iterated_in_a_loop(session):
    """`async for` yields references as they arrive."""

    @ray.remote
    def counts():
        for n in range(5):
            yield n

    async def main():
        return [await ref async for ref in counts.remote()]

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


def test_the_loop_goes_on_while_values_are_awaited(session, tmp_path):
    """Nothing blocks the loop: its own timers run meanwhile, and one of them ends the task."""
    if session == "local_mode":
        pytest.skip("in local_mode a task runs on the thread of its caller")

    @ray.remote
    def waits():
        while not (tmp_path / "go on").exists():
            time.sleep(0.001)

    async def main():
        turns = 0
        waiting = asyncio.ensure_future(_of(waits.remote()))
        while not waiting.done():
            turns += 1
            if turns == 5:
                (tmp_path / "go on").touch()
            await asyncio.sleep(0.001)
        return turns

    assert asyncio.run(main()) >= 5
