"""Progress bars of many workers: a block at the bottom of the driver's terminal; an output for each bar in a notebook;
otherwise plain lines.

On a terminal, the open bars form a block below the cursor. Text that is printed meanwhile goes above it: the block is
erased, the text written, and the block drawn again. If the text stops in the middle of a line, the block stays hidden
until the line ends. So while there are bars, the program's output must pass through `standard_streams`. The thread that
reports progress also draws; bars have no thread of their own.
"""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
import time
import unicodedata
from collections import deque
from html import escape
from numbers import Real
from typing import Any

from ...process.context import at_end, in_forked_child, in_turn
from ...process import standard_streams
from ..escape import escaped

State = dict[str, Any]  # the report of a bar: x, pos, desc, total, unit, ip, pid, uuid, closed, as in Ray
Key = tuple[int, str]  # the bar's worker, 0 for the driver, and its uuid; a copy in another worker is another bar
MOST_DRAWINGS_PER_S = 20
NOTEBOOK_COLUMNS = 100
DIM, RESET, ERASE = "\x1b[2m\x1b[36m", "\x1b[0m", "\r\x1b[J"
EIGHTHS = " ▏▎▍▌▋▊▉█"


class Bar:
    """One bar with its last report. began: when it was opened. name: its prefix. line: the essence of the last line."""

    __slots__ = ("name", "began", "now", "line", "done", "total", "desc", "unit", "position", "shown_at")

    def __init__(self, name: str, now: float):
        self.name = f"({escaped(name)} pid={os.getpid()}) " if name else ""
        self.began, self.line = now, ""
        self.shown_at = 0.0  # when a notebook last showed it; 0.0 for never

    def report(self, state: State, now: float) -> None:
        """Store a report. A value that is not a number counts as 0, or as no total: it must not fail the task."""
        self.now, self.done, self.total = now, number(state["x"]) or 0, number(state["total"])
        self.desc, self.unit = escaped(str(state["desc"])), escaped(str(state["unit"]))
        self.position = number(state["pos"]) or 0

    def count(self) -> tuple[str, float]:
        """Return a text like `4/10 [00:02<00:03, 2.00it/s]`, and the share done; below 0 if there is no total."""
        done, total = self.done, self.total
        seconds = self.now - self.began
        rate = done / seconds if seconds > 0 and done > 0 else 0
        speed = f"{scaled(rate, 2)}{self.unit}/s" if rate else f"?{self.unit}/s"
        if not total or done > total:
            return f"{scaled(done)}{self.unit} [{clock(seconds)}, {speed}]", -1.0
        left = clock((total - done) / rate) if rate else "?"
        return f"{scaled(done)}/{scaled(total)} [{clock(seconds)}<{left}, {speed}]", max(0.0, done / total)

    def text(self, width: int = 0, fine: bool = True) -> str:
        """Return the bar as one line; with a width, add a drawing that fills it. fine: draw eighths of a character."""
        count, share = self.count()
        head = self.name + (f"{self.desc}: " if self.desc else "")
        if share < 0:
            return fitted(head + count, width)
        head += f"{share:4.0%}"
        room = width - columns(head) - columns(count) - 3
        if room < 4:
            return fitted(f"{head} {count}", width)
        return f"{head}|{drawing(share, min(room, 40), fine)}| {count}"


class Bars:
    """The open bars of this process, and the terminal on which they are drawn.

    `lock` guards everything and is held while drawing. It is re-entrant. gone: the last reports of bars that were
    garbage-collected, with worker and name; finalisers append to it, and the next operation handles them.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.bars: dict[Key, Bar] = {}
        self.gone: deque[tuple[State, int, str]] = deque()
        self.terminal: Any = None  # the stream with the block; None if there is no block
        self.drawn = 0  # how many lines of the block are on the screen
        self.hidden = self.in_a_line = False
        self._last_drawn = 0.0
        atexit.register(self.close, False)

    # ------------------------------------------------------------ reports

    def process_state_update(self, state: State, worker: int = 0, name: str = "") -> None:
        """Take the report of a bar. The first report opens the bar; one with `closed` ends it and leaves its last line
        on the screen.

        worker, name: the bar's owner; 0 and "" for the driver.
        """
        with in_turn(self.lock), self.lock:
            self._end_collected()
            self._report(state, worker, name)

    def _report(self, state: State, worker: int, name: str) -> None:
        key, now = (worker, state["uuid"]), time.monotonic()
        bar = self.bars.get(key)
        opened = bar is None
        if bar is None:
            bar = self.bars[key] = Bar(name, now)
        bar.report(state, now)
        screen = standard_streams.driver_stream("stderr")
        if screen is None or not screen.isatty():
            self._leave_terminal()
            publisher = notebook(screen)
            if publisher is None:
                self._write_line(bar)
            elif opened or state["closed"] or now - bar.shown_at >= 1 / MOST_DRAWINGS_PER_S:
                publish(publisher, bar, f"miniray-{worker}-{state['uuid']}", now)
            if state["closed"]:
                del self.bars[key]
        elif state["closed"]:
            self._finish(key)
        else:
            self._draw(screen, at_once=opened or bar.done == bar.total)

    def close(self, workers_only: bool = True) -> None:
        """End the bars of workers, when their session ends; or all bars."""
        with in_turn(self.lock), self.lock:
            self._end_collected()
            for key in [key for key in self.bars if key[0] or not workers_only]:
                self._finish(key)

    def _end_collected(self) -> None:
        while self.gone:
            state, worker, name = self.gone.popleft()
            if (worker, state["uuid"]) in self.bars:
                self._report(state, worker, name)

    @staticmethod
    def _write_line(bar: Bar) -> None:
        line = f"{bar.desc} {bar.done} {bar.total}"
        if line != bar.line:  # a report without news gets no line
            bar.line = line
            standard_streams.write_to_driver("stderr", bar.text() + "\n")

    # ------------------------------------------------------------ the block on the terminal

    def _draw(self, screen: Any, at_once: bool) -> None:
        now = time.monotonic()
        if screen is not self.terminal:
            self._leave_terminal()
            self.terminal = screen
            standard_streams.open_doors(self)
            standard_streams.above_bars = self._write_above
        if not self.hidden and not self.in_a_line and (at_once or now - self._last_drawn >= 1 / MOST_DRAWINGS_PER_S):
            self._last_drawn = now
            self._put(self._erasing() + self._block())

    def _block(self) -> str:
        """Return all open bars, by worker and position, one per line. The cursor returns to the top."""
        workers = list(dict.fromkeys(worker for worker, _ in self.bars))
        ordered = sorted(self.bars, key=lambda key: (workers.index(key[0]), self.bars[key].position))
        columns, lines = terminal_size(self.terminal)
        texts = [self._text(self.bars[key], columns) for key in ordered]
        if len(texts) >= lines:
            texts[max(0, lines - 2) :] = [fitted(f"... and {len(texts) - lines + 2} more", columns - 1)]
        self.drawn = len(texts)
        return "\n".join(texts) + "\r" + (f"\x1b[{len(texts) - 1}A" if len(texts) > 1 else "")

    def _text(self, bar: Bar, width: int) -> str:
        fine = "utf" in (getattr(self.terminal, "encoding", None) or "").lower()
        text = bar.text(width - 1, fine)
        name = bar.name
        dims = name and text.startswith(name) and not os.environ.get("NO_COLOR")
        return f"{DIM}{name}{RESET}{text[len(name) :]}" if dims else text

    def _erasing(self) -> str:
        erasing = ERASE if self.drawn else ""
        self.drawn = 0
        return erasing

    def _put(self, text: str) -> None:
        try:
            self.terminal.write(text)
        except UnicodeEncodeError:
            encoding = self.terminal.encoding
            self.terminal.write(text.encode(encoding, "replace").decode(encoding))
        self.terminal.flush()

    def _finish(self, key: Key) -> None:
        """End a bar: its last line stays on the screen, above the other bars."""
        bar = self.bars.pop(key)
        if self.terminal is None:
            return
        self._put(self._erasing() + self._text(bar, terminal_size(self.terminal)[0]) + "\n")
        if self.bars:
            self._draw(self.terminal, at_once=True)
        else:
            self._leave_terminal()

    def _leave_terminal(self) -> None:
        if self.terminal is not None:
            if self.drawn:
                self._put(self._erasing())
            self.terminal = None
            self.in_a_line = False
            standard_streams.above_bars = None
            standard_streams.close_doors(self)

    # ------------------------------------------------------------ text that is printed meanwhile

    def hide_bars(self) -> None:
        """Take the block off the screen until `unhide_bars`."""
        with in_turn(self.lock), self.lock:
            self.hidden = True
            if self.drawn:
                self._put(self._erasing())

    def unhide_bars(self) -> None:
        """Draw the block again."""
        with in_turn(self.lock), self.lock:
            self.hidden = False
            if self.terminal is not None and self.bars:
                self._draw(self.terminal, at_once=True)

    def _write_above(self, stream: Any, text: str) -> int:
        """Write the driver's text in place of the block, and the block below the text."""
        with in_turn(self.lock), self.lock:
            self._end_collected()
            written: int
            if self.terminal is None or not stream.isatty():
                written = stream.write(text)
                return written
            if self.drawn:
                self._put(self._erasing())
            written = stream.write(text)
            stream.flush()
            if text:
                self.in_a_line = not text.endswith("\n")
            self._draw(self.terminal, at_once=True)
            return written


bars = Bars()


def notebook(stream: Any) -> Any:
    """What publishes the outputs of the Jupyter notebook that shows this stream; None for any other stream."""
    ipython = sys.modules.get("IPython")
    if ipython is None or not type(stream).__module__.startswith("ipykernel"):
        return None
    return getattr(ipython.get_ipython(), "display_pub", None)


def publish(publisher: Any, bar: Bar, output: str, now: float) -> None:
    """Show the bar in a notebook, in its own output. output: the name by which later reports replace the first one."""
    text = bar.text(NOTEBOOK_COLUMNS)
    _, share = bar.count()
    drawn = f'<progress value="{share:.4f}" max="1"></progress> ' if share >= 0 else ""
    data = {"text/plain": text, "text/html": f"<div>{drawn}<code>{escape(bar.text())}</code></div>"}
    publisher.publish(data, transient={"display_id": output}, update=bool(bar.shown_at))
    bar.shown_at = now


def after_fork() -> None:
    """Replace the lock in a forked child, because a thread of the parent may have held it."""
    bars.lock = threading.RLock()


at_end.append(bars.close)
in_forked_child.append(after_fork)


# ---------------------------------------------------------------- numbers and widths


def number(value: Any) -> float | None:
    """Return the value if it is a finite number, otherwise None."""
    return value if isinstance(value, Real) and math.isfinite(value) else None  # type: ignore[return-value]


def scaled(value: float, digits: int = 0) -> str:
    """Write 1234567 as 1.23M. digits: the decimals of a number below 1000."""
    if abs(value) < 1000:
        return f"{value:.{digits}f}" if digits or value == int(value) else f"{value:.1f}"
    letters = "kMGTPE"
    value /= 1000
    while abs(value) >= 999.5 and len(letters) > 1:
        value, letters = value / 1000, letters[1:]
    return f"{value:.0f}{letters[0]}" if abs(value) >= 100 else f"{value:#.3g}{letters[0]}"


def clock(seconds: float) -> str:
    """Write 65 seconds as 01:05, 3665 as 1:01:05."""
    minutes, seconds = divmod(int(min(seconds, 1e9)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes:02d}:{seconds:02d}"


def drawing(share: float, width: int, fine: bool) -> str:
    """Draw a bar of `width` characters, filled to a share from 0 to 1."""
    if not fine:
        return ("#" * int(share * width)).ljust(width)
    whole, eighths = divmod(int(share * width * 8), 8)
    return (EIGHTHS[8] * whole + (EIGHTHS[eighths] if eighths else "")).ljust(width)


def columns(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def fitted(text: str, width: int) -> str:
    """Cut the text so that it fits into `width` columns; 0 means no limit."""
    if width and columns(text) > width:
        while columns(text) > width - 3:
            text = text[:-1]
        text += "..."
    return text


def terminal_size(terminal: Any) -> tuple[int, int]:
    """Return columns and lines; 80 and 24 if they are not known."""
    try:
        size = os.get_terminal_size(terminal.fileno())
    except (OSError, ValueError, AttributeError):
        return 80, 24
    return size.columns or 80, size.lines or 24
