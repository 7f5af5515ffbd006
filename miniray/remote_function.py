"""RemoteFunction: the result of `@remote` on a function. Ray: ray.remote_function.

Three classes share the work. A `Source` holds the plain function and captures it once per session. A `Variant` is the
source with one set of options; `.options(...)` returns one. A `RemoteFunction` is what the decorator itself returns. It
has a variant with the decorator's options.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from .generics import Generic, TypeVar
from .options import at_call, when_given
from .options.known_options import TASK_OPTIONS
from .options.resources import requested_resources
from .core.records import NORMAL_TASK, TaskSpec
from .object_ref import ObjectRef, refs_of
from .process import context
from .process.environment import hands_down, inherited
from .runtime.runtime import Runtime
from .session import session_or_start
from .calls.definitions import Capture
from .calls.placement import captures_children, depends_on_caller, scheduling_class
from .options.signatures import checker, is_coroutine_function, is_generator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, overload
else:
    from .generics import overload

_new_ref = object.__new__
DEFAULT_MAX_RETRIES = 3  # Ray: task_max_retries
Refs = TypeVar("Refs")  # the return type of `.remote()`: ObjectRef[R], ObjectRefGenerator or Any


class Source:
    """The part that all variants of a remote function share: the plain function and its capture.

    decorate: what the function has as `__ray_invocation_decorator__`, or None.

    A source does not refer to its variants. So no reference cycle keeps a remote function alive, and with it the
    objects in its closure.
    """

    __slots__ = ("function", "generator", "check", "capture", "decorate", "max_calls")

    def __init__(self, function: Callable[..., Any]):
        self.function, self.generator, self.check = function, is_generator(function), checker(function)
        self.capture = Capture(function)
        self.decorate: Any = getattr(function, "__ray_invocation_decorator__", None)
        self.max_calls = 0  # from the decorator: a worker ends after this many calls of the function; 0: never

    def variant(self, given: dict[str, Any]) -> Variant[Any]:
        """Return a variant with these options."""
        return Variant(self, given) if self.decorate is None else Decorated(self, given)


class Variant(Generic[Refs]):
    """A remote function with one set of options, as `.options(...)` returns it.

    It makes the specification of its tasks once per session, at its first call, unless that depends on the caller.
    """

    __slots__ = ("_source", "_given", "_runtime", "_spec", "_check", "__weakref__")

    def __init__(self, source: Source, given: dict[str, Any]):
        self._source, self._given, self._check = source, given, source.check
        self._runtime: Runtime | None = None
        self._spec: Any = None  # the TaskSpec made at the first call in the session `_runtime`

    def remote(self, *args: Any, **kwargs: Any) -> Refs:
        """Submit a task that calls the function with these arguments, and return at once.

        An ObjectRef among the arguments is replaced by its value before the function is called; a reference inside
        another argument, such as a list, is passed as a reference.

        Returns an ObjectRef to the result; a list of them if num_returns is above 1, None if it is 0, and an
        ObjectRefGenerator for a generator function. Raises TypeError if the arguments do not fit the function or cannot
        be serialized.
        """
        runtime = self._runtime
        if runtime is None or runtime.closed or runtime.asks_caller:
            return self._first(args, kwargs)
        check = self._check
        if kwargs or not check.at_least <= len(args) <= check.at_most:
            check(args, kwargs)
        spec = self._spec
        task = runtime.submit(spec, args, kwargs)
        if spec.num_returns == 1:
            ref: Any = _new_ref(ObjectRef)
            ref._record = task.returns[0]
            return ref  # type: ignore[no-any-return]
        refs: Refs = refs_of(task)
        return refs

    def _first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Refs:
        """`remote` for the first call in a session, and for calls whose specification may depend on the caller, or
        that are spans of OpenTelemetry."""
        runtime = session_or_start()
        if runtime.call_spans is None:
            return self._submit(runtime, args, kwargs)
        with runtime.call_spans.of_function(self._source.function):
            return self._submit(runtime, args, kwargs)

    def _submit(self, runtime: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Refs:
        if depends_on_caller(self._given) or hands_down(runtime):
            spec = self._specify(runtime, args, kwargs)
        elif self._runtime is runtime:
            spec = self._spec
            self._check(args, kwargs)
        else:
            spec = self._spec = self._specify(runtime, args, kwargs)
            self._runtime = runtime
        refs: Refs = refs_of(runtime.submit(spec, args, kwargs))
        return refs

    def _specify(self, runtime: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskSpec:
        """Check the options and the arguments, and make the specification. The order of the checks is Ray's: it decides
        which error a call with several faults raises."""
        source, given = self._source, self._given
        function = source.function
        captured = source.capture(runtime)
        at_call.check_before_arguments(given, of_actor=False)
        self._check(args, kwargs)
        resources = requested_resources(given, 1)
        at_call.check_task_call(given)
        wanted = scheduling_class(runtime, given, resources, resources, function.__name__)
        num_returns = given.get("num_returns")
        if num_returns is None:
            num_returns = "streaming" if source.generator else 1
        retries = given.get("max_retries", DEFAULT_MAX_RETRIES)
        runtime.asks_caller = runtime.asks_caller or captures_children(given)
        backpressure = given.get("_generator_backpressure_num_objects")
        return TaskSpec(
            NORMAL_TASK,
            given.get("name") or function.__name__,
            function.__name__,
            getattr(function, "__module__", "") or "",
            captured,
            wanted,
            resources,
            num_returns,
            retries,
            given.get("retry_exceptions", False),
            runtime_env=inherited(runtime, given.get("runtime_env")),
            capture_child_tasks=captures_children(given),
            backpressure=-1 if backpressure is None else backpressure,
            options={"generator": source.generator, **given},
            max_calls=source.max_calls,
        )

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a graph node that calls this function when the graph is executed. See `miniray.dag`."""
        from .dag import FunctionNode

        return FunctionNode(self, args, kwargs, self._given)

    def _capture(self, runtime: Runtime) -> None:
        self._source.capture(runtime)

    def _check_loads(self, runtime: Runtime) -> None:
        self._source.capture(runtime).check()

    def _here(self) -> Variant[Refs]:
        return self  # immutable, so that all workers can share it

    def __reduce__(self) -> tuple[Any, ...]:
        return export(self, _rebuild_variant, (self._source.function, self._given))


class Decorated(Variant["Any"]):
    """A variant of a function with a decorator of its calls (`Source.decorate`), which changes their arguments or their
    results. Libraries of Ray's have such functions."""

    __slots__ = ()

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Give the decorator a function of (args, kwargs) that submits a task. Call what it returns instead."""
        call = self._source.decorate(lambda args, kwargs: Variant.remote(self, *args, **kwargs))
        return call(args, kwargs)


Variant.remote.__annotations__.clear()  # as in Ray, `inspect` and editors see (*args, **kwargs)


def _remote_of(variant: Variant[Refs]) -> Callable[..., Refs]:
    """`remote` of a remote function: a function that has the name, the documentation and the signature of the user's.

    It does not refer to the RemoteFunction, which refers to it (see `Source`).
    """

    if isinstance(variant, Decorated):
        return functools.wraps(variant._source.function)(functools.partial(Decorated.remote, variant))

    @functools.wraps(variant._source.function)
    def remote(*args: Any, **kwargs: Any) -> Any:
        runtime = variant._runtime  # from here on, this is `Variant.remote`, written out to save a call
        if runtime is None or runtime.closed or runtime.asks_caller:
            return variant._first(args, kwargs)
        check = variant._check
        if kwargs or not check.at_least <= len(args) <= check.at_most:
            check(args, kwargs)
        spec = variant._spec
        task = runtime.submit(spec, args, kwargs)
        if spec.num_returns == 1:
            ref: Any = _new_ref(ObjectRef)
            ref._record = task.returns[0]
            return ref
        return refs_of(task)

    return remote


class RemoteFunction(Generic[Refs]):
    """A function whose `.remote(...)` submits a task and returns a reference to its result at once. Made by `@remote`.

    The function is captured (code, defaults, closure and the globals it uses) at its first `.remote()` in a session.
    Later changes of anything it refers to have no effect on its tasks. `.options(...)` returns a variant; `_function`
    is the plain function.

    Creating one raises ValueError for a coroutine function and for bad options, TypeError for options of a wrong type.
    """

    __slots__ = ("remote", "_variant", "__dict__", "__weakref__")

    def __init__(self, function: Callable[..., Any], options: dict[str, Any] | None = None):
        if is_coroutine_function(function):
            raise ValueError(
                f"{function.__name__} is a coroutine function: 'async def' cannot be a task. Make it a method of an "
                "actor, or a plain function that calls asyncio.run."
            )
        source = Source(function)
        given = when_given.task_options(options or {}, None, source.generator)
        # As in Ray, a worker that has used a GPU ends by default: only then is the GPU's memory free for the next
        # worker.
        source.max_calls = given.get("max_calls", 1 if given.get("num_gpus") else 0) or 0
        self._variant: Variant[Refs] = source.variant(given)
        # Submits a task. Its type is given here, since Ray's remote functions have no `__annotations__`.
        self.remote: Callable[..., Refs] = _remote_of(self._variant)

    @property
    def _function(self) -> Callable[..., Any]:
        return self._variant._source.function

    @property
    def _default_options(self) -> dict[str, Any]:
        return self._variant._given

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a graph node that calls this function when the graph is executed. See `miniray.dag`."""
        return self._variant.bind(*args, **kwargs)

    @overload
    def options(self, *, num_returns: Any, **task_options: Any) -> Variant[Any]: ...

    @overload
    def options(self, **task_options: Any) -> Variant[Refs]: ...

    def options(self, **task_options: Any) -> Variant[Any]:
        """Return this function with other options: `f.options(num_cpus=2).remote(x)`. The function itself is unchanged.

        Raises ValueError for an unknown option or a bad value, TypeError for a value of a wrong type.
        """
        source, decorated = self._variant._source, self._variant._given
        given = when_given.task_options(task_options, decorated, source.generator)
        return source.variant({**decorated, **given})

    def _remote(
        self, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **task_options: Any
    ) -> Any:
        """Submit a task with these options, and none of the decorator's: the form that libraries of Ray's use.

        As in Ray, an option that does not exist has no effect. Raises what `options` and `remote` raise.
        """
        known = {name: value for name, value in task_options.items() if name in TASK_OPTIONS}
        source = self._variant._source
        variant = source.variant(when_given.task_options(known, None, source.generator))
        return variant.remote(*(args or ()), **(kwargs or {}))

    def _capture(self, runtime: Runtime) -> None:
        self._variant._capture(runtime)

    def _check_loads(self, runtime: Runtime) -> None:
        self._variant._check_loads(runtime)

    def _here(self) -> RemoteFunction[Refs]:
        return self  # immutable, so that all workers can share it

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = f"{self._function.__module__}.{self._function.__name__}"
        raise TypeError(
            f"Remote functions cannot be called directly. Instead of running '{name}()', try '{name}.remote()'."
        )

    def __repr__(self) -> str:
        return f"RemoteFunction({self._function.__qualname__})"

    def __reduce__(self) -> tuple[Any, ...]:
        return export(self, RemoteFunction, (self._function, self._default_options))


def _rebuild_variant(function: Callable[..., Any], options: dict[str, Any]) -> Variant[Any]:
    return Source(function).variant(options)


def export(
    remote: Any, rebuild: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The `__reduce__` of a remote function or an actor class: by number within a session, since the session keeps it
    unchanged; by value (`rebuild(*args)`) without a session."""
    runtime = context.session
    if runtime is None:
        return rebuild, args
    number = id(remote)
    if runtime.exported.get(number) is not remote:
        runtime.exported[number] = remote  # before capturing it: its function may refer to itself
        try:
            remote._capture(runtime)  # now: later changes of anything it refers to must have no effect
        except BaseException:
            del runtime.exported[number]
            raise
    return _imported, (number,)


def _imported(number: int) -> Any:
    runtime = context.running()
    remote = runtime.exported[number]
    remote._check_loads(runtime)
    return remote._here()
