"""Actors: the result of `@remote` on a class. The handles to actors are in `actor_handle`. Ray: ray.actor.

Three objects hold what is known before a call. A `ClassInfo` describes the class, a `Template` the class with one set
of options, and a `MethodInfo` one method. So a call through a handle only looks up the specification of its method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from .actor_handle import (
    ActorHandle as ActorHandle,
    ActorMethod as ActorMethod,
    ActorProxy as ActorProxy,
    Template,
    find as find,
    weak_handle as weak_handle,
)
from .generics import Generic, TypeVar
from .options import at_call, when_given
from .options.known_options import ACTOR_OPTIONS
from .options.resources import actor_resources
from .core.actor_manager import NameTaken
from .core.records import ACTOR_CREATION_TASK, ActorRecord, TaskSpec
from .exceptions import ActorAlreadyExistsError
from .remote_function import export
from .runtime.runtime import Runtime
from .session import session_or_start
from .process import context
from .process.exits import ActorExit
from .process.context import current, running
from .process.worker_process import caller
from .process.environment import inherited
from .values.serialization import current_space
from .calls.actor_classes import ClassInfo, modify_class
from .calls.placement import captures_children, scheduling_class
from .options.signatures import is_generator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, overload
else:
    from .generics import overload

T = TypeVar("T")  # the plain class
Method = TypeVar("Method", bound="Callable[..., Any]")
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

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle[T]:
        """Create an actor and return a handle to it at once. The arguments are those of the constructor.

        If the constructor raises, the actor is dead, and `get` of its calls raises ActorDiedError, whose text contains
        that error.

        Raises TypeError if the arguments do not fit the constructor or cannot be serialized; ActorAlreadyExistsError, a
        ValueError, if the name is taken. With get_if_exists=True, returns a handle to the actor of that name instead.
        """
        runtime = context.session
        if runtime is None:
            runtime = session_or_start()
        if runtime.call_spans is None:
            return self._create(runtime, args, kwargs)
        with runtime.call_spans.of_creation(self._info.class_name, self._is_new(runtime)) as spans:
            handle = self._create(runtime, args, kwargs)
            for span in spans:
                span.set_attribute("ray.actor_id", handle._record.actor.hex)
            return handle

    def _is_new(self, runtime: Runtime) -> bool:
        """Whether `remote` is about to create an actor that it was told to create only if it does not exist."""
        given = self._given
        name, namespace = given.get("name") or "", given.get("namespace") or runtime.options["namespace"]
        return bool(given.get("get_if_exists") and name) and find(runtime, name, namespace, weak=False) is None

    def _create(self, runtime: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ActorHandle[T]:
        info, given = self._info, self._given
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
        try:
            runtime.create_actor(actor, spec, args, kwargs)
        except NameTaken:
            if given.get("get_if_exists"):
                return self._create(runtime, args, kwargs)  # another thread has just created it
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
        wanted = scheduling_class(runtime, given, need, hold, info.name)
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
        from .dag import ClassNode  # a graph is rare, and not part of what a session imports

        return ClassNode(self, args, kwargs, self._given)


class ActorClass(Generic[T]):
    """A class whose `.remote(...)` creates an actor: an instance in a worker of its own. Made by `@remote`.

    As in Ray, each one is the only instance of a subclass of its class, so that what the class defines can be read from
    it; in a task or an actor, that is the worker's own copy of the class. `__ray_actor_class__` is the plain class.

    Ray: ray.actor.ActorClass.
    """

    __ray_metadata__: ClassInfo
    _default_options: dict[str, Any]  # the options of the decorator, under Ray's name
    __ray_variant__: ActorVariant[T]
    __ray_sent__: _Sent

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle[T]:
        """Create an actor and return a handle to it at once. See `ActorVariant.remote`."""
        return self.__ray_variant__.remote(*args, **kwargs)

    def options(self, **actor_options: Any) -> ActorVariant[T]:
        """Return this class with other options: `Counter.options(name="c").remote()`. The class itself is unchanged.

        Raises ValueError for an unknown option or a bad value, TypeError for a value of a wrong type.
        """
        given = when_given.actor_options(actor_options, self._default_options)
        return ActorVariant(self.__ray_metadata__, {**self._default_options, **given})

    def _remote(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **actor_options: Any
    ) -> ActorHandle[T]:
        """Create an actor with these options, and none of the decorator's: the form that libraries of Ray's use.

        As in Ray, an option that does not exist has no effect. Raises what `options` and `remote` raise.
        """
        known = {name: value for name, value in actor_options.items() if name in ACTOR_OPTIONS}
        variant = ActorVariant[T](self.__ray_metadata__, when_given.actor_options(known))
        return variant.remote(*(args or ()), **(kwargs or {}))

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a graph node that creates an actor when the graph is executed. See `miniray.dag`."""
        return self.__ray_variant__.bind(*args, **kwargs)

    def _capture(self, runtime: Runtime) -> None:
        # `_here` needs this first: while the class is being captured, another thread may send it and a worker receive
        # it.
        self.__ray_sent__ = _Sent(self)
        self.__ray_metadata__.capture(runtime)

    def _check_loads(self, runtime: Runtime) -> None:
        self.__ray_metadata__.capture(runtime).check()

    def _here(self) -> ActorClass[T]:
        """This object on the driver; in a worker, the worker's own copy, whose attributes only that worker sees."""
        return self if caller() is None else self.__ray_sent__.copy_here()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.__ray_metadata__.name
        raise TypeError(f"Actors cannot be instantiated directly. Instead of '{name}()', use '{name}.remote()'.")

    def __repr__(self) -> str:
        return f"ActorClass({self.__ray_metadata__.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        original = self.__ray_sent__.original if "__ray_sent__" in vars(self) else self
        return export(original, make_actor_class, (original.__ray_metadata__.modified_class, original._default_options))


def make_actor_class(cls: type[T], options: dict[str, Any] | None = None) -> ActorClass[T]:
    """The result of `@remote` on a class.

    Raises TypeError for an abstract class and for others that cannot be extended, or of which no instance can be made
    without arguments; and whatever their `__init_subclass__`, `__new__` or `__setattr__` raises. Otherwise raises what
    `when_given.actor_options` raises.
    """
    given = when_given.actor_options(options or {})
    modified = modify_class(cls)
    derived: Any = _derive_actor_class(modified)
    made: ActorClass[T] = derived.__new__(derived)
    info = ClassInfo(modified)
    made.__ray_metadata__ = info  # as in Ray, through the class's __setattr__, if it has one
    made._default_options = given
    vars(made).update(__ray_variant__=ActorVariant(info, given), __doc__=info.plain_class.__doc__)
    return made


def _derive_actor_class(modified: Any) -> type:
    """The class of one ActorClass: a subclass of the class of its actors, too."""

    class DerivedActorClass(ActorClass, modified):  # type: ignore[type-arg,misc]
        def __init__(self, *args: Any, **kwargs: Any):
            """Called when a class method of the user's makes an instance of its class, and this is that class; and by
            `class B(A)` for an actor class A, since this is the class of A."""
            bases = args[1] if len(args) == 3 and isinstance(args[1], tuple) else ()
            for base in bases:
                if isinstance(base, ActorClass):
                    raise ActorClassInheritanceException(
                        f"Attempted to define subclass '{args[0]}' of actor class '{base.__ray_metadata__.name}'. "
                        "Inheriting from actor classes is not currently supported: extend the plain class, and "
                        "decorate the result."
                    )
            modified.__init__(self, *args, **kwargs)

    name = f"ActorClass({modified.__name__})"
    DerivedActorClass.__module__ = modified.__module__
    DerivedActorClass.__name__ = DerivedActorClass.__qualname__ = name
    if hasattr(modified, "__del__"):
        DerivedActorClass.__del__ = _delete_instance
    return DerivedActorClass


def _delete_instance(self: Any) -> None:
    """The finaliser of the user's class, for its instances; an actor class itself never was one."""
    if "__ray_metadata__" not in vars(self):
        super(type(self), self).__del__()


class _Sent:
    """What other workers get of an actor class: its attributes when it was first sent, and a copy for each worker."""

    def __init__(self, original: ActorClass[Any]):
        self.original = original
        self.attributes = {name: value for name, value in vars(original).items() if name != "__ray_sent__"}
        self.copies: WeakKeyDictionary[Any, ActorClass[Any]] = WeakKeyDictionary()

    def copy_here(self) -> ActorClass[Any]:
        """The copy of the worker that asks."""
        space = current_space()
        copy = self.copies.get(space)
        if copy is None:
            made: Any = _new_ref(_Undelivered)
            if type(self.original).__basicsize__ != _Undelivered.__basicsize__:
                made = _deliver(made, self.original.__ray_metadata__)
            vars(made).update(self.attributes, __ray_sent__=self)
            copy = self.copies.setdefault(space, made)
        return copy


class _Undelivered(ActorClass[T]):
    """A worker's copy of an actor class that has not been asked for anything of the user's class yet.

    The first such question loads the worker's copy of the user's class. That cannot be done earlier, since the class
    may refer to itself through its actor class.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(_deliver(self, vars(self)["__ray_metadata__"]), name)


def _deliver(copy: Any, info: ClassInfo) -> Any:
    """Make the copy an instance of the worker's copy of the user's class. Returns the copy; if the layout of the user's
    class is that of a built-in one, a new object in its place."""
    derived: Any = _derive_actor_class(info.capture(running()).load(current_space()))
    try:
        copy.__class__ = derived
    except TypeError:
        return derived.__new__(derived)
    return copy


def exit_actor() -> None:
    """End the current actor from inside one of its methods. The running call and later ones raise ActorDiedError.

    In a thread that the actor has started it ends the thread by SystemExit; the running call returns its value, and the
    actor ends after the calls that were submitted before.

    Raises TypeError outside an actor.
    """
    execution = caller()
    if execution is None or execution.worker.actor is None:
        raise TypeError("exit_actor called on a non-actor worker.")
    if current.get() is None:
        weak_handle(execution.runtime, execution.worker.actor).__ray_terminate__.remote()
        raise SystemExit(0)
    raise ActorExit("exit_actor() is called.")
