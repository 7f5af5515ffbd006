"""Asynchronous exceptions: how to raise an exception in another thread, with the only function that CPython has for it.

The function is reached through ctypes, which most programs never need. Its import takes 10 ms, and without the GIL it
takes seconds while other threads are busy. So it is imported at the first interrupt, and without the GIL when a session
starts; but never under the core's lock.
"""

from __future__ import annotations

import _thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ctypes: Any = None


def loaded() -> bool:
    """Whether `load` has been called."""
    return _ctypes is not None


def load() -> None:
    """Import ctypes. The core's lock must not be held."""
    global _ctypes
    import ctypes

    _ctypes = ctypes


def send(ident: int, error: type[BaseException] | None) -> None:
    """Raise an exception of this class in a thread, at its next bytecode. None: take the exception back."""
    _ctypes.pythonapi.PyThreadState_SetAsyncExc(
        _ctypes.c_ulong(ident), None if error is None else _ctypes.py_object(error)
    )


class _Absorbed(BaseException):
    """Raised and caught in one place: see `take_back`."""


def take_back(ident: int) -> None:
    """Take back an exception that was sent to a thread and has not been raised yet."""
    if _ctypes is None:
        load()
    send(ident, None)
    # Before 3.13 the interpreter keeps looking for the exception, at every call and every turn of every loop in every
    # thread, until an asynchronous exception is raised anywhere. So raise one here: it comes out of the call that sends
    # it.
    here = _thread.get_ident()
    try:
        send(here, _Absorbed)
        send(here, None)
    except _Absorbed:
        return
