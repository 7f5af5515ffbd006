"""Every error that Ray can raise: one class for each thing that can go wrong, all derived from `RayError`.

The names, the bases and the constructor arguments are those of `ray.exceptions` (Ray 2.60), so that an `except` clause
written for Ray works unchanged. The texts are miniray's own: each gives the task, actor or object, what happened to it,
and what to do.

Most classes hold only a text. Two things need more:

- An exception of the user's code is raised as a `RayTaskError` around it. `RayTaskError.as_instanceof_cause` makes an
  error that is also of the exception's own class, so that `except ValueError` catches a `ValueError` of a task.
- An error is stored as a value, and may be raised many times and in many places. So every class can be pickled,
  whatever arguments its constructor needs (see `RayError.__reduce__`). Only an error of two classes cannot, as in Ray:
  nobody can import its class, so that plain pickle refuses it. miniray's own pickler sends it.
"""

from __future__ import annotations

import builtins
import os
import weakref

from .ids import ActorID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# The frames of util/ stay in a traceback: its classes (pools, queues) are written as user code, and help the reader.
_SHOWN_FOLDER = _PACKAGE + "util" + os.sep


class RayError(Exception):
    """The base of every error in this module. `except RayError` catches everything that the runtime itself reports.

    Unlike with `BaseException`, unpickling does not call the constructor: many classes below need arguments that are
    not in `args`. The attributes and `args` are sent as they are. A program's own subclass is an ordinary exception: it
    is rebuilt from its `args`, and cannot be if its constructor needs others.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        if type(self).__module__ != __name__:
            return super().__reduce__()  # type: ignore[return-value]
        return _restore, (type(self), self.args), self.__dict__.copy() or None


def _restore(cls: type[RayError], args: tuple[Any, ...]) -> RayError:
    """Make an instance with these `args` without calling `__init__`. Pickle sets its attributes afterwards."""
    error = cls.__new__(cls, *args)
    error.args = args
    return error


# --- Tasks --------------------------------------------------------------------------------------------------------


class RayTaskError(RayError):
    """A task raised an exception. It is stored in place of each return value; `get` raises `as_instanceof_cause()`.

    function_name: "module.function", or the name of a method. traceback_str: the worker's formatted traceback, which
    ends with the line of the error. cause: the exception itself. proctitle: the title of the worker process:
    "ray::" and the task's name, by default function_name. pid, ip: the place where the task ran, by default here.
    actor_repr, actor_id (hex): for a method of an actor.

    The attributes have the same names, except that `actor_id` is stored as `_actor_id`, as in Ray. Raises
    AssertionError without a traceback.
    """

    _task_error: RayTaskError  # only on an error that is also of the cause's class: the plain error

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
        assert traceback_str is not None, "a RayTaskError needs the worker's traceback"

    @classmethod
    def from_dependency(cls, error: RayError, function_name: str, **where: Any) -> RayTaskError:
        """Return the error of a task that never ran because the task of one of its arguments failed with `error`.

        Its text continues with that of `error`, and its cause is the exception that was raised first. where: further
        arguments of the constructor.
        """
        shown = type(error) if not isinstance(error, RayTaskError) else RayTaskError  # no "(ValueError)", as in Ray
        text = (
            f"Traceback (most recent call last):\n"
            f"  At least one of the input arguments for this task could not be computed:\n"
            f"{shown.__module__}.{shown.__qualname__}: {error}"
        )
        return cls(function_name, text, error.cause if isinstance(error, RayTaskError) else error, **where)

    def as_instanceof_cause(self) -> RayTaskError:
        """Return an error that is an instance of both `RayTaskError` and the class of the cause.

        Its class is called `RayTaskError(ValueError)`, its `args` are `(cause,)`, and its text is that of this error.
        An attribute that it does not have is looked up on the cause. Each call returns a new instance, so that its
        traceback does not grow from one `raise` to the next.

        Returns this error itself if it is of the cause's class already (the cause is a plain `Exception` or
        `RayError`). Also returns this error, and logs a warning, if the cause's class cannot be subclassed, or its
        instances cannot be made from a single argument.
        """
        cause_class = type(self.cause)
        if issubclass(RayTaskError, cause_class):
            return self
        try:
            return self.make_dual_exception_instance()
        except Exception as problem:
            import logging  # only for the warning

            logging.getLogger(__name__).warning(
                "The error of %s is raised as a plain RayTaskError, which `except %s` does not catch, because no "
                "class can be derived from %r (%s). The exception is in the attribute `cause`.",
                self.function_name,
                cause_class.__name__,
                cause_class,
                problem,
            )
            return self

    def make_dual_exception_instance(self) -> RayTaskError:
        """Return an error of both classes.

        Raises what the cause's class raises if it cannot be subclassed or instantiated.
        """
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
    """Return the traceback with `header` in place of the line "Traceback ...", and without miniray's own frames, which
    do not help a user.

    A frame is a line `  File "..."` and the lines after it that are indented by four spaces (source, carets).
    """
    lines: list[str] = []
    hidden = False
    for line in traceback_str.strip().split("\n"):
        if line.startswith("Traceback "):
            lines.append(header)
            hidden = False
        elif line.startswith('  File "'):
            path = line[len('  File "') :]
            hidden = path.startswith(_PACKAGE) and not path.startswith(_SHOWN_FOLDER)
            if not hidden:
                lines.append(line)
        elif not (hidden and line.startswith("    ")):
            hidden = False
            lines.append(line)
    return "\n".join(lines)


# One dual class for each class of a cause, for as long as an error of it exists. The values are weak: a dual class has
# the cause's class as a base, so a table with weak keys would keep both forever, and with them every class that a
# session made for its workers.
dual_classes: weakref.WeakValueDictionary[type[BaseException], Any] = weakref.WeakValueDictionary()

_ExceptionGroup: Any = getattr(builtins, "ExceptionGroup", None)  # Python 3.11 and later


def _dual_class(cause_class: type[BaseException]) -> Any:
    """Return the class that derives from RayTaskError and `cause_class`.

    Its instances are made from the cause alone.
    """
    found = dual_classes.get(cause_class)
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
    # Use the metaclass that a class statement would choose, because the user's class may have its own.
    metaclass: Any = type(cause_class)
    dual = metaclass(namespace["__qualname__"], (RayTaskError, cause_class), namespace)
    return dual_classes.setdefault(cause_class, dual)


# The members of every dual class. They are plain functions, and not the methods of a common base, because Ray's dual
# classes have no such base in their `__mro__`.


def _dual_group_new(cls: type[Any], cause: Any) -> Any:
    """Make an exception group from a message and its members; other exceptions are made from one argument."""
    return _ExceptionGroup.__new__(cls, cause.message, cause.exceptions)


def _dual_init(self: Any, cause: BaseException) -> None:
    # Do not call the constructors of the bases: the user's may need any arguments.
    self.cause = cause
    self._dual_args = (cause,)


def _dual_args(self: Any) -> tuple[Any, ...]:
    args: tuple[Any, ...] = self._dual_args
    return args


def _dual_set_args(self: Any, args: tuple[Any, ...]) -> None:
    self._dual_args = args


def _dual_getattr(self: Any, name: str) -> Any:
    """Return the attribute of the cause. As in Ray, the attributes of the plain error (function_name, pid) are not
    found here."""
    fields = self.__dict__
    # While the error is made or copied, its attributes are not set yet, and `self.cause` would call this again.
    if "cause" not in fields or name == "_task_error":
        raise AttributeError(name)
    return getattr(fields["cause"], name)


def _dual_str(self: Any) -> str:
    return str(self._task_error)


def _dual_reduce(self: Any) -> tuple[Any, ...]:
    return type(self), (self.cause,), self.__dict__.copy()


def cause_class_of(cls: type) -> type[BaseException] | None:
    """The class of the cause if this is the class of `RayTaskError.as_instanceof_cause`, otherwise None."""
    return cls.__bases__[1] if cls.__dict__.get("__reduce__") is _dual_reduce else None


def dual_class(cause_class: type[BaseException]) -> Any:
    """The class of `RayTaskError.as_instanceof_cause` for a class of causes. Pickle calls this where an error
    arrives."""
    return _dual_class(cause_class)


class TaskCancelledError(RayError):
    """The task was cancelled. task_id: the TaskID, or its hex; None unless the task had started. error_message: the
    reason."""

    task_hex = ""  # the task, for the text only

    def __init__(self, task_id: Any = None, error_message: str | None = None) -> None:
        self.task_id = task_id
        self.error_message = error_message

    def __str__(self) -> str:
        task = self.task_id or self.task_hex
        text = f"Task: {task} was cancelled." if task else "This task was cancelled."
        return f"{text} {self.error_message}" if self.error_message else text


class WorkerCrashedError(RayError):
    """The worker died while it ran the task (`os._exit`, `sys.exit`, an injected crash), and no retries are left."""

    reason = ""  # how the worker died, if known

    def __str__(self) -> str:
        reason = self.reason or super().__str__() or "it exited, or crashed"
        return (
            f"The worker died unexpectedly while executing this task. Reason: {reason}. With max_retries, a task is "
            "retried on another worker."
        )


class LocalRayletDiedError(RayError):
    """The raylet of the node from which the task was submitted has died."""

    def __str__(self) -> str:
        return super().__str__() or "The raylet of this node died, so the task could not be submitted or finished."


class UserCodeException(RayError):
    """Wraps an error of user code that a library called. `retry_exceptions` is applied to its `__cause__`."""


class CrossLanguageError(RayError):
    """An error from a worker in another language. ray_exception has `language` and `formatted_exception_string`."""

    def __init__(self, ray_exception: Any) -> None:
        super().__init__(
            f"An error was raised in {ray_exception.language}:\n{ray_exception.formatted_exception_string}"
        )


class UnserializableException(RayError):
    """The task's exception was sent but could not be rebuilt by the receiver, so only its text is left.

    The usual cause is a constructor with arguments that are not in `args`. original_stack_trace: the formatted
    traceback.
    """

    def __init__(self, original_stack_trace: str) -> None:
        self._original_stack_trace = original_stack_trace

    def __str__(self) -> str:
        return (
            "Failed to deserialize exception. The task raised one that cannot be rebuilt from its pickle, so only its "
            "text is left. If the arguments of its constructor are not those in `args`, give the class a "
            "`__reduce__`.\n"
            f"Original exception:\n{self._original_stack_trace}"
        )


# --- Actors -------------------------------------------------------------------------------------------------------


class RayActorError(RayError):
    """A call of an actor's method failed because of the actor. Raised as `ActorDiedError` or `ActorUnavailableError`.

    actor_id: hex. error_msg: the text. actor_init_failed: the constructor raised. preempted: the node was taken away.
    """

    BASE_ERROR_MSG = "The actor experienced an error before finishing this task."

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


class ActorDiedErrorContext:
    """What is known about the death of an actor whose constructor did not raise. Ray: common.proto, same name.

    actor_id: hex. error_message: the cause, and what to do. Empty fields are left out of the text.
    """

    def __init__(
        self,
        actor_id: str,
        class_name: str,
        error_message: str,
        name: str = "",
        ray_namespace: str = "",
        pid: int = 0,
        node_ip_address: str = "",
        never_started: bool = False,
        preempted: bool = False,
    ):
        self.actor_id, self.class_name, self.error_message, self.name = actor_id, class_name, error_message, name
        self.ray_namespace, self.pid, self.node_ip_address = ray_namespace, pid, node_ip_address
        self.never_started, self.preempted = never_started, preempted

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class ActorDiedError(RayActorError):
    """The actor is dead and will not be restarted: this call has failed, and every later call will.

    cause: a `RayTaskError` if the constructor raised, otherwise an `ActorDiedErrorContext`, or None if nothing is
    known.
    """

    BASE_ERROR_MSG = "The actor died unexpectedly before finishing this task."

    def __init__(self, cause: RayTaskError | ActorDiedErrorContext | None = None) -> None:
        if not cause:  # as in Ray, anything false is no cause
            super().__init__(None, self.BASE_ERROR_MSG)
        elif isinstance(cause, RayTaskError):
            text = f"The actor died because of an error raised in its creation task, {cause}"
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
                lines.append("It died before its constructor had started.")
            super().__init__(cause.actor_id, "\n".join(lines), preempted=cause.preempted)

    @staticmethod
    def from_task_error(task_error: RayTaskError) -> ActorDiedError:
        """Return the error of an actor whose constructor failed with `task_error`."""
        return ActorDiedError(task_error)


class ActorUnavailableError(RayActorError):
    """The actor cannot be reached now but may be reachable later. It is restarting, for example.

    error_message: the reason. actor_id: the bytes of the id; None if unknown.
    """

    def __init__(self, error_message: str, actor_id: bytes | None) -> None:
        hex_id = None if actor_id is None else ActorID(actor_id).hex()
        text = f"The actor {hex_id} is unavailable: {error_message}. The call may or may not have run."
        super().__init__(hex_id, text)


class AsyncioActorExit(RayError):
    """Raised by `exit_actor()` inside an async actor, to leave the event loop. Callers do not see it."""


class PendingCallsLimitExceeded(RayError):
    """The call was refused, because `max_pending_calls` calls of this handle are already waiting."""


class ActorAlreadyExistsError(ValueError, RayError):
    """A living actor of the same namespace has this name. Also a ValueError, because older programs catch that."""

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        return self.error_message


class ActorHandleNotFoundError(ValueError, RayError):
    """`kill` was given a handle that this session does not know: it belongs to a session that has ended."""

    def __init__(self, error_message: str) -> None:
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self) -> str:
        return self.error_message


# --- Objects ------------------------------------------------------------------------------------------------------


class ObjectLostError(RayError):
    """Every copy of the object was lost with the node that held it, and the object cannot be rebuilt.

    object_ref_hex: the object. owner_address: its owner, if known. call_site: the line that created its reference, if
    recorded.
    """

    def __init__(self, object_ref_hex: str, owner_address: Any, call_site: str) -> None:
        self.object_ref_hex = object_ref_hex
        self.owner_address = owner_address
        self.call_site = call_site.replace(" | ", "\n  ")  # the lines of a call site are sent in one

    def _base_str(self) -> str:
        created = f" Its reference was created at: {self.call_site}" if self.call_site else ""
        return f"Object {self.object_ref_hex} could not be retrieved.{created}"

    def _reason(self) -> str:
        return "All copies of it were lost when their nodes died, and it has no lineage from which to rebuild it."

    def __str__(self) -> str:
        return f"{self._base_str()}\n\n{self._reason()}"


class ObjectFetchTimedOutError(ObjectLostError):
    """No node that holds the object was found in time."""

    def _reason(self) -> str:
        return "No node with a copy of it was found."


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """The object was deleted although there was still a reference to it."""

    def _reason(self) -> str:
        return "Reference counting deleted it while this reference still existed. This is a bug in miniray."


class ObjectFreedError(ObjectLostError):
    """The program called `free` on the object and then asked for its value."""

    def _reason(self) -> str:
        return "It was freed by a call of `free`. Free an object only if its value is no longer needed."


class OwnerDiedError(ObjectLostError):
    """The worker that created the object's reference has exited. Only this worker, the owner, could find the value."""

    def _reason(self) -> str:
        owner = f" ({self.owner_address})" if self.owner_address else ""
        return (
            f"Its owner{owner} has exited: the worker that called `.remote()` or `put` for it. An object lives no "
            "longer than its owner; create it in a worker that lives longer."
        )


class ObjectReconstructionFailedError(ObjectLostError):
    """The object was lost and could not be rebuilt from its lineage.

    reason: a key of `REASON_MESSAGES`, or None. reason_message: a text to use in place of the one in `REASON_MESSAGES`.
    """

    REASON_MESSAGES = {
        "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED": (
            "Its task has no retries left. Give it more with `@remote(max_retries=N)`."
        ),
        "OBJECT_UNRECONSTRUCTABLE_LINEAGE_EVICTED": "Its lineage was dropped to save memory.",
        "OBJECT_UNRECONSTRUCTABLE_PUT": (
            "It was created by `put`, which leaves no lineage. A value that a task returns can be rebuilt."
        ),
        "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED": (
            "Its task has max_retries=0. Allow retries with `@remote(max_retries=N)`."
        ),
        "OBJECT_UNRECONSTRUCTABLE_BORROWED": "Only the owner of an object can rebuild it, and this worker borrowed it.",
        "OBJECT_UNRECONSTRUCTABLE_REF_NOT_FOUND": "The reference counter does not know its reference.",
        "OBJECT_UNRECONSTRUCTABLE_TASK_CANCELLED": "The task that would rebuild it was cancelled.",
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
        self.reason_message = reason_message or self.REASON_MESSAGES.get(reason or "", "The reason is unknown.")

    def _reason(self) -> str:
        return f"[{self.reason or 'UNKNOWN'}] {self.reason_message}"


class ObjectStoreFullError(RayError):
    """The object does not fit into the store, which is full of objects that are in use and cannot be spilled."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\nThe object store of this node is full of objects that are still referenced. "
            "Drop references, or give `init` a larger object_store_memory. `miniray memory` lists what is held."
        )


class OutOfDiskError(RayError):
    """The object does not fit into the store, and the disk has no room to spill another object."""

    def __str__(self) -> str:
        return (
            f"{super().__str__()}\nThe object store of this node is full, and so is the disk that it spills to. "
            "Free some disk space, or drop references."
        )


class PlasmaObjectNotAvailable(RayError):
    """The object store did not have the object within the given time."""


class ObjectRefStreamEndOfStreamError(RayError):
    """A streaming generator has no more references. An iterating program sees StopIteration instead."""


class OufOfBandObjectRefSerializationException(RayError):
    """A program pickled a reference itself, so that the copy cannot be counted. (The spelling is Ray's.)"""


# --- Waits, placement, nodes --------------------------------------------------------------------------------------


class GetTimeoutError(RayError, TimeoutError):
    """`get` did not receive every value within its timeout."""


class DeadlockError(RayError):
    """`get` can never return, because the tasks it waits for wait for its caller.

    Raised only under `init(on_deadlock="raise")`, and in a simulation, where it is raised in every thread that waits
    forever, for whatever it waits. Ray has no such error: there the program hangs.
    """


class TaskUnschedulableError(RayError):
    """No node can ever run the task. The node that its scheduling strategy requires has died, for example."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        return f"The task is not schedulable: {self.error_message}"


class ActorUnschedulableError(RayError):
    """No node can ever run the actor. The node that its scheduling strategy requires has died, for example."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        return f"The actor is not schedulable: {self.error_message}"


class TaskPlacementGroupRemoved(RayError):
    """The placement group of the task was removed."""

    def __str__(self) -> str:
        return "The placement group corresponding to this task has been removed."


class ActorPlacementGroupRemoved(RayError):
    """The placement group of the actor was removed."""

    def __str__(self) -> str:
        return "The placement group corresponding to this Actor has been removed."


class RuntimeEnvSetupError(RayError):
    """The runtime environment of a task, actor or job could not be set up. error_message: the reason."""

    def __init__(self, error_message: str | None = None) -> None:
        self.error_message = error_message

    def __str__(self) -> str:
        lines = ["Failed to set up runtime environment."]
        return "\n".join(lines + [self.error_message] if self.error_message else lines)


class OutOfMemoryError(RayError):
    """The task or actor was killed because its node was running out of memory."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __str__(self) -> str:
        return self.message


class NodeDiedError(RayError):
    """The node is dead or cannot be reached."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __str__(self) -> str:
        return self.message


class RpcError(RayError):
    """A call between two services of the cluster failed. rpc_code: the error code of the transport."""

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
        return self.message + ". Give every client of the cluster the same token."


class RaySystemError(RayError):
    """The runtime itself failed, not the user's code. client_exc: the error. traceback_str: its formatted traceback."""

    def __init__(self, client_exc: Any, traceback_str: str | None = None) -> None:
        self.client_exc = client_exc
        self.traceback_str = traceback_str

    def __str__(self) -> str:
        text = f"System error: {self.client_exc}"
        return f"{text}\ntraceback: {self.traceback_str}" if self.traceback_str else text


class StreamingGeneratorReplayInconsistentError(RaySystemError):
    """A streaming generator that was run again yielded a different number of items."""


class RayChannelError(RaySystemError):
    """A channel of a compiled graph failed."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """A channel of a compiled graph was not read or written in time."""


class RayCgraphCapacityExceeded(RaySystemError):
    """A compiled graph holds the maximum number of unread results."""


class RayDirectTransportError(RaySystemError):
    """A tensor could not be moved directly between two actors."""


# Ray's list of the classes that a stored error may have, in Ray's order. Programs loop over it.
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
