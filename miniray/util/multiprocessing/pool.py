"""Pool: Python's multiprocessing.Pool over actors. Ray: python/ray/util/multiprocessing/pool.py.

Work is cut into batches; a batch is one call of one of the pool's actors, which go round in turn. An actor catches what
the function raises, so that one failing item does not take its batch with it; the error travels as a `PoolTaskError`.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from multiprocessing import TimeoutError
from typing import Any

from miniray import api
from miniray.exceptions import RayError, RaySystemError

logger = logging.getLogger(__name__)

Call = tuple[Any, Any]  # the arguments and the keyword arguments of one call, or None for none


class PoolTaskError(Exception):
    """The function raised `underlying`. Error callbacks get this, and imap yields it; `get` raises what is inside."""

    def __init__(self, underlying: Exception):
        super().__init__(underlying)
        self.underlying = underlying


class PoolActor:
    """One process of the pool."""

    def __init__(self, initializer: Callable | None, initargs: Iterable[Any] | None):
        if initializer is not None:
            initializer(*(initargs or ()))

    def ping(self) -> None:
        """Answers when the constructor is through."""

    def run_batch(self, func: Callable, batch: list[Call]) -> list[Any]:
        """The results of the calls, with a PoolTaskError in the place of each that failed."""
        results: list[Any] = []
        for args, kwargs in batch:
            try:
                results.append(func(*(args or ()), **(kwargs or {})))
            except Exception as error:
                results.append(PoolTaskError(error))
        return results


class AsyncResult:
    """The results that a call of the pool will have. Made by the pool."""

    def __init__(
        self, refs: list[Any], callback: Callable | None, error_callback: Callable | None, single: bool = False
    ):
        self._refs = refs
        self._single = single
        self._watcher: threading.Thread | None = None
        if callback is not None or error_callback is not None:
            # Daemonic, so that a result that never comes does not keep the program from ending.
            self._watcher = threading.Thread(
                target=self._watch, args=(callback, error_callback), daemon=True, name="miniray-pool-callbacks"
            )
            self._watcher.start()

    def wait(self, timeout: float | None = None) -> None:
        """Return when the results are ready and the callbacks were called, or after timeout seconds."""
        # A negative one is no time at all, as for threads.
        timeout = 0 if isinstance(timeout, (int, float)) and timeout < 0 else timeout
        if not self._refs or not api.wait(self._refs, num_returns=len(self._refs), timeout=timeout)[1]:
            if self._watcher is not None:
                self._watcher.join(timeout)  # all that it has left to do is to call back

    def ready(self) -> bool:
        """Whether the results are there, be they errors, and the callbacks were called."""
        if self._watcher is not None:
            return not self._watcher.is_alive()
        return not self._refs or not api.wait(self._refs, num_returns=len(self._refs), timeout=0)[1]

    def successful(self) -> bool:
        """Whether no call failed. ValueError while not `ready`."""
        if not self.ready():
            raise ValueError(f"{self!r} is not ready")
        return not any(isinstance(result, Exception) for result in self._results())

    def get(self, timeout: float | None = None) -> Any:
        """The result of `apply_async`, or the list of results of the others, in the order of the items.

        Raises the error of the first item that failed, as the function raised it. (As in Ray, a function that *returns*
        an exception counts as failed.) multiprocessing.TimeoutError when timeout seconds are over.
        """
        self.wait(timeout)
        if not self.ready():
            raise TimeoutError
        results = []
        for result in self._results():
            if isinstance(result, PoolTaskError):
                raise result.underlying
            if isinstance(result, Exception):
                raise result
            results.append(result)
        return results[0] if self._single else results

    def _results(self) -> Iterator[Any]:
        for ref in self._refs:
            yield from _batch(ref)

    def _watch(self, callback: Callable | None, error_callback: Callable | None) -> None:
        """Call error_callback as soon as something failed; else callback in the end. A shutdown ends it without a call."""
        unready, failed = self._refs, False
        try:
            while unready:
                if not api.is_initialized():
                    return  # `wait` would start a session
                ready, unready = api.wait(unready, num_returns=1)
                errors = [result for result in _batch(ready[0]) if isinstance(result, Exception)]
                if errors and not failed:
                    failed = True
                    if error_callback is not None:
                        error_callback(errors[0])
            if failed or callback is None:
                return
            results = list(self._results())
        except RaySystemError:  # the session was shut down
            return
        callback(results[0] if self._single else results)


def _batch(ref: Any) -> list[Any]:
    """The results of a batch that is ready; when its actor failed, that error alone."""
    try:
        return api.get(ref)
    except RayError as error:
        return [error]


class IMapIterator:
    """Results of `imap` and `imap_unordered`. One batch per actor is under way; the next goes out when one is taken."""

    def __init__(self, pool: Pool, func: Callable, iterable: Iterable[Any], chunksize: int | None):
        if chunksize is None:
            chunksize = pool._chunksize(iterable) if hasattr(iterable, "__len__") else 1
        elif chunksize == 0:
            if hasattr(iterable, "__len__"):
                raise ZeroDivisionError("'chunksize' is 0")  # the classes of these errors are Ray's
            chunksize = 1
        elif isinstance(chunksize, (int, float)) and not (isinstance(chunksize, int) and chunksize > 0):
            raise ValueError(f"'chunksize' must be a positive integer, not {chunksize!r}")
        self._batches = enumerate(_batches(iterable, chunksize, unpack=False))
        self._pool, self._func = pool, func
        self._unready: dict[Any, int] = {}  # the ref of a batch under way -> which batch it is
        self._results: deque[Any] = deque()  # taken from the store, not yet handed out
        for _ in range(pool._size):
            self._submit()

    def _submit(self) -> None:
        for index, batch in islice(self._batches, 1):
            self._unready[self._pool._run_batch(index % self._pool._size, self._func, batch)] = index

    def _next_batch(self, timeout: float | None) -> tuple[int, list[Any]]:
        """Wait for a batch, and send one more. StopIteration when there is none, TimeoutError when it is too late."""
        if not self._unready:
            raise StopIteration
        ready, _ = api.wait(list(self._unready), num_returns=1, timeout=timeout)
        if not ready:
            raise TimeoutError
        index = self._unready.pop(ready[0])
        self._submit()
        return index, _batch(ready[0])

    def __iter__(self) -> IMapIterator:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """The next result; an item that failed gives its PoolTaskError, which is not raised, as in Ray.

        StopIteration after the last one. multiprocessing.TimeoutError when timeout seconds are over; call again then.
        """
        raise NotImplementedError


class UnorderedIMapIterator(IMapIterator):
    """Results in the order in which their batches are ready."""

    def next(self, timeout: float | None = None) -> Any:
        while not self._results:
            self._results.extend(self._next_batch(timeout)[1])
        return self._results.popleft()


class OrderedIMapIterator(IMapIterator):
    """Results in the order of the items."""

    def __init__(self, pool: Pool, func: Callable, iterable: Iterable[Any], chunksize: int | None):
        super().__init__(pool, func, iterable, chunksize)
        self._early: dict[int, list[Any]] = {}  # batches that are ready before their turn
        self._turn = 0

    def next(self, timeout: float | None = None) -> Any:
        while not self._results:
            while self._turn not in self._early:
                index, results = self._next_batch(timeout)
                self._early[index] = results
            self._results.extend(self._early.pop(self._turn))
            self._turn += 1
        return self._results.popleft()


class Pool:
    """A pool of actors with the methods of multiprocessing.Pool. Starts miniray when it is not running.

    Used as a context manager it is terminated at the end of the block.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable | None = None,
        initargs: Iterable[Any] | None = None,
        maxtasksperchild: int | None = None,
        context: Any = None,
        ray_address: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
    ):
        """processes: how many actors; None is one for each CPU. ValueError when not positive, or more than the CPUs.

        initializer: called with initargs in each actor first; what it raises comes out here, as ActorDiedError.
        maxtasksperchild: after so many batches an actor is replaced; None or 0 is never. context: ignored with a
        warning. ray_address: for `init`, when miniray is not running. ray_remote_args: `.options()` of the actors,
        which by default take no CPU.
        """
        if context:
            logger.warning("Pool has no use for 'context'; init() says how workers are started")
        self._initializer, self._initargs = initializer, initargs
        self._max_batches = maxtasksperchild or -1
        self._actor_class = api.remote(num_cpus=0)(PoolActor).options(**(ray_remote_args or {}))
        self._closed = False
        self._stopping: list[Any] = []  # refs that are ready when a stopped actor has ended
        self._watched: list[AsyncResult] = []  # those with callbacks, for `join`
        self._size = _number_of_actors(processes, ray_address)
        self._next_actor = 0
        self._actors = [self._actor_class.remote(initializer, initargs) for _ in range(self._size)]
        self._batches_of = [0] * self._size
        api.get([actor.ping.remote() for actor in self._actors])

    def apply(self, func: Callable, args: Any = None, kwargs: dict[str, Any] | None = None) -> Any:
        """func(*args, **kwargs) in the next actor: what it returns, or the error it raises."""
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: Callable,
        args: Any = None,
        kwargs: dict[str, Any] | None = None,
        callback: Callable[[Any], Any] | None = None,
        error_callback: Callable[[Exception], Any] | None = None,
    ) -> AsyncResult:
        """`apply` without waiting. callback gets the result, or error_callback the PoolTaskError, on another thread."""
        self._check_running()
        self._next_actor = (self._next_actor + 1) % self._size
        ref = self._run_batch(self._next_actor, func, [(args, kwargs)])
        return self._watch(AsyncResult([ref], callback, error_callback, single=True))

    def map(self, func: Callable, iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        """The list of func(item) for every item. Raises the error of the first item that failed.

        chunksize: items in a batch; None makes about four batches for each actor. AssertionError when not positive.
        """
        return self.map_async(func, iterable, chunksize).get()

    def map_async(
        self,
        func: Callable,
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callable[[list[Any]], Any] | None = None,
        error_callback: Callable[[Exception], Any] | None = None,
    ) -> AsyncResult:
        """`map` without waiting. callback gets the list of results if none failed, error_callback the first error."""
        return self._map(func, iterable, chunksize, False, callback, error_callback)

    def starmap(self, func: Callable, iterable: Iterable[Iterable[Any]], chunksize: int | None = None) -> list[Any]:
        """`map` for several arguments: the list of func(*item) for every item."""
        return self._map(func, iterable, chunksize, True, None, None).get()

    def starmap_async(
        self,
        func: Callable,
        iterable: Iterable[Iterable[Any]],
        callback: Callable[[list[Any]], Any] | None = None,
        error_callback: Callable[[Exception], Any] | None = None,
    ) -> AsyncResult:
        """`starmap` that does not wait. As in Ray, and not in multiprocessing, there is no chunksize."""
        return self._map(func, iterable, None, True, callback, error_callback)

    def imap(self, func: Callable, iterable: Iterable[Any], chunksize: int | None = 1) -> OrderedIMapIterator:
        """An iterator over func(item) in the items' order, which reads the iterable as results are taken."""
        self._check_running()
        return OrderedIMapIterator(self, func, iterable, chunksize)

    def imap_unordered(
        self, func: Callable, iterable: Iterable[Any], chunksize: int | None = 1
    ) -> UnorderedIMapIterator:
        """`imap` with results in the order in which they are ready."""
        self._check_running()
        return UnorderedIMapIterator(self, func, iterable, chunksize)

    def close(self) -> None:
        """Take no more work; what was given is finished, and then the actors end."""
        self._closed = True
        for actor in self._actors:
            self._stop(actor)

    def terminate(self) -> None:
        """Take no more work, and end the actors at once: what is not finished fails with ActorDiedError."""
        if not self._closed:
            self.close()
        for actor in self._actors:
            api.kill(actor)

    def join(self) -> None:
        """Wait until the actors have ended and the callbacks were called. ValueError while the pool is not closed."""
        if not self._closed:
            raise ValueError("Pool is still running: close() or terminate() it first")
        if self._stopping:
            api.wait(self._stopping, num_returns=len(self._stopping))
            self._stopping.clear()
        for result in self._watched:
            result.wait()

    def __enter__(self) -> Pool:
        self._check_running()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.terminate()

    def _check_running(self) -> None:
        if self._closed:
            raise ValueError("Pool not running")

    def _map(
        self,
        func: Callable,
        iterable: Iterable[Any],
        chunksize: int | None,
        unpack: bool,
        callback: Callable | None,
        error_callback: Callable | None,
    ) -> AsyncResult:
        self._check_running()
        items = iterable if hasattr(iterable, "__len__") else list(iterable)
        if isinstance(chunksize, float) and math.isfinite(chunksize):
            chunksize = math.ceil(chunksize)
        batches = _batches(items, self._chunksize(items) if chunksize is None else chunksize, unpack)
        refs = [self._run_batch(index % self._size, func, batch) for index, batch in enumerate(batches)]
        return self._watch(AsyncResult(refs, callback, error_callback))

    def _chunksize(self, items: Any) -> int:
        """Four batches for each actor, rounded up: few calls, and a slow batch does not hold up the rest for long."""
        return max(1, -(-len(items) // (4 * self._size)))

    def _run_batch(self, index: int, func: Callable, batch: list[Call]) -> Any:
        actor = self._actors[index]
        ref = actor.run_batch.remote(func, batch)
        self._batches_of[index] += 1
        if self._batches_of[index] == self._max_batches:
            self._stop(actor)
            self._actors[index] = self._actor_class.remote(self._initializer, self._initargs)
            self._batches_of[index] = 0
        return ref

    def _stop(self, actor: Any) -> None:
        """The actor ends when it has done what it was given before. Refs of those that have ended are dropped."""
        if self._stopping:
            self._stopping = api.wait(self._stopping, num_returns=len(self._stopping), timeout=0)[1]
        self._stopping.append(actor.__ray_terminate__.remote())

    def _watch(self, result: AsyncResult) -> AsyncResult:
        if result._watcher is not None:
            self._watched = [earlier for earlier in self._watched if not earlier.ready()]
            self._watched.append(result)
        return result


def _number_of_actors(processes: int | None, address: str | None) -> int:
    """How many actors a pool shall have; starts miniray when it is not running."""
    if not api.is_initialized():
        if address is None or address == "local":
            api.init(num_cpus=processes)
        else:
            api.init(address=address)
    num_cpus = int(api.cluster_resources().get("CPU", 0))
    if processes is None:
        processes = num_cpus
    if not isinstance(processes, (int, float)):
        raise TypeError(f"'processes' must be an integer, not {processes!r}")
    if processes <= 0:
        raise ValueError(f"a pool needs at least one process, not {processes}")
    if processes > num_cpus:
        raise ValueError(f"a pool of {processes} processes needs as many CPUs, and the cluster has {num_cpus}")
    return processes


def _batches(items: Iterable[Any], size: int, unpack: bool) -> Iterator[list[Call]]:
    """The calls that items stand for, `size` at a time. unpack: an item is all the arguments, and not the only one."""
    if not isinstance(size, int):
        raise TypeError(f"'chunksize' must be an integer, not {size!r}")
    assert size > 0, f"'chunksize' is at least 1, not {size}"
    return _cut(iter(items), size, unpack)


def _cut(items: Iterator[Any], size: int, unpack: bool) -> Iterator[list[Call]]:
    batch: list[Call]
    while batch := [(item if unpack else (item,), {}) for item in islice(items, size)]:
        yield batch
