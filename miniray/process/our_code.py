"""Which frames of a thread are miniray's own, and which of them an exception may interrupt.

An exception from outside (the interrupt of a cancelled task, Ctrl-C) must be raised in the user's code or in a wait,
never in the middle of an event in the core. So before one is raised, the thread's frames are examined from the
innermost outwards. A function is recognised by its code object, which its module registers here with a decorator; names
play no part.
"""

from __future__ import annotations

import os
from types import CodeType, FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    F = TypeVar("F")

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Parts of miniray that count as the user's code: they use miniray as a program does, without lock or tables.
AS_USERS = tuple(FOLDER + name + os.sep for name in ("cli", "engine", "testing", "util", "experimental"))

entries: set[CodeType] = set()  # functions that call the user's code
attempts: set[CodeType] = set()  # those of `entries` that run one attempt of a task
waits: set[CodeType] = set()  # functions that only wait, so that they may be interrupted
stand_ins: set[CodeType] = set()  # functions that count as the functions of the standard library that they replace
parks: set[CodeType] = set()  # those of `waits` in which a thread waits for objects


def enters_user_code(function: F) -> F:
    """Decorator: this function calls the user's code. Frames that it calls, except our own, are the user's."""
    entries.add(_code(function))
    return function


def runs_an_attempt(function: F) -> F:
    """Decorator: this function runs one attempt of a task. Implies `enters_user_code`."""
    attempts.add(_code(function))
    return enters_user_code(function)


def only_waits(function: F) -> F:
    """Decorator: this function does nothing but wait, so it may be interrupted at any point."""
    waits.add(_code(function))
    return function


def stands_in(function: F) -> F:
    """Decorator: this function replaces one of the standard library, and on the driver it only calls that. A signal
    handler may run in it as in the original, which may wait, or send the signal."""
    stand_ins.add(_code(function))
    return function


def parks_here(function: F) -> F:
    """Decorator: a thread that waits for objects sleeps in this function. Implies `only_waits`."""
    parks.add(_code(function))
    return only_waits(function)


def _code(function: Any) -> CodeType:
    assert isinstance(function, FunctionType), f"{function!r} has no code of its own"
    return function.__code__
