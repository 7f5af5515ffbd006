"""Held signals: a handler that would raise in the middle of some work is called when the work is done.

Used where an exception at any step would leave something half done that nobody could repair, such as the replaced
clocks of a simulation. Only the main thread calls handlers, so for other threads this does nothing.

One function, `_note`, stands in front of the program's handlers while signals are held. It notes a signal while there
is a holder, and otherwise calls the program's handler. So no signal is lost if it still stands somewhere later, since
the way back was interrupted.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import signal
import threading
import time
from types import FrameType

from . import signal_handlers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NUMBERS = sorted(signal.valid_signals())
AGAIN_S = 1.0  # the same signal, so much later, is not held any longer: the work may hang
_monotonic = time.monotonic
_real_handler = _signal.getsignal

_behind: dict[int, Any] = {}  # the program's handlers in front of which `_note` stands, or stood last
_noted: dict[int, tuple[float, FrameType | None]] = {}  # the signals that have come
_holder: HeldSignals | None = None  # who holds the signals


def _note(number: int, frame: FrameType | None) -> None:
    """The handler of all signals that are held."""
    if _holder is not None:
        first = _noted.setdefault(number, (_monotonic(), frame))
        if _monotonic() - first[0] <= AGAIN_S:
            return
        del _noted[number]
    _behind[number](number, frame)


class HeldSignals:
    """Holds the signals that the program handles, between `hold` and `release`. Does nothing inside another one that
    holds them."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []

    def hold(self) -> None:
        """Hold all signals from now on. What a handler raises meanwhile is raised by `release`."""
        global _holder
        if _thread.get_ident() != threading.main_thread().ident:
            return
        while _holder is None or _holder is self:
            try:
                _holder = self
                for number in NUMBERS:
                    if callable(_real_handler(number)):
                        handler = signal_handlers.handler_of(number)
                        if handler is not _note:
                            _behind[number] = handler
                            signal_handlers.exchange(number, _note)
                return
            except BaseException as error:  # a handler was called before it could be replaced
                self._errors.append(error)

    def release(self) -> None:
        """Restore the handlers, and call those whose signals have come. Raises the first error of one of them."""
        global _holder
        if _holder is not self:
            return
        while True:
            try:
                _holder = None
                for number, handler in list(_behind.items()):
                    if signal_handlers.handler_of(number) is _note:
                        signal_handlers.exchange(number, handler)
                    signal_handlers.restore_afterwards(number, _note, handler)
                while _noted:
                    number, (_, frame) = _noted.popitem()
                    _behind[number](number, frame)
                break
            except BaseException as error:  # the other handlers must be restored all the same
                self._errors.append(error)
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]
