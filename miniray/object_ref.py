"""ObjectRef: a reference to a value that may not be there yet; and the generators that hand out references.

Each ObjectRef counts as one reference to its object. Its finaliser may run on any thread, also on one that is inside the runtime
and holds its lock, so it only appends to a queue; the queue is drained at the next entry. Ray: includes/object_ref.pxi.
"""

from __future__ import annotations

import contextvars
import os
import weakref
import zlib
from collections import deque
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Generator, Generic, Iterator, TypeVar

from .core.cluster import Cluster
from .core.records import ENDED, FAILED, READY, SPILLED, Failure, ObjectRecord, StreamRecord
from .ids import JOB_HEX, JobID, ObjectIDBytes, TaskID, foreign_number, object_number, task_hex
from .process import context
from .runtime.runtime import Runtime
from .process.context import running
from .values.serialization import contain

if TYPE_CHECKING:  # asyncio takes as long to import as all of miniray: only who awaits pays for it
    import asyncio
    import concurrent.futures

T = TypeVar("T", covariant=True)  # the class of the value
dropped: deque = deque()  # deque.append and popleft are atomic, also without the GIL: no lock is taken
_NIL_BYTES = b"\xff" * ObjectIDBytes


class ObjectRef(Generic[T]):
    """Names an object: hashable, comparable, awaitable; passed to a task as an argument it arrives as its value.

    Compared and hashed by the object it names. `ObjectRef(binary)` makes one from 28 bytes: TypeError for what is not bytes,
    ValueError for another length. Ray: ray.ObjectRef.
    """

    __slots__ = ("_record", "__weakref__")
    _record: ObjectRecord

    def __new__(cls, id: bytes) -> "ObjectRef[T]":
        if not isinstance(id, bytes):
            raise TypeError(f"an ObjectRef is made of bytes, got {type(id).__name__}")
        if len(id) != ObjectIDBytes:
            raise ValueError(f"an ObjectRef has {ObjectIDBytes} bytes, got {len(id)}")
        record = _NIL if id == _NIL_BYTES else _named(id)
        self = object.__new__(cls)  # now: none exists, and is finalised, without a record
        self._record = record
        return self

    def __del__(self, _drop=dropped.append):
        _drop(self._record)

    @staticmethod
    def _adopt(record: ObjectRecord) -> ObjectRef[Any]:
        """The ObjectRef for a reference that is already counted in the record."""
        ref = object.__new__(ObjectRef)
        ref._record = record
        return ref

    @classmethod
    def from_binary(cls, id: bytes) -> "ObjectRef":
        """As `ObjectRef(id)`."""
        return cls(id)

    @classmethod
    def from_hex(cls, id: str) -> "ObjectRef":
        """NotImplementedError, as in Ray: text alone does not say who owns the object."""
        raise NotImplementedError("an ObjectRef cannot be made from hex digits: use ObjectRef(bytes.fromhex(...))")

    @classmethod
    def from_random(cls) -> "ObjectRef":
        """A reference to nothing, under an id that nothing has."""
        return cls(os.urandom(ObjectIDBytes))

    @classmethod
    def nil(cls) -> "ObjectRef":
        """The reference that names nothing."""
        return cls(_NIL_BYTES)

    def is_nil(self) -> bool:
        """Whether it names nothing."""
        return self._record is _NIL

    def hex(self) -> str:
        """56 hexadecimal digits."""
        return self._record.hex

    def binary(self) -> bytes:
        """28 bytes."""
        return bytes.fromhex(self.hex())

    @classmethod
    def size(cls) -> int:
        """How many bytes an id has."""
        return ObjectIDBytes

    def task_id(self) -> TaskID:
        """The id of the task that makes the object; of a put, the driver's."""
        task = self._record.task
        return TaskID.from_hex(task.hex if task is not None else task_hex(0))

    def job_id(self) -> JobID:
        """The job's id."""
        return JobID.from_hex(JOB_HEX)

    def owner_address(self) -> bytes:
        """Where its owner listens: nobody does."""
        return b""

    def redis_shard_hash(self) -> int:
        """A number that follows from the id."""
        return zlib.crc32(self.binary())

    def tensor_transport(self) -> None:
        """How tensors in the value travel: None, with the rest of it."""
        return None

    def call_site(self) -> str:
        """Where it was made: not recorded."""
        return ""

    def future(self) -> concurrent.futures.Future[T]:
        """A concurrent.futures.Future that gets the value, or the error."""
        import concurrent.futures

        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        runtime = running()

        def done() -> None:
            if not future.set_running_or_notify_cancel():  # cancelled meanwhile: nobody wants the value
                return
            try:
                value = runtime.value_of(self._record)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        if self._record.status is ENDED:
            done()
        else:
            runtime.subscribe(self._record, done)
        return future

    def as_future(self, _internal: bool = False) -> asyncio.Future[T]:
        """An asyncio future of the running loop that gets the value, or the error."""
        import asyncio

        loop = asyncio.get_event_loop()
        future = loop.create_future()
        runtime, record = running(), self._record

        def deliver() -> None:
            if future.done():  # cancelled meanwhile, as by asyncio.wait_for
                return
            try:
                value = runtime.value_of(self._record)  # of self, which keeps the object alive until then
            except StopIteration as error:  # which a future refuses
                future.set_exception(RuntimeError(f"the task raised StopIteration: {error}"))
            except Exception as error:
                future.set_exception(error)
            except BaseException as error:
                if getattr(error, "cause", None) is None:
                    raise
                future.set_exception(error)
            else:
                future.set_result(value)

        if record.status is READY or record.status is FAILED or record.status is ENDED:
            deliver()
            return future
        copied = contextvars.copy_context()

        def done() -> None:
            _call_soon(loop, deliver, copied)

        waiter = runtime.subscribe(record, done)

        def forget(future: asyncio.Future) -> None:
            if future.cancelled() and not waiter.fired:
                runtime.unsubscribe(record, waiter)

        future.add_done_callback(forget)
        return future

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

    def __deepcopy__(self, memo: dict) -> "ObjectRef[T]":
        return _restore(self._record)

    def __reduce__(self):
        if contain(self._record):
            if self._record.number < 0 or self._record.status is ENDED:
                raise unowned(self)
            return _restore_number, (self._record.number,)
        return ObjectRef, (self.binary(),)


_NIL = ObjectRecord(foreign_number(_NIL_BYTES), refs=1 << 62, status=ENDED)


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None], context: contextvars.Context) -> None:
    try:
        loop.call_soon_threadsafe(callback, context=context)
    except RuntimeError:
        if not loop.is_closed():  # a closed loop has nobody who waits
            raise


def _restore(record: ObjectRecord) -> ObjectRef:
    """One more reference to a record."""
    runtime = context.session
    if runtime is not None:
        runtime.add_reference(record)
    ref = object.__new__(ObjectRef)
    ref._record = record
    return ref


def _restore_number(number: int) -> ObjectRef:
    record = _found(number)
    ref = object.__new__(ObjectRef)
    ref._record = record
    return ref


def _found(number: int) -> ObjectRecord:
    """The object with this number, with one more reference; one that has failed if there is none."""
    runtime = context.session
    if runtime is not None:
        record = runtime.find_and_hold(lambda cluster: cluster.objects.get(number))
        if record is not None:
            return record
    record = ObjectRecord(number, status=FAILED)
    record.value = Failure("OBJECT_LOST", "no object has this id any more", about=record)
    return record


def _named(id: bytes) -> ObjectRecord:
    """The object with this id, with one reference more. One that never gets a value, as in Ray, when nothing here has the id."""
    runtime = context.session
    if runtime is not None:

        def named(cluster: Cluster) -> ObjectRecord | None:
            record = cluster.objects.get(object_number(id))
            return record if record is not None and record.hex == id.hex() else None

        runtime.drain()  # an object that the program has just dropped has no id any more
        record = runtime.find_and_hold(named)
        if record is not None:
            return record
    return ObjectRecord(foreign_number(id))


def unowned(ref: ObjectRef) -> ValueError:
    """The error for a reference that cannot be passed on, since nobody here has made its object."""
    return ValueError(
        f"{ref!r} names no object of this session, so nobody could answer for it: pass on references that "
        "`.remote()` or `put` returned, not ids"
    )


def hold_contained(runtime: Runtime, captured: Any) -> None:
    """What a function or class was captured with, references and handles, lives for as long as `captured` does."""
    if captured.contained:
        for record in captured.contained:
            runtime.add_reference(record)
        weakref.finalize(captured, dropped.extend, captured.contained).atexit = False


def is_ready(record: Any) -> bool:
    """Whether `wait` counts an object, or a stream's next item, as there."""
    if type(record) is StreamRecord:
        return record.taken < len(record.items) or record.ended
    return record.status is READY or record.status is FAILED or record.status is SPILLED


class ObjectRefGenerator:
    """What a streaming task returns: an iterator, also an asynchronous one, of references to the values it yields, in order.

    An error of the task is one more reference, the last, whose `get` raises. It cannot be stored, nor passed to a task.
    Ray: ray.ObjectRefGenerator.
    """

    __slots__ = ("_stream", "_done", "__weakref__")
    _stream: StreamRecord
    _done: ObjectRef

    def __new__(cls, stream: StreamRecord, done: ObjectRef) -> "ObjectRefGenerator":
        """stream: what the task has yielded, one reference to it is this object's. done: its end."""
        if (
            type(stream) is not StreamRecord
        ):  # what is no stream would be let go of as one later, in somebody else's call
            raise TypeError(
                f"{cls.__name__} is what `.remote()` of a streaming task returns: it cannot be made of {type(stream)}"
            )
        self = object.__new__(cls)  # not in __init__: none exists, and is finalised, without a stream
        self._stream, self._done = stream, done
        return self

    def __del__(self, _drop=dropped.append):
        _drop(self._stream)

    def __iter__(self) -> Iterator[ObjectRef]:
        return self

    def __next__(self) -> ObjectRef:
        runtime = running()
        while True:
            ref = self._take(runtime)
            if ref is not None:
                return ref
            runtime.wait_for([self._stream], 1, False, None)

    def _take(self, runtime: Runtime) -> ObjectRef | None:
        """The next item's reference, or None when it is not there yet. StopIteration at the end."""
        stream = self._stream
        if self._done._record.status is ENDED:
            raise ValueError(f"{self!r} belongs to a session that has been shut down")
        ended = stream.ended  # read first: no item comes after the end
        record = runtime.take_item(stream)
        if record is not None:
            return ObjectRef._adopt(record)
        if ended:
            raise StopIteration
        return None

    def __aiter__(self) -> AsyncIterator[ObjectRef]:
        return self

    async def __anext__(self) -> ObjectRef:
        runtime = running()
        while True:
            try:
                ref = self._take(runtime)
            except StopIteration:
                raise StopAsyncIteration from None
            if ref is not None:
                return ref
            await self._more(runtime)

    def _more(self, runtime: Runtime) -> asyncio.Future:
        """A future of the running loop that is done when the next item, or the end, is there."""
        import asyncio

        loop = asyncio.get_running_loop()
        future = loop.create_future()
        copied = contextvars.copy_context()

        def deliver() -> None:
            if not future.done():
                future.set_result(None)

        runtime.subscribe(self._stream, lambda: _call_soon(loop, deliver, copied))
        return future

    def send(self, *value: Any) -> Any:
        """A task cannot be sent anything: NotImplementedError, as of the other ways into a generator."""
        raise NotImplementedError("the generator runs in a task, and nothing can be sent into it")

    throw = close = asend = athrow = aclose = send

    def completed(self) -> ObjectRef:
        """A reference that is ready when the task has ended."""
        return self._done

    def next_ready(self) -> bool:
        """Whether the next reference can be had without waiting."""
        return self._stream.taken < len(self._stream.items)

    def is_finished(self) -> bool:
        """Whether the task has ended and every reference was taken."""
        return self._stream.ended and self._stream.taken >= len(self._stream.items)

    def task_id(self) -> TaskID:
        """The id of the task that yields."""
        return TaskID.from_hex(self._stream.task.hex)

    def __eq__(self, other: object) -> bool:
        return type(other) is ObjectRefGenerator and other._stream is self._stream

    def __hash__(self) -> int:
        return hash(self._stream.task.number)

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._done.hex()})"

    def __reduce__(self):
        raise TypeError(
            "an ObjectRefGenerator cannot be serialized: pass the references it yields, or iterate it where it is"
        )


class DynamicObjectRefGenerator:
    """The value of a task with num_returns="dynamic": the references to all that it yielded."""

    def __init__(self, refs: list[ObjectRef]):
        self._refs = deque(refs)

    def __iter__(self) -> Iterator[ObjectRef]:
        while self._refs:
            yield self._refs.popleft()

    def __len__(self) -> int:
        return len(self._refs)


def refs_of(task: Any) -> Any:
    """What `.remote()` returns for a submitted task: a reference, a list of them, a generator, or None."""
    returns = task.returns
    if task.stream is not None:
        return ObjectRefGenerator(task.stream, ObjectRef._adopt(returns[0]))
    wanted = task.spec.num_returns
    if wanted == 1 or wanted == "dynamic":
        return ObjectRef._adopt(returns[0])
    return [ObjectRef._adopt(record) for record in returns] if wanted else None
