"""Outcomes: how an attempt of a task went, and what is stored for its return values."""

from __future__ import annotations

import inspect
from contextvars import Context
from typing import Any

from .. import exceptions
from ..core.object_store import INLINE_BYTES
from ..core.records import ACTOR_CREATION_TASK, Failure, TaskRecord
from ..core.transitions import WorkerStatus
from ..process.context import Execution
from ..process.exits import ActorExit, SessionEnded, WorkerExit
from ..values import errors
from ..values.serialization import Serialized, deserialize, serialize, size_of
from .getting import ArgumentLost
from .runtime import Runtime
from .spilling import make_room

DEAD = WorkerStatus.DEAD
SIZES = {type(value): size_of(value) for value in (0, 0.0, False, None)}  # immutable, and of a size known beforehand


class Outcome:
    """How an attempt went. values: what to store for each return, with contained records and sizes; or failure; or exit."""

    __slots__ = ("values", "sizes", "contained", "failure", "retry", "exit", "message", "result")

    def __init__(
        self,
        values: tuple = (),
        sizes: tuple = (),
        contained: Any = None,
        failure: Failure | None = None,
        retry: bool = False,
        exit: str = "",
        message: str = "",
    ):
        self.values, self.sizes, self.contained, self.failure, self.retry = values, sizes, contained, failure, retry
        self.exit, self.message = exit, message
        self.result: Any = None  # kept until it is reported: the references in it must not go before they are counted


def note_end(runtime: Runtime, execution: Execution) -> None:
    """Note when the attempt's code ended, unless the core has ended the attempt by itself. The lock is not taken: the clock is read
    first, so that no call, at which another thread could have its turn, comes between the look and the note. The core allows
    for a clock that was read a little later than its own."""
    now, task = runtime.now(), execution.task
    if execution.worker.status is not DEAD and not task.t_finished:
        task.t_ended = now


def store(runtime: Runtime, task: TaskRecord, result: Any) -> Outcome:
    """Take a snapshot of what a task returned, for each of its returns. Raises what pickling the result raises, and
    ObjectStoreFullError or OutOfDiskError when there is no room for it."""
    if task.spec.num_returns == 1 and type(result) in SIZES:  # the common case: nothing to pickle, nothing inside
        return Outcome((result,), (SIZES[type(result)],))
    outcome = _store(runtime, task, result)
    for size in outcome.sizes:
        if size > INLINE_BYTES:
            make_room(runtime, task.node or runtime.head, size)
    outcome.result = outcome.result, result
    return outcome


def _store(runtime: Runtime, task: TaskRecord, result: Any) -> Outcome:
    wanted = task.spec.num_returns
    if wanted == 1 and not inspect.isgenerator(result):
        value = serialize(result)
        if type(value) is Serialized and value.contained:
            return Outcome((value,), (value.size,), (value.contained,))
        return Outcome((value,), (size_of(value),))
    if wanted == 0:
        return Outcome()
    if wanted == "dynamic":
        return _dynamic(runtime, task, result)
    if inspect.isgenerator(result):
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
            raise ValueError(f"Task yielded fewer than num_returns={wanted} objects.")
    except Exception as error:  # what is there is good; the returns that are not are errors
        if not values:
            raise
        values += [_failure(task, error)] * (wanted - len(values))
    sizes = [size_of(value) if type(value) is not Failure else 0 for value in values]
    contained = [value.contained if type(value) is Serialized else () for value in values]
    return Outcome(tuple(values), tuple(sizes), tuple(contained))


def _failure(task: TaskRecord, error: Exception) -> Failure:
    """Why a value of the task is not there."""
    actor = task.actor
    if actor is None:
        return errors.from_exception(error, task.spec.func_name, about=task)
    return errors.from_exception(
        error, task.spec.func_name, actor_repr=actor.repr_name or actor.class_name, actor_id=actor.hex, about=task
    )


def _dynamic(runtime: Runtime, task: TaskRecord, result: Any) -> Outcome:
    """num_returns="dynamic": every item becomes an object; the one return holds their references. An error that is not to be
    tried again is the last of them; an item that cannot be stored fails too."""
    new_ref = runtime.ref_type._adopt
    refs = []
    items = iter(result)
    try:
        for item in items:
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
    outcome = Outcome((value,), (value.size,), (value.contained,))
    outcome.result = holder
    return outcome


def not_stored(runtime: Runtime, execution: Execution, error: Exception) -> Outcome:
    """What `store` raised fails the task, which is not tried again, as in Ray: its code has returned. With "dynamic" it has not,
    and the error is as good as any."""
    outcome = outcome_of_error(runtime, execution, error)
    outcome.retry = outcome.retry and execution.task.spec.num_returns == "dynamic"
    return outcome


def outcome_of_error(runtime: Runtime, execution: Execution, error: BaseException) -> Outcome:
    """What an exception that left a task's code means for the task and its worker."""
    task, worker = execution.task, execution.worker
    actor = worker.actor
    if runtime.unfinished_lines:
        runtime.end_lines(execution)
    if isinstance(error, SessionEnded):
        return Outcome(exit="worker", message="the session ended")
    if isinstance(error, ArgumentLost):
        return Outcome(exit="arguments")
    if isinstance(error, WorkerExit):
        return Outcome(exit="worker", message=str(error) or "the worker exited")
    if isinstance(error, ActorExit):
        return Outcome(exit="actor", message=f"INTENDED_USER_EXIT: {error}")
    if isinstance(error, SystemExit):
        if actor is not None and error.code == 0:
            return Outcome(exit="actor", message="INTENDED_USER_EXIT: its code raised SystemExit(0)")
        return Outcome(
            exit="code" if actor is not None else "worker",
            message=f"its {'task' if actor is None else 'code'} raised SystemExit({error.code})",
        )
    if task.cancel_requested and actor is not None and isinstance(error, exceptions.TaskCancelledError):
        return Outcome(
            failure=Failure("TASK_CANCELLED", "it was cancelled", about=task)
        )  # what it waited for was, with it
    try:
        str(error)
    except Exception as problem:  # as in Ray, what its own text raises takes the error's place
        error = problem
    name = task.spec.func_name
    repr_name = actor.repr_name or f"{actor.class_name}" if actor is not None else None
    where: dict[str, Any] = {
        "actor_repr": repr_name,
        "actor_id": actor.hex if actor is not None else None,
        "about": task,
    }
    if (
        isinstance(error, KeyboardInterrupt)
        and task.spec.kind != ACTOR_CREATION_TASK
        and (actor is None or not actor.is_async)
    ):
        cancelled = exceptions.TaskCancelledError(task.hex)
        cancelled.__traceback__ = error.__traceback__
        return Outcome(failure=errors.from_exception(cancelled, name, "TASK_CANCELLED", **where))
    failure = errors.from_exception(error, name, **where)
    return Outcome(failure=failure, retry=may_retry(task, error))


def may_retry(task: TaskRecord, error: BaseException) -> bool:
    """Whether the task's options let this error be tried again. Whether attempts are left is the core's question."""
    allowed = task.spec.retry_exceptions
    if allowed is True or not allowed:
        return bool(allowed)
    cause = error.cause if isinstance(error, exceptions.RayTaskError) else error
    if isinstance(cause, exceptions.UserCodeException) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, tuple(allowed)):
        return True
    try:  # a class that travels by value has a copy where the task runs; the options name the driver's
        return isinstance(Context().run(deserialize, serialize(cause)), tuple(allowed))
    except Exception:
        return False
