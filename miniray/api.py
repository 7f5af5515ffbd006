"""remote, get, put, wait, kill, cancel and the rest of `ray`'s functions."""

from __future__ import annotations

import inspect
from operator import lt
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Protocol,
    Sequence,
    TypeVar,
    overload,
)

from .actor import ActorClass, ActorHandle, find
from .calls import wait as waits
from .core.records import ACTOR_TASK, ENDED, ObjectRecord, amounts
from .exceptions import ActorHandleNotFoundError, GetTimeoutError, RaySystemError
from .object_ref import ObjectRef, ObjectRefGenerator, is_ready
from .observe.explain.explanation import explain_object
from .options.when_given import check_tensor_transport
from .process import context, replaced
from .process.context import current
from .remote_function import RemoteFunction
from .runtime.runtime import Runtime
from .runtime.waiting import of_an_ended_session
from .runtime_context import gpu_ids
from .session import (
    RayContext as RayContext,
    init as init,
    is_initialized as is_initialized,
    session_or_start,
    shutdown as shutdown,
)

T = TypeVar("T")
R = TypeVar("R")

if TYPE_CHECKING:
    Yielding = Callable[..., Iterator[Any] | AsyncIterator[Any]]

    class Decorator(Protocol):
        """What `remote(num_cpus=2)` makes of a class, of a generator function, of any other function. A class can be called like
        a function, and a generator function is one: the first that fits is meant, which mypy thinks unsafe."""

        @overload
        def __call__(self, cls: type[T], /) -> ActorClass[T]: ...  # type: ignore[overload-overlap]

        @overload
        def __call__(self, function: Yielding, /) -> RemoteFunction[ObjectRefGenerator]: ...  # type: ignore[overload-overlap]

        @overload
        def __call__(self, function: Callable[..., R], /) -> RemoteFunction[ObjectRef[R]]: ...

    class DecoratorOfReturns(Protocol):
        """What `remote(num_returns=...)` makes of a function: the caller knows what its `.remote()` returns."""

        def __call__(self, function: Callable[..., Any], /) -> RemoteFunction[Any]: ...


# ---------------------------------------------------------------- remote, get, put, wait


@overload
def remote(cls: type[T], /) -> ActorClass[T]: ...  # type: ignore[overload-overlap]  # as in Decorator


@overload
def remote(function: Yielding, /) -> RemoteFunction[ObjectRefGenerator]: ...  # type: ignore[overload-overlap]


@overload
def remote(function: Callable[..., R], /) -> RemoteFunction[ObjectRef[R]]: ...


@overload
def remote(*, num_returns: Any, **options: Any) -> DecoratorOfReturns: ...


@overload
def remote(**options: Any) -> Decorator: ...


def remote(*args: Any, **kwargs: Any) -> Any:
    """Make a function a remote function, or a class an actor class: `@remote` bare, or `@remote(num_cpus=2, ...)`.

    Raises AssertionError for what is neither, TypeError for a callable that is not a function or class, ValueError or TypeError
    for bad options. Ray: ray.remote.
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return _make_remote(args[0], None)
    assert not args and kwargs, (
        "The @remote decorator must be applied either with no arguments and no parentheses, for example '@remote', or it must "
        "be applied using some of the keyword arguments, for example '@remote(num_returns=2)'."
    )
    return lambda function_or_class: _make_remote(function_or_class, kwargs)


def _make_remote(thing: Any, options: dict[str, Any] | None) -> Any:
    if inspect.isfunction(thing) and not replaced.is_guard(thing):
        return RemoteFunction(thing, options)
    if inspect.isclass(thing):
        return ActorClass(thing, options)
    if not callable(thing) and not hasattr(thing, "__module__"):
        raise AttributeError(f"@remote is for functions and classes, and {thing!r} is neither")
    raise TypeError(f"The @remote decorator must be applied to either a function or a class, and {thing!r} is neither.")


@overload
def get(object_refs: ObjectRef[R], *, timeout: float | None = None) -> R: ...


@overload
def get(object_refs: Sequence[ObjectRef[R]], *, timeout: float | None = None) -> list[R]: ...


@overload
def get(object_refs: Any, *, timeout: float | None = None, _use_object_store: bool = False) -> Any: ...


def get(object_refs: Any, *, timeout: float | None = None, _use_object_store: bool = False) -> Any:
    """The value of a reference, or the values of a list of them, waited for.

    timeout: seconds; GetTimeoutError when it passes first, with the reason why it waited. Raises the error of a task that
    failed, which is an instance of both RayTaskError and the class that was raised. ValueError for what is neither a
    reference nor a list, TypeError for a list with anything else in it. Values are fresh copies; buffers are read-only views.
    A generator of references is returned as it is.
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
    for ref in object_refs:
        if type(ref) is not ObjectRef:
            raise TypeError(f"Attempting to call `get` on the value {ref!r}, which is not an ray.ObjectRef.")
    records = [ref._record for ref in object_refs]
    if timeout is not None and records:
        timeout = _seconds(timeout)
    values = runtime.get(records, timeout)
    if values is None:
        raise _timed_out(runtime, records)
    return values


def _seconds(timeout: Any) -> float | None:
    """The timeout of a `get`. A negative one is none, as in Ray. Raises what `_milliseconds` does."""
    return None if _milliseconds(timeout) < 0 else max(0.0, float(timeout))


def _milliseconds(timeout: Any) -> int:
    """As Ray counts a timeout: by whole milliseconds in 64 bits. ValueError for NaN and for text, OverflowError for what is
    longer, TypeError for what cannot be multiplied."""
    try:
        milliseconds = int(timeout * 1000)
    except (TypeError, ValueError) as error:
        raise type(error)(f"'timeout' must be a number of seconds or None, not {timeout!r}") from None
    if not -_MOST <= milliseconds < _MOST:
        raise OverflowError(f"a 'timeout' of {timeout!r} seconds is more than 64 bits of milliseconds")
    return milliseconds


_MOST = 1 << 63


def _timed_out(runtime: Runtime, records: list[ObjectRecord]) -> GetTimeoutError:
    lines = ["Get timed out: some object(s) not ready."]
    for record in records:
        if not is_ready(record):
            lines.append(explain_object(runtime, record))
            break
    return GetTimeoutError(" ".join(lines))


def put(value: T, *, _owner: Any = None, _tensor_transport: str | None = None) -> ObjectRef[T]:
    """Store a snapshot of a value and return a reference to it. TypeError for a reference, and for what cannot be sent;
    ValueError for an `_owner`, which Ray has given up."""
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
        raise ValueError("'_owner' is not there any more: whoever calls `put` owns the object")
    return ObjectRef._adopt(runtime.put(value))


def wait(
    ray_waitables: list[T], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[T], list[T]]:
    """Wait until `num_returns` of the references are there, whether with a value or an error.

    Returns (ready, the rest), both in the order given; never more than num_returns are in the first. timeout: seconds, after
    which what is ready is returned. A generator in the list is ready when its next reference can be had.
    Raises TypeError for what is not a list of references; ValueError for duplicates, a num_returns below 1 or above
    their number, and a negative timeout.
    """
    runtime = session_or_start()
    if isinstance(ray_waitables, (ObjectRef, ObjectRefGenerator)):
        raise TypeError("wait() expected a list of ray.ObjectRef or ObjectRefGenerator, got a single one")
    if not isinstance(ray_waitables, list):
        raise TypeError(f"wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got {type(ray_waitables)}")
    if timeout is not None and _number("timeout", timeout) < 0:
        raise ValueError(f"The 'timeout' argument must be nonnegative. Received {timeout}")
    if not ray_waitables:
        return [], []
    waits.check(ray_waitables)
    if _number("num_returns", num_returns) <= 0:
        raise ValueError(f"Invalid number of objects to return: num_returns={int(num_returns)}.")
    if num_returns > len(ray_waitables):
        raise ValueError("num_returns cannot be greater than the number of ray_waitables provided to ray.wait.")
    seconds = None if timeout is None else max(0.0, _milliseconds(timeout) / 1000)
    num_returns = int(num_returns)
    if not num_returns:  # it was a fraction below 1
        raise RaySystemError("wait() was asked for no reference at all: num_returns must be at least 1")
    ready = waits.ready_positions(ray_waitables, num_returns)
    if len(ready) < num_returns:
        if seconds == 0 and runtime.dropped:
            runtime.drain()  # the references may wait for what the program has dropped, and it may only ever poll
        records = [waits.record_of(w) for w in ray_waitables]
        deadline = None if seconds is None else runtime.now() + seconds
        while len(ready) < num_returns:
            pending = [record for record in records if not is_ready(record)]
            for record in pending:
                if type(record) is ObjectRecord and record.status is ENDED:
                    raise of_an_ended_session(record)
            if seconds == 0:
                break
            left = None if deadline is None else max(0.0, deadline - runtime.now())
            came = (
                runtime.wait_for(pending, num_returns - (len(records) - len(pending)), False, left) if pending else True
            )
            ready = waits.ready_positions(ray_waitables, num_returns)
            if not came and left is not None:
                break
    return waits.split(ray_waitables, ready)


def _number(name: str, value: Any) -> Any:
    try:
        lt(0, value)  # what can be compared with a number will do
    except TypeError:
        raise TypeError(f"wait() expected a number for '{name}', got {value!r}") from None
    return value


# ---------------------------------------------------------------- actors and tasks


def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]:
    """A handle to the named actor. ValueError when there is none of that name in the namespace, or the name is empty;
    TypeError for a name or namespace that is no string."""
    runtime = session_or_start()
    if not name:
        raise ValueError("Please supply a non-empty value to get_actor: the name of an actor")
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"the name of an actor must be a string, got {name!r}")
    if namespace is not None:
        _check_namespace(namespace)
    handle = find(runtime, name, namespace or runtime.options["namespace"])
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
    """End an actor: its running, queued and later calls raise ActorDiedError. no_restart=False: it is made anew if it has
    restarts left. ValueError for what is not a handle; ActorHandleNotFoundError for one of a session that has ended."""
    runtime = session_or_start()
    if not isinstance(actor, ActorHandle):
        raise ValueError(f"ray.kill() only supported for actors. For tasks, try ray.cancel(). Got: {type(actor)}.")
    if actor._record.status is ENDED:
        raise ActorHandleNotFoundError(f"{actor!r} belongs to a session that has been shut down")
    runtime.tell(runtime.cluster.kill_actor, actor._record.actor, no_restart)


def cancel(ray_waitable: Any, *, force: bool = False, recursive: bool = True) -> None:
    """Stop the task that makes this object, if it has not ended: a queued one never runs, a running one gets a
    KeyboardInterrupt (an async actor's call a CancelledError). force: its worker is ended. recursive: what it started, too.
    Raises TypeError for what is no reference, or one of a session that has ended; ValueError for force on an actor's call."""
    runtime = session_or_start()
    if isinstance(ray_waitable, ObjectRefGenerator):
        ray_waitable = ray_waitable.completed()
    if not isinstance(ray_waitable, ObjectRef):
        raise TypeError(
            f"ray.cancel() only supported for object refs. For actors, try ray.kill(). Got: {type(ray_waitable)}."
        )
    task = ray_waitable._record.task
    if ray_waitable._record.status is ENDED or ray_waitable._record.number < 0:
        raise TypeError(f"{ray_waitable!r} is not of this session: there is nothing to cancel")
    if task is None:
        return
    if force and task.spec.kind == ACTOR_TASK and not task.t_finished:
        raise ValueError("force=True is not supported for actor tasks.")
    runtime.tell(runtime.cluster.cancel, task, force, recursive)


def get_gpu_ids() -> list[int]:
    """The GPUs given to this task or actor."""
    session_or_start()
    return gpu_ids()


# ---------------------------------------------------------------- the cluster


def _started() -> Runtime:
    """The running session; these functions do not start one, in Ray neither."""
    if context.session is None and current.get() is None:
        raise RaySystemError("there is no session yet whose state could be told: call init() first")
    return session_or_start()


def nodes() -> list[dict[str, Any]]:
    """One dict a node, with Ray's keys (NodeID, Alive, Resources ...). A dead one has no resources. RaySystemError before init."""
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
    """What all living nodes have, by resource name. RaySystemError before init."""
    runtime = _started()
    with runtime.locked() as cluster:
        found = _sum([node.total for node in cluster.scheduler.alive])
    return {name: amount for name, amount in found.items() if amount}


def available_resources() -> dict[str, float]:
    """What is free on all living nodes; a resource of which nothing is free has no key. RaySystemError before init."""
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


def list_named_actors(all_namespaces: bool = False) -> list:
    """The names of living actors in the namespace, or dicts of name and namespace of all of them."""
    runtime = session_or_start()
    with runtime.locked() as cluster:
        found = list(cluster.actor_manager.names)
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for namespace, name in found]
    return [name for namespace, name in found if namespace == runtime.options["namespace"]]


def __getattr__(name: str) -> Any:
    if name == "session":  # the running session, for those who look into it
        return context.session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
