"""What is known about an actor's class before it is used: its methods, and how each of them may be called."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import all_suffixes
from types import FunctionType, MethodType

from ..options.signatures import checker, is_async, is_generator
from ..process.exits import ActorExit, WorkerExit
from .definitions import Capture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class MethodInfo:
    """One method of an actor class.

    check: raises TypeError for arguments that do not fit. generator: whether it yields. options: from its decorator.
    builtin: the function to run, for the methods that every actor has; None for a method that is looked up in the
    actor's class. bound: whether it is called without the instance, as a static or a class method. decorate: what the
    method has as `__ray_invocation_decorator__`, or None.
    """

    __slots__ = ("name", "check", "generator", "options", "builtin", "bound", "decorate")

    def __init__(
        self,
        name: str,
        check: Any,
        generator: bool,
        options: dict[str, Any],
        builtin: Any = None,
        bound: bool = False,
        decorate: Any = None,
    ):
        self.name, self.check, self.generator, self.options, self.builtin = name, check, generator, options, builtin
        self.bound, self.decorate = bound, decorate


def _is_ready(instance: Any) -> bool:
    return True


def _terminate(instance: Any) -> None:
    raise ActorExit("__ray_terminate__ was called")


def _call(instance: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(instance, *args, **kwargs)


def undeclared_group(instance: Any, *args: Any, **kwargs: Any) -> None:
    """Runs if a call names a concurrency group that the actor lacks. As in Ray, it ends the worker."""
    raise WorkerExit("SYSTEM_ERROR: a call named a concurrency group that the actor does not have")


def _no_arguments(self: Any) -> None:
    """The constructor of actors whose class has none that is written in Python."""


def _functions_of(cls: type) -> Iterator[tuple[str, Any]]:
    """The names and values of the functions and methods of a class, in the order of their names."""
    for name in dir(cls):
        member = getattr(cls, name, None)  # None: dir() also lists names that only instances have
        if isinstance(member, (FunctionType, MethodType)):
            yield name, member


def _found_in(cls: type, name: str) -> Any:
    """What the class or one of its bases defines under this name, as it is written there."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def _module_of(cls: type) -> str:
    """The name of the module in which an actor sees its class. As in Ray, for a script it is that of the file."""
    if cls.__module__ != "__main__":
        return cls.__module__
    path = getattr(sys.modules["__main__"], "__file__", None)  # there is none in an interactive session
    name = os.path.basename(path or "")
    return next((name[: -len(suffix)] for suffix in all_suffixes() if name.endswith(suffix)), "") or "__main__"


def modify_class(cls: type) -> type:
    """The subclass that actors are instances of, with the methods that every actor has. Ray: _modify_class."""
    if hasattr(cls, "__ray_actor_class__"):
        return cls

    class Class(cls):  # type: ignore[misc]
        __ray_actor_class__ = cls
        __ray_ready__ = _is_ready
        __ray_call__ = _call
        __ray_terminate__ = _terminate

    Class.__module__, Class.__name__ = _module_of(cls), cls.__name__
    Class.__qualname__ = "_modify_class.<locals>.Class"  # Ray's
    if not isinstance(Class.__init__, (FunctionType, MethodType)):
        Class.__init__ = _no_arguments  # type: ignore[method-assign]
    for name, function in _functions_of(Class):
        if _found_in(Class, name) is function and not is_generator(function) and name != "__del__":
            setattr(Class, name, function)  # as in Ray, whose tracing wraps these: they are the class's own from now on
    return Class


OF_EVERY_ACTOR = {
    name: MethodInfo(name, checker(builtin, skip_first=True), False, {}, builtin)
    for name, builtin in (("__ray_ready__", _is_ready), ("__ray_call__", _call), ("__ray_terminate__", _terminate))
}


class ClassInfo:
    """The description of an actor's class, shared by all its variants, templates and handles.

    The names modified_class and class_name are Ray's (ActorClassMetadata).
    """

    def __init__(self, modified_class: Any):
        """modified_class: the class of the actors, made by `modify_class`."""
        cls = self.plain_class = modified_class.__ray_actor_class__
        self.modified_class = modified_class
        self.class_name = cls.__qualname__
        self.name = cls.__name__
        self.module = getattr(cls, "__module__", "") or ""
        self.check, self.capture = checker(modified_class.__init__, skip_first=True), Capture(modified_class)
        self.methods: dict[str, MethodInfo] = {}
        self.is_async = False
        for name, function in _functions_of(modified_class):
            if name not in OF_EVERY_ACTOR:
                self._add(modified_class, name, function)
        self.methods.update(OF_EVERY_ACTOR)

    def _add(self, cls: type, name: str, function: Any) -> None:
        static = isinstance(_found_in(cls, name), staticmethod)
        bound = static or isinstance(function, MethodType)
        self.is_async = self.is_async or is_async(function)
        decorate = getattr(function, "__ray_invocation_decorator__", None)
        # As in Ray, the function inside a decorator's wrapper decides: whether it yields, and which options it has.
        if hasattr(function, "__wrapped__"):
            from inspect import unwrap

            function = unwrap(function)
        check = checker(function, skip_first=not (static or isinstance(function, MethodType)))
        options = getattr(function, "__miniray_method__", {})
        self.methods[name] = MethodInfo(name, check, is_generator(function), options, bound=bound, decorate=decorate)

    def __reduce__(self) -> tuple[Any, ...]:
        return ClassInfo, (self.modified_class,)

    def check_groups(self, groups: dict[str, int]) -> None:
        """Raise AssertionError if a method's decorator names a concurrency group that is not among these."""
        for name, found in self.methods.items():
            group = found.options.get("concurrency_group")
            assert not group or group in groups, (
                f"the method {self.name}.{name} has the concurrency_group {group!r}, which is not among the "
                f"concurrency_groups of its class: {sorted(filter(None, groups))}"
            )
