"""Outcomes: how an attempt of a task went, and what is stored for its return values."""

from __future__ import annotations

from contextvars import Context
from types import GeneratorType

from .. import exceptions
from ..core.object_store import INLINE_BYTES
from ..core.records import Failure, TaskRecord, WorkerRecord
from ..core.transitions import WorkerStatus
from ..ids import TaskID
from ..process.context import Execution
from ..process.exits import ActorExit, SessionEnded, WorkerExit
from ..values import errors
from ..values.serialization import Serialized, deserialize, serialize, size_of
from .getting import ArgumentLost
from .handles import actor_handle
from .runtime import Runtime
from .spilling import make_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEAD = WorkerStatus.DEAD
# Immutable types whose values all have one size: the sizes of an outcome with such a value.
SIZES = {type(value): (size_of(value),) for value in (0, 0.0, False, None)}


class Outcome:
    """How an attempt went, for `worker.report`: return values, or a failure, or the end of the worker.

    values, sizes, contained: for each return, what to store, its size in bytes, and the tuple of records inside it;
    contained is None if there are none in any. failure: the error to store instead; retry: whether the task's options
    allow a retry after it. exit: why there is neither. "worker": the worker ends. "actor": the actor ends in order.
    "code": the actor's code raised SystemExit with an error. "arguments": an argument was lost. message: the reason for
    the exit. references: an ObjectRef for each record in `contained`, so that the objects stay until the report has
    counted them as contained.

    `returned`, `failed` and `left` make the three kinds.
    """

    __slots__ = ("values", "sizes", "contained", "failure", "retry", "exit", "message", "references")

    def __init__(self, values: tuple[Any, ...] = (), sizes: tuple[int, ...] = (), contained: Any = None) -> None:
        self.values, self.sizes, self.contained = values, sizes, contained
        self.references: Any = None
        self.failure: Failure | None = None
        self.retry = False
        self.exit = self.message = ""


def returned(values: tuple[Any, ...] = (), sizes: tuple[int, ...] = (), contained: Any = None) -> Outcome:
    """The outcome of an attempt whose code returned, or yielded its last item."""
    return Outcome(values, sizes, contained)


def failed(failure: Failure, retry: bool = False) -> Outcome:
    """The outcome of an attempt that ended with an error."""
    outcome = Outcome()
    outcome.failure, outcome.retry = failure, retry
    return outcome


def left(exit: str, message: str = "") -> Outcome:
    """The outcome of an attempt without a result: its worker or its actor ends, or an argument was lost."""
    outcome = Outcome()
    outcome.exit, outcome.message = exit, message
    return outcome


def note_start(runtime: Runtime, execution: Execution) -> None:
    """Note when the attempt's code is entered. Raises WorkerExit if the worker has been declared dead meanwhile: the
    task is some other worker's by now.

    The lock is not taken. The clock is read first: a call is a point where another thread may run, so no call may come
    between the look at the status and the note. The core allows for a clock that was read a little later than its own.
    """
    now, task = runtime.now(), execution.task
    if execution.worker.status is DEAD:
        raise WorkerExit("SYSTEM_ERROR: the worker is dead")
    if not task.t_finished:  # otherwise its owner has died, and the task is over although it still runs
        task.t_started = now


def note_end(runtime: Runtime, execution: Execution) -> None:
    """Note when the attempt's code ended, unless the core has ended the attempt already. Takes no lock."""
    now, task = runtime.now(), execution.task
    if execution.worker.status is not DEAD and not task.t_finished:
        task.t_ended = now


def outcome_of_return(runtime: Runtime, execution: Execution, result: Any) -> Outcome:
    """The outcome of an attempt whose code has returned: note the end, and take a snapshot of each return value.

    If that fails (the result cannot be pickled, or there is no room for it) the task fails. It is not retried, as in
    Ray, because its code has returned. With num_returns="dynamic" the code may not have returned yet, so any error
    counts.
    """
    now, task = runtime.now(), execution.task  # note_end, written out
    if execution.worker.status is not DEAD and not task.t_finished:
        task.t_ended = now
    try:
        if task.spec.num_returns == 1 and type(result) in SIZES:  # the common case: nothing to pickle, nothing inside
            return returned((result,), SIZES[type(result)])
        if task.spec.num_returns == 1 and not isinstance(result, GeneratorType):
            value = serialize(result)
            if type(value) is Serialized:
                outcome = Outcome((value,), (value.size,), (value.contained,) if value.contained else None)
            else:
                outcome = Outcome((value,), (size_of(value),))
        else:
            outcome = _store_several(runtime, task, result)
        for size in outcome.sizes:
            if size > INLINE_BYTES:
                make_room(runtime, task.node or runtime.head, size)
        if outcome.contained is not None:
            outcome.references = _hold(runtime, outcome.contained)
    except Exception as error:
        outcome = outcome_of_error(runtime, execution, error)
        outcome.retry = outcome.retry and task.spec.num_returns == "dynamic"
    return outcome


def _hold(runtime: Runtime, contained: Any) -> list[Any]:
    """An ObjectRef for each of these records. The returned value itself is dropped before the report, as in Ray: its
    finaliser may wait for another task, which may need this worker."""
    records = [record for inside in contained for record in inside]
    with runtime.lock:
        now = runtime.now()
        for record in records:
            runtime.cluster.add_reference(now, record)
    return [runtime.ref_type._adopt(record) for record in records]


def _store_several(runtime: Runtime, task: TaskRecord, result: Any) -> Outcome:
    """Serialise what a task returned, for each of its returns, or the items of a generator. Raises what pickling
    raises, and ValueError or TypeError if the result does not have as many items as there are returns."""
    wanted = task.spec.num_returns
    if wanted == 0:
        return returned()
    if wanted == "dynamic":
        return _dynamic(runtime, task, result)
    if isinstance(result, GeneratorType):
        results = result
    else:
        try:
            count = len(result)
        except TypeError as error:
            raise TypeError(f"{error}: {task.spec.func_name} was asked for num_returns={wanted} values") from None
        if count != wanted:
            raise ValueError(f"Task returned {count} objects, but num_returns={wanted}.")
        results = iter(result)
    values: list[Any] = []
    try:
        for one in results:
            if len(values) == wanted:  # a generator is asked once more than there are returns, as in Ray
                break
            values.append(serialize(one))
        if len(values) < wanted:
            raise ValueError(f"Task returned {len(values)} objects, but num_returns={wanted}.")
    except Exception as error:  # keep the values that were yielded; the remaining returns become errors
        if not values:
            raise
        values += [_failure(task, error)] * (wanted - len(values))
    sizes = [size_of(value) if type(value) is not Failure else 0 for value in values]
    contained = [value.contained if type(value) is Serialized else () for value in values]
    return returned(tuple(values), tuple(sizes), tuple(contained))


def _failure(task: TaskRecord, error: Exception) -> Failure:
    """The Failure to store for a return of the task that has no value."""
    actor = task.actor
    if actor is None:
        return errors.from_exception(error, task)
    try:
        shown = _repr_of_actor(task.worker)
    except Exception:
        shown = actor.class_name
    return errors.from_exception(error, task, actor_repr=shown, actor_id=actor.hex)


def _repr_of_actor(worker: WorkerRecord) -> str:
    """The repr of the worker's actor as it is now, as Ray shows it in an error. Raises what its `__repr__` raises."""
    handle = actor_handle(worker)
    instance = handle.instance if handle is not None else None
    return worker.actor.class_name if instance is None else repr(instance)  # None: the actor is dead


def _dynamic(runtime: Runtime, task: TaskRecord, result: Any) -> Outcome:
    """num_returns="dynamic": each item becomes an object, and the one return value holds references to them. An item
    that cannot be stored becomes an object with the error, and is the last item. An error that ends the generator, and
    is not retried, becomes one more object. Raises ValueError if the task returned anything but a generator."""
    check_generator(task, result)
    new_ref = runtime.ref_type._adopt
    refs = []
    try:
        for item in result:
            try:
                refs.append(new_ref(runtime.put(item)))
            except Exception as error:
                refs.append(new_ref(runtime.put(errors.to_exception(_failure(task, error)))))
                raise
    except Exception as error:
        if may_retry(task, error):
            raise
        refs.append(new_ref(runtime.put(errors.to_exception(_failure(task, error)))))
    holder = runtime.dynamic_type(refs)
    value = serialize(holder)
    outcome = returned((value,), (value.size,), (value.contained,))
    outcome.references = holder
    return outcome


def check_generator(task: TaskRecord, result: Any) -> None:
    """Raise ValueError if a task whose items become objects returned anything but a generator, such as an iterator."""
    if not isinstance(result, GeneratorType):
        raise ValueError(f"{task.spec.func_name} has num_returns={task.spec.num_returns!r}: it must return a generator")


def outcome_of_error(runtime: Runtime, execution: Execution, error: BaseException) -> Outcome:
    """The outcome of an attempt from which an exception came out: it fails the task, or ends its worker or actor."""
    task, worker = execution.task, execution.worker
    actor = worker.actor
    if runtime.unfinished_lines:
        runtime.end_lines(execution)
    if isinstance(error, SessionEnded):
        return left("worker", "the session ended")
    if isinstance(error, ArgumentLost):
        return left("arguments")
    if isinstance(error, WorkerExit):
        return left("worker", str(error) or "the worker exited")
    if isinstance(error, ActorExit):
        return left("actor", f"INTENDED_USER_EXIT: {error}")
    if isinstance(error, SystemExit):
        worker.handle.process.exits = True
        if actor is not None and error.code == 0:
            return left("actor", "INTENDED_USER_EXIT: its code raised SystemExit(0)")
        return left(
            "code" if actor is not None else "worker",
            f"its {'task' if actor is None else 'code'} raised SystemExit({error.code})",
        )
    if (
        task.cancel_requested
        and actor is not None
        and isinstance(error, (exceptions.TaskCancelledError, KeyboardInterrupt))
    ):
        # Its wait was interrupted. Or cancelling the call also cancelled a task that the call was waiting for, and
        # `get` has raised that task's error.
        return failed(Failure("TASK_CANCELLED", "it was cancelled", about=task))
    try:
        str(error)
    except Exception as problem:  # as in Ray: if the error's own __str__ raises, that exception takes its place
        error = problem
    try:
        repr_name = _repr_of_actor(worker) if actor is not None else None
    except Exception as problem:  # as in Ray
        return left("worker", f"SYSTEM_ERROR: the repr of the actor raised {type(problem).__name__}")
    where: dict[str, Any] = {
        "actor_repr": repr_name,
        "actor_id": actor.hex if actor is not None else None,
    }
    if isinstance(error, KeyboardInterrupt) and (actor is None or not actor.is_async):
        cancelled = exceptions.TaskCancelledError(TaskID.from_hex(task.hex))
        cancelled.__traceback__ = error.__traceback__
        return failed(errors.from_exception(cancelled, task, "TASK_CANCELLED", **where))
    failure = errors.from_exception(error, task, **where)
    return failed(failure, may_retry(task, error))


def may_retry(task: TaskRecord, error: BaseException) -> bool:
    """Whether `retry_exceptions` allows a retry after this error. The core decides whether attempts are left."""
    allowed = task.spec.retry_exceptions
    if allowed is True or not allowed:
        return bool(allowed)
    cause = error.cause if isinstance(error, exceptions.RayTaskError) else error
    if isinstance(cause, exceptions.UserCodeException) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, tuple(allowed)):
        return True
    # If the class travels by value, the task's worker has a copy of it, but the options name the driver's class. So
    # send the error to the driver and look at its class there.
    try:
        return isinstance(Context().run(deserialize, serialize(cause)), tuple(allowed))
    except Exception:
        return False
