"""`tqdm` for tasks and actors: bars of many workers, drawn by the driver. Needs neither the tqdm package nor a session.

Ray: python/ray/experimental/tqdm_ray.py, whose six arguments and four methods are all there is; what draws is
`observe.logs.progress_bars`.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from ..observe.logs.progress_bars import Bars, State, bars
from ..observe.logs.files import actor_label
from ..observe.logs.session import shown_on_driver
from ..process.context import current

__all__ = ["RAY_TQDM_MAGIC", "ProgressBarState", "instance", "safe_print", "tqdm"]

RAY_TQDM_MAGIC = "__ray_tqdm_magic_token__"
ProgressBarState = State


def instance() -> Bars:
    """What draws the bars of this process: `process_state_update(state)`, `hide_bars()`, `unhide_bars()`."""
    return bars


def safe_print(*args: Any, **kwargs: Any) -> None:
    """`print`, with the bars taken off the screen meanwhile. While bars are drawn, `print` itself does them no harm
    either; Ray replaces `builtins.print` for that, which nothing here does.
    """
    if kwargs.get("file") not in (sys.stdout, sys.stderr, None):
        return print(*args, **kwargs)
    bars.hide_bars()
    try:
        print(*args, **kwargs)
    finally:
        bars.unhide_bars()


class tqdm:
    """A progress bar for an iterable, or moved by hand.

    iterable: what iterating over the bar hands out; `n` counts an item before it is handed out. desc: text in front.
    total: how many there will be, its length by default when it has one. unit: of what, "it" by default. position: its
    place among the bars of its worker, from 0. flush_interval_s: seconds in which at most one report is drawn, 1 by
    default; closing reports always.

    A bar that is sent to a task is copied, as any value. What the workers of a session with log_to_driver=False report
    is not shown. A bar that nobody refers to any more is closed.
    """

    DEFAULT_FLUSH_INTERVAL_SECONDS = 1.0

    def __init__(
        self,
        iterable: Iterable | None = None,
        desc: str | None = None,
        total: int | None = None,
        unit: str | None = None,
        position: int | None = None,
        flush_interval_s: float | None = None,
    ):
        if total is None and iterable is not None:
            try:
                total = len(iterable)  # type: ignore[arg-type]
            except (TypeError, AttributeError):
                total = None
        self._iterable, self._desc, self._total = iterable, desc or "", total
        self._unit, self._pos, self._x = unit or "it", position or 0, 0
        self._uuid = uuid.uuid4().hex
        self._closed = self._over = False  # close was called; that was drawn
        self._flush_interval_s = self.DEFAULT_FLUSH_INTERVAL_SECONDS if flush_interval_s is None else flush_interval_s
        self._last_report = float("-inf")
        self._drawn_as: tuple[int, str] | None = None

    @property
    def n(self) -> int:
        """How many are done. May be set; that draws nothing."""
        return self._x

    @n.setter
    def n(self, n: int) -> None:
        self._x = n

    @property
    def total(self) -> int | None:
        """How many there will be, None when nobody knows. May be set; that draws nothing."""
        return self._total

    @total.setter
    def total(self, total: int | None) -> None:
        self._total = total

    def update(self, n: int = 1) -> None:
        """So many more are done; a negative number takes back. TypeError for what cannot be added."""
        self._x += n
        self._report()

    def set_description(self, desc: str) -> None:
        """Change the text in front."""
        self._desc = desc
        self._report()

    def refresh(self) -> None:
        """Draw it, if the last time is long enough ago."""
        self._report()

    def close(self) -> None:
        """Draw it a last time and leave it on the screen. May be repeated; what is counted afterwards is not drawn."""
        self._closed = True
        self._report(at_once=True)

    def _report(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._over or not at_once and now - self._last_report < self._flush_interval_s:
            return
        self._last_report = now
        execution = current.get()
        if execution is None or execution.runtime.local:
            self._drawn_as = 0, ""
        elif shown_on_driver(execution.runtime):
            worker = execution.worker
            name = actor_label(worker.actor) if worker.actor is not None else execution.task.spec.name
            self._drawn_as = worker.number, name
        else:
            return
        self._over = self._closed
        bars.process_state_update(self._state(), *self._drawn_as)

    def _state(self) -> State:
        return {
            "__magic_token__": RAY_TQDM_MAGIC,
            "x": self._x,
            "pos": self._pos,
            "desc": self._desc,
            "total": self._total,
            "unit": self._unit,
            "ip": "127.0.0.1",
            "pid": os.getpid(),
            "uuid": self._uuid,
            "closed": self._closed,
        }

    def __iter__(self) -> Iterator:
        if self._iterable is None:
            raise ValueError("No iterable provided")
        for item in self._iterable:
            self.update(1)
            yield item
        self._report(at_once=True)  # the last items may have come within the interval

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_drawn_as": None, "_last_report": float("-inf")}

    def __del__(self) -> None:
        drawn_as = getattr(self, "_drawn_as", None)
        if drawn_as is not None and not self._over:
            bars.gone.append(({**self._state(), "closed": True}, *drawn_as))
