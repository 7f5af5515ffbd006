"""Turns a task's exception into a Failure for the core, and a Failure into the exception that `get` raises.

The core stores the reason of a failure as a text and records. `to_exception` makes a new exception for each `get`, so
that its traceback does not grow from one `get` to the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType

from .. import exceptions
from ..core.records import NORMAL_TASK, Aside, Failure, ObjectRecord, TaskRecord, aside
from .serialization import ERROR, TASK_ERROR, Serialized, deserialize, serialize_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

keep_frames = False  # whether the error that `get` raises has the task's tracebacks in `task_frames`, for a debugger
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class TaskError:
    """What is stored of an exception that a task raised.

    function_name, title: see `names_of`. text: the formatted traceback. cause: the serialized exception, or None if it
    could not be serialized. class_name, repr_text, type_text: the exception's class, message and type, as text.
    actor_repr, actor_id: for a method of an actor. kept: the exception itself, if tracebacks are kept. frames: its
    traceback and those of the tasks whose errors it passes on, if `keep_frames` is set.
    """

    __slots__ = (
        "function_name",
        "title",
        "text",
        "cause",
        "class_name",
        "repr_text",
        "actor_repr",
        "actor_id",
        "kept",
        "type_text",
        "frames",
    )

    def __init__(
        self,
        function_name: str,
        text: str,
        cause: Any,
        error: BaseException,
        actor_repr: str | None,
        actor_id: str | None,
        kept: BaseException | None,
        frames: Sequence[TracebackType | None] = (),
        title: str | None = None,
    ):
        self.function_name, self.title, self.text, self.cause = function_name, title, text, cause
        self.class_name, self.repr_text, self.type_text = type(error).__name__, _message_of(error), str(type(error))
        self.actor_repr, self.actor_id, self.kept, self.frames = actor_repr, actor_id, kept, frames

    def __del__(self, aside: Aside = aside) -> None:
        aside.put(getattr(self, "kept", None))


def _message_of(error: BaseException) -> str:
    """Return str(error), or a substitute if that raises."""
    try:
        return str(error)
    except Exception as problem:
        return f"<its __str__ raised {type(problem).__name__}>"


def names_of(task: TaskRecord) -> tuple[str, str]:
    """What a RayTaskError calls the task's function ("module.f", or the bare name of a method), and the title of the
    process that ran it, which ends with the task's name."""
    spec = task.spec
    if spec.kind != NORMAL_TASK:
        name = spec.func_name.rpartition(".")[2]
    else:
        name = f"{spec.module}.{spec.func_name}" if spec.module else spec.func_name
    return name, f"ray::{spec.name}"


def keeps_tracebacks() -> bool:
    """Whether `error.cause` is the original exception with its __cause__ and __traceback__, which Ray does not send."""
    return os.environ.get("MINIRAY_KEEP_TRACEBACKS", "0") not in ("", "0")


def from_exception(
    error: BaseException,
    task: TaskRecord,
    error_type: str = "TASK_EXECUTION_EXCEPTION",
    actor_repr: str | None = None,
    actor_id: str | None = None,
) -> Failure:
    """Return the failure of a task's attempt that raised an exception.

    error_type: Ray's name (common.proto, ErrorType). actor_repr, actor_id: for a method of an actor. The exception's
    frames are dropped unless `keeps_tracebacks()`.
    """
    function_name, title = names_of(task)
    where = _below_our_frames(error)
    try:
        import traceback  # only for an error

        text = "".join(traceback.format_exception(type(error), error, where))
    except Exception as problem:  # a user's __str__ may raise anything
        text = f"Traceback (most recent call last):\n{type(error).__name__}: <no text: {type(problem).__name__}>\n"
    if where is None and "Traceback (" not in text:  # Python leaves out the first line if there is no frame but ours
        text = f"Traceback (most recent call last):\n{text}"
    cause = error.cause if isinstance(error, exceptions.RayTaskError) else error
    kept = None
    if keeps_tracebacks():
        kept = cause.with_traceback(where) if cause is error else cause
        stored: Any = None
    else:
        try:
            stored = serialize_error(cause)  # without __cause__, __context__ and __traceback__, as in Ray
        except Exception:  # it cannot be sent, so only its text is
            stored = None
    frames = (where, *getattr(error, "task_frames", ())) if keep_frames else ()
    return Failure(
        error_type,
        f"{type(error).__name__}: {_message_of(error)}",
        error=TaskError(function_name, text, stored, error, actor_repr, actor_id, kept, frames, title),
        about=task,
    )


def _below_our_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback of an exception from the first frame outside miniray on."""
    where = error.__traceback__
    while where is not None and where.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        where = where.tb_next
    return where


def not_rebuilt(error: Exception) -> exceptions.RaySystemError:
    """Return the error to raise when the bytes of a value are available, but `deserialize` raised `error`.

    As in Ray.
    """
    where = _below_our_frames(error)
    import traceback  # only for an error

    text = "".join(traceback.format_exception(type(error), error, where))
    if where is None:  # there is no frame but ours, so that Python leaves out the first line
        text = f"Traceback (most recent call last):\n{text}"
    return exceptions.RaySystemError(error, text)


def loaded(stored: Serialized) -> Any:
    """Return the value of a stored form.

    If the value is a RayError, raises it, as Ray does for an error that was put, passed or returned. If the value
    cannot be rebuilt, raises RaySystemError, or UnserializableException for a RayTaskError.
    """
    try:
        value = deserialize(stored)
    except Exception as error:
        broken = not_rebuilt(error)
        if stored.form == TASK_ERROR:
            raise exceptions.UnserializableException(broken.traceback_str or "") from error
        raise broken from error
    if stored.form == ERROR or stored.form == TASK_ERROR:
        raise value.as_instanceof_cause() if isinstance(value, exceptions.RayTaskError) else value
    return value


def _task_error(held: TaskError) -> exceptions.RayError:
    where: dict[str, Any] = {"proctitle": held.title, "actor_repr": held.actor_repr, "actor_id": held.actor_id}
    if held.kept is not None:
        return exceptions.RayTaskError(held.function_name, held.text, held.kept, **where).as_instanceof_cause()
    if held.cause is None:
        cause: BaseException = exceptions.RayError(
            f"The original cause of the RayTaskError ({held.class_name}) isn't serializable: {held.repr_text}."
        )
        return exceptions.RayTaskError(held.function_name, held.text, cause, **where)
    try:
        cause = deserialize(held.cause) if type(held.cause) is Serialized else held.cause
    except Exception:
        return exceptions.UnserializableException(held.text)
    if not isinstance(cause, BaseException):
        return exceptions.UnserializableException(held.text)
    return exceptions.RayTaskError(held.function_name, held.text, cause, **where).as_instanceof_cause()


def to_exception(failure: Failure, obj: ObjectRecord | None = None) -> exceptions.RayError:
    """Return the exception to raise for a failure. obj: the object whose value was asked for.

    If a task failed because of an argument, the exceptions are built from the first failure to the last, in a loop,
    because such chains can be too long for recursion. The last exception is then always a RayTaskError, even if the
    first is not, such as a WorkerCrashedError or an ObjectLostError.
    """
    chain = [failure]
    while (
        chain[-1].error is None
        and isinstance(chain[-1].about, TaskRecord)
        and chain[-1].cause is not None
        and chain[-1].error_type == chain[-1].cause.error_type
    ):
        chain.append(chain[-1].cause)
    error = _exception_of(chain.pop(), None if chain else obj)
    while chain:
        name, title = names_of(chain.pop().about)
        error = exceptions.RayTaskError.from_dependency(error, name, proctitle=title).as_instanceof_cause()
    return error


def _exception_of(failure: Failure, obj: ObjectRecord | None) -> exceptions.RayError:
    if isinstance(failure.error, TaskError):
        if failure.error_type in ("TASK_EXECUTION_EXCEPTION", "TASK_CANCELLED"):
            error = _task_error(failure.error)
            if failure.error.frames:
                error.task_frames = failure.error.frames  # type: ignore[attr-defined]
            return error
    make = _MAKERS.get(failure.error_type)
    if make is not None:
        return make(failure, obj)
    return exceptions.RaySystemError(f"{failure.error_type}: {failure.message}")


def _hex(failure: Failure, obj: ObjectRecord | None) -> str:
    return obj.hex if obj is not None else failure.about.hex if isinstance(failure.about, ObjectRecord) else ""


def _lost(failure: Failure, obj: ObjectRecord | None) -> exceptions.RayError:
    return exceptions.ObjectLostError(_hex(failure, obj), None, "")


def _owner_died(failure: Failure, obj: ObjectRecord | None) -> exceptions.RayError:
    return exceptions.OwnerDiedError(_hex(failure, obj), None, "")


def _reconstruction(failure: Failure, obj: ObjectRecord | None) -> exceptions.RayError:
    return exceptions.ObjectReconstructionFailedError(_hex(failure, obj), failure.error_type, failure.message)


def _cancelled(failure: Failure, obj: ObjectRecord | None) -> exceptions.RayError:
    error = exceptions.TaskCancelledError()  # without a task_id, as in Ray: only the task's own error has it
    error.task_hex = failure.about.hex if isinstance(failure.about, TaskRecord) else ""
    return error


def _actor_died(failure: Failure, obj: ObjectRecord | None) -> exceptions.RayError:
    actor, creation = failure.about, failure.cause
    if creation is not None and (isinstance(creation.error, TaskError) or _for_an_argument(creation)):
        error = to_exception(creation)
        if isinstance(error, exceptions.RayTaskError):
            plain = error if type(error) is exceptions.RayTaskError else error._task_error
            plain._actor_id = actor.hex
            return exceptions.ActorDiedError.from_task_error(plain)
        return exceptions.ActorDiedError(
            exceptions.ActorDiedErrorContext(
                actor.hex, actor.class_name, f"{failure.message}: {error}", actor.name, actor.namespace
            )
        )
    return exceptions.ActorDiedError(
        # By keyword: so the error has no args, as in Ray.
        cause=exceptions.ActorDiedErrorContext(
            actor.hex, actor.class_name, failure.message, actor.name, actor.namespace, os.getpid(), "127.0.0.1"
        )
    )


def _for_an_argument(failure: Failure) -> bool:
    """Whether this is the failure of a constructor that never ran because one of its arguments failed."""
    return failure.error is None and isinstance(failure.about, TaskRecord) and failure.cause is not None


def _worker_died(failure: Failure, obj: ObjectRecord | None) -> exceptions.RayError:
    error = exceptions.WorkerCrashedError()  # without args, as in Ray
    error.reason = failure.message
    return error


def _unavailable(failure: Failure, obj: ObjectRecord | None) -> exceptions.RayError:
    return exceptions.ActorUnavailableError(failure.message, bytes.fromhex(failure.about.hex))


_MAKERS: dict[str, Callable[[Failure, ObjectRecord | None], exceptions.RayError]] = {
    "TASK_CANCELLED": _cancelled,
    "WORKER_DIED": _worker_died,
    "NODE_DIED": lambda failure, obj: exceptions.NodeDiedError(failure.message),
    "ACTOR_DIED": _actor_died,
    "ACTOR_UNAVAILABLE": _unavailable,
    "ACTOR_UNSCHEDULABLE_ERROR": lambda failure, obj: exceptions.ActorUnschedulableError(failure.message),
    "TASK_UNSCHEDULABLE_ERROR": lambda failure, obj: exceptions.TaskUnschedulableError(failure.message),
    "ACTOR_PLACEMENT_GROUP_REMOVED": _actor_died,
    "TASK_PLACEMENT_GROUP_REMOVED": lambda failure, obj: exceptions.TaskPlacementGroupRemoved(),
    "OBJECT_LOST": _lost,
    "OWNER_DIED": _owner_died,
    "OUT_OF_MEMORY": lambda failure, obj: exceptions.OutOfMemoryError(failure.message),
    "OUT_OF_DISK_ERROR": lambda failure, obj: exceptions.OutOfDiskError(failure.message),
    "RUNTIME_ENV_SETUP_FAILED": lambda failure, obj: exceptions.RuntimeEnvSetupError(failure.message),
    "TASK_EXECUTION_EXCEPTION": lambda failure, obj: exceptions.RayTaskError(
        getattr(getattr(failure.about, "spec", None), "func_name", "task"),
        failure.message,
        exceptions.RayError(failure.message),
    ),
    **{
        "OBJECT_UNRECONSTRUCTABLE_" + reason: _reconstruction
        for reason in (
            "LINEAGE_EVICTED",
            "RETRIES_DISABLED",
            "MAX_ATTEMPTS_EXCEEDED",
            "PUT",
            "BORROWED",
            "LINEAGE_DISABLED",
            "REF_NOT_FOUND",
            "TASK_CANCELLED",
        )
    },
}


def text_of(failure: Failure | None) -> str:
    """Return the error text for a state row: the traceback of the user's code, or the failure's message."""
    while failure is not None and failure.error is None and failure.cause is not None:
        failure = failure.cause
    if failure is None:
        return ""
    if isinstance(failure.error, TaskError):
        return failure.error.text
    return failure.message
