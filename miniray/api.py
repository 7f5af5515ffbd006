"""The functions of `ray`: remote, get, put, wait, kill, cancel, nodes and the rest. Ray: ray._private.worker.

`init` and `shutdown` are in `session`, and `wait` is in `calls.wait`; programs find all of them here.
"""

from __future__ import annotations

from types import FunctionType

from .calls.wait import wait as wait, whole_milliseconds
from .core.records import ACTOR_TASK, ENDED, ObjectRecord, amounts
from .exceptions import ActorHandleNotFoundError, GetTimeoutError
from .object_ref import ObjectRef, ObjectRefGenerator, is_ready
from .options.known_options import check_encodes
from .options.when_given import check_tensor_transport
from .process import context, replaced
from .process.worker_process import caller
from .remote_function import RemoteFunction
from .runtime.runtime import Runtime
from .session import (
    RayContext as RayContext,
    init as init,
    is_initialized as is_initialized,
    session_or_start,
    shutdown as shutdown,
)

_new = object.__new__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, AsyncIterator, Callable, Iterable, Iterator, Protocol, Sequence, TypeVar, overload

    from .actor import ActorClass, ActorHandle

    T = TypeVar("T")
    R = TypeVar("R")
    Yielding = Callable[..., Iterator[Any] | AsyncIterator[Any]]
    Streaming = RemoteFunction[ObjectRefGenerator]

    class Decorator(Protocol):
        """The type of `remote(num_cpus=2)`, which decorates a class, a generator function or any other function.

        The cases overlap, since a class can be called like a function and a generator function is a function. The order
        of the overloads resolves that; mypy still reports them as unsafe.
        """

        @overload
        def __call__(self, cls: type[T], /) -> ActorClass[T]: ...  # type: ignore[overload-overlap]

        @overload
        def __call__(self, function: Yielding, /) -> Streaming: ...  # type: ignore[overload-overlap]

        @overload
        def __call__(self, function: Callable[..., R], /) -> RemoteFunction[ObjectRef[R]]: ...

    class DecoratorOfReturns(Protocol):
        """The type of `remote(num_returns=...)`. What `.remote()` then returns depends on a value, so it is Any."""

        def __call__(self, function: Callable[..., Any], /) -> RemoteFunction[Any]: ...
else:
    from .generics import overload


# ---------------------------------------------------------------- remote, get, put


@overload
def remote(cls: type[T], /) -> ActorClass[T]: ...  # type: ignore[overload-overlap]  # as in Decorator


@overload
def remote(function: Yielding, /) -> Streaming: ...  # type: ignore[overload-overlap]


@overload
def remote(function: Callable[..., R], /) -> RemoteFunction[ObjectRef[R]]: ...


@overload
def remote(*, num_returns: Any, **options: Any) -> DecoratorOfReturns: ...


@overload
def remote(**options: Any) -> Decorator: ...


def remote(*args: Any, **kwargs: Any) -> Any:
    """Turn a function into a remote function, or a class into an actor class.

        @ray.remote
        def add(x, y): ...

        @ray.remote(num_cpus=2, max_restarts=1)
        class Counter: ...

        ref = add.remote(1, 2)      # submits a task
        counter = Counter.remote()  # creates an actor

    Use the decorator bare or with keyword options, such as num_cpus, num_gpus, resources, num_returns, max_retries,
    runtime_env and scheduling_strategy. `.options(...)` of the result overrides them for single calls.

    Raises:
        AssertionError: the decorator was called with positional arguments, or with no options.
        TypeError: the decorated object is neither a function nor a class, or an option has a wrong type.
        ValueError: an option is unknown or has a bad value, or the function is a coroutine function.
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return _make_remote(args[0], None)
    assert not args and kwargs, (
        "The @remote decorator must be applied either with no arguments and no parentheses, for example '@remote', or "
        "it must be applied using some of the keyword arguments, for example '@remote(num_returns=2)'."
    )
    return lambda function_or_class: _make_remote(function_or_class, kwargs)


def _make_remote(decorated: Any, options: dict[str, Any] | None) -> Any:
    # A guard stands in for a function of the standard library, such as os._exit, which is built in and so refused.
    if isinstance(decorated, FunctionType) and not replaced.is_guard(decorated):
        return RemoteFunction(decorated, options)
    if isinstance(decorated, type):
        from .actor import make_actor_class  # only for a program with actors

        return make_actor_class(decorated, options)
    if not hasattr(decorated, "__module__"):  # the classes of these errors are Ray's
        raise AttributeError(f"@remote is for functions and classes, and {decorated!r} is neither")
    raise TypeError(
        f"The @remote decorator must be applied to either a function or a class, and {decorated!r} is neither."
    )


@overload
def get(object_refs: ObjectRef[R], *, timeout: float | None = None) -> R: ...


@overload
def get(object_refs: Sequence[ObjectRef[R]], *, timeout: float | None = None) -> list[R]: ...


@overload
def get(object_refs: Any, *, timeout: float | None = None, _use_object_store: bool = False) -> Any: ...


def get(object_refs: Any, *, timeout: float | None = None, _use_object_store: bool = False) -> Any:
    """Wait for the value of a reference, or for the values of a list of references, and return them.

        ray.get(ref)
        ray.get([ref, other], timeout=5.0)

    Each call returns fresh copies of the values. Large buffers, such as numpy arrays, are read-only views and are not
    copied. A task that calls `get` releases its CPU while it waits.

    Args:
        object_refs: an ObjectRef, or a list of them. An ObjectRefGenerator is returned unchanged.
        timeout: seconds to wait at most; None or a negative number waits forever.

    Returns:
        The value, or a list of the values in the order of the references.

    Raises:
        RayTaskError: the task raised. The error is an instance of the class that the task raised, too.
        RayError: the object will never have a value, for example because the actor died (ActorDiedError), the worker
            crashed (WorkerCrashedError), the task was cancelled (TaskCancelledError) or the object was lost
            (ObjectLostError).
        GetTimeoutError: the timeout passed first. The text says what the first missing value is waiting for.
        DeadlockError: this call can never return, and the session was started with on_deadlock="raise".
        ValueError: `object_refs` is neither a reference nor a list, or a reference belongs to an ended session.
        TypeError: an item of the list is not a reference.
    """
    runtime = context.session or session_or_start()
    if type(object_refs) is ObjectRef:
        record = object_refs._record
        if timeout is not None:
            timeout = _seconds(timeout)
        if timeout is None:
            found = runtime.get_one(record)
            if found is not None:
                return found[0]
        values = runtime.get([record], timeout)
        if values is None:
            raise _timed_out(runtime, [record])
        return values[0]
    if isinstance(object_refs, ObjectRefGenerator):
        return object_refs
    if not isinstance(object_refs, list):
        raise ValueError(
            f"Invalid type of object refs, {type(object_refs)}, is given. 'object_refs' must either be an ObjectRef "
            "or a list of ObjectRefs."
        )
    records = [ref._record for ref in object_refs if type(ref) is ObjectRef]
    if len(records) != len(object_refs):
        ref = next(ref for ref in object_refs if type(ref) is not ObjectRef)
        raise TypeError(f"Attempting to call `get` on the value {ref}, which is not an ray.ObjectRef.")
    if timeout is not None and records:
        timeout = _seconds(timeout)
    values = runtime.get(records, timeout)
    if values is None:
        raise _timed_out(runtime, records)
    return values


def _seconds(timeout: Any) -> float | None:
    """The timeout of a `get`, or None for no timeout, which a negative number means, as in Ray.

    Raises the errors of `whole_milliseconds`.
    """
    return None if whole_milliseconds(timeout) < 0 else max(0.0, float(timeout))


def _timed_out(runtime: Runtime, records: list[ObjectRecord]) -> GetTimeoutError:
    lines = ["Get timed out: some object(s) not ready."]
    for record in records:
        if not is_ready(record):
            from .observe.explain.explanation import explain_object  # only a get that takes too long needs it

            lines.append(explain_object(runtime, record))
            break
    return GetTimeoutError(" ".join(lines))


def put(value: T, *, _owner: Any = None, _tensor_transport: str | None = None) -> ObjectRef[T]:
    """Store a copy of a value in the object store and return a reference to it.

    Later changes of the value do not change the copy. The object is freed when nothing refers to it any longer. Storing
    a large value once and passing the reference to many tasks is cheaper than passing the value to each of them.

    Raises TypeError for an ObjectRef or an ObjectRefGenerator, and for a value that cannot be serialized; ValueError
    for an `_owner`, which Ray no longer supports.
    """
    runtime = context.session or session_or_start()
    if isinstance(value, ObjectRef):
        raise TypeError(
            "Calling 'put' on an ray.ObjectRef is not allowed. If you really want to do this, you can wrap the "
            "ray.ObjectRef in a list and call 'put' on it."
        )
    if isinstance(value, ObjectRefGenerator):
        raise TypeError("Calling 'put' on an ray.ObjectRefGenerator is not allowed.")
    if _tensor_transport is not None:
        check_tensor_transport(_tensor_transport)
    if _owner is not None:
        raise ValueError(
            "The experimental `_owner` argument to `ray.put` has been removed: the caller of `put` owns the object"
        )
    record = runtime.put(value)
    ref: ObjectRef[T] = _new(ObjectRef)  # `ObjectRef._adopt`, written out
    ref._record = record
    return ref


# ---------------------------------------------------------------- actors and tasks


def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]:
    """Return a handle to a named actor: one that was created with `.options(name=...)`.

    namespace: where to look; None means the session's own namespace. Raises ValueError if the namespace has no living
    actor of that name, or if the name is empty; TypeError if the name or the namespace is not a string.
    """
    runtime = session_or_start()
    if not name:
        raise ValueError("Please supply a non-empty value to get_actor: the name of an actor")
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"the name of an actor must be a string, got {name!r}")
    if namespace is not None:
        _check_namespace(namespace)
    check_encodes(name if isinstance(name, str) else None, namespace)
    from .actor import find

    handle = find(runtime, name, namespace or runtime.options["namespace"], weak=True)
    if handle is None:
        raise ValueError(
            f"Failed to look up actor with name '{name}'. This could because 1. You are trying to look up a named "
            "actor you didn't create. 2. The named actor died. 3. You did not use a namespace matching the "
            "namespace of the actor."
        )
    return handle


def _check_namespace(namespace: Any) -> None:
    if not isinstance(namespace, str):
        raise TypeError("namespace must be None or a string.")
    if namespace == "":
        raise ValueError('"" is not a valid namespace. Pass None to not specify a namespace.')


def kill(actor: ActorHandle[Any], *, no_restart: bool = True) -> None:
    """End an actor at once. Its running, queued and later calls raise ActorDiedError.

    no_restart=False: the actor is restarted if it has restarts left (`max_restarts`). To let an actor finish its queued
    calls first, call its `__ray_terminate__.remote()` instead.

    Raises ValueError for anything but an actor handle; ActorHandleNotFoundError for a handle of a session that has
    ended.
    """
    from .actor import ActorHandle

    runtime = session_or_start()
    if not isinstance(actor, ActorHandle):
        raise ValueError(f"ray.kill() only supported for actors. For tasks, try ray.cancel(). Got: {type(actor)}.")
    if actor._record.status is ENDED:
        raise ActorHandleNotFoundError(f"{actor!r} belongs to a session that has been shut down")
    runtime.tell(runtime.cluster.kill_actor, actor._record.actor, no_restart)


def cancel(ray_waitable: Any, *, force: bool = False, recursive: bool = True) -> None:
    """Cancel the task that produces this object. `get` of the object then raises TaskCancelledError.

    A task that is still queued never runs. A running task is interrupted by a KeyboardInterrupt, and a running call of
    an async actor by an asyncio.CancelledError. A running call of another actor is interrupted only in `get` and
    `wait`; otherwise it goes on, and its value is discarded. A task that goes on after its cancellation can wait for
    nothing more: each further `get` or `wait` that would block raises KeyboardInterrupt. A task that has finished is
    left alone.

    Args:
        ray_waitable: a reference that a task or an actor's method returns, or the generator of a streaming task.
        force: end the task's worker, even if the task does not react to the interrupt.
        recursive: cancel the tasks that this task has submitted, too.

    Raises:
        TypeError: `ray_waitable` is not a reference, or belongs to a session that has ended.
        ValueError: `force` was given for a call of an actor.
    """
    runtime = session_or_start()
    if isinstance(ray_waitable, ObjectRefGenerator):
        ray_waitable = ray_waitable.completed()
    if not isinstance(ray_waitable, ObjectRef):
        raise TypeError(
            f"ray.cancel() only supported for object refs. For actors, try ray.kill(). Got: {type(ray_waitable)}."
        )
    task = ray_waitable._record.task
    if ray_waitable._record.status is ENDED or ray_waitable._record.number < 0:
        raise TypeError(f"{ray_waitable!r} does not belong to this session: there is nothing to cancel")
    if task is None:
        return
    if force and task.spec.kind == ACTOR_TASK and not task.t_finished:
        raise ValueError("force=True is not supported for actor tasks.")
    runtime.tell(runtime.cluster.cancel, task, force, recursive)


def get_gpu_ids() -> list[int] | list[str]:
    """Return the ids of the GPUs that this task or actor may use; an empty list on the driver.

    They are indices; strings if CUDA_VISIBLE_DEVICES was set when the session started.
    """
    from .runtime_context import gpu_ids

    session_or_start()
    return gpu_ids()


# ---------------------------------------------------------------- the cluster


def _started() -> Runtime:
    """The running session. These functions do not start one, as in Ray; without one they raise RaySystemError."""
    if context.session is None and caller() is None:
        raise context.not_connected()
    return session_or_start()


def nodes() -> list[dict[str, Any]]:
    """Return one dict for each node of the cluster, dead nodes included, with Ray's keys.

    NodeID is the node's id in hex, Alive a bool, Resources what the node has in total ({} for a dead node), Labels its
    labels and DeathReasonMessage why it died. Ports are 0 and sockets "", since nothing listens. Raises RaySystemError
    before `init`.
    """
    runtime = _started()
    with runtime.locked() as cluster:
        found = list(cluster.nodes.values())
    ports = dict.fromkeys(
        (
            "NodeManagerPort",
            "ObjectManagerPort",
            "MetricsExportPort",
            "MetricsAgentPort",
            "RuntimeEnvAgentPort",
            "DashboardAgentListenPort",
        ),
        0,
    )
    return [
        {
            "NodeID": node.hex,
            "Alive": node.alive,
            "alive": node.alive,
            "NodeManagerAddress": node.name,
            "NodeName": node.name,
            "NodeManagerHostname": "localhost",
            "ObjectStoreSocketName": "",
            "RayletSocketName": "",
            **ports,
            "DeathReason": 0 if node.alive else 1,
            "DeathReasonMessage": node.death_message,
            "Labels": dict(node.labels),
            "Resources": amounts(node.total) if node.alive else {},
        }
        for node in found
    ]


def cluster_resources() -> dict[str, float]:
    """Return the total amount of each resource, over all living nodes. Raises RaySystemError before `init`."""
    runtime = _started()
    with runtime.locked() as cluster:
        found = _sum([node.total for node in cluster.scheduler.alive])
    return {name: amount for name, amount in found.items() if amount}


def available_resources() -> dict[str, float]:
    """Return the amount of each resource that is free, over all living nodes. A resource that is used up has no key.

    Raises RaySystemError before `init`.
    """
    runtime = _started()
    with runtime.locked() as cluster:
        found = _sum([node.available for node in cluster.scheduler.alive])
    return {name: amount for name, amount in found.items() if amount}


def _sum(tables: Iterable[dict[str, int]]) -> dict[str, float]:
    total: dict[str, int] = {}
    for table in tables:
        for name, amount in table.items():
            total[name] = total.get(name, 0) + amount
    return amounts(total)


def list_named_actors(all_namespaces: bool = False) -> list[Any]:
    """Return the names of the living named actors in the session's namespace.

    all_namespaces: return one dict with the keys "name" and "namespace" for each named actor of every namespace
    instead.
    """
    runtime = session_or_start()
    with runtime.locked() as cluster:
        found = list(cluster.actor_manager.names)
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for namespace, name in found]
    return [name for namespace, name in found if namespace == runtime.options["namespace"]]


def __getattr__(name: str) -> Any:
    if name == "session":  # the running session, for code that inspects it
        return context.session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
