"""Every error that Ray can raise: one class per thing that can go wrong, all below `RayError`.

The names, the bases and the constructor arguments are those of `ray.exceptions` (Ray 2.60), so that an `except` clause
written for Ray works unchanged. The texts are ours: each says what happened, to which task, actor or
object, and what to do.

Two families need more than a text:

- An exception of the user's code comes back as a `RayTaskError` around it. So that `except ValueError` catches what was
  a `ValueError` in the task, `RayTaskError.as_instanceof_cause` makes an error that is both (see there).
- An error is stored as a value and may be raised many times and in many places, so every class can be pickled,
  whatever its constructor asks for (see `RayError.__reduce__`).
"""

from __future__ import annotations

import builtins
import logging
import os
import weakref
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Pool classes and the like in util/ are written as user code would be: their frames tell the reader something.
_SHOWN_PART_OF_THE_PACKAGE = _PACKAGE + "util" + os.sep


class RayError(Exception):
    """The base of every error in this module. `except RayError` catches whatever the runtime itself has to report.

    Pickling does not call the constructor again, as `BaseException` would: many classes below need arguments that are
    not in `args`. The fields and `args` travel as they are.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args), self.__dict__.copy() or None


def _restore(cls: type[RayError], args: tuple[Any, ...]) -> RayError:
    """An instance with these `args`, made without `__init__`; pickle sets its fields afterwards."""
    error = cls.__new__(cls, *args)
    error.args = args
    return error


# --- What a task did ----------------------------------------------------------------------------------------------


class RayTaskError(RayError):
    """A task raised an exception. Stored as the value of each of its returns; `get` raises `as_instanceof_cause()`.

    function_name: the remote function, or Class.method. traceback_str: the worker's formatted traceback, with the
    error's own line at its end. cause: the exception itself. proctitle: how the worker was titled, `ray::NAME` by
    default. pid, ip: where it ran, by default here. actor_repr, actor_id (hex): for a method of an actor.

    Attributes of the same names; `actor_id` is kept as `_actor_id`, as in Ray.
    """

    _task_error: RayTaskError  # only of one that is an instance of the cause's class too: the plain one

    def __init__(
        self,
        function_name: str,
        traceback_str: str,
        cause: BaseException,
        proctitle: str | None = None,
        pid: int | None = None,
        ip: str | None = None,
        actor_repr: str | None = None,
        actor_id: str | None = None,
    ) -> None:
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.proctitle = proctitle or f"ray::{function_name}"
        self.pid = pid or os.getpid()
        self.ip = ip or "127.0.0.1"
        self.actor_repr = actor_repr
        self._actor_id = actor_id
        self.args = (function_name, traceback_str, cause, proctitle, pid, ip)

    @classmethod
    def from_dependency(cls, error: RayError, function_name: str, **where: Any) -> RayTaskError:
        """The error of a task that never ran because an argument is the result of a task that failed with `error`.

        Its text goes on with that of `error`; its cause is the exception that was raised first. where: the further
        arguments of the constructor.
        """
        text = (
            f"Traceback (most recent call last):\n"
            f"  At least one of the input arguments for this task could not be computed:\n"
            f"{type(error).__module__}.{type(error).__qualname__}: {error}"
        )
        return cls(function_name, text, error.cause if isinstance(error, RayTaskError) else error, **where)

    def as_instanceof_cause(self) -> RayTaskError:
        """An error that is an instance of both `RayTaskError` and the class of the cause.

        Its class is called `RayTaskError(ValueError)`; its `args` are `(cause,)`, its text is that of this error, and
        every attribute that it does not have itself is looked up on the cause, then on this error. A new instance each
        time, so that the traceback of one `raise` does not grow into the next.

        Returns this error itself when nothing would be gained (the cause is a plain `Exception` or `RayError`) and,
        with a warning in the log, when the cause's class does not let itself be subclassed or be made from a single
        argument.
        """
        cause_class = type(self.cause)
        if issubclass(RayTaskError, cause_class):
            return self
        try:
            return self.make_dual_exception_instance()
        except Exception as problem:
            logger.warning(
                "The error of %s is raised as a plain RayTaskError, which `except %s` does not catch: no "
                "class could be derived from %r (%s). Its exception is in the attribute `cause`.",
                self.function_name,
                cause_class.__name__,
                cause_class,
                problem,
            )
            return self

    def make_dual_exception_instance(self) -> RayTaskError:
        """The error that is of both classes. Raises what the cause's class does when it refuses to be derived from."""
        dual: Any = _dual_class(type(self.cause))(self.cause)
        dual._task_error = self
        made: RayTaskError = dual
        return made

    def __str__(self) -> str:
        place = f"pid={self.pid}, ip={self.ip}"
        if self.actor_repr:
            place += f", actor_id={self._actor_id}, repr={self.actor_repr}"
        return _readable(self.traceback_str, f"{self.proctitle}() ({place})")


def _readable(traceback_str: str, header: str) -> str:
    """The traceback with `header` as its first line and without the frames of the runtime, which nobody can act on.

    A frame is a line `  File "..."` and the lines indented by four that follow it (source, carets).
    """
    lines: list[str] = []
    hidden = False
    for line in traceback_str.strip().split("\n"):
        if line.startswith("Traceback "):
            lines.append(header)
            hidden = False
        elif line.startswith('  File "'):
            path = line[len('  File "') :]
            hidden = path.startswith(_PACKAGE) and not path.startswith(_SHOWN_PART_OF_THE_PACKAGE)
            if not hidden:
                lines.append(line)
        elif not (hidden and line.startswith("    ")):
            hidden = False
            lines.append(line)
    if not lines[0].startswith(header):
        lines.insert(0, header)
    return "\n".join(lines)


# One dual class per class of a cause, for as long as an error of it is alive. Weak on the value's side: the dual class
# has the cause's class among its bases, so a table that is only weak in its keys would keep both for ever, and with
# them every class that a session made for its workers.
_dual_classes: weakref.WeakValueDictionary[type[BaseException], Any] = weakref.WeakValueDictionary()

_ExceptionGroup: Any = getattr(builtins, "ExceptionGroup", None)  # Python 3.11 and later


def _dual_class(cause_class: type[BaseException]) -> Any:
    """The class that derives from RayTaskError and `cause_class`; its instances are made from the cause alone."""
    found = _dual_classes.get(cause_class)
    if found is not None:
        return found
    namespace: dict[str, Any] = {
        "__module__": RayTaskError.__module__,
        "__qualname__": f"RayTaskError({cause_class.__name__})",
        "__doc__": f"A task raised {cause_class.__name__}. See `RayTaskError.as_instanceof_cause`.",
        "__init__": _dual_init,
        "__getattr__": _dual_getattr,
        "__str__": _dual_str,
        "__reduce__": _dual_reduce,
        "args": property(_dual_args, _dual_set_args),
    }
    if _ExceptionGroup is not None and issubclass(cause_class, _ExceptionGroup):
        namespace["__new__"] = _dual_group_new
    # Through the metaclass that a class statement would choose: the user's class may have one of its own.
    metaclass: Any = type(cause_class)
    dual = metaclass(namespace["__qualname__"], (RayTaskError, cause_class), namespace)
    return _dual_classes.setdefault(cause_class, dual)


# The members of every dual class. They are plain functions because the class is put together at run time, and no class
# between RayTaskError and the dual one may show up in its `__mro__`, which Ray's does not have.


def _dual_group_new(cls: type[Any], cause: Any) -> Any:
    """A group is made from a message and its members, not from one argument like other exceptions."""
    return _ExceptionGroup.__new__(cls, cause.message, cause.exceptions)


def _dual_init(self: Any, cause: BaseException) -> None:
    # Neither base's constructor is called: the user's may ask for anything.
    self.cause = cause
    self._dual_args = (cause,)


def _dual_args(self: Any) -> tuple[Any, ...]:
    args: tuple[Any, ...] = self._dual_args
    return args


def _dual_set_args(self: Any, args: tuple[Any, ...]) -> None:
    self._dual_args = args


def _dual_getattr(self: Any, name: str) -> Any:
    """The cause's attribute; failing that, what is known of the task (function_name, pid ...)."""
    fields = self.__dict__
    # Not yet filled while it is being made or copied; asking for `self.cause` would come back here without end.
    if "cause" not in fields or name == "_task_error":
        raise AttributeError(name)
    try:
        return getattr(fields["cause"], name)
    except AttributeError:
        known = fields["_task_error"].__dict__ if "_task_error" in fields else {}
        if name not in known:
            raise
        return known[name]


def _dual_str(self: Any) -> str:
    return str(self._task_error)


def _dual_reduce(self: Any) -> tuple[Any, ...]:
    # The class is made anew where the error arrives. What travels is the plain error, and what was added to this one.
    own = {name: value for name, value in self.__dict__.items() if name not in ("cause", "_dual_args", "_task_error")}
    return RayTaskError.as_instanceof_cause, (self._task_error,), own or None


class TaskCancelledError(RayError):
    """The task was cancelled. task_id: hex of, or the id of, the task that `cancel` named; error_message: why."""

    def __init__(self, task_id: Any = None, error_message: str | None = None) -> None:
        self.task_id = task_id
        self.error_message = error_message

    def __str__(self) -> str:
        what = f"Task {self.task_id} was cancelled." if self.task_id else "This task was cancelled."
        return f"{what} {self.error_message}" if self.error_message else what


class WorkerCrashedError(RayError):
    """The worker that ran the task is gone (`os._exit`, `sys.exit`, an injected crash) and no retry is left."""

    def __str__(self) -> str:
        return super().__str__() or (
            "The worker died unexpectedly while it ran this task: it exited, or was made to "
            "crash. With max_retries a task is tried again on another worker."
        )


class LocalRayletDiedError(RayError):
    """The raylet of the node that the task was submitted from is gone."""

    def __str__(self) -> str:
        return super().__str__() or "The raylet of this node died, so the task could not be submitted or finished."


class UserCodeException(RayError):
    """Wraps an error of user code that a library called. `retry_exceptions` looks at its `__cause__`."""


class CrossLanguageError(RayError):
    """An error from a worker of another language. ray_exception has `language` and `formatted_exception_string`."""

    def __init__(self, ray_exception: Any) -> None:
        super().__init__(
            f"An error was raised in {ray_exception.language}:\n{ray_exception.formatted_exception_string}"
        )


class UnserializableException(RayError):
    """The task's exception was sent, but could not be made again where it arrived: only its text is left.

    Typical: a constructor with arguments that are not in `args`. original_stack_trace: the formatted traceback.
    """

    def __init__(self, original_stack_trace: str) -> None:
        self._original_stack_trace = original_stack_trace

    def __str__(self) -> str:
        return (
            "The task raised an exception that could not be rebuilt from its pickle, so only its text is left. If "
            "its constructor takes other arguments than those in `args`, give the class a `__reduce__`.\n"
            f"Original exception:\n{self._original_stack_trace}"
        )


# --- What became of an actor --------------------------------------------------------------------------------------


class RayActorError(RayError):
    """A call of an actor's method could not be carried out. Raised as `ActorDiedError` or `ActorUnavailableError`.

    actor_id: hex. error_msg: the text. actor_init_failed: its constructor raised. preempted: its node was taken away.
    """

    BASE_ERROR_MSG = "The actor could not finish this call."

    def __init__(
        self,
        actor_id: str | None = None,
        error_msg: str = BASE_ERROR_MSG,
        actor_init_failed: bool = False,
        preempted: bool = False,
    ) -> None:
        self.actor_id = actor_id
        self.error_msg = error_msg
        self._actor_init_failed = actor_init_failed
        self._preempted = preempted

    def __str__(self) -> str:
        return self.error_msg

    @property
    def preempted(self) -> bool:
        """Whether the actor died because its node was taken away on purpose."""
        return self._preempted

    @property
    def actor_init_failed(self) -> bool:
        """Whether the actor died because its constructor raised."""
        return self._actor_init_failed


@dataclass
class ActorDiedErrorContext:
    """What is known of an actor's death when its own constructor is not to blame. In Ray: common.proto, same name.

    actor_id: hex. error_message: the cause and what to do. Empty fields are left out of the text.
    """

    actor_id: str
    class_name: str
    error_message: str
    name: str = ""
    ray_namespace: str = ""
    pid: int = 0
    node_ip_address: str = ""
    never_started: bool = False
    preempted: bool = False


class ActorDiedError(RayActorError):
    """The actor is dead and will not come back: this call was lost, and each later one will be.

    cause: a `RayTaskError` when the constructor raised, an `ActorDiedErrorContext` otherwise, None when nothing is
    known.
    """

    BASE_ERROR_MSG = "The actor died before it could finish this call."

    def __init__(self, cause: RayTaskError | ActorDiedErrorContext | None = None) -> None:
        if cause is None:
            super().__init__(None, self.BASE_ERROR_MSG)
        elif isinstance(cause, RayTaskError):
            text = f"The actor died because its creation task failed: its constructor raised an error, {cause}"
            super().__init__(cause._actor_id, text, actor_init_failed=True)
        else:
            assert isinstance(cause, ActorDiedErrorContext), f"not a cause of an actor's death: {cause!r}"
            lines = [self.BASE_ERROR_MSG, f"\tclass_name: {cause.class_name}", f"\tactor_id: {cause.actor_id}"]
            known = (
                ("pid", cause.pid),
                ("name", cause.name),
                ("namespace", cause.ray_namespace),
                ("ip", cause.node_ip_address),
            )
            lines += [f"\t{field}: {value}" for field, value in known if value]
            lines.append(cause.error_message)
            if cause.never_started:
                lines.append("It was ended before its constructor had started.")
            super().__init__(cause.actor_id, "\n".join(lines), preempted=cause.preempted)

    @staticmethod
    def from_task_error(task_error: RayTaskError) -> ActorDiedError:
        """The error of an actor whose constructor failed with `task_error`."""
        return ActorDiedError(task_error)


class ActorUnavailableError(RayActorError):
    """The actor could not be reached now, but may be later: it is restarting, for example.

    error_message: why. actor_id: the id's bytes, its hex, or an id with `hex()`; None when unknown.
    """

    def __init__(self, error_message: str, actor_id: Any) -> None:
        hex_id = actor_id if actor_id is None or isinstance(actor_id, str) else actor_id.hex()
        text = f"The actor {hex_id} is unavailable: {error_message}. The call may or may not have run."
        super().__init__(hex_id, text)


class AsyncioActorExit(RayError):
    """Raised by `exit_actor()` inside an async actor, to leave the event loop. Not seen by callers."""


class PendingCallsLimitExceeded(RayError):
    """More calls of one handle are waiting than the actor's `max_pending_calls` allows."""


class ActorAlreadyExistsError(ValueError, RayError):
    """The name is taken by a living actor of the same namespace. Also a ValueError, which older programs catch."""

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        return self.error_message


class ActorHandleNotFoundError(ValueError, RayError):
    """`kill` was given a handle that this session does not know: it is of a session that has ended."""

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        return self.error_message


# --- What became of an object -------------------------------------------------------------------------------------


class ObjectLostError(RayError):
    """Every copy of the object is gone, with the node that held it, and it cannot be made again.

    object_ref_hex: the object. owner_address: who owned it, if known. call_site: where its reference was made, if
    recorded.
    """

    def __init__(self, object_ref_hex: str, owner_address: Any = None, call_site: str = "") -> None:
        self.object_ref_hex = object_ref_hex
        self.owner_address = owner_address
        self.call_site = call_site

    def _base_str(self) -> str:
        made = f" Its reference was made at: {self.call_site}" if self.call_site else ""
        return f"Object {self.object_ref_hex} could not be retrieved.{made}"

    def _reason(self) -> str:
        return "All copies of it were lost when their nodes died, and it has no lineage to make it again from."

    def __str__(self) -> str:
        return f"{self._base_str()}\n\n{self._reason()}"


class ObjectFetchTimedOutError(ObjectLostError):
    """No node that holds the object was found in time."""

    def _reason(self) -> str:
        return "No node was found that has a copy of it."


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object was deleted although somebody still had a reference to it."""

    def _reason(self) -> str:
        return "It was deleted by reference counting while this reference was still there, which must not happen."


class ObjectFreedError(ObjectLostError):
    """The object was freed by hand, and is then asked for."""

    def _reason(self) -> str:
        return "It was freed by a call of `free`. Free an object only when nobody will ask for it any more."


class OwnerDiedError(ObjectLostError):
    """The worker that made the object's reference is gone, and with it the only one who knew how to find the value."""

    def _reason(self) -> str:
        owner = f" ({self.owner_address})" if self.owner_address else ""
        return (
            f"Its owner{owner} has exited: the worker that called `.remote()` or `put` for it. An object lives no "
            "longer than its owner; let a worker that lives longer make it."
        )


class ObjectReconstructionFailedError(ObjectLostError):
    """The object was lost and could not be made again from its lineage.

    reason: one of the names in `REASON_MESSAGES`, or None. reason_message: a text in its place.
    """

    REASON_MESSAGES = {
        "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED": "Its task has no retry left. Give it more with `@remote(max_retries=N)`.",
        "OBJECT_UNRECONSTRUCTABLE_LINEAGE_EVICTED": "The record of how it was made was dropped to save memory.",
        "OBJECT_UNRECONSTRUCTABLE_PUT": "It was made by `put`, which leaves no lineage. Return the value from a task to have it made again.",
        "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED": "Its task has max_retries=0. Allow retries with `@remote(max_retries=N)`.",
        "OBJECT_UNRECONSTRUCTABLE_BORROWED": "Only the owner of an object can have it made again, and this worker borrowed it.",
        "OBJECT_UNRECONSTRUCTABLE_REF_NOT_FOUND": "The reference counter does not know its reference.",
        "OBJECT_UNRECONSTRUCTABLE_TASK_CANCELLED": "The task that would make it again was cancelled.",
        "OBJECT_UNRECONSTRUCTABLE_LINEAGE_DISABLED": "Reconstruction is switched off.",
    }

    def __init__(
        self,
        object_ref_hex: str,
        reason: str | None = None,
        reason_message: str | None = None,
        owner_address: Any = None,
        call_site: str = "",
    ) -> None:
        super().__init__(object_ref_hex, owner_address, call_site)
        self.reason = reason
        self.reason_message = reason_message or self.REASON_MESSAGES.get(reason or "", "It is not known why.")

    def _reason(self) -> str:
        return f"[{self.reason or 'UNKNOWN'}] {self.reason_message}"


class ObjectStoreFullError(RayError):
    """The object does not fit: the store is full of objects that are in use and cannot be spilled."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\nThe object store of this node is full of objects that are still referred to. "
            "Drop references, or give `init` a larger object_store_memory. `miniray memory` lists what is held."
        )


class OutOfDiskError(RayError):
    """The object does not fit, and there is no room on the disk to spill another one."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\nThe object store of this node is full, and so is the disk that it spills to. "
            "Free some space there, or drop references."
        )


class PlasmaObjectNotAvailable(RayError):
    """The object store did not have the object within the given time."""


class ObjectRefStreamEndOfStreamError(RayError):
    """A streaming generator has no further reference to hand out. Becomes StopIteration for who iterates."""


class OufOfBandObjectRefSerializationException(RayError):
    """A reference was pickled by hand, where nobody can count it. (The spelling is Ray's.)"""


# --- What became of a wait, a placement, a node -------------------------------------------------------------------


class GetTimeoutError(RayError, TimeoutError):
    """`get` did not have every value within its timeout."""


class DeadlockError(RayError):
    """`get` can never return: whom it waits for is waiting for it. Only under `init(on_deadlock="raise")`; not in Ray,
    where the program hangs."""


class TaskUnschedulableError(RayError):
    """The task can run nowhere: the node that its scheduling strategy insists on is gone, for example."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        return f"The task cannot be scheduled: {self.error_message}"


class ActorUnschedulableError(RayError):
    """The actor can run nowhere: the node that its scheduling strategy insists on is gone, for example."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        return f"The actor cannot be scheduled: {self.error_message}"


class TaskPlacementGroupRemoved(RayError):
    """The placement group that the task was to run in has been removed."""

    def __str__(self) -> str:
        return super().__str__() or "The placement group of this task was removed."


class ActorPlacementGroupRemoved(RayError):
    """The placement group that the actor was to run in has been removed."""

    def __str__(self) -> str:
        return super().__str__() or "The placement group of this actor was removed."


class RuntimeEnvSetupError(RayError):
    """The runtime environment of a task, actor or job could not be set up. error_message: why."""

    def __init__(self, error_message: str | None = None) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        lines = ["The runtime environment could not be set up."]
        return "\n".join(lines + [self.error_message] if self.error_message else lines)


class OutOfMemoryError(RayError):
    """The task or actor was ended because its node was running out of memory."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __str__(self) -> str:
        return self.message


class NodeDiedError(RayError):
    """The node is dead, or cannot be reached."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __str__(self) -> str:
        return self.message


class RpcError(RayError):
    """A call between two of the cluster's services failed. rpc_code: the transport's number for it."""

    def __init__(self, message: str, rpc_code: int | None = None) -> None:
        self.message = message
        self.rpc_code = rpc_code

    def __str__(self) -> str:
        return self.message


class AuthenticationError(RayError):
    """A service refused the token that came with a request."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.__suppress_context__ = True

    def __str__(self) -> str:
        return f"{self.message}. Give every client of the cluster the same token."


class RaySystemError(RayError):
    """Something of the runtime's own failed, not the user's code. client_exc: what. traceback_str: where."""

    def __init__(self, client_exc: Any, traceback_str: str | None = None) -> None:
        self.client_exc = client_exc
        self.traceback_str = traceback_str

    def __str__(self) -> str:
        text = f"System error: {self.client_exc}"
        return f"{text}\ntraceback: {self.traceback_str}" if self.traceback_str else text


class StreamingGeneratorReplayInconsistentError(RaySystemError):
    """A streaming generator that was run again gave another number of items than the first time."""


class RayChannelError(RaySystemError):
    """A channel of a compiled graph failed."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A channel of a compiled graph was not read or written in time."""


class RayCgraphCapacityExceeded(RaySystemError):
    """A compiled graph holds as many unread results as it may."""


class RayDirectTransportError(RaySystemError):
    """A tensor could not be moved directly between two actors."""


# Ray's list of what a stored error may be, in Ray's order. Programs loop over it.
RAY_EXCEPTION_TYPES: list[type[RayError]] = [
    PlasmaObjectNotAvailable,
    RayError,
    RayTaskError,
    WorkerCrashedError,
    RayActorError,
    ObjectStoreFullError,
    ObjectLostError,
    ObjectFetchTimedOutError,
    ReferenceCountingAssertionError,
    ObjectReconstructionFailedError,
    OwnerDiedError,
    GetTimeoutError,
    AsyncioActorExit,
    RuntimeEnvSetupError,
    TaskPlacementGroupRemoved,
    ActorPlacementGroupRemoved,
    PendingCallsLimitExceeded,
    LocalRayletDiedError,
    TaskUnschedulableError,
    ActorDiedError,
    ActorUnschedulableError,
    ActorUnavailableError,
    RayChannelError,
    RayChannelTimeoutError,
    OufOfBandObjectRefSerializationException,
    RayCgraphCapacityExceeded,
    UnserializableException,
    ActorAlreadyExistsError,
    ActorHandleNotFoundError,
    AuthenticationError,
]
