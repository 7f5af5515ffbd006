"""ObjectRef: a reference to a value that may not exist yet; and the generators that hand out references.

Each ObjectRef counts as one reference to its object. Python may run its finaliser on any thread, even on one that is
inside the runtime and holds the lock. So the finaliser only appends the record to the queue `dropped`. The next call
that enters the runtime drains the queue and counts. Ray: includes/object_ref.pxi.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import deque
from contextvars import copy_context

from .core.cluster import Cluster
from .core.records import ENDED, FAILED, READY, SPILLED, Failure, ObjectRecord, StreamRecord
from .exceptions import OufOfBandObjectRefSerializationException
from .generics import Generic, TypeVar
from .ids import JOB_HEX, JobID, ObjectIDBytes, TaskID, foreign_number, object_number, task_hex
from .process import context
from .process.event_loops import call_soon, out_of_a_coroutine
from .runtime.runtime import Runtime
from .process.worker_process import caller
from .values.pickler import reduces
from .values.serialization import contain

TYPE_CHECKING = False
if TYPE_CHECKING:  # a program that awaits imports asyncio, which takes as long as all of miniray
    import asyncio
    import concurrent.futures
    from typing import Any, AsyncIterator, Callable, Generator, Iterator

T = TypeVar("T", covariant=True)  # the class of the value
dropped: deque[Any] = deque()  # no lock: deque.append and popleft are atomic, also without the GIL
_NIL_BYTES = b"\xff" * ObjectIDBytes
NOTHING_IS_SENT = "the generator runs in a task, and nothing can be sent into it"


class ObjectRef(Generic[T]):
    """A reference to an object, which will hold the result of a task or holds a value that was `put`.

        ref = add.remote(1, 2)
        ray.get(ref)            # wait for the value
        add.remote(ref, 10)     # a task receives the value, not the reference
        await ref               # inside a coroutine

    While a reference exists, the object is kept. References are equal, and have the same hash, if they name the same
    object.

    `ObjectRef(id)` makes a reference from the 28 bytes of an id. It raises TypeError for anything but bytes, and
    ValueError for another length. Ray: ray.ObjectRef.
    """

    __slots__ = ("_record", "__weakref__")
    _record: ObjectRecord

    def __new__(cls, id: bytes) -> "ObjectRef[T]":
        if not isinstance(id, bytes):
            raise TypeError(f"an ObjectRef is made from bytes, got {type(id).__name__}")
        if len(id) != ObjectIDBytes:
            raise ValueError(f"an ObjectRef has {ObjectIDBytes} bytes, got {len(id)}")
        record = _NIL if id == _NIL_BYTES else _named(id)
        self = object.__new__(cls)  # only now: __del__ must never meet an ObjectRef without a record
        self._record = record
        return self

    def __del__(self, _drop: Callable[[Any], None] = dropped.append) -> None:
        _drop(self._record)

    @staticmethod
    def _adopt(record: ObjectRecord) -> ObjectRef[Any]:
        """Return an ObjectRef for a reference that the caller has already counted in the record."""
        ref = object.__new__(ObjectRef)
        ref._record = record
        return ref

    @classmethod
    def from_binary(cls, id: bytes) -> "ObjectRef[Any]":
        """The same as `ObjectRef(id)`."""
        return cls(id)

    @classmethod
    def from_hex(cls, id: str) -> "ObjectRef[Any]":
        """Raises NotImplementedError, as in Ray: the text alone does not tell who owns the object."""
        raise NotImplementedError("an ObjectRef cannot be made from hex digits: use ObjectRef(bytes.fromhex(...))")

    @classmethod
    def from_random(cls) -> "ObjectRef[Any]":
        """Return a reference with a random id, which names no object."""
        return cls(os.urandom(ObjectIDBytes))

    @classmethod
    def nil(cls) -> "ObjectRef[Any]":
        """Return the nil reference, which names no object."""
        return cls(_NIL_BYTES)

    def is_nil(self) -> bool:
        """Whether this is the nil reference."""
        return self._record is _NIL

    def hex(self) -> str:
        """The object's id as 56 hex digits."""
        return self._record.hex

    def binary(self) -> bytes:
        """The object's id as 28 bytes."""
        return bytes.fromhex(self.hex())

    @classmethod
    def size(cls) -> int:
        """The number of bytes in an id: 28."""
        return ObjectIDBytes

    def task_id(self) -> TaskID:
        """The id of the task that produces the object; the driver's task id if the object was `put`."""
        task = self._record.task
        return TaskID.from_hex(task.hex if task is not None else task_hex(0))

    def job_id(self) -> JobID:
        """The id of the job."""
        return JobID.from_hex(JOB_HEX)

    def owner_address(self) -> bytes:
        """Always b"": owners have no addresses in miniray."""
        return b""

    def redis_shard_hash(self) -> int:
        """A hash of the id; the same in every run."""
        from zlib import crc32

        return crc32(self.binary())

    def tensor_transport(self) -> None:
        """Always None: tensors are sent like all other values."""
        return None

    def call_site(self) -> str:
        """Always "": miniray does not record where a reference was created."""
        return ""

    def future(self) -> concurrent.futures.Future[T]:
        """Return a concurrent.futures.Future of the value or the error. Raises RuntimeError without a session."""
        import concurrent.futures

        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        runtime = context.running()

        def done() -> None:
            if not future.set_running_or_notify_cancel():  # the program has cancelled the future
                return
            try:
                value = runtime.value_of(self._record)
            except BaseException as error:
                future.set_exception(out_of_a_coroutine(error))
            else:
                future.set_result(value)

        if self._record.status is ENDED:
            done()
        else:
            runtime.call_program(self._record, done)
        return future

    def as_future(self, _internal: bool = False) -> asyncio.Future[T]:
        """Return an asyncio.Future of the value or the error, in the running loop. `await ref` does the same."""
        import asyncio

        loop = asyncio.get_event_loop()
        future = loop.create_future()
        runtime, record = context.running(), self._record

        def deliver() -> None:
            if future.done():  # cancelled, for example by asyncio.wait_for
                return
            try:
                value = runtime.value_of(self._record)  # through `self`: the closure keeps the object alive until now
            except Exception as error:
                future.set_exception(out_of_a_coroutine(error))
            except BaseException as error:
                if getattr(error, "cause", None) is None:  # not the task's error: it interrupts this thread
                    raise
                future.set_exception(error)
            else:
                future.set_result(value)

        if record.status is READY or record.status is FAILED or record.status is ENDED:
            deliver()
            return future
        copied = copy_context()

        def done() -> None:
            call_soon(loop, deliver, copied)

        future.add_done_callback(_Subscription(runtime, record, runtime.subscribe(record, done)))
        return future

    def _on_completed(self, callback: Callable[[Any], object]) -> None:
        """Call `callback` with the value, or with the error, as soon as there is one. Raises RuntimeError without a
        session."""
        runtime = context.running()

        def done() -> None:
            try:
                value = runtime.value_of(self._record)
            except Exception as error:
                value = error
            callback(value)

        if self._record.status is ENDED:
            done()
        else:
            runtime.call_program(self._record, done)

    def __await__(self) -> Generator[Any, None, T]:
        return self.as_future().__await__()

    def __eq__(self, other: object) -> bool:
        return type(other) is ObjectRef and (
            self._record is other._record or self._record.number == other._record.number
        )

    def __hash__(self) -> int:
        return hash(self._record.number)

    def __repr__(self) -> str:
        return f"ObjectRef({self.hex()})"

    def __copy__(self) -> "ObjectRef[T]":
        return _restore(self._record)

    def __deepcopy__(self, memo: dict[int, Any]) -> "ObjectRef[T]":
        return _restore(self._record)

    def __reduce__(self) -> tuple[Any, ...]:
        if contain(self._record):
            if self._record.number < 0 or self._record.status is ENDED:
                raise unowned(self)
            return _restore_number, (self._record.number,)
        return ObjectRef, (self.binary(),)


@reduces(ObjectRef)
def _reduce(ref: ObjectRef[Any], pickler: Any) -> tuple[Any, ...]:
    """Pickle a reference with our own pickler. Outside of a value that the session stores (`contain`), nobody counts
    the reference in the stream: only the program knows how long it keeps the stream. So the object is pinned."""
    reduced = ref.__reduce__()
    if reduced[0] is ObjectRef:
        if out_of_band_is_refused():
            raise OufOfBandObjectRefSerializationException(
                f"{ref!r} cannot be pickled by the program itself, since "
                "RAY_allow_out_of_band_object_ref_serialization=0 forbids it. Pass it as an argument, or return it."
            )
        if ref._record.number >= 0:
            pin(ref._record, ref)
    return reduced


def out_of_band_is_refused() -> bool:
    """Whether the program may not pickle references itself, nor capture them in functions. Ray reads this variable."""
    return os.environ.get("RAY_allow_out_of_band_object_ref_serialization", "1").lower() not in ("1", "true")


def pin(record: ObjectRecord, reference: Any) -> None:
    """Keep a reference, or a handle, for the life of the worker that runs this, or of the session on the driver. As in
    Ray, this is done when the program has pickled it with `ray.cloudpickle`. record: of its object. If the object
    belongs to the worker itself, it loses its value when the worker dies; its record is kept until the session ends, so
    that a reference loaded later raises OwnerDiedError.
    """
    runtime, execution = context.session, caller()
    if runtime is None or runtime.closed:
        return
    pinned = runtime.pinned
    if execution is not None:
        owner = record.task.owner if record.task is not None else record.owner
        if owner is not execution.worker:
            pinned = execution.space.pinned
    if record.number not in pinned:
        pinned[record.number] = reference.__copy__()


_NIL = ObjectRecord(foreign_number(_NIL_BYTES), refs=1 << 62, status=ENDED)  # so many references are never all dropped


class _Subscription:
    """What ends the subscription of a future that waits for an object, if the future is cancelled. A callback of the
    future. It also tells a reader of stacks what the future waits for."""

    __slots__ = ("runtime", "record", "waiter")

    def __init__(self, runtime: Runtime, record: Any, waiter: Any):
        self.runtime, self.record, self.waiter = runtime, record, waiter

    def __call__(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled() and not self.waiter.fired:
            self.runtime.unsubscribe(self.record, self.waiter)

    @property
    def awaited(self) -> str:
        """What the future waits for."""
        task = self.record.task
        return f"ObjectRef({self.record.hex})" + (f" of {task.spec.name}" if task is not None else "")


def _restore(record: ObjectRecord) -> ObjectRef[Any]:
    """Return another reference to an object, and count it. `copy` needs no session; then nothing is counted."""
    runtime = context.session
    if runtime is not None:
        runtime.add_reference(record)
    ref = object.__new__(ObjectRef)
    ref._record = record
    return ref


def _restore_number(number: int) -> ObjectRef[Any]:
    """Unpickle a reference."""
    record = _found(number)
    ref = object.__new__(ObjectRef)
    ref._record = record
    return ref


def _found(number: int) -> ObjectRecord:
    """The object with this number, with one more reference counted.

    If there is none, a new record that holds an ObjectLostError.
    """
    runtime = context.session
    record: ObjectRecord | None
    if runtime is not None:
        record = runtime.find_and_hold(lambda cluster: cluster.objects.get(number))
        if record is not None:
            return record
    record = ObjectRecord(number, status=FAILED)
    record.value = Failure("OBJECT_LOST", "no object has this id any longer", about=record)
    return record


def _named(id: bytes) -> ObjectRecord:
    """The object with this id, with one more reference counted.

    If there is none, a new record that never gets a value, as in Ray.
    """
    runtime = context.session
    if runtime is not None:

        def named(cluster: Cluster) -> ObjectRecord | None:
            record = cluster.objects.get(object_number(id))
            return record if record is not None and record.hex == id.hex() else None

        runtime.drain()  # so that an object which the program has just dropped is not found
        record: ObjectRecord | None = runtime.find_and_hold(named)
        if record is not None:
            return record
    return ObjectRecord(foreign_number(id))


def unowned(ref: ObjectRef[Any]) -> ValueError:
    """The error for passing on a reference whose object belongs to no owner in this session."""
    return ValueError(
        f"{ref!r} names no object of this session, so it has no owner: pass on references that `.remote()` or `put` "
        "returned, not ids"
    )


def hold_contained(runtime: Runtime, captured: Any) -> None:
    """Keep the objects and actors that a captured function or class refers to alive for as long as `captured` lives."""
    if captured.contained:
        for record in captured.contained:
            runtime.add_reference(record)
        weakref.finalize(captured, dropped.extend, captured.contained).atexit = False


def is_ready(record: Any) -> bool:
    """Whether `wait` counts an object as ready; for a stream, whether the next item, or its end, has arrived.

    It reads the record without the lock, so the answer can be out of date at once.
    """
    if type(record) is StreamRecord:
        return record.taken < len(record.items) or record.ended
    return record.status is READY or record.status is FAILED or record.status is SPILLED


class ObjectRefGenerator:
    """The references to the values that a streaming task yields, in order; returned by its `.remote()`.

        for ref in numbers.remote(3):
            print(ray.get(ref))

    `async for` works as well. Each step waits until the task has yielded the next value. If the task raises, the last
    reference holds the error, and `get` of it raises. A generator cannot be stored, nor passed to a task. Ray:
    ray.ObjectRefGenerator.
    """

    __slots__ = ("_stream", "_done", "__weakref__")
    _stream: StreamRecord
    _done: ObjectRef[Any]

    def __new__(cls, stream: StreamRecord, done: ObjectRef[Any]) -> "ObjectRefGenerator":
        """stream: its record, with one reference already counted. done: ready when the task ends."""
        if type(stream) is not StreamRecord:
            # Checked here: dropping anything else would fail later, in an unrelated call.
            raise TypeError(
                f"`.remote()` of a streaming task returns {cls.__name__} objects; they cannot be made from "
                f"{type(stream)}"
            )
        self = object.__new__(cls)  # not in __init__: __del__ must never meet a generator without a stream
        self._stream, self._done = stream, done
        return self

    def __del__(self, _drop: Callable[[Any], None] = dropped.append) -> None:
        _drop(self._stream)

    def __iter__(self) -> Iterator[ObjectRef[Any]]:
        return self

    def __next__(self) -> ObjectRef[Any]:
        runtime = context.running()
        while True:
            ref = self._take(runtime)
            if ref is not None:
                return ref
            runtime.wait_for([self._stream], 1, False, None)

    def _next_sync(self, timeout_s: float | None = None) -> ObjectRef[Any]:
        """`next` with a time limit; after it, the nil reference. Ray's libraries call this name."""
        if timeout_s is None:
            return next(self)
        runtime = context.running()
        ref = self._take(runtime)
        if ref is None:
            if timeout_s < 0:
                raise ValueError(f"the timeout must not be negative, but is {timeout_s}")
            runtime.wait_for([self._stream], 1, False, timeout_s)
            ref = self._take(runtime)
        return ObjectRef.nil() if ref is None else ref

    async def _next_async(self, timeout_s: float | None = None) -> ObjectRef[Any]:
        """`anext` with a time limit; after it, the nil reference. Ray's libraries call this name."""
        import asyncio

        runtime = context.running()
        try:
            ref = self._take(runtime)
            if ref is None:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._more(runtime), timeout_s)
                ref = self._take(runtime)
        except StopIteration:
            raise StopAsyncIteration from None
        return ObjectRef.nil() if ref is None else ref

    def _take(self, runtime: Runtime) -> ObjectRef[Any] | None:
        """Take the next reference; None if the task has not yielded it yet.

        Raises StopIteration at the end of the stream, ValueError if the session has ended.
        """
        stream = self._stream
        if self._done._record.status is ENDED:
            raise ValueError(f"{self!r} belongs to a session that has been shut down")
        ended = stream.ended  # read before taking: an item may arrive between the two, but none arrives after the end
        record = runtime.take_item(stream)
        if record is not None:
            return ObjectRef._adopt(record)
        if ended:
            raise StopIteration
        return None

    def __aiter__(self) -> AsyncIterator[ObjectRef[Any]]:
        return self

    async def __anext__(self) -> ObjectRef[Any]:
        runtime = context.running()
        while True:
            try:
                ref = self._take(runtime)
            except StopIteration:
                raise StopAsyncIteration from None
            if ref is not None:
                return ref
            await self._more(runtime)

    def _more(self, runtime: Runtime) -> asyncio.Future[None]:
        """A future of the running loop that is done when the next item, or the end, arrives."""
        import asyncio

        loop = asyncio.get_running_loop()
        future = loop.create_future()
        copied = copy_context()

        def deliver() -> None:
            if not future.done():
                future.set_result(None)

        runtime.subscribe(self._stream, lambda: call_soon(loop, deliver, copied))
        return future

    def send(self, value: Any) -> Any:
        """Raises NotImplementedError: nothing can be sent into a running task."""
        raise NotImplementedError(NOTHING_IS_SENT)

    def throw(self, value: Any) -> Any:
        """Raises NotImplementedError, as `send`."""
        raise NotImplementedError(NOTHING_IS_SENT)

    def close(self) -> None:
        """Raises NotImplementedError: `cancel` ends the task."""
        raise NotImplementedError(NOTHING_IS_SENT)

    async def asend(self, value: Any) -> Any:
        """Raises NotImplementedError, as `send`."""
        raise NotImplementedError(NOTHING_IS_SENT)

    async def athrow(self, value: Any) -> Any:
        """Raises NotImplementedError, as `send`."""
        raise NotImplementedError(NOTHING_IS_SENT)

    async def aclose(self) -> None:
        """Raises NotImplementedError, as `close`."""
        raise NotImplementedError(NOTHING_IS_SENT)

    def completed(self) -> ObjectRef[Any]:
        """Return a reference that is ready when the task has ended."""
        return self._done

    def next_ready(self) -> bool:
        """Whether the next step returns a reference without waiting."""
        self._look()
        return self._stream.taken < len(self._stream.items)

    def is_finished(self) -> bool:
        """Whether the task has ended and every reference has been taken."""
        self._look()
        return self._stream.ended and self._stream.taken >= len(self._stream.items)

    def _look(self) -> None:
        """In a simulation, the task may go on before the program looks at what it has yielded."""
        runtime = context.session
        if runtime is not None and runtime.before_look is not None:
            runtime.before_look("what is ready", [self._stream])

    def task_id(self) -> TaskID:
        """The id of the task that yields the values."""
        return TaskID.from_hex(self._stream.task.hex)

    def __eq__(self, other: object) -> bool:
        return type(other) is ObjectRefGenerator and other._stream is self._stream

    def __hash__(self) -> int:
        return hash(self._stream.task.number)

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._done.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "You cannot return or pass a generator to other task: an ObjectRefGenerator cannot be serialized. Pass on "
            "the references that it yields, or iterate over it here"
        )


class DynamicObjectRefGenerator:
    """The value of a task with num_returns="dynamic": references to the values that it yielded, once it has ended.

    Iterating takes the references; `len` is the number of those left.
    """

    def __init__(self, refs: list[ObjectRef[Any]]):
        self._refs = deque(refs)

    def __iter__(self) -> Iterator[ObjectRef[Any]]:
        while self._refs:
            yield self._refs.popleft()

    def __len__(self) -> int:
        return len(self._refs)


def refs_of(task: Any) -> Any:
    """The return value of `.remote()` for a submitted task: a reference, a list of references, a generator, or None."""
    returns = task.returns
    if task.stream is not None:
        return ObjectRefGenerator(task.stream, ObjectRef._adopt(returns[0]))
    wanted = task.spec.num_returns
    if wanted == 1 or wanted == "dynamic":
        return ObjectRef._adopt(returns[0])
    return [ObjectRef._adopt(record) for record in returns] if wanted else None


# The reprs of the classes name the package, as Ray's do.
ObjectRef.__module__ = ObjectRefGenerator.__module__ = "miniray"
