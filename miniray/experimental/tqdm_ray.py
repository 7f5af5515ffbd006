"""`tqdm` for tasks and actors: progress bars of many workers on one screen, with or without a session.

It does not need the tqdm package. Workers report their progress, and the driver draws all bars
(`observe.logs.progress_bars`). As in Ray, only a part of tqdm's interface exists. Ray:
python/ray/experimental/tqdm_ray.py.
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
    """Return the object that draws the bars: `process_state_update(state)`, `hide_bars()` and `unhide_bars()`."""
    return bars


def safe_print(*args: Any, **kwargs: Any) -> None:
    """Like `print`, but hide the bars while printing. Here a plain `print` does not disturb the bars either, although
    `builtins.print` is not replaced, as it is in Ray.
    """
    if kwargs.get("file") not in (sys.stdout, sys.stderr, None):
        return print(*args, **kwargs)
    bars.hide_bars()
    try:
        print(*args, **kwargs)
    finally:
        bars.unhide_bars()


class tqdm:
    """A progress bar for an iterable, or one that is moved with `update`.

        for item in tqdm_ray.tqdm(items, desc="loading"):
            load(item)

    Args:
        iterable: the items that iterating over the bar yields. An item is counted before it is yielded.
        desc: the text in front of the bar.
        total: the expected number of items; by default the length of the iterable, if it has one.
        unit: the word for an item; "it" by default.
        position: the place of the bar among the bars of its worker, from 0.
        flush_interval_s: draw at most once in this many seconds, 1 by default. Closing the bar always draws it.

    A bar that is passed to a task is copied, like any value. A bar is closed when nothing refers to it any longer. If
    the session was started with log_to_driver=False, the bars of its workers are not shown.
    """

    DEFAULT_FLUSH_INTERVAL_SECONDS = 1.0

    def __init__(
        self,
        iterable: Iterable[Any] | None = None,
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
        self._closed = self._over = False  # close() was called; the closed bar has been drawn
        self._flush_interval_s = self.DEFAULT_FLUSH_INTERVAL_SECONDS if flush_interval_s is None else flush_interval_s
        self._last_report = float("-inf")
        self._drawn_as: tuple[int, str] | None = None

    @property
    def n(self) -> int:
        """The number of finished items. It can be set, which does not redraw the bar."""
        return self._x

    @n.setter
    def n(self, n: int) -> None:
        self._x = n

    @property
    def total(self) -> int | None:
        """The expected number of items, or None. It can be set, which does not redraw the bar."""
        return self._total

    @total.setter
    def total(self, total: int | None) -> None:
        self._total = total

    def update(self, n: int = 1) -> None:
        """Add to the number of finished items; a negative number moves the bar back. TypeError if it is no number."""
        self._x += n
        self._report()

    def set_description(self, desc: str) -> None:
        """Change the text in front of the bar."""
        self._desc = desc
        self._report()

    def refresh(self) -> None:
        """Draw the bar, unless it was drawn less than `flush_interval_s` seconds ago."""
        self._report()

    def close(self) -> None:
        """Draw the bar a last time and leave it on the screen. Later updates are not drawn. Can be called again."""
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

    def __iter__(self) -> Iterator[Any]:
        if self._iterable is None:
            raise ValueError("No iterable provided")
        for item in self._iterable:
            self.update(1)
            yield item
        self._report(at_once=True)  # the last items may have been counted within the interval

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_drawn_as": None, "_last_report": float("-inf")}

    def __del__(self) -> None:
        drawn_as = getattr(self, "_drawn_as", None)
        if drawn_as is not None and not self._over:
            bars.gone.append(({**self._state(), "closed": True}, *drawn_as))
