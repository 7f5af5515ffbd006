"""ActorPool: which actor gets which call, the order of the results, and the pool after failures and timeouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import miniray
from miniray.util import ActorPool
from tests.api.gate import RemoteGate


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    miniray.init(num_cpus=4, log_to_driver=False)
    yield
    miniray.shutdown()


class Worker:
    """Calls that return, fail, wait for a gate, or end the actor."""

    def give(self, value: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    def pair(self, value: int) -> tuple[int, int]:
        return value, value + 1

    def after(self, gate: list[Any]) -> str:
        miniray.get(gate[0].passed.remote())
        return "passed"

    def leave(self, _: Any) -> None:
        miniray.actor.exit_actor()


def give(actor: Any, value: Any) -> Any:
    return actor.give.remote(value)


def after(actor: Any, gate: Any) -> Any:
    return actor.after.remote([gate])


def workers(count: int) -> list[Any]:
    return [miniray.remote(num_cpus=0)(Worker).remote() for _ in range(count)]


def closed_gate() -> Any:
    return RemoteGate.remote()


def test_an_actor_has_one_call_at_a_time():
    """Calls beyond the number of actors are queued in the pool, and submitted as results are taken."""
    pool = ActorPool(workers(2))
    for value in range(4):
        pool.submit(give, value)
    assert len(pool._future_to_actor) == 2
    assert [pool.get_next() for _ in range(4)] == [0, 1, 2, 3]
    assert pool.has_free()


def test_map_submits_before_it_is_read():
    """When map returns, one call per actor has been submitted. It does not wait for the first next()."""
    pool = ActorPool(workers(2))
    results = pool.map(give, [1, 2, 3])
    assert pool.has_next() and not pool.has_free()
    assert list(results) == [1, 2, 3]


def test_map_needs_an_iterable():
    """The call itself raises, not the first next()."""
    with pytest.raises(TypeError):
        ActorPool(workers(1)).map(give, 5)


def test_a_slow_call_does_not_hold_up_the_unordered():
    """get_next_unordered returns the result that is ready, although its call was submitted later."""
    pool, gate = ActorPool(workers(2)), closed_gate()
    pool.submit(after, gate)
    pool.submit(give, "quick")
    assert pool.get_next_unordered() == "quick"
    miniray.get(gate.open.remote())
    assert pool.get_next_unordered() == "passed"


def test_get_next_cannot_follow_get_next_unordered():
    """No call has the next turn, so get_next raises ValueError. The slow result can still be taken unordered."""
    pool, gate = ActorPool(workers(2)), closed_gate()
    pool.submit(after, gate)
    pool.submit(give, "quick")
    pool.get_next_unordered()
    with pytest.raises(ValueError, match="get_next_unordered"):
        pool.get_next()
    miniray.get(gate.open.remote())
    assert pool.get_next_unordered() == "passed"


def test_a_failure_ends_map_and_the_next_map_drops_the_rest():
    """The error ends the generator. The later calls do not become results of the next map."""
    pool = ActorPool(workers(1))
    with pytest.raises(KeyError):
        list(pool.map(give, [KeyError("first"), 2, 3]))
    assert pool.has_next()
    assert list(pool.map(give, [4])) == [4]


def test_map_unordered_waits_for_earlier_calls_and_raises_their_errors():
    """As in Ray, an earlier call that fails raises its error in the next map_unordered, and only there."""
    pool = ActorPool(workers(1))
    assert next(pool.map_unordered(give, [1, KeyError("left over"), 3])) == 1
    with pytest.raises(KeyError):
        pool.map_unordered(give, [4])
    assert list(pool.map_unordered(give, [5])) == [5]


def test_a_call_that_is_given_up_frees_its_actor():
    """With ignore_if_timedout, the actor counts as idle and runs the next call after the slow one."""
    pool, gate = ActorPool(workers(1)), closed_gate()
    pool.submit(after, gate)
    with pytest.raises(TimeoutError, match="given up"):
        pool.get_next(timeout=0, ignore_if_timedout=True)
    assert pool.has_free() and not pool.has_next()
    miniray.get(gate.open.remote())
    assert list(pool.map(give, [1])) == [1]


def test_an_unordered_wait_gives_up_the_call_submitted_first():
    """(Ray raises an UnboundLocalError here, and its counts are wrong afterwards.)"""
    pool, gate = ActorPool(workers(2)), closed_gate()
    pool.submit(after, gate)
    pool.submit(after, gate)
    with pytest.raises(TimeoutError, match="given up"):
        pool.get_next_unordered(timeout=0, ignore_if_timedout=True)
    assert pool.has_free() and pool.has_next()
    miniray.get(gate.open.remote())
    assert pool.get_next() == "passed"


def test_a_negative_timeout_is_refused_and_changes_nothing():
    """`wait` refuses it. The result can be taken afterwards."""
    pool = ActorPool(workers(1))
    pool.submit(give, 1)
    with pytest.raises(ValueError, match="nonnegative"):
        pool.get_next(timeout=-1)
    assert pool.get_next() == 1


def test_a_dead_actor_leaves_the_pool():
    """Its call raises ActorDiedError, and the queued calls go to the other actors."""
    pool = ActorPool(workers(2))
    pool.submit(lambda actor, value: actor.leave.remote(value), None)
    with pytest.raises(miniray.exceptions.ActorDiedError):
        pool.get_next()
    assert list(pool.map(give, [1, 2, 3])) == [1, 2, 3]
    assert pool.pop_idle() is not None
    assert pool.pop_idle() is None


def test_a_call_with_several_returns_gives_them_in_a_list():
    """get_next returns the list of the values, since such a call returns a list of references."""
    pool = ActorPool(workers(1))
    pool.submit(lambda actor, value: actor.pair.options(num_returns=2).remote(value), 1)
    assert pool.get_next() == [1, 2]


def test_a_busy_actor_cannot_be_pushed_again():
    """The pool also knows the actors that are running a call."""
    [actor] = workers(1)
    pool = ActorPool([actor])
    pool.submit(give, 1)
    with pytest.raises(ValueError, match="already"):
        pool.push(actor)
    assert pool.get_next() == 1


def test_a_subclass_finds_rays_names():
    """Libraries extend the pool or read its attributes, so these have Ray's names."""

    class Watched(ActorPool):
        def load(self):
            return len(self._idle_actors), len(self._future_to_actor), len(self._pending_submits), self._next_task_index

    pool = Watched(workers(2))
    assert pool.load() == (2, 0, 0, 0)
    for value in range(3):
        pool.submit(give, value)
    assert pool.load() == (0, 2, 1, 2) and [turn for turn, _ in pool._future_to_actor.values()] == [0, 1]
    assert pool.get_next() == 0 and pool._next_return_index == 1 and list(pool._index_to_future) == [1, 2]
    assert [pool.get_next(), pool.get_next()] == [1, 2] and pool.load() == (2, 0, 0, 3)
