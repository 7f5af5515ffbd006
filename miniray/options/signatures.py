"""Checks that a call fits a function's signature. `.remote()` does this, so that a wrong call fails at its own line and
not in the worker.

`inspect.Signature.bind` gives the best error texts, but takes twenty microseconds. To decide whether a call fits, a few
numbers and names are enough; `checker` computes them once per function. It calls `bind` only if a call does not fit,
for the text. So the answer is always that of `inspect`, as in Ray (ray/_common/signature.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from typing import Any

_KEYWORD_ONLY = -1  # stands for a position
# Flags of a code object, as in `inspect`, which takes five milliseconds to import and is imported for uncommon
# functions only.
_VARARGS, _VARKEYWORDS, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x04, 0x08, 0x20, 0x80, 0x200


class Checker:
    """Called with (args, kwargs), it raises TypeError if the function cannot be called with them.

    A call without keyword arguments fits if the number of its arguments is from `at_least` to `at_most`. The hot paths
    look at these two themselves, and save a call.
    """

    __slots__ = ("at_least", "at_most", "_check")

    def __init__(self, at_least: float, at_most: float, check: Callable[[Sequence[Any], Mapping[str, Any]], None]):
        self.at_least, self.at_most, self._check = at_least, at_most, check

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._check(args, kwargs)


def checker(function: Callable[..., Any], skip_first: bool = False) -> Checker:
    """Return a function of (args, kwargs) that raises TypeError if `function` cannot be called with them.

    skip_first: ignore the first parameter; for a function found in a class, whose `self` the caller does not pass.
    Raises ValueError or TypeError for a callable without a known signature (some built-ins). The texts are those of
    `inspect.Signature.bind`: "missing a required argument: 'a'", "too many positional arguments", "got an unexpected
    keyword argument 'z'", "multiple values for argument 'a'".
    """
    if (
        type(function) is FunctionType
        and not hasattr(function, "__wrapped__")
        and not hasattr(function, "__signature__")
    ):
        shape = _shape_of_code(function, skip_first)
        if shape is not None:
            return _checker(*shape, lambda: _signature(function, skip_first))
    return _checker_of(_signature(function, skip_first))


def _signature(function: Callable[..., Any], skip_first: bool) -> inspect.Signature:
    import inspect

    signature = inspect.signature(function)
    if skip_first:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return signature


def constructor_checker(cls: type) -> Checker:
    """Return the checker for the arguments of `cls(...)`, which go to `cls.__init__`.

    A class without an `__init__` written in Python takes no arguments, even if a built-in base would take some: Ray
    gives such an actor class a constructor of its own (ray/actor.py, _modify_class).
    """
    init = cls.__init__  # type: ignore[misc]
    if not isinstance(init, FunctionType):
        import inspect

        return _checker_of(inspect.Signature())
    return checker(init, skip_first=True)


def is_generator(function: Callable[..., Any]) -> bool:
    """Whether a call returns a generator or an async generator. Such a task streams by default."""
    flags = _flags(function)
    if flags is not None:
        return bool(flags & (_GENERATOR | _ASYNC_GENERATOR))
    import inspect

    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine or an async generator. One such method makes its actor an async actor."""
    flags = _flags(function)
    if flags is not None:
        return bool(flags & (_COROUTINE | _ASYNC_GENERATOR))
    import inspect

    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine."""
    flags = _flags(function)
    if flags is not None:
        return bool(flags & _COROUTINE)
    import inspect

    return inspect.iscoroutinefunction(function)


def _flags(function: Callable[..., Any]) -> int | None:
    """The flags of a plain function's code; None for a function that `inspect` has to look at, since it has attributes,
    such as the mark that `inspect.markcoroutinefunction` leaves."""
    if type(function) is FunctionType and not function.__dict__:
        return function.__code__.co_flags
    return None


def _shape_of_code(
    function: FunctionType, skip_first: bool
) -> tuple[int, float, dict[str, int], set[str], bool] | None:
    """Return the first five arguments of `_checker`.

    They are read from the code object, in a tenth of the time that `inspect` takes.
    Returns None if skip_first is true and the function has no named first parameter.
    """
    code, skipped = function.__code__, int(skip_first)
    count = code.co_argcount
    if skipped > count:
        return None
    names = code.co_varnames
    position = {names[place]: place - skipped for place in range(max(code.co_posonlyargcount, skipped), count)}
    keywords = names[count : count + code.co_kwonlyargcount]
    defaults = function.__kwdefaults__ or {}
    position.update(dict.fromkeys(keywords, _KEYWORD_ONLY))
    required = max(count - len(function.__defaults__ or ()) - skipped, 0)
    at_most = float("inf") if code.co_flags & _VARARGS else count - skipped
    return (
        required,
        at_most,
        position,
        {name for name in keywords if name not in defaults},
        bool(code.co_flags & _VARKEYWORDS),
    )


def _checker_of(signature: inspect.Signature) -> Checker:
    positional: list[inspect.Parameter] = []
    position: dict[str, int] = {}
    keywords_required: set[str] = set()
    takes_any_positional = takes_any_keyword = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            takes_any_positional = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            takes_any_keyword = True
        elif parameter.kind is parameter.KEYWORD_ONLY:
            position[parameter.name] = _KEYWORD_ONLY
            if parameter.default is parameter.empty:
                keywords_required.add(parameter.name)
        else:
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                position[parameter.name] = len(positional)
            positional.append(parameter)
    # Parameters with a default come last, so the required ones come first.
    required = sum(parameter.default is parameter.empty for parameter in positional)
    at_most = float("inf") if takes_any_positional else len(positional)
    return _checker(required, at_most, position, keywords_required, takes_any_keyword, lambda: signature)


def _checker(
    required: int,
    at_most: float,
    position: dict[str, int],
    keywords_required: set[str],
    takes_any_keyword: bool,
    signature: Callable[[], inspect.Signature],
) -> Checker:
    """Return the checker for a signature of this shape.

    required, at_most: the number of positional arguments. position: the position of each parameter that may be given by
    name, or _KEYWORD_ONLY. keywords_required: the keyword-only parameters without a default. signature: called only
    for the text of an error.
    """

    def fits_with_keywords(given: int, kwargs: Mapping[str, Any]) -> bool:
        if given > at_most:
            return False
        missing = max(required - given, 0)
        missing_keywords = len(keywords_required)
        for name in kwargs:
            place = position.get(name)
            if place is None:
                if not takes_any_keyword:
                    return False
            elif place == _KEYWORD_ONLY:
                missing_keywords -= name in keywords_required
            elif place < given:
                return False  # given twice
            elif place < required:
                missing -= 1
        return not missing and not missing_keywords

    def check(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if kwargs or keywords_required:
            if fits_with_keywords(len(args), kwargs):
                return
        elif required <= len(args) <= at_most:
            return
        try:
            signature().bind(*args, **kwargs)
        except TypeError as problem:
            raise TypeError(str(problem)) from None  # the frames of inspect would not help the caller

    return Checker(float("inf") if keywords_required else required, at_most, check)
