"""Which frames of a thread are miniray's own, and which of them an exception may interrupt.

An exception from outside (an interrupt of a cancelled task, Ctrl-C) must come out of the user's code or out of a wait, never
out of the middle of an event in the core. So before one is raised, the frames of the thread are looked at, from the innermost
on. A function is recognised by its code object, which its module registers here. No decision depends on a function's name.
"""

from __future__ import annotations

import os
from types import CodeType, FunctionType
from typing import Any, TypeVar

F = TypeVar("F")

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Parts of miniray that are written as a user's program would be: they hold no lock and change no tables, but call what does.
AS_USERS = tuple(FOLDER + name + os.sep for name in ("cli", "engine", "testing", "util", "experimental"))

entries: set[CodeType] = set()  # functions that call the user's code
waits: set[CodeType] = set()  # functions that only wait, and may be interrupted
parks: set[CodeType] = set()  # those of them in which a thread waits for objects


def enters_user_code(function: F) -> F:
    """Decorator: this function calls the user's code. What runs below it is the user's."""
    entries.add(_code(function))
    return function


def only_waits(function: F) -> F:
    """Decorator: this function does nothing but wait, so an exception may come out of it."""
    waits.add(_code(function))
    return function


def parks_here(function: F) -> F:
    """Decorator: a thread that waits for objects sleeps in this function."""
    parks.add(_code(function))
    return only_waits(function)


def _code(function: Any) -> CodeType:
    assert isinstance(function, FunctionType), f"{function!r} has no code of its own"
    return function.__code__
