"""Pool: errors, batches, callbacks and the end of a pool. The answers are Ray's."""

from __future__ import annotations

import multiprocessing
import operator
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import miniray
from miniray.util.multiprocessing import Pool, TimeoutError
from miniray.util.multiprocessing.pool import PoolTaskError
from tests.api.gate import RemoteGate


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    miniray.init(num_cpus=3, log_to_driver=False)
    yield
    miniray.shutdown()


def invert(x: float) -> float:
    return 1 / x


def my_actor(_: Any) -> str:
    return miniray.get_runtime_context().get_actor_id()


@miniray.remote(num_cpus=0)
class Starts:
    """Records the ids of the actors that have run the initializer."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def note(self, actor_id: str) -> None:
        self.ids.append(actor_id)

    def noted(self) -> list[str]:
        return self.ids


def note_start(starts: Any) -> None:
    miniray.get(starts.note.remote(my_actor(None)))


def after(gate: list[Any]) -> str:
    """Return after the gate has been opened."""
    miniray.get(gate[0])
    return "passed"


def test_an_error_is_raised_as_the_function_raised_it():
    """It is not wrapped in a RayTaskError."""
    with Pool(2) as pool, pytest.raises(ZeroDivisionError) as raised:
        pool.map(invert, [1, 0, 2])
    assert type(raised.value) is ZeroDivisionError


def test_an_error_callback_gets_the_wrapped_error():
    """As in Ray, it gets a PoolTaskError, once, and the callback for results is not called."""
    called: list[Any] = []
    with Pool(2) as pool:
        result = pool.map_async(invert, [1, 0, 0, 4], chunksize=1, callback=called.append, error_callback=called.append)
        result.wait()
    [error] = called
    assert type(error) is PoolTaskError and type(error.underlying) is ZeroDivisionError
    assert result.ready() and not result.successful()


def test_a_result_is_ready_after_its_callback():
    """A caller that has waited for the result sees the effects of the callback."""
    called: list[Any] = []
    with Pool(2) as pool:
        assert pool.map_async(invert, [1, 2, 4], chunksize=1, callback=called.append).get() == [1.0, 0.5, 0.25]
        assert pool.apply_async(invert, (2,), callback=called.append).get() == 0.5
        assert pool.map_async(invert, [], callback=called.append).get() == []
    assert called == [[1.0, 0.5, 0.25], 0.5, []]


def test_starmap_async_takes_its_callback_where_multiprocessing_takes_the_chunksize():
    """As in Ray, there is no chunksize."""
    called: list[Any] = []
    with Pool(1) as pool:
        assert pool.starmap_async(pow, [(2, 3)], called.append).get() == [8]
    assert called == [[8]]


def test_callbacks_leave_no_thread():
    """join waits for the callbacks, too."""
    pool = Pool(1)
    pool.apply_async(invert, (2,), callback=lambda _: None)
    pool.close()
    pool.join()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("miniray-pool")]


def test_a_shutdown_ends_the_wait_for_a_callback(monkeypatch: pytest.MonkeyPatch):
    """No callback is called, no thread is left, no error is shown, and no new session starts."""
    called: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", called.append)
    result = Pool(1).apply_async(after, ([RemoteGate.remote().passed.remote()],), None, called.append, called.append)
    miniray.shutdown()
    result._watcher.join()
    assert not called and not miniray.is_initialized()


def test_imap_returns_errors_as_items():
    """As in Ray, the iterator continues after them."""
    with Pool(2) as pool:
        for results in pool.imap(invert, [1, 0, 2]), pool.imap_unordered(invert, [1, 0, 2], chunksize=3):
            first, error, last = results
            assert (first, last) == (1.0, 0.5) and type(error) is PoolTaskError


def test_imap_reads_ahead_one_batch_for_each_actor():
    """Even an endless iterable works, since it is read only as results are taken."""
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(1000):
            read.append(number)
            yield number

    with Pool(2) as pool:
        results = pool.imap(operator.neg, numbers(), chunksize=3)
        assert len(read) == 6
        assert next(results) == 0
        assert len(read) <= 12


def test_imap_keeps_the_order_of_the_items():
    """A timeout loses no result, and batches that are ready early wait for their turn."""
    gate = RemoteGate.remote()
    with Pool(2) as pool:
        results = pool.imap(
            lambda item: after(item) if isinstance(item, list) else item, [[gate.passed.remote()], "quick"]
        )
        with pytest.raises(TimeoutError):
            results.next(timeout=0)
        miniray.get(gate.open.remote())
        assert list(results) == ["passed", "quick"]
        with pytest.raises(StopIteration):
            results.next()


def test_a_result_that_is_not_ready():
    """get raises multiprocessing's TimeoutError, wait returns, and successful raises ValueError."""
    gate = RemoteGate.remote()
    with Pool(1) as pool:
        result = pool.apply_async(after, ([gate.passed.remote()],))
        with pytest.raises(multiprocessing.TimeoutError):
            result.get(timeout=0)
        result.wait(0)
        assert not result.ready()
        with pytest.raises(ValueError, match="not ready"):
            result.successful()
        miniray.get(gate.open.remote())
        assert result.get() == "passed"


@pytest.mark.parametrize(("items", "processes", "batches"), [(0, 2, 0), (1, 2, 1), (8, 2, 8), (9, 2, 5), (100, 3, 12)])
def test_map_makes_about_four_batches_for_each_actor(items: int, processes: int, batches: int):
    """So a slow batch delays the others only a little."""
    with Pool(processes) as pool:
        result = pool.map_async(abs, range(items))
        assert len(result._refs) == batches
        assert result.get() == list(range(items))


def test_a_batch_has_at_least_one_item():
    """As in Ray, a smaller chunksize raises AssertionError."""
    with Pool(1) as pool:
        for chunksize in 0, -1:
            with pytest.raises(AssertionError):
                pool.map(abs, [1], chunksize=chunksize)


def test_actors_take_turns():
    """Every actor gets a share of a map."""
    with Pool(3) as pool:
        assert len(set(pool.map(my_actor, range(6), chunksize=1))) == 3


def test_an_actor_is_replaced_after_its_batches():
    """maxtasksperchild counts batches. The new actor runs the initializer, too."""
    starts = Starts.remote()
    with Pool(1, initializer=note_start, initargs=(starts,), maxtasksperchild=2) as pool:
        ids = [pool.apply(my_actor, (None,)) for _ in range(5)]
        assert [ids.index(one) for one in ids] == [0, 0, 2, 2, 4]
    assert miniray.get(starts.noted.remote()) == [ids[0], ids[2], ids[4]]


def test_an_initializer_that_fails_fails_the_pool():
    """The error is raised where the pool is created."""
    with pytest.raises(miniray.exceptions.ActorDiedError):
        Pool(1, initializer=invert, initargs=(0,))


def test_calls_of_a_dead_actor_fail():
    """As in Ray, it is not replaced."""
    with Pool(1) as pool:
        for _ in range(2):
            with pytest.raises(miniray.exceptions.ActorDiedError):
                pool.apply(miniray.actor.exit_actor)


def test_terminate_fails_unfinished_calls():
    """Their results are errors. A second terminate does nothing."""
    gate = RemoteGate.remote()
    pool = Pool(1)
    result = pool.apply_async(after, ([gate.passed.remote()],))
    pool.terminate()
    pool.terminate()
    with pytest.raises(miniray.exceptions.ActorDiedError):
        result.get()
    pool.join()


def test_close_lets_work_finish():
    """Calls submitted before have finished when join returns. Later calls are refused."""
    pool = Pool(2)
    result = pool.map_async(invert, [1, 2])
    pool.close()
    pool.join()
    assert result.ready() and result.get() == [1.0, 0.5]
    for refused in lambda: pool.map(abs, []), lambda: pool.imap(abs, []), pool.__enter__:
        with pytest.raises(ValueError, match="not running"):
            refused()


def test_a_pool_is_at_most_as_big_as_the_cluster():
    """By default, it has one actor per CPU."""
    with Pool() as pool:
        assert len(set(pool.map(my_actor, range(9), chunksize=1))) == 3
    with pytest.raises(ValueError, match="3"):
        Pool(4)


def test_actors_take_options():
    """By default, they use no CPU."""
    resources = lambda: miniray.get_runtime_context().get_assigned_resources()
    with Pool(1) as pool:
        assert pool.apply(resources) == {}
    with Pool(1, ray_remote_args={"num_cpus": 2}) as pool:
        assert pool.apply(resources) == {"CPU": 2.0}


def test_a_pool_starts_a_session_of_its_size():
    """It does so if no session is running."""
    miniray.shutdown()
    with Pool(2) as pool:
        assert pool.map(abs, [-1]) == [1]
        assert miniray.cluster_resources()["CPU"] == 2
