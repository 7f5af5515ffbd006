"""Streams: a generator's items are reported one by one, and the generator waits if its consumer is too slow."""

from __future__ import annotations

from ..core.object_store import INLINE_BYTES
from ..core.records import TaskRecord, Waiter, WorkerRecord
from ..process.context import Execution
from ..process.our_code import enters_user_code
from ..values.serialization import Serialized, serialize, size_of
from .outcomes import Outcome, check_generator, note_end, returned
from .runtime import Runtime
from .spilling import make_room
from .waiting import session_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class StreamingGeneratorStats:
    """The value that Ray sends into a generator at each yield. object_creation_dur_s: the time it took to store the
    item, in seconds; not measured here."""

    def __init__(self, object_creation_dur_s: float = 0.0):
        self.object_creation_dur_s = object_creation_dur_s


GENERATOR_STATISTICS = StreamingGeneratorStats()


@enters_user_code
def run_stream(runtime: Runtime, execution: Execution, generator: Any) -> Outcome:
    """Report the items of a generator one by one, and send it statistics at each yield, as in Ray. Raises what the
    generator raises, and ValueError for anything but a generator.

    An interrupt that was postponed is thrown into the generator here: a generator that does nothing but yield is in
    `report_item`, and so cannot be interrupted, nearly every time that `Interrupts` looks at its thread.
    """
    task, worker = execution.task, execution.worker
    check_generator(task, generator)
    answer: Any = None  # to the last yield: the statistics, or an exception
    while True:
        try:
            if answer is GENERATOR_STATISTICS:
                item = generator.send(answer)
            elif answer is None:
                item = next(generator)
            else:
                item = generator.throw(answer)
        except StopIteration:
            break
        report_item(runtime, worker, task, item)
        del item
        wait_for_consumer(runtime, execution)
        answer = runtime.postponed and runtime.take_postponed(worker.handle) or GENERATOR_STATISTICS
    return stream_ended(runtime, execution)


def stream_ended(runtime: Runtime, execution: Execution) -> Outcome:
    """The outcome of a generator that has ended. Its one return object has the value None."""
    if runtime.unfinished_lines:
        runtime.end_lines(execution)
    note_end(runtime, execution)
    return returned((None,), (0,))


def report_item(runtime: Runtime, worker: WorkerRecord, task: TaskRecord, item: Any) -> None:
    """Store one item of a stream and report it to the core. Raises what pickling the item raises, and
    ObjectStoreFullError or OutOfDiskError if there is no room for it."""
    value = serialize(item)
    contained = value.contained if type(value) is Serialized else ()
    size = size_of(value)
    if size > INLINE_BYTES:
        make_room(runtime, worker.node, size)
    runtime.tell(runtime.cluster.stream_item, worker, task, value, size, contained)


def wait_for_consumer(runtime: Runtime, execution: Execution) -> None:
    """Back-pressure: wait while `limit` or more items have been yielded and not taken. Returns at once without a limit,
    or if nobody holds the stream. Raises what interrupts the wait."""
    limit, stream = execution.task.spec.backpressure, execution.task.stream
    if limit < 0 or runtime.local:  # in local_mode the consumer is further down this stack and cannot take an item now
        return
    while stream.refs and len(stream.items) - stream.taken >= limit:
        lock = runtime.allocate_lock()
        lock.acquire()
        waiter = Waiter(1, lock.release)
        with runtime.lock:
            if runtime.closed:  # the end of the session has already looked for waiters and would not find this one
                raise session_over()
            if not stream.refs or len(stream.items) - stream.taken < limit:
                return
            execution.worker.handle.waiter = waiter
            actions = runtime.cluster.producer_waits(runtime.now(), stream, waiter, execution.worker)
        runtime.carry_out(actions)
        runtime.park(lock, None)
        handle = execution.worker.handle
        with runtime.lock:
            handle.waiter = None
            if execution.worker.actor is None:
                runtime.cluster.unblocked(runtime.now(), execution.worker)
        if handle.interrupted is not None:
            raise runtime.take_interrupt(handle)
