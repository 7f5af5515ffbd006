"""Actors: what `@remote` makes of a class, the handles to what it makes, and their methods. Ray: ray.actor."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Generic, TypeVar, overload
from weakref import WeakKeyDictionary

from .options import at_call, when_given
from .options.resources import actor_resources
from .core.cluster import Cluster
from .core.records import ACTOR_CREATION_TASK, ACTOR_TASK, ENDED, ActorRecord, ObjectRecord, TaskSpec
from .exceptions import ActorAlreadyExistsError, PendingCallsLimitExceeded
from .ids import ActorID
from .object_ref import ObjectRef, dropped, refs_of
from .remote_function import Capture, export
from .runtime.runtime import Runtime
from .session import session_or_start
from .process import context
from .process.exits import ActorExit, WorkerExit
from .process.context import current, running
from .process.environment import inherited
from .values.serialization import contain, current_space
from .calls.placement import captures_children, scheduling_class
from .options.signatures import checker, constructor_checker, is_async, is_generator

T = TypeVar("T")  # the plain class
Method = TypeVar("Method", bound=Callable[..., Any])
_new_ref = object.__new__
ASYNC_CONCURRENCY = 1000  # Ray: DEFAULT_MAX_CONCURRENCY_ASYNC


class ActorClassInheritanceException(TypeError):
    """An actor class cannot be extended; its plain class can."""


@overload
def method(function: Method, /) -> Method: ...


@overload
def method(**method_options: Any) -> Callable[[Method], Method]: ...


def method(*args: Any, **kwargs: Any) -> Any:
    """Options of an actor's method: `@method(num_returns=2, concurrency_group="io", ...)`; bare, it changes nothing.

    Raises AssertionError for an unknown option. Ray: ray.method.
    """
    if len(args) == 1 and callable(args[0]) and not kwargs:
        return args[0]
    assert not args, "@method takes keyword options only, as @method(num_returns=2)"
    when_given.method_decorator_options(kwargs)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        given = when_given.method_decorator_options(kwargs, is_generator(function))
        function.__miniray_method__ = given  # type: ignore[attr-defined]
        return function

    return decorate


class MethodInfo:
    """What is known of one method: how it is called, checked, and what its decorator said."""

    __slots__ = ("name", "check", "generator", "options", "builtin")

    def __init__(self, name: str, check: Any, generator: bool, options: dict[str, Any], builtin: Any = None):
        self.name, self.check, self.generator, self.options, self.builtin = name, check, generator, options, builtin


def _is_ready(instance: Any) -> bool:
    return True


def _terminate(instance: Any) -> None:
    raise ActorExit("__ray_terminate__ was called")


def _call(instance: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(instance, *args, **kwargs)


def _undeclared_group(instance: Any, *args: Any, **kwargs: Any) -> None:
    """What a call does that names a concurrency group which its actor does not have: it ends the actor's worker, as in Ray."""
    raise WorkerExit("SYSTEM_ERROR: a call named a concurrency group that the actor does not have")


OF_EVERY_ACTOR = {
    name: MethodInfo(name, checker(builtin, skip_first=True), False, {}, builtin)
    for name, builtin in (("__ray_ready__", _is_ready), ("__ray_call__", _call), ("__ray_terminate__", _terminate))
}


class ClassInfo:
    """What is known of an actor's class, shared by all its options and handles.

    modified_class, class_name are Ray's names (ActorClassMetadata).
    """

    def __init__(self, cls: type):
        self.modified_class = cls
        self.class_name = cls.__qualname__
        self.name = cls.__name__
        self.module = getattr(cls, "__module__", "") or ""
        self.check, self.capture = constructor_checker(cls), Capture(cls)
        self.methods: dict[str, MethodInfo] = {}
        self.is_async = False
        for name, function in inspect.getmembers(
            cls, lambda member: inspect.isfunction(member) or inspect.ismethod(member)
        ):
            self._add(cls, name, function)
        self.methods = {**OF_EVERY_ACTOR, **self.methods}

    def _add(self, cls: type, name: str, function: Any) -> None:
        plain = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
        bound = isinstance(plain, (staticmethod, classmethod))
        self.is_async = self.is_async or is_async(function)
        function = inspect.unwrap(
            function
        )  # as in Ray: what a decorator wraps says whether it yields, and has the options
        try:
            check = checker(function, skip_first=not bound)
        except (TypeError, ValueError):
            if name.startswith("__"):
                return
            raise
        options = getattr(function, "__miniray_method__", {})
        self.methods[name] = MethodInfo(name, check, is_generator(function), options)

    def __reduce__(self):
        return ClassInfo, (self.modified_class,)

    def check_groups(self, groups: dict[str, int]) -> None:
        """AssertionError for a method whose decorator names a concurrency group that the class does not have."""
        for name, found in self.methods.items():
            group = found.options.get("concurrency_group")
            assert not group or group in groups, (
                f"the method {self.name}.{name} has the concurrency_group {group!r}, which is not among the concurrency_groups "
                f"of its class: {sorted(filter(None, groups))}"
            )


def _name_taken(name: str, namespace: str) -> ActorAlreadyExistsError:
    return ActorAlreadyExistsError(
        f"The name {name} (namespace={namespace}) is already taken. Please use a different name or get the existing "
        f"actor using ray.get_actor('{name}', namespace='{namespace}')"
    )


class ActorVariant(Generic[T]):
    """An actor class with one set of options: what `.options(...)` gives. Its specification is made once per session."""

    def __init__(self, info: ClassInfo, given: dict[str, Any]):
        self._info, self._given = info, given
        self._runtime: Runtime | None = None
        self._spec: TaskSpec | None = None
        self._template: Template | None = None

    def remote(self, /, *args: Any, **kwargs: Any) -> ActorHandle[T]:
        """Create an actor and return a handle to it at once. TypeError when the arguments do not fit the constructor or cannot be
        sent; ValueError when the name is taken. What the constructor raises comes with the first call."""
        info, given = self._info, self._given
        runtime = context.session
        if runtime is None:
            runtime = session_or_start()
        name, namespace = given.get("name") or "", given.get("namespace") or runtime.options["namespace"]
        if name:
            at_call.check_actor_call(given)
            handle = find(runtime, name, namespace)
            if handle is not None and given.get("get_if_exists"):
                return handle
            if handle is not None:
                raise _name_taken(name, namespace)
        spec, template = self._specify(runtime, args, kwargs)
        actor = ActorRecord(
            info.class_name,
            name,
            namespace,
            given.get("lifetime") == "detached",
            given.get("max_restarts", 0),
            template.groups,
            info.is_async,
            meta=template,
            options=given,
        )
        from .core.actor_manager import NameTaken  # the core is imported when a session starts

        try:
            runtime.create_actor(actor, spec, args, kwargs)
        except NameTaken:
            if given.get("get_if_exists"):
                return self.remote(*args, **kwargs)  # another thread was first
            raise _name_taken(name, namespace) from None
        return ActorHandle(actor.handle)

    def _specify(self, runtime: Runtime, args: tuple, kwargs: dict[str, Any]) -> tuple[TaskSpec, "Template"]:
        given, info = self._given, self._info
        fixed = not runtime.asks_caller
        if self._runtime is runtime and fixed:
            info.check(args, kwargs)
            return self._spec, self._template  # type: ignore[return-value]
        captured = info.capture(runtime)  # the order in which these may refuse is Ray's
        at_call.check_before_arguments(given, of_actor=True)
        info.check(args, kwargs)
        hold, need = actor_resources(given)
        at_call.check_actor_call(given)
        wanted = scheduling_class(runtime, given, need, hold)
        groups = {
            "": given.get("max_concurrency") or (ASYNC_CONCURRENCY if info.is_async else 1),
            **{name: int(size) for name, size in (given.get("concurrency_groups") or {}).items()},
        }
        info.check_groups(groups)
        if given.get("allow_out_of_order_execution") is False and (info.is_async or groups[""] > 1):
            raise ValueError(
                "'allow_out_of_order_execution' cannot be False for an actor whose calls overlap: an async one, or "
                "one with a max_concurrency above 1"
            )
        shown = f"{info.name}.__init__"
        name = f"{given['name']}:{shown}" if given.get("name") else shown
        spec = TaskSpec(
            ACTOR_CREATION_TASK,
            name,
            shown,
            info.module,
            captured,
            wanted,
            hold,
            0,
            -1,
            runtime_env=inherited(runtime, given.get("runtime_env")),
            capture_child_tasks=captures_children(given),
            options=given,
        )
        runtime.asks_caller = runtime.asks_caller or captures_children(given)
        template = Template(info, groups, given)
        if fixed:
            self._spec, self._template, self._runtime = spec, template, runtime
        return spec, template

    def __reduce__(self):
        return ActorVariant, (self._info, self._given)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a graph that creates this actor when the graph is executed."""
        from .dag import ClassNode

        return ClassNode(self, args, kwargs, self._given)


class Template:
    """What the actors made with one set of options share: their class, their limits, and the specifications of their methods."""

    __slots__ = ("info", "groups", "given", "specs", "max_pending_calls")

    def __init__(self, info: ClassInfo, groups: dict[str, int], given: dict[str, Any]):
        self.info, self.groups, self.given = info, groups, given
        self.specs: dict[str, TaskSpec] = {}
        self.max_pending_calls = given.get("max_pending_calls", -1)

    def spec_of(self, name: str, given: dict[str, Any] | None = None) -> TaskSpec:
        """The specification of a method's calls. given: the options of this call, on top of the decorator's."""
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
        elif isinstance(num_returns, float):
            num_returns = int(num_returns)
        retries = options.get("max_task_retries")
        if retries is None:
            retries = self.given.get("max_task_retries", 0)
        if retries >= 2**31:
            raise OverflowError(f"option 'max_task_retries' must be below 2147483648, not {retries}")
        shown = f"{self.info.name}.{found.name}"
        group = options.get("concurrency_group") or ""
        function = found.builtin if group in self.groups else _undeclared_group
        backpressure = options.get("_generator_backpressure_num_objects")
        return TaskSpec(
            ACTOR_TASK,
            options.get("name") or shown,
            shown,
            self.info.module,
            function,
            None,
            {},
            num_returns,
            retries,
            options.get("retry_exceptions") or False,
            group,
            backpressure=-1 if backpressure is None else backpressure,
            options={"method": found.name, "generator": found.generator},
        )


class ActorClass(ActorVariant[T]):
    """A class whose `.remote(...)` creates an actor: an instance in a worker of its own. The plain class is
    `__ray_actor_class__`. Class and static methods and variables can be read from it; in a task or actor they are those of the
    worker's own copy of the class. Ray: ray.actor.ActorClass."""

    _original: ActorClass[T] | None = None  # of a worker's copy: what the program made

    def __init__(self, cls: type[T], options: dict[str, Any] | None = None):
        if not isinstance(cls, type):
            raise TypeError(f"an actor class is made of a class, got {cls!r}")
        super().__init__(ClassInfo(cls), when_given.actor_options(options or {}))
        self.__ray_actor_class__ = cls
        self.__ray_metadata__ = self._info
        self.__doc__ = cls.__doc__
        name = f"ActorClass({cls.__name__})"  # each has a type of its own to be called so, as in Ray
        self.__class__ = type(name, (ActorClass,), {"__module__": cls.__module__, "__qualname__": name})

    def options(self, **actor_options: Any) -> ActorVariant[T]:
        """A variant with other options, for its `.remote`, `.bind`. Raises ValueError or TypeError for a bad one."""
        given = when_given.actor_options(actor_options, self._given)
        return ActorVariant(self._info, {**self._given, **given})

    def _capture(self, runtime: Runtime) -> None:
        # First what `_here` needs: another thread may send this, and a worker receive it, while the class is being captured.
        self._copies: WeakKeyDictionary[Any, ActorClass[T]] = WeakKeyDictionary()
        self._sent = {name: value for name, value in vars(self).copy().items() if name not in ("_sent", "_copies")}
        self._info.capture(runtime)

    def _here(self) -> ActorClass[T]:
        """This in the driver, and a worker's own copy in a worker, where attributes may be set that nobody else sees."""
        if current.get() is None:
            return self
        copy = _new_ref(type(self))
        vars(copy).update(self._sent, _original=self)
        del copy.__ray_actor_class__
        return self._copies.setdefault(current_space(), copy)

    def _plain_class(self) -> type:
        """The class as it is here. It is not loaded before somebody asks: an actor's class may refer to itself by this."""
        return (
            self._info.modified_class if current.get() is None else self._info.capture(running()).load(current_space())
        )

    def __mro_entries__(self, bases: tuple) -> tuple:
        raise ActorClassInheritanceException(
            f"{self._info.name} is an actor class, which cannot be extended. Extend its plain class, and decorate what you get."
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._info.name
        raise TypeError(f"Actors cannot be instantiated directly. Instead of '{name}()', use '{name}.remote()'.")

    def __getattr__(self, name: str) -> Any:
        if name == "__ray_actor_class__":
            return self._plain_class()
        if name.startswith("__") or name in ("_info", "_copies"):
            raise AttributeError(f"actor class has no attribute {name!r}")
        return getattr(self._plain_class(), name)

    def __repr__(self) -> str:
        return f"ActorClass({self._info.name})"

    def __reduce__(self):
        original = self._original or self
        return export(original, ActorClass, (original.__ray_actor_class__, self._given))


class ActorMethod:
    """One method of an actor, through a handle: call it with `.remote(...)`. Ray: ray.actor.ActorMethod."""

    __slots__ = ("_handle", "_found", "_given")

    def __init__(self, handle: "ActorHandle", found: MethodInfo, given: dict[str, Any] | None = None):
        self._handle, self._found, self._given = handle, found, given

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit the call. Returns as a remote function's `.remote`. TypeError when the arguments do not fit the method or cannot
        be sent; PendingCallsLimitExceeded beyond max_pending_calls."""
        found = self._found
        found.check(args, kwargs)
        record = self._handle._record
        actor = record.actor
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
        runtime = context.session or running()
        task = runtime.submit(spec, args, kwargs, actor)
        if spec.num_returns == 1:
            ref = _new_ref(ObjectRef)
            ref._record = task.returns[0]
            return ref
        return refs_of(task)

    def options(self, **method_options: Any) -> "ActorMethod":
        """The same method with options for its next calls: name, num_returns, concurrency_group, max_task_retries, ..."""
        given = when_given.method_options(method_options, self._found.generator)
        return ActorMethod(self._handle, self._found, {**(self._given or {}), **given})

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a graph that calls this method when the graph is executed; for several returns a tuple with one for each.
        TypeError when the arguments do not fit."""
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

    def __reduce__(self):
        return _restore_method, (self._handle, self._found.name, self._given)

    def __repr__(self) -> str:
        return f"ActorMethod({self._handle._record.actor.meta.info.name}.{self._found.name})"


class ActorHandle(Generic[T]):
    """Refers to an actor. Handles to one actor are equal, wherever they come from; while there is one the actor lives.

    Its methods are attributes with a `.remote`; fields, properties and unknown names raise AttributeError.
    Ray: ray.actor.ActorHandle.
    """

    __slots__ = ("_record", "__weakref__", "__dict__")  # a program may note things on a handle, as in Ray

    _record: ObjectRecord

    def __new__(cls, record: ObjectRecord) -> ActorHandle[T]:
        """record: the actor's handle object; one reference of it is this handle's."""
        self = object.__new__(cls)  # not in __init__: no handle exists, and is finalised, without a record
        self._record = record
        return self

    def __del__(self, _drop=dropped.append):
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
                f"'{self._record.actor.meta.info.name}' object has no attribute '{name}': a handle offers the "
                "class's methods only"
            )
        return ActorMethod(self, found)

    def __dir__(self) -> list[str]:
        return sorted(self._record.actor.meta.info.methods)

    def __eq__(self, other: object) -> bool:
        return type(other) is ActorHandle and other._record is self._record

    def __hash__(self) -> int:
        return hash(self._actor_id)

    def __repr__(self) -> str:
        actor = self._record.actor
        return f"Actor({actor.class_name}, {actor.hex})"

    def __copy__(self) -> ActorHandle[T]:
        return new_handle(running(), self._record)

    def __deepcopy__(self, memo: dict[int, Any]) -> ActorHandle[T]:
        return new_handle(running(), self._record)

    def __reduce__(self):
        contain(self._record)
        return _restore_handle, (self._record.actor.number,)


ActorProxy = ActorHandle  # Ray's name for what the `.remote()` of an actor class returns, in annotations


def new_handle(runtime: Runtime, record: ObjectRecord) -> ActorHandle[Any]:
    """One more handle to an actor."""
    runtime.add_reference(record)
    return ActorHandle(record)


def _restore_handle(number: int) -> ActorHandle[Any]:
    runtime = running()

    def handle_of(cluster: Cluster) -> ObjectRecord | None:
        actor = cluster.actors.get(number)
        return actor.handle if actor is not None else None

    record = runtime.find_and_hold(handle_of)
    if record is None:
        raise ValueError("this actor is not of this session, or its record was dropped after its death")
    return ActorHandle(record)


def _restore_method(handle: ActorHandle[Any], name: str, given: dict[str, Any] | None) -> ActorMethod:
    return ActorMethod(handle, handle._record.actor.meta.info.methods[name], given)


def find(runtime: Runtime, name: str, namespace: str) -> ActorHandle[Any] | None:
    """A handle to the living actor of this name, or None."""

    def named(cluster: Cluster) -> ObjectRecord | None:
        actor = cluster.actor_manager.find(name, namespace)
        return actor.handle if actor is not None else None

    runtime.drain()  # an actor whose last handle has just been dropped is not found
    record = runtime.find_and_hold(named)
    return ActorHandle(record) if record is not None else None


def exit_actor() -> None:
    """End the current actor from inside: the running call and later ones raise ActorDiedError. TypeError outside of an actor."""
    execution = current.get()
    if execution is None or execution.worker.actor is None:
        raise TypeError("exit_actor called on a non-actor worker.")
    raise ActorExit("exit_actor() is called.")
