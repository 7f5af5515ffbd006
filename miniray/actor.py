"""Actors: the result of `@remote` on a class, the handles to its actors, and their methods. Ray: ray.actor.

Three objects hold what is known before a call. A `ClassInfo` describes the class, a `Template` the class with one set
of options, and a `MethodInfo` one method. So a call through a handle only looks up the specification of its method.
"""

from __future__ import annotations

from typing import Any, Callable, Generic, TypeVar, overload
from weakref import WeakKeyDictionary

from .options import at_call, when_given
from .options.resources import actor_resources
from .core.records import ACTOR_CREATION_TASK, ACTOR_TASK, ENDED, ActorRecord, ObjectRecord, TaskSpec
from .exceptions import ActorAlreadyExistsError, PendingCallsLimitExceeded
from .ids import ActorID
from .object_ref import ObjectRef, dropped, pin, refs_of
from .remote_function import export
from .runtime.runtime import Runtime
from .session import session_or_start
from .process import context
from .process.exits import ActorExit
from .process.context import current, running
from .process.environment import inherited
from .values.pickler import reduces
from .values.serialization import contain, current_space
from .calls.actor_classes import ClassInfo, MethodInfo, undeclared_group
from .calls.placement import captures_children, scheduling_class
from .options.signatures import is_generator

T = TypeVar("T")  # the plain class
Method = TypeVar("Method", bound=Callable[..., Any])
_new_ref = object.__new__
ASYNC_CONCURRENCY = 1000  # Ray: DEFAULT_MAX_CONCURRENCY_ASYNC


class ActorClassInheritanceException(TypeError):
    """Raised by `class B(A)` if A is an actor class. Extend the plain class and decorate the result instead."""


@overload
def method(function: Method, /) -> Method: ...


@overload
def method(**method_options: Any) -> Callable[[Method], Method]: ...


def method(*args: Any, **kwargs: Any) -> Any:
    """Set default options for a method of an actor class.

        @ray.remote
        class Reader:
            @ray.method(num_returns=2, concurrency_group="io")
            def read(self, name): ...

    The options are those of `ActorMethod.options`. Without parentheses, the decorator changes nothing. Raises
    AssertionError for an unknown option or a positional argument.
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


def _name_taken(name: str, namespace: str) -> ActorAlreadyExistsError:
    return ActorAlreadyExistsError(
        f"The name {name} (namespace={namespace}) is already taken. Please use a different name or get the existing "
        f"actor using ray.get_actor('{name}', namespace='{namespace}')"
    )


class ActorVariant(Generic[T]):
    """An actor class with one set of options, as `.options(...)` returns it.

    It makes the specification of the creation task once per session, at the first `.remote()`, unless that depends on
    the caller.
    """

    def __init__(self, info: ClassInfo, given: dict[str, Any]):
        self._info, self._given = info, given
        self._runtime: Runtime | None = None
        self._spec: TaskSpec | None = None
        self._template: Template | None = None

    def remote(self, /, *args: Any, **kwargs: Any) -> ActorHandle[T]:
        """Create an actor and return a handle to it at once. The arguments are those of the constructor.

        If the constructor raises, the actor is dead, and `get` of its calls raises ActorDiedError, whose text contains
        that error.

        Raises TypeError if the arguments do not fit the constructor or cannot be serialized; ActorAlreadyExistsError, a
        ValueError, if the name is taken. With get_if_exists=True, returns a handle to the actor of that name instead.
        """
        info, given = self._info, self._given
        runtime = context.session
        if runtime is None:
            runtime = session_or_start()
        name, namespace = given.get("name") or "", given.get("namespace") or runtime.options["namespace"]
        if name:
            at_call.check_actor_call(given)
            handle = find(runtime, name, namespace, weak=False)  # on Ray it is weak, and a loop ends with a dead actor
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
        from .core.actor_manager import NameTaken  # not at the top: the core is imported when a session starts

        try:
            runtime.create_actor(actor, spec, args, kwargs)
        except NameTaken:
            if given.get("get_if_exists"):
                return self.remote(*args, **kwargs)  # another thread has just created it
            raise _name_taken(name, namespace) from None
        return ActorHandle(actor.handle)

    def _specify(self, runtime: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[TaskSpec, "Template"]:
        """Check the options and the arguments, and make the specification and the template. The order of the checks is
        Ray's: it decides which error a call with several faults raises."""
        given, info = self._given, self._info
        fixed = not runtime.asks_caller
        if self._runtime is runtime and fixed:
            info.check(args, kwargs)
            return self._spec, self._template  # type: ignore[return-value]
        captured = info.capture(runtime)
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
        function_name = f"{info.name}.__init__"
        name = f"{given['name']}:{function_name}" if given.get("name") else function_name
        spec = TaskSpec(
            ACTOR_CREATION_TASK,
            name,
            function_name,
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

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorVariant, (self._info, self._given)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a graph node that creates an actor when the graph is executed. See `miniray.dag`."""
        from .dag import ClassNode

        return ClassNode(self, args, kwargs, self._given)


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
        elif isinstance(num_returns, float):
            num_returns = int(num_returns)
        retries = options.get("max_task_retries")
        if retries is None:
            retries = self.given.get("max_task_retries", 0)
        if retries >= 2**31:
            raise OverflowError(f"option 'max_task_retries' must be below 2147483648, not {retries}")
        function_name = f"{self.info.name}.{found.name}"
        group = options.get("concurrency_group") or ""
        function = found.builtin if group in self.groups else undeclared_group
        backpressure = options.get("_generator_backpressure_num_objects")
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
            backpressure=-1 if backpressure is None else backpressure,
            options={"method": found.name, "generator": found.generator, "bound": found.bound},
        )


class ActorClass(ActorVariant[T]):
    """A class whose `.remote(...)` creates an actor: an instance in a worker of its own. Made by `@remote`.

    The class's variables and its class and static methods can be read from it; in a task or an actor, they are those of
    the worker's own copy of the class. `__ray_actor_class__` is the plain class. Ray: ray.actor.ActorClass.
    """

    _original: ActorClass[T] | None = None  # for a worker's copy: the actor class that the program made

    def __init__(self, cls: type[T], options: dict[str, Any] | None = None):
        if not isinstance(cls, type):
            raise TypeError(f"an actor class is made from a class, got {cls!r}")
        super().__init__(ClassInfo(cls), when_given.actor_options(options or {}))
        self.__ray_actor_class__ = cls
        self.__ray_metadata__ = self._info
        self.__doc__ = cls.__doc__
        name = f"ActorClass({cls.__name__})"  # as in Ray, each has a type of its own with this name
        self.__class__ = type(name, (ActorClass,), {"__module__": cls.__module__, "__qualname__": name})

    def options(self, **actor_options: Any) -> ActorVariant[T]:
        """Return this class with other options: `Counter.options(name="c").remote()`. The class itself is unchanged.

        Raises ValueError for an unknown option or a bad value, TypeError for a value of a wrong type.
        """
        given = when_given.actor_options(actor_options, self._given)
        return ActorVariant(self._info, {**self._given, **given})

    def _capture(self, runtime: Runtime) -> None:
        # `_here` needs these two first: while the class is being captured, another thread may send it and a worker
        # receive it.
        self._copies: WeakKeyDictionary[Any, ActorClass[T]] = WeakKeyDictionary()
        self._sent = {name: value for name, value in vars(self).copy().items() if name not in ("_sent", "_copies")}
        self._info.capture(runtime)

    def _here(self) -> ActorClass[T]:
        """This object on the driver; in a worker, the worker's own copy, whose attributes only that worker sees."""
        if current.get() is None:
            return self
        copy = _new_ref(type(self))
        vars(copy).update(self._sent, _original=self)
        del copy.__ray_actor_class__
        return self._copies.setdefault(current_space(), copy)

    def _plain_class(self) -> type:
        """The plain class; in a worker, the worker's copy of it.

        The copy is loaded on first use, since a class may refer to itself through its actor class.
        """
        return (
            self._info.modified_class if current.get() is None else self._info.capture(running()).load(current_space())
        )

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        raise ActorClassInheritanceException(
            f"{self._info.name} is an actor class and cannot be extended. Extend its plain class, and decorate the "
            "result."
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

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._info.modified_class)})

    def __repr__(self) -> str:
        return f"ActorClass({self._info.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        original = self._original or self
        return export(original, ActorClass, (original.__ray_actor_class__, self._given))


class ActorMethod:
    """One method of one actor, read from a handle. Call it with `.remote(...)`. Ray: ray.actor.ActorMethod."""

    __slots__ = ("_handle", "_found", "_given")

    def __init__(self, handle: "ActorHandle[Any]", found: MethodInfo, given: dict[str, Any] | None = None):
        self._handle, self._found, self._given = handle, found, given

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit a call of the method, and return at once.

        A plain actor runs the calls of one caller in the order of submission.

        Returns an ObjectRef, a list of them, None or an ObjectRefGenerator, as `.remote` of a remote function does.

        Raises TypeError if the arguments do not fit the method or cannot be serialized; PendingCallsLimitExceeded if
        the actor already has `max_pending_calls` unfinished calls. An actor that has died does not raise here, but in
        `get`.
        """
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
        """Return this method with other options, such as num_returns, concurrency_group or max_task_retries.

        Raises ValueError for an unknown option or a bad value, TypeError for a value of a wrong type.
        """
        given = when_given.method_options(method_options, self._found.generator)
        return ActorMethod(self._handle, self._found, {**(self._given or {}), **given})

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
                f"'{self._record.actor.meta.info.name}' object has no attribute '{name}': a handle offers the "
                "class's methods only"
            )
        return ActorMethod(self, found)

    def __dir__(self) -> list[str]:
        return sorted({"__init__", *self._record.actor.meta.info.methods})

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
    return ActorMethod(handle, handle._record.actor.meta.info.methods[name], given)


def find(runtime: Runtime, name: str, namespace: str, weak: bool) -> ActorHandle[Any] | None:
    """Return a handle to the living actor of this name, or None. weak: one that does not keep the actor alive."""
    runtime.drain()  # so that an actor whose last handle has just been dropped is not found
    record = runtime.find_and_hold_actor(lambda cluster: cluster.actor_manager.find(name, namespace), weak)
    return ActorHandle(record) if record is not None else None


def exit_actor() -> None:
    """End the current actor from inside one of its methods. The running call and later ones raise ActorDiedError.

    Raises TypeError outside an actor.
    """
    execution = current.get()
    if execution is None or execution.worker.actor is None:
        raise TypeError("exit_actor called on a non-actor worker.")
    raise ActorExit("exit_actor() is called.")
