"""Does a call fit a signature? Asked at every `.remote()`, so that a wrong call fails where it is written, not in the
worker.

`inspect.Signature.bind` answers that with the best texts, in twenty microseconds. Whether a call fits takes only a few
numbers and names, which are worked out once per function; `bind` is asked for the text when a call does not fit. So the
answers are always `inspect`'s, as in Ray (ray/_common/signature.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

Checker = Callable[[Sequence[Any], Mapping[str, Any]], None]

_KEYWORD_ONLY = -1


def checker(function: Callable[..., Any], skip_first: bool = False) -> Checker:
    """A function of (args, kwargs) that raises TypeError when a call of `function` with them cannot work.

    skip_first: leave out the first parameter; for a function found in a class, whose `self` the caller does not pass.
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
    signature = inspect.signature(function)
    if skip_first:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    return signature


def constructor_checker(cls: type) -> Checker:
    """As `checker`, for the arguments of `cls(...)`, which go to its `__init__`.

    A class without an `__init__` in Python takes none, even if a built-in base would have taken some: Ray gives such an
    actor class a constructor of its own (ray/actor.py, _modify_class).
    """
    init = cls.__init__  # type: ignore[misc]
    if not inspect.isfunction(init):
        return _checker_of(inspect.Signature())
    return checker(init, skip_first=True)


def is_generator(function: Callable[..., Any]) -> bool:
    """Whether a call makes a generator or an async generator, so that its task streams by default."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call makes a coroutine or an async generator: one such method makes the actor an async one."""
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _shape_of_code(
    function: FunctionType, skip_first: bool
) -> tuple[int, float, dict[str, int], set[str], bool] | None:
    """The first five arguments of `_checker`, as a function's code tells them, in a tenth of the time that a signature takes.
    None when the parameter to be left out is none of its own."""
    code, left_out = function.__code__, int(skip_first)
    count = code.co_argcount
    if left_out > count:
        return None
    names = code.co_varnames
    position = {names[place]: place - left_out for place in range(max(code.co_posonlyargcount, left_out), count)}
    keywords = names[count : count + code.co_kwonlyargcount]
    defaults = function.__kwdefaults__ or {}
    position.update(dict.fromkeys(keywords, _KEYWORD_ONLY))
    required = max(count - len(function.__defaults__ or ()) - left_out, 0)
    at_most = float("inf") if code.co_flags & inspect.CO_VARARGS else count - left_out
    return (
        required,
        at_most,
        position,
        {name for name in keywords if name not in defaults},
        bool(code.co_flags & inspect.CO_VARKEYWORDS),
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
    # Parameters with a default come last, so the required ones are the first so many.
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
    """required, at_most: of positional arguments. position: of each parameter that may be given by name, _KEYWORD_ONLY for those
    that can be given in no other way; keywords_required: those of them without a default. signature: made for an error's text."""

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
            raise TypeError(str(problem)) from None  # without the frames of inspect, which say nothing to the caller

    return check
