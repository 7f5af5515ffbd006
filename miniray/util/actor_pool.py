"""ActorPool: spreads calls over a set of actors, one call per actor at a time. Ray: python/ray/util/actor_pool.py."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from miniray import api, exceptions

V = TypeVar("V")
Call = Callable[[Any, V], Any]  # called with an actor and a value; returns the reference of a method call on that actor


class ActorPool:
    """A set of actors that share the calls given to `submit` or `map`.

        pool = ActorPool([Worker.remote(), Worker.remote()])
        doubled = list(pool.map(lambda actor, value: actor.double.remote(value), [1, 2, 3]))

    Each actor runs one call of the pool at a time. Further calls are queued, and the next one is submitted when a
    result is *taken*, not when it is ready. Take results in the order of submission (`get_next`) or in the order in
    which they become ready (`get_next_unordered`), but do not mix the two. If a call failed, taking its result raises
    the error. The actor stays in the pool unless it has died.
    """

    def __init__(self, actors: Iterable[Any]):
        """actors: handles. The pool assumes that all of these actors are idle."""
        # The names are Ray's, since subclasses and curious programs use them. An index counts the calls as they are
        # submitted.
        self._idle_actors = list(actors)
        self._future_to_actor: dict[Any, tuple[int, Any]] = {}  # reference of a call -> (its index, its actor)
        self._index_to_future: dict[int, Any] = {}  # index -> reference of that call
        self._pending_submits: deque[tuple[Call[Any], Any]] = deque()
        self._next_task_index = 0  # the index of the next call to be submitted
        self._next_return_index = 0  # the index of the call whose result `get_next` returns next

    def map(self, fn: Call[V], values: Iterable[V]) -> Iterator[Any]:
        """Call fn(actor, value) for each value, and return an iterator over the results, in the order of the values.

        fn must return the reference of a method call on that actor. Calls are submitted at once as long as actors are
        idle; the iterator submits the others, so read it to the end.

        Results that an earlier `map` or `submit` has left are dropped. If one of them is an error that has already
        arrived, it is raised here, as in Ray.
        """
        while self.has_next():
            try:
                self.get_next(timeout=0, ignore_if_timedout=True)
            except TimeoutError:
                continue  # not ready yet, but dropped like the others
        for value in values:
            self.submit(fn, value)
        return self._drain(self.get_next)

    def map_unordered(self, fn: Call[V], values: Iterable[V]) -> Iterator[Any]:
        """Like `map`, with the results in the order in which they become ready.

        Results that an earlier `map` or `submit` has left are waited for, then dropped.
        """
        while self.has_next():
            try:
                self.get_next_unordered()
            except TimeoutError:
                continue  # an error of the dropped call
        for value in values:
            self.submit(fn, value)
        return self._drain(self.get_next_unordered)

    def _drain(self, take: Callable[[], Any]) -> Iterator[Any]:
        while self.has_next():
            yield take()

    def submit(self, fn: Call[Any], value: Any) -> None:
        """Call fn(actor, value) with an idle actor. If there is none, queue the call until an actor becomes idle."""
        if not self._idle_actors:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle_actors.pop()
        result = fn(actor, value)
        self._future_to_actor[_key(result)] = (self._next_task_index, actor)
        self._index_to_future[self._next_task_index] = result
        self._next_task_index += 1

    def has_next(self) -> bool:
        """Whether `get_next` can return a result, now or after waiting."""
        return bool(self._future_to_actor)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Wait for the next result in the order of submission, and return it.

        Args:
            timeout: seconds to wait at most; None waits forever.
            ignore_if_timedout: give up the call after a timeout. Its actor then counts as idle, although it is still
                busy.

        Raises:
            StopIteration: no call is pending.
            TimeoutError: the timeout passed first. Unless `ignore_if_timedout` is set, the next `get_next` waits for
                the same call.
            ValueError: `get_next_unordered` has already taken the results of later calls.

        If the call failed, its own error is raised.
        """
        if not self.has_next():
            raise StopIteration("No more results to get")
        if self._next_return_index >= self._next_task_index:
            raise ValueError("get_next() cannot follow get_next_unordered(), which has taken a later result")
        result = self._index_to_future[self._next_return_index]
        late = timeout is not None and not api.wait([result], timeout=timeout)[0]
        if late and not ignore_if_timedout:
            raise TimeoutError("timed out waiting for the next result of the pool")
        return self._take(result, late)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Wait until any result is ready, and return it. The arguments and errors are those of `get_next`.

        With `ignore_if_timedout`, a timeout gives up the call that was submitted first. (Ray raises an
        UnboundLocalError.)
        """
        if not self.has_next():
            raise StopIteration("No more results to get")
        ready, _ = api.wait(list(self._future_to_actor), num_returns=1, timeout=timeout)
        if not ready and not ignore_if_timedout:
            raise TimeoutError("timed out waiting for any result of the pool")
        return self._take(ready[0] if ready else next(iter(self._future_to_actor)), late=not ready)

    def _take(self, result: Any, late: bool) -> Any:
        """Make the actor of a call idle, and return the result; late: give the call up with a TimeoutError."""
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
        """Whether `submit` would call the function at once: an actor is idle, and no call is queued."""
        return bool(self._idle_actors) and not self._pending_submits

    def pop_idle(self) -> Any | None:
        """Remove an idle actor from the pool and return it; None if `has_free()` is False."""
        return self._idle_actors.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Add an idle actor, which gets the first queued call. Raises ValueError if the pool has it already."""
        if actor in self._idle_actors or any(actor == busy for _, busy in self._future_to_actor.values()):
            raise ValueError("this actor is in the pool already")
        self._return_actor(actor)


def _key(result: Any) -> Any:
    """The key of a call in `_future_to_actor`: several returns are a list of references, which has no hash."""
    return tuple(result) if isinstance(result, list) else result
