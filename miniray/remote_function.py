"""RemoteFunction: what `@remote` makes of a function. Ray: ray.remote_function."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Generic, TypeVar, overload

from .options import at_call, when_given
from .options.resources import requested_resources
from .core.records import NORMAL_TASK, TaskSpec
from .object_ref import ObjectRef, hold_contained, refs_of
from .process import context
from .process.environment import hands_down, inherited
from .values.serialization import capture
from .runtime.runtime import Runtime
from .session import session_or_start
from .calls.placement import captures_children, depends_on_caller, scheduling_class
from .options.signatures import checker, is_generator

_new_ref = object.__new__
DEFAULT_MAX_RETRIES = 3  # Ray: task_max_retries
Refs = TypeVar("Refs")  # what `.remote()` returns, for type checkers: ObjectRef[R], a generator, or Any


class Capture:
    """Gives a function or class as it is at its first use in a session. Raises TypeError when it refers to what cannot be sent."""

    __slots__ = ("target", "_captured")

    def __init__(self, target: Any):
        self.target = target
        self._captured: tuple[Any, Any] = (None, None)  # the session, and what was captured in it

    def __call__(self, runtime: Runtime) -> Any:
        session, captured = self._captured
        if session is not runtime:
            captured = capture(self.target)
            if runtime.forgotten.captured:
                runtime.release_forgotten()
            hold_contained(runtime, captured)
            if self._captured[0] is runtime:  # another thread was first
                return self._captured[1]
            self._captured = runtime, captured
        return captured

    def __del__(self) -> None:
        session, captured = self._captured
        if captured is not None:
            session.forgotten.captured.append(captured)


class Source:
    """What all variants of a remote function share: the function, and what of it was captured in the running session.

    It refers to none of them, so that a remote function goes with its last reference, and with it what its closure holds.
    """

    __slots__ = ("function", "generator", "check", "capture", "max_calls")

    def __init__(self, function: Callable[..., Any]):
        self.function, self.generator, self.check = function, is_generator(function), checker(function)
        self.capture = Capture(function)
        self.max_calls = 0  # as the decorator said: after so many calls a worker ends; 0: it stays


class Variant(Generic[Refs]):
    """A remote function with one set of options. The specification of its tasks is made once per session."""

    __slots__ = ("_source", "_given", "_runtime", "_spec", "_check", "__weakref__")

    def __init__(self, source: Source, given: dict[str, Any]):
        self._source, self._given, self._check = source, given, source.check
        self._runtime: Runtime | None = None
        self._spec: Any = None  # TaskSpec, since its first call in the session `_runtime`

    def remote(self, /, *args: Any, **kwargs: Any) -> Refs:
        """Submit a task. Returns a reference to its result, a list of them for num_returns above 1, None for 0, a generator of
        references for a generator function. Raises TypeError when the arguments do not fit the function or cannot be sent."""
        runtime = self._runtime
        if runtime is None or runtime.closed or runtime.asks_caller:
            return self._first(args, kwargs)
        self._check(args, kwargs)
        spec = self._spec
        task = runtime.submit(spec, args, kwargs)
        if spec.num_returns == 1:
            ref: Any = _new_ref(ObjectRef)
            ref._record = task.returns[0]
            return ref
        return refs_of(task)

    def _first(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        runtime = session_or_start()
        if depends_on_caller(self._given) or hands_down(runtime):
            spec = self._specify(runtime, args, kwargs)
        elif self._runtime is runtime:
            spec = self._spec
            self._check(args, kwargs)
        else:
            spec = self._spec = self._specify(runtime, args, kwargs)
            self._runtime = runtime
        return refs_of(runtime.submit(spec, args, kwargs))

    def _specify(self, runtime: Runtime, args: tuple, kwargs: dict[str, Any]) -> TaskSpec:
        source, given = self._source, self._given
        function = source.function
        captured = source.capture(runtime)  # the order in which these may refuse is Ray's
        at_call.check_before_arguments(given, of_actor=False)
        self._check(args, kwargs)
        resources = requested_resources(given, 1)
        at_call.check_task_call(given)
        wanted = scheduling_class(runtime, given, resources, resources)
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

    def bind(self, /, *args: Any, **kwargs: Any) -> Any:
        """A node of a graph that calls this function when the graph is executed."""
        from .dag import FunctionNode

        return FunctionNode(self, args, kwargs, self._given)


class RemoteFunction(Variant[Refs]):
    """A function whose `.remote(...)` submits a task and returns a reference to its result at once.

    It is captured (code, defaults, closure, the globals it uses) at its first `.remote()` in a session: later changes of what it
    refers to do not show. `.options(...)` gives a variant; the plain function is `_function`.
    Raises ValueError for a coroutine function and for bad options, TypeError for options of a wrong type.
    """

    __slots__ = ()

    def __init__(self, function: Callable[..., Any], options: dict[str, Any] | None = None):
        if inspect.iscoroutinefunction(function):
            raise ValueError(
                f"{function.__name__} is a coroutine function: 'async def' cannot be a task. Make it a method of an "
                "actor, or a plain function that calls asyncio.run."
            )
        source = Source(function)
        super().__init__(source, when_given.task_options(options or {}, None, source.generator))
        # In Ray a worker that has used a GPU ends by default: only then is the GPU's memory free for the next.
        source.max_calls = self._given.get("max_calls", 1 if self._given.get("num_gpus") else 0) or 0

    @property
    def _function(self) -> Callable[..., Any]:
        return self._source.function

    @overload
    def options(self, *, num_returns: Any, **task_options: Any) -> Variant[Any]: ...

    @overload
    def options(self, **task_options: Any) -> Variant[Refs]: ...

    def options(self, **task_options: Any) -> Variant[Any]:
        """A variant with other options, for its `.remote`, `.bind`. Raises ValueError or TypeError for a bad one."""
        given = when_given.task_options(task_options, self._given, self._source.generator)
        return Variant(self._source, {**self._given, **given})

    def _capture(self, runtime: Runtime) -> None:
        self._source.capture(runtime)

    def _here(self) -> RemoteFunction[Refs]:
        return self  # it has nothing that could be changed in one worker and not in another

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._function.__name__
        raise TypeError(
            f"Remote functions cannot be called directly. Instead of running '{name}()', try '{name}.remote()'."
        )

    def __repr__(self) -> str:
        return f"RemoteFunction({self._function.__qualname__})"

    def __reduce__(self):
        return export(self, _rebuild, (self._function, self._given))


def _rebuild(function: Callable[..., Any], options: dict[str, Any]) -> RemoteFunction[Any]:
    return RemoteFunction(function, options)


def export(thing: Any, rebuild: Callable[..., Any], args: tuple) -> tuple:
    """How a remote function or actor class travels: within a session by number, since it never changes; else by value."""
    runtime = context.session
    if runtime is None:
        return rebuild, args
    number = id(thing)
    if runtime.exported.get(number) is not thing:
        runtime.exported[number] = thing  # known before what it refers to is looked at, which may be itself
        try:
            thing._capture(runtime)  # what it refers to is what it refers to now
        except BaseException:
            del runtime.exported[number]
            raise
    return _imported, (number,)


def _imported(number: int) -> Any:
    return context.running().exported[number]._here()
