"""Streams: what a generator yields is reported item by item, and its back-pressure is kept."""

from __future__ import annotations

import _thread
from dataclasses import dataclass
from typing import Any

from ..core.object_store import INLINE_BYTES
from ..core.records import TaskRecord, Waiter, WorkerRecord
from ..process.context import Execution
from ..process.our_code import enters_user_code
from ..values.serialization import Serialized, serialize, size_of
from .outcomes import Outcome, note_end
from .runtime import Runtime
from .spilling import make_room
from .waiting import the_end


@dataclass
class StreamingGeneratorStats:
    """What Ray sends into a generator at each yield. object_creation_dur_s: how long it took to store the item; not measured."""

    object_creation_dur_s: float = 0.0


GENERATOR_STATISTICS = StreamingGeneratorStats()


@enters_user_code
def run_stream(runtime: Runtime, execution: Execution, generator: Any) -> Outcome:
    """Report what a generator yields, item by item. A generator is told statistics at each yield, as in Ray."""
    task, worker = execution.task, execution.worker
    if not hasattr(generator, "__next__"):
        raise ValueError(f"{task.spec.func_name} streams its results, so it must be a generator")
    told: Any = None
    while True:
        try:
            item = (
                generator.send(told)
                if told is GENERATOR_STATISTICS
                else next(generator)
                if told is None
                else generator.throw(told)
            )
        except StopIteration:
            break
        report_item(runtime, worker, task, item)
        del item
        wait_for_consumer(runtime, execution)
        told = runtime.postponed and runtime.take_postponed(worker.handle) or GENERATOR_STATISTICS
    if runtime.unfinished_lines:
        runtime.end_lines(execution)
    note_end(runtime, execution)
    return Outcome((None,), (0,))


def report_item(runtime: Runtime, worker: WorkerRecord, task: TaskRecord, item: Any) -> None:
    """Store one item of a stream. Raises what pickling it raises."""
    value = serialize(item)
    contained = value.contained if type(value) is Serialized else ()
    size = size_of(value)
    if size > INLINE_BYTES:
        make_room(runtime, worker.node, size)
    runtime.tell(runtime.cluster.stream_item, worker, task, value, size, contained)


def wait_for_consumer(runtime: Runtime, execution: Execution) -> None:
    """With back-pressure: wait until the consumer has taken enough of what was yielded."""
    limit, stream = execution.task.spec.backpressure, execution.task.stream
    if limit < 0 or runtime.local:  # there the consumer is further down the stack
        return
    while stream.refs and len(stream.items) - stream.taken >= limit:
        lock = _thread.allocate_lock()
        lock.acquire()
        waiter = Waiter(1, lock.release)
        with runtime.lock:
            if runtime.closed:  # those who end the session have looked for waiters already
                raise the_end()
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
