"""Handles to actors, and the methods that are read from them. Ray: ray.actor.

A `Template` holds what all actors of one class with one set of options share, so a call through a handle only looks up
the specification of its method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .calls.actor_classes import ClassInfo, MethodInfo, undeclared_group
from .core.records import ACTOR_TASK, ENDED, ActorRecord, ObjectRecord, TaskSpec
from .exceptions import PendingCallsLimitExceeded
from .generics import Generic, TypeVar
from .ids import ActorID
from .object_ref import ObjectRef, dropped, pin, refs_of
from .options import at_call, when_given
from .options.known_options import METHOD_CALL_OPTIONS
from .process import context
from .process.context import running
from .runtime.runtime import Runtime
from .values.pickler import reduces
from .values.serialization import contain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

T = TypeVar("T")  # the plain class
_new = object.__new__


class Template:
    """The part that all actors of one variant share: the class, the limits, and the specifications of their methods.

    It is the `meta` of their ActorRecords. groups: the size of each concurrency group; "" is the default group.
    """

    __slots__ = ("info", "groups", "given", "specs", "max_pending_calls")

    def __init__(self, info: ClassInfo, groups: dict[str, int], given: dict[str, Any]):
        self.info, self.groups, self.given = info, groups, given
        self.specs: dict[str, TaskSpec] = {}
        self.max_pending_calls = given.get("max_pending_calls", -1)

    def spec_of(self, name: str, given: dict[str, Any] | None = None) -> TaskSpec:
        """The specification of a method's calls. given: options of this call, which override those of the decorator."""
        spec = self.specs.get(name) if given is None else None
        if spec is None:
            spec = self._make(self.info.methods[name], given or {})
            if given is None:
                self.specs[name] = spec
        return spec

    def _make(self, found: MethodInfo, given: dict[str, Any]) -> TaskSpec:
        options = {**found.options, **given}
        at_call.check_method_call(options)
        num_returns = options.get("num_returns")
        if num_returns is None:
            num_returns = "streaming" if found.generator else 1
        elif not isinstance(num_returns, str):
            num_returns = int(num_returns)
            if num_returns < 0:  # a number of numpy, say, which is not checked earlier: these are Ray's numbers
                num_returns = {-1: "dynamic", -2: "streaming"}.get(num_returns, num_returns)
        retries = options.get("max_task_retries")
        retries = int(self.given.get("max_task_retries", 0) if retries is None else retries)
        if retries >= 2**31:
            raise OverflowError(f"option 'max_task_retries' must be below 2147483648, not {retries}")
        function_name = f"{self.info.name}.{found.name}"
        group = options.get("concurrency_group") or ""
        function = found.builtin if group in self.groups else undeclared_group
        backpressure = options.get("_generator_backpressure_num_objects")
        backpressure = -1 if backpressure is None else int(backpressure)
        if not backpressure:  # no item could ever be yielded; on Ray the worker dies
            raise ValueError("'_generator_backpressure_num_objects' of a method must not be 0")
        return TaskSpec(
            ACTOR_TASK,
            options.get("name") or function_name,
            function_name,
            self.info.module,
            function,
            None,
            {},
            num_returns,
            retries,
            options.get("retry_exceptions") or False,
            group,
            backpressure=backpressure,
            options={"method": found.name, "generator": found.generator},
        )


class ActorMethod:
    """One method of one actor, read from a handle. Call it with `.remote(...)`. Ray: ray.actor.ActorMethod."""

    __slots__ = ("_handle", "_found", "_given")

    def __init__(self, handle: "ActorHandle[Any]", found: MethodInfo, given: dict[str, Any] | None = None):
        self._handle, self._found, self._given = handle, found, given

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Submit a call of the method, and return at once.

        A plain actor runs the calls of one caller in the order of submission.

        Returns an ObjectRef, a list of them, None or an ObjectRefGenerator, as `.remote` of a remote function does.

        Raises TypeError if the arguments do not fit the method or cannot be serialized; PendingCallsLimitExceeded if
        the actor already has `max_pending_calls` unfinished calls. An actor that has died does not raise here, but in
        `get`.
        """
        runtime = context.session
        record = self._handle._record
        actor = record.actor
        found = self._found
        if runtime is not None and runtime.call_spans is not None:
            around = runtime.call_spans.of_method_once(self, actor.class_name, found.name, actor.hex)
            if around is not None:
                with around:
                    return ActorMethod.remote(self, *args, **kwargs)
        check = found.check
        if kwargs or not check.at_least <= len(args) <= check.at_most:
            check(args, kwargs)
        template = actor.meta
        spec = template.specs.get(found.name) if self._given is None else None
        if spec is None:
            spec = template.spec_of(found.name, self._given)
        if record.status is ENDED:
            raise Exception(f"{self._handle!r} belongs to a session that has been shut down")
        if 0 <= template.max_pending_calls <= len(actor.calls) and template.max_pending_calls:
            raise PendingCallsLimitExceeded(
                f"The actor {actor.hex} has {len(actor.calls)} calls that are not finished, and max_pending_calls is "
                f"{template.max_pending_calls}: wait for some of them before you call it again."
            )
        if runtime is None:
            runtime = running()
        task = runtime.submit(spec, args, kwargs, actor)
        if spec.num_returns == 1:
            ref = _new(ObjectRef)
            ref._record = task.returns[0]
            return ref
        return refs_of(task)

    def options(self, **options: Any) -> "MethodWithOptions":
        """Return this method with other options, such as num_returns, concurrency_group or max_task_retries.

        Raises ValueError for an unknown option or a bad value, TypeError for a value of a wrong type.
        """
        given = when_given.method_options(options, self._found.generator)
        return MethodWithOptions(type(self)(self._handle, self._found, given))

    def _remote(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """Submit a call with these options: the form that libraries of Ray's use. Raises TypeError for an option that
        does not exist, otherwise what `options` and `remote` raise."""
        for name in options:
            if name not in METHOD_CALL_OPTIONS:
                raise TypeError(f"_remote() got an unexpected keyword argument '{name}'")
        return self.options(**options).remote(*(args or ()), **(kwargs or {}))

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a graph node that calls this method; if it has several returns, a tuple of nodes.

        Raises TypeError if the arguments do not fit the method. See `miniray.dag`.
        """
        from .dag import bind_method

        self._found.check(args, kwargs)
        num_returns = {**self._found.options, **(self._given or {})}.get("num_returns")
        return bind_method(self, args, kwargs, self._given or {}, num_returns)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._found.name
        raise TypeError(
            f"Actor methods cannot be called directly. Instead of running 'object.{name}()', try "
            f"'object.{name}.remote()'."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_method, (self._handle, self._found.name, self._given)

    def __repr__(self) -> str:
        return f"ActorMethod({self._handle._record.actor.meta.info.name}.{self._found.name})"


class MethodWithOptions:
    """A method with other options, as `ActorMethod.options` returns it. As in Ray, it can only be called or bound."""

    __slots__ = ("_method",)

    def __init__(self, method: ActorMethod):
        self._method = method

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Submit a call of the method with its options. See `ActorMethod.remote`."""
        return self._method.remote(*args, **kwargs)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a graph node that calls the method with its options. See `ActorMethod.bind`."""
        return self._method.bind(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return MethodWithOptions, (self._method,)


class DecoratedMethod(ActorMethod):
    """A method with a decorator of its calls (`MethodInfo.decorate`)."""

    __slots__ = ()

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Give the decorator a function of (args, kwargs) that submits a call. Call what it returns instead."""
        call = self._found.decorate(lambda args, kwargs: ActorMethod.remote(self, *args, **kwargs))
        return call(args, kwargs)


class ActorHandle(Generic[T]):
    """A reference to an actor, returned by `.remote()` of an actor class and by `get_actor`.

        counter = Counter.remote()
        ref = counter.increment.remote()

    Each method of the class is an attribute of the handle. Fields and properties are not, and raise AttributeError like
    unknown names. Two handles to the same actor are equal. An actor that is not detached ends when its last handle is
    gone and its submitted calls are finished. Weak handles do not count: those that `get_actor` and the runtime context
    return, and their copies in tasks, objects and actors. Ray: ray.actor.ActorHandle.
    """

    __slots__ = ("_record", "__weakref__", "__dict__")  # as in Ray, a program may set attributes on a handle

    _record: ObjectRecord

    def __new__(cls, record: ObjectRecord) -> ActorHandle[T]:
        """record: the object that stands for the actor's handles, or for the weak ones, with one reference already
        counted for this one."""
        self = object.__new__(cls)  # not in __init__: __del__ must never meet a handle without a record
        self._record = record
        return self

    def __del__(self, _drop: Callable[[Any], None] = dropped.append) -> None:
        _drop(self._record)

    @property
    def _actor_id(self) -> ActorID:
        return ActorID.from_hex(self._record.actor.hex)

    @property
    def _ray_actor_id(self) -> ActorID:
        return self._actor_id

    def __getattr__(self, name: str) -> ActorMethod:
        found = self._record.actor.meta.info.methods.get(name)
        if found is None:
            raise AttributeError(
                f"'ActorHandle' object has no attribute '{name}': a handle offers the methods of its class only, which "
                f"is {self._record.actor.meta.info.name}"
            )
        if found.decorate is not None:
            return DecoratedMethod(self, found)
        method = _new(ActorMethod)  # its `__init__` written out, since every call of the actor begins here
        method._handle, method._found, method._given = self, found, None
        return method

    def __dir__(self) -> list[str]:
        return sorted(self._record.actor.meta.info.methods)

    def __eq__(self, other: object) -> bool:
        return type(other) is ActorHandle and other._record.actor is self._record.actor

    def __hash__(self) -> int:
        return hash(self._actor_id)

    def __repr__(self) -> str:
        actor = self._record.actor
        return f"Actor({actor.class_name}, {actor.hex})"

    def __copy__(self) -> ActorHandle[T]:
        return new_handle(running(), self._record)

    def __deepcopy__(self, memo: dict[int, Any]) -> ActorHandle[T]:
        return new_handle(running(), self._record)

    def __reduce__(self) -> tuple[Any, ...]:
        record = self._record
        contain(record)
        return _restore_handle, (record.actor.number, record is not record.actor.handle)


ActorHandle.__module__ = ActorMethod.__module__ = "miniray.actor"  # where Ray has them, for a program that asks


@reduces(ActorHandle)
def _reduce(handle: ActorHandle[Any], pickler: Any) -> tuple[Any, ...]:
    """Pickle a handle with our own pickler. As a reference, it is pinned if only the program has the stream."""
    record = handle._record
    if not contain(record) and record is record.actor.handle:
        pin(record, handle)
    return handle.__reduce__()


ActorProxy = ActorHandle  # Ray's name, in annotations, for the handle that `.remote()` of an actor class returns


def new_handle(runtime: Runtime, record: ObjectRecord) -> ActorHandle[Any]:
    """Return another handle to an actor, and count the reference."""
    runtime.add_reference(record)
    return ActorHandle(record)


def weak_handle(runtime: Runtime, actor: ActorRecord) -> ActorHandle[Any]:
    """Return a handle that does not keep its actor alive."""
    record = runtime.find_and_hold_actor(lambda cluster: actor, weak=True)
    assert record is not None
    return ActorHandle(record)


def _restore_handle(number: int, weak: bool) -> ActorHandle[Any]:
    record = running().find_and_hold_actor(lambda cluster: cluster.actors.get(number), weak)
    handle: ActorHandle[Any] | None = ActorHandle(record) if record is not None else None
    # A dead actor's class is forgotten with its last handle: a stream that the program has made itself may be older.
    if handle is None or handle._record.actor.meta is None:
        raise ValueError("this actor belongs to another session, or its record was dropped after its death")
    return handle


def _restore_method(handle: ActorHandle[Any], name: str, given: dict[str, Any] | None) -> ActorMethod:
    method: ActorMethod = getattr(handle, name)
    return type(method)(handle, method._found, given)


def find(runtime: Runtime, name: str, namespace: str, weak: bool) -> ActorHandle[Any] | None:
    """Return a handle to the living actor of this name, or None. weak: one that does not keep the actor alive."""
    if runtime.before_look is not None:
        runtime.before_look("names")
    runtime.drain()  # so that an actor whose last handle has just been dropped is not found
    record = runtime.find_and_hold_actor(lambda cluster: cluster.actor_manager.find(name, namespace), weak)
    return ActorHandle(record) if record is not None else None
