"""Held signals: a handler that would raise in the middle of some work is called when the work is done.

Used where an exception at any step would leave something half done that nobody could repair, such as the replaced
clocks of a simulation. Only the main thread calls handlers, so for other threads this does nothing.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from types import FrameType
from typing import Any

from . import signal_handlers

NUMBERS = sorted(signal.valid_signals())
AGAIN_S = 1.0  # the same signal, so much later, is not held any longer: the work may hang
_monotonic = time.monotonic


class HeldSignals:
    """Holds the signals that the program handles, between `hold` and `release`."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._noted: dict[int, tuple[float, FrameType | None]] = {}
        self._errors: list[BaseException] = []

    def hold(self) -> None:
        """Hold all signals from now on. What a handler raises meanwhile is raised by `release`."""
        if _thread.get_ident() != threading.main_thread().ident:
            return
        while True:
            try:
                for number in NUMBERS:
                    if signal_handlers.handler_of(number) != self._note:
                        before = signal_handlers.exchange(number, self._note)
                        if before is not None:
                            self._handlers[number] = before
                return
            except BaseException as error:  # a handler was called before it could be replaced
                self._errors.append(error)

    def _note(self, number: int, frame: FrameType | None) -> None:
        first = self._noted.setdefault(number, (_monotonic(), frame))
        if _monotonic() - first[0] > AGAIN_S:
            del self._noted[number]
            self._handlers[number](number, frame)

    def release(self) -> None:
        """Restore the handlers, and call those whose signals have come. Raises the first error of one of them."""
        for number, handler in self._handlers.items():
            if signal_handlers.handler_of(number) == self._note:
                signal_handlers.exchange(number, handler)
        handlers, noted, errors = self._handlers, self._noted, self._errors
        self._handlers, self._noted, self._errors = {}, {}, []
        if errors:
            raise errors[0]
        for number, (_, frame) in noted.items():
            handlers[number](number, frame)
