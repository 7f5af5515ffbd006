"""Pool: `multiprocessing.Pool` on actors. Ray: python/ray/util/multiprocessing/pool.py.

The pool cuts its work into batches. A batch is one call of one of the pool's actors, which take turns. The actor
catches any error that the function raises and returns it as a `PoolTaskError`, so one failing item does not lose the
rest of its batch.
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
from miniray.core.records import ENDED
from miniray.exceptions import RayError, RaySystemError
from miniray.object_ref import is_ready
from miniray.process import context

logger = logging.getLogger(__name__)

Function = Callable[..., Any]
Call = tuple[Any, Any]  # the positional and the keyword arguments of one call; None means none


class PoolTaskError(Exception):
    """The function raised `underlying`. Error callbacks and `imap` hand out this; `get` raises `underlying`."""

    def __init__(self, underlying: Exception):
        super().__init__(underlying)
        self.underlying = underlying


class PoolActor:
    """An actor of the pool, in the role of a process."""

    def __init__(self, initializer: Function | None, initargs: Iterable[Any] | None):
        if initializer is not None:
            initializer(*(initargs or ()))

    def ping(self) -> None:
        """Return when the constructor has finished."""

    def run_batch(self, func: Function, batch: list[Call]) -> list[Any]:
        """Return the results of the calls in order, with a PoolTaskError in place of each that failed."""
        results: list[Any] = []
        for args, kwargs in batch:
            try:
                results.append(func(*(args or ()), **(kwargs or {})))
            except Exception as error:
                results.append(PoolTaskError(error))
        return results


class AsyncResult:
    """The future result of `apply_async`, `map_async` or `starmap_async`. The pool creates it."""

    def __init__(
        self,
        refs: list[Any],
        callback: Function | None,
        error_callback: Function | None,
        single: bool = False,
    ):
        self._refs = refs
        self._single = single
        self._watcher: threading.Thread | None = None
        if callback is not None or error_callback is not None:
            # A daemon thread, so that a result that never arrives does not keep the program from ending.
            self._watcher = threading.Thread(
                target=self._watch,
                args=(context.running(), callback, error_callback),
                daemon=True,
                name="miniray-pool-callbacks",
            )
            self._watcher.start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait at most `timeout` seconds until the results are ready and the callbacks have been called."""
        # A negative timeout means 0, as for threads.
        timeout = 0 if isinstance(timeout, (int, float)) and timeout < 0 else timeout
        if not self._refs or not api.wait(self._refs, num_returns=len(self._refs), timeout=timeout)[1]:
            if self._watcher is not None:
                self._watcher.join(timeout)  # the results are ready: only the callback is left

    def ready(self) -> bool:
        """Whether all results or errors have arrived and the callbacks have been called."""
        if self._watcher is not None:
            return not self._watcher.is_alive()
        return not self._refs or not api.wait(self._refs, num_returns=len(self._refs), timeout=0)[1]

    def successful(self) -> bool:
        """Whether all calls succeeded. Raises ValueError while the results are not ready."""
        if not self.ready():
            raise ValueError(f"{self!r} is not ready")
        return not any(isinstance(result, Exception) for result in self._results())

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the result of `apply_async`, or the list of results of the other calls, and return it.

        Raises the error of the first item that failed, as the function raised it. (As in Ray, a function that *returns*
        an exception has failed.) Raises multiprocessing.TimeoutError if `timeout` seconds pass first.
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

    def _watch(self, runtime: Any, callback: Function | None, error_callback: Function | None) -> None:
        """Runs on the watcher thread. Call error_callback on the first failure, or callback if nothing failed.

        If the session is shut down first, neither is called. So this asks its runtime: `wait` and `get` would start
        another session.
        """
        batches: dict[Any, list[Any]] = {}
        unready, failed = self._refs, False
        while unready:
            try:
                ready, unready = _some_ready(runtime, unready)
                batches.update((ref, _batch(ref, lambda ref: runtime.get([ref._record])[0])) for ref in ready)
            except (RaySystemError, ValueError):  # the session has been shut down
                return
            if context.session is not runtime:  # the end of the session may have failed the calls
                return
            errors = [result for ref in ready for result in batches[ref] if isinstance(result, Exception)]
            if errors and not failed:
                failed = True
                if error_callback is not None:
                    error_callback(errors[0])
        if not failed and callback is not None:
            results = [result for ref in self._refs for result in batches[ref]]
            callback(results[0] if self._single else results)


def _some_ready(runtime: Any, refs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Wait for the first of the references; return those with a value or an error, and the others.

    Raises RaySystemError once the session has ended."""
    records = [ref._record for ref in refs]
    while not any(map(is_ready, records)):
        if any(record.status is ENDED for record in records):
            raise RaySystemError("the session has been shut down")
        runtime.wait_for(records, 1, False, None)
    ready: list[Any] = []
    unready: list[Any] = []
    for ref in refs:
        (ready if is_ready(ref._record) else unready).append(ref)
    return ready, unready


def _batch(ref: Any, get: Function = api.get) -> list[Any]:
    """The results of a batch that is ready. If its actor failed, a list with only that error."""
    try:
        results: list[Any] = get(ref)
        return results
    except RayError as error:
        return [error]


class IMapIterator:
    """The results of `imap` and `imap_unordered`.

    One batch per actor is in flight. Taking the results of a batch submits the next one, so the items are read only as
    needed.
    """

    def __init__(self, pool: Pool, func: Function, iterable: Iterable[Any], chunksize: int | None):
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
        self._unready: dict[Any, int] = {}  # reference of a batch in flight -> the number of the batch
        self._results: deque[Any] = deque()  # results that have arrived and have not been returned yet
        for _ in range(pool._size):
            self._submit()

    def _submit(self) -> None:
        for index, batch in islice(self._batches, 1):
            self._unready[self._pool._run_batch(index % self._pool._size, self._func, batch)] = index

    def _next_batch(self, timeout: float | None) -> tuple[int, list[Any]]:
        """Wait for any batch and submit another one. Returns the number and the results of the batch.

        Raises StopIteration if no batch is in flight, TimeoutError after `timeout` seconds.
        """
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
        """Wait for the next result and return it; for a failed item, return its PoolTaskError, as in Ray.

        Raises StopIteration after the last result. Raises multiprocessing.TimeoutError after `timeout` seconds; the
        result can still be taken by a later call.
        """
        raise NotImplementedError


class UnorderedIMapIterator(IMapIterator):
    """The results of `imap_unordered`, in the order in which their batches become ready."""

    def next(self, timeout: float | None = None) -> Any:
        while not self._results:
            self._results.extend(self._next_batch(timeout)[1])
        return self._results.popleft()


class OrderedIMapIterator(IMapIterator):
    """The results of `imap`, in the order of the items."""

    def __init__(self, pool: Pool, func: Function, iterable: Iterable[Any], chunksize: int | None):
        super().__init__(pool, func, iterable, chunksize)
        self._early: dict[int, list[Any]] = {}  # number of a batch that is ready before its turn -> its results
        self._turn = 0  # the number of the batch whose results come next

    def next(self, timeout: float | None = None) -> Any:
        while not self._results:
            while self._turn not in self._early:
                index, results = self._next_batch(timeout)
                self._early[index] = results
            self._results.extend(self._early.pop(self._turn))
            self._turn += 1
        return self._results.popleft()


class Pool:
    """A pool of actors with the methods of `multiprocessing.Pool`.

        with Pool(4) as pool:
            squares = pool.map(square, range(100))

    Creating a pool starts a session if none is running. As a context manager, the pool is terminated at the end of the
    block.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Function | None = None,
        initargs: Iterable[Any] | None = None,
        maxtasksperchild: int | None = None,
        context: Any = None,
        ray_address: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
    ):
        """Create the actors and wait until they are ready.

        Args:
            processes: the number of actors; None means one per CPU of the cluster.
            initializer: called as initializer(*initargs) in each actor at its start.
            initargs: see `initializer`.
            maxtasksperchild: replace an actor after this many batches; None or 0 means never.
            context: ignored with a warning.
            ray_address: the address for `init`, if no session is running.
            ray_remote_args: options of the actors. By default, they use no CPU.

        Raises ValueError if `processes` is not positive or exceeds the number of CPUs, and ActorDiedError if the
        initializer raises.
        """
        if context:
            logger.warning("Pool ignores 'context'; pass options for its actors as 'ray_remote_args'")
        self._initializer, self._initargs = initializer, initargs
        self._max_batches = maxtasksperchild or -1
        self._actor_class = api.remote(num_cpus=0)(PoolActor).options(**(ray_remote_args or {}))
        self._closed = False
        self._stopping: list[
            Any
        ] = []  # for each actor that was told to stop, a reference that is ready when it has ended
        self._watched: list[AsyncResult] = []  # the results with callbacks, for `join`
        self._size = _number_of_actors(processes, ray_address)
        self._next_actor = 0
        self._actors = [self._actor_class.remote(initializer, initargs) for _ in range(self._size)]
        self._batches_of = [0] * self._size
        api.get([actor.ping.remote() for actor in self._actors])

    def apply(self, func: Function, args: Any = None, kwargs: dict[str, Any] | None = None) -> Any:
        """Call func(*args, **kwargs) in one actor, wait, and return the result or raise the error."""
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: Function,
        args: Any = None,
        kwargs: dict[str, Any] | None = None,
        callback: Callable[[Any], Any] | None = None,
        error_callback: Callable[[Exception], Any] | None = None,
    ) -> AsyncResult:
        """Like `apply`, but return an AsyncResult at once.

        On another thread, `callback` is called with the result, or `error_callback` with the PoolTaskError.
        """
        self._check_running()
        self._next_actor = (self._next_actor + 1) % self._size
        ref = self._run_batch(self._next_actor, func, [(args, kwargs)])
        return self._watch(AsyncResult([ref], callback, error_callback, single=True))

    def map(self, func: Function, iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        """Return the list of func(item) for each item. Raises the error of the first item that failed.

        chunksize: the number of items in a batch; None makes about four batches per actor. AssertionError if it is not
        positive.
        """
        results: list[Any] = self.map_async(func, iterable, chunksize).get()
        return results

    def map_async(
        self,
        func: Function,
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callable[[list[Any]], Any] | None = None,
        error_callback: Callable[[Exception], Any] | None = None,
    ) -> AsyncResult:
        """Like `map`, but return an AsyncResult at once.

        On another thread, `callback` is called with the list of results, or `error_callback` with the first error.
        """
        return self._map(func, iterable, chunksize, False, callback, error_callback)

    def starmap(self, func: Function, iterable: Iterable[Iterable[Any]], chunksize: int | None = None) -> list[Any]:
        """Return the list of func(*item) for each item: `map` for functions of several arguments."""
        results: list[Any] = self._map(func, iterable, chunksize, True, None, None).get()
        return results

    def starmap_async(
        self,
        func: Function,
        iterable: Iterable[Iterable[Any]],
        callback: Callable[[list[Any]], Any] | None = None,
        error_callback: Callable[[Exception], Any] | None = None,
    ) -> AsyncResult:
        """Like `starmap`, but return an AsyncResult at once. As in Ray, it takes no chunksize."""
        return self._map(func, iterable, None, True, callback, error_callback)

    def imap(self, func: Function, iterable: Iterable[Any], chunksize: int | None = 1) -> OrderedIMapIterator:
        """Return an iterator over func(item) in the order of the items. It reads the iterable as results are taken."""
        self._check_running()
        return OrderedIMapIterator(self, func, iterable, chunksize)

    def imap_unordered(
        self, func: Function, iterable: Iterable[Any], chunksize: int | None = 1
    ) -> UnorderedIMapIterator:
        """Like `imap`, with the results in the order in which they become ready."""
        self._check_running()
        return UnorderedIMapIterator(self, func, iterable, chunksize)

    def close(self) -> None:
        """Accept no more work. The actors finish the work that was submitted, then end."""
        self._closed = True
        for actor in self._actors:
            self._stop(actor)

    def terminate(self) -> None:
        """Accept no more work, and end the actors at once. Unfinished calls fail with ActorDiedError."""
        if not self._closed:
            self.close()
        for actor in self._actors:
            api.kill(actor)

    def join(self) -> None:
        """Wait until the actors have ended and the callbacks have been called. ValueError unless it is closed."""
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
        func: Function,
        iterable: Iterable[Any],
        chunksize: int | None,
        unpack: bool,
        callback: Function | None,
        error_callback: Function | None,
    ) -> AsyncResult:
        self._check_running()
        items = iterable if hasattr(iterable, "__len__") else list(iterable)
        if isinstance(chunksize, float) and math.isfinite(chunksize):
            chunksize = math.ceil(chunksize)
        batches = _batches(items, self._chunksize(items) if chunksize is None else chunksize, unpack)
        refs = [self._run_batch(index % self._size, func, batch) for index, batch in enumerate(batches)]
        return self._watch(AsyncResult(refs, callback, error_callback))

    def _chunksize(self, items: Any) -> int:
        """About four batches per actor: few enough calls, and a slow batch delays the others only a little."""
        return max(1, -(-len(items) // (4 * self._size)))

    def _run_batch(self, index: int, func: Function, batch: list[Call]) -> Any:
        actor = self._actors[index]
        ref = actor.run_batch.remote(func, batch)
        self._batches_of[index] += 1
        if self._batches_of[index] == self._max_batches:
            self._stop(actor)
            self._actors[index] = self._actor_class.remote(self._initializer, self._initargs)
            self._batches_of[index] = 0
        return ref

    def _stop(self, actor: Any) -> None:
        """Tell an actor to end after its submitted calls. Also forgets actors that have ended since the last time."""
        if self._stopping:
            self._stopping = api.wait(self._stopping, num_returns=len(self._stopping), timeout=0)[1]
        self._stopping.append(actor.__ray_terminate__.remote())

    def _watch(self, result: AsyncResult) -> AsyncResult:
        if result._watcher is not None:
            self._watched = [earlier for earlier in self._watched if not earlier.ready()]
            self._watched.append(result)
        return result


def _number_of_actors(processes: int | None, address: str | None) -> int:
    """The number of actors of a pool. Starts a session if none is running."""
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
        raise ValueError(f"a pool of {processes} processes needs as many CPUs, but the cluster has {num_cpus}")
    return processes


def _batches(items: Iterable[Any], size: int, unpack: bool) -> Iterator[list[Call]]:
    """Cut the items into batches of `size` calls. unpack: an item is the sequence of all arguments of its call."""
    if not isinstance(size, int):
        raise TypeError(f"'chunksize' must be an integer, not {size!r}")
    assert size > 0, f"'chunksize' must be at least 1, not {size}"
    return _cut(iter(items), size, unpack)


def _cut(items: Iterator[Any], size: int, unpack: bool) -> Iterator[list[Call]]:
    batch: list[Call]
    while batch := [(item if unpack else (item,), {}) for item in islice(items, size)]:
        yield batch
