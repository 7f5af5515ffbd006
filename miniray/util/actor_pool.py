"""ActorPool: spread calls over a set of actors, one call at a time for each. Ray: python/ray/util/actor_pool.py."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from miniray import api, exceptions

V = TypeVar("V")
Call = Callable[[Any, V], Any]


class ActorPool:
    """A set of actors that share the calls given to `submit` or `map`.

    An actor has one call of the pool at a time; further calls queue here, and go out when a result is *taken*, not when
    it is ready. Results come in the order of submission (`get_next`) or as they are ready (`get_next_unordered`); do
    not mix the two. A call that failed raises its error when its result is taken, and its actor stays in the pool
    unless it is dead.

        pool = ActorPool([Worker.remote(), Worker.remote()])
        doubled = list(pool.map(lambda actor, value: actor.double.remote(value), [1, 2, 3]))
    """

    def __init__(self, actors: Iterable[Any]):
        """actors: handles, all of which are taken to be idle."""
        # Ray's names: programs that derive from the class, or look into it, use them.
        self._idle_actors = list(actors)
        self._future_to_actor: dict[Any, tuple[int, Any]] = {}  # what a call returned -> its turn, its actor
        self._index_to_future: dict[int, Any] = {}  # turn -> what that call returned
        self._pending_submits: deque[tuple[Call, Any]] = deque()
        self._next_task_index = 0  # the turn of the next call that goes out
        self._next_return_index = 0  # the turn whose result `get_next` gives next

    def map(self, fn: Call, values: Iterable[V]) -> Iterator[Any]:
        """Call fn(actor, value) for every value, now as far as actors are idle, and yield results in the values' order.

        fn: returns the ref of a method call on that actor. The iterator sends out what is queued, so it must be read to
        the end. Results that an earlier map or submit left are dropped; if one of those is already there as an error,
        that error is raised here, as in Ray.
        """
        while self.has_next():
            try:
                self.get_next(timeout=0, ignore_if_timedout=True)
            except TimeoutError:
                continue  # not done yet, and dropped all the same
        for value in values:
            self.submit(fn, value)
        return self._drain(self.get_next)

    def map_unordered(self, fn: Call, values: Iterable[V]) -> Iterator[Any]:
        """Like `map`, with results in the order in which they are ready. Waits first for what an earlier use left."""
        while self.has_next():
            try:
                self.get_next_unordered()
            except TimeoutError:
                continue  # the dropped call's own error
        for value in values:
            self.submit(fn, value)
        return self._drain(self.get_next_unordered)

    def _drain(self, take: Callable[[], Any]) -> Iterator[Any]:
        while self.has_next():
            yield take()

    def submit(self, fn: Call, value: Any) -> None:
        """Call fn(actor, value) with an idle actor now, or as soon as one is given back."""
        if not self._idle_actors:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle_actors.pop()
        result = fn(actor, value)
        self._future_to_actor[_key(result)] = (self._next_task_index, actor)
        self._index_to_future[self._next_task_index] = result
        self._next_task_index += 1

    def has_next(self) -> bool:
        """Whether there is a result to take, now or later."""
        return bool(self._future_to_actor)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """The next result in the order of submission.

        timeout: seconds to wait; None waits for ever. TimeoutError when it is over: the call keeps its turn, or with
        ignore_if_timedout loses it, and its actor counts as idle although it is still at work.
        StopIteration when nothing is pending. ValueError when the turn went by in `get_next_unordered`.
        The call's own error when it failed.
        """
        if not self.has_next():
            raise StopIteration("the pool has no results to get")
        if self._next_return_index >= self._next_task_index:
            raise ValueError("get_next() cannot follow get_next_unordered(): the turn of this result has passed")
        result = self._index_to_future[self._next_return_index]
        late = timeout is not None and not api.wait([result], timeout=timeout)[0]
        if late and not ignore_if_timedout:
            raise TimeoutError("timed out waiting for the next result of the pool")
        return self._take(result, late)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Any result that is ready, or the first to be. Arguments and errors as for `get_next`.

        With ignore_if_timedout the call that was submitted first is the one that is given up. (Ray ends in an
        UnboundLocalError here.)
        """
        if not self.has_next():
            raise StopIteration("the pool has no results to get")
        ready, _ = api.wait(list(self._future_to_actor), num_returns=1, timeout=timeout)
        if not ready and not ignore_if_timedout:
            raise TimeoutError("timed out waiting for any result of the pool")
        return self._take(ready[0] if ready else next(iter(self._future_to_actor)), late=not ready)

    def _take(self, result: Any, late: bool) -> Any:
        """Give back the actor of a call, whose result is either got or, when late, given up."""
        turn, actor = self._future_to_actor.pop(_key(result))
        del self._index_to_future[turn]
        self._next_return_index = max(self._next_return_index, turn + 1)
        if late:
            self._return_actor(actor)
            raise TimeoutError(f"timed out waiting for a result of the pool; the call {result} is given up")
        alive = True
        try:
            return api.get(result)
        except exceptions.ActorDiedError:
            alive = False
            raise
        finally:
            self._return_actor(actor if alive else None)

    def _return_actor(self, actor: Any) -> None:
        if actor is not None:
            self._idle_actors.append(actor)
        if self._pending_submits and self._idle_actors:
            self.submit(*self._pending_submits.popleft())

    def has_free(self) -> bool:
        """Whether `submit` would go out at once: an actor is idle and nothing is queued."""
        return bool(self._idle_actors) and not self._pending_submits

    def pop_idle(self) -> Any | None:
        """Take an idle actor out of the pool; None when `has_free` says no."""
        return self._idle_actors.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Add an idle actor, which takes the first queued call. ValueError for one that the pool has already."""
        if actor in self._idle_actors or any(actor == busy for _, busy in self._future_to_actor.values()):
            raise ValueError("this actor is in the pool already")
        self._return_actor(actor)


def _key(result: Any) -> Any:
    """A call with several returns gives a list of refs, which cannot be a key."""
    return tuple(result) if isinstance(result, list) else result
