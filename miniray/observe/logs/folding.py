"""Folding: of lines that many workers print alike, one is shown at once, and how often it came after a while.

Two lines are alike when they differ only in words that contain a digit. A repeat from another worker within the window
is held back and counted; repeats from the same worker are all shown. What is held back comes out with the first line
that is printed after the window, or at the end of the session: nothing here has a timer. Ray: LogDeduplicator in
_private/ray_logging.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterator
from typing import Any

DIGIT = re.compile(r"\d")
HINT = (
    " (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication, or see "
    "https://docs.ray.io/en/master/ray-observability/user-guides/configure-logging.html#log-deduplication "
    "for more options.)"
)
SYSTEM = "raylet"  # the source whose own repeats are folded too
Labelled = tuple[Any, str]  # who a line is said to come from, opaque here, and the line


class _Repeats:
    """A pattern seen lately. since: when it was shown; count, last: what is held back; sources: who printed it."""

    __slots__ = ("since", "count", "last", "sources")

    def __init__(self, since: float, last: Labelled, source: Hashable):
        self.since, self.count, self.last, self.sources = since, 0, last, {source}


class Folding:
    """The patterns of one stream. Not thread-safe: its owner holds a lock.

    window_s: how long repeats are held back. allow: lines that match are never folded. skip: lines that match are never
    shown. green: what to colour the remark with, and how to end that.
    """

    def __init__(
        self,
        window_s: float = 5.0,
        allow: str | None = None,
        skip: str | None = None,
        green: tuple[str, str] = ("", ""),
    ):
        self.window_s, self.green = window_s, green
        self._allow = re.compile(allow) if allow else None
        self._skip = re.compile(skip) if skip else None
        self._recent: dict[str, _Repeats] = {}  # the oldest first
        self._hinted = False

    def fold(self, now: float, source: Hashable, label: Any, lines: list[str]) -> list[Labelled]:
        """What is to be shown now that `source` has printed these lines. now: seconds; label: kept with each line."""
        shown: list[Labelled] = []
        for line in lines:
            if self._allow is not None and self._allow.search(line):
                shown.append((label, line))
            elif self._skip is None or not self._skip.search(line):
                pattern = " ".join(word for word in line.split() if not DIGIT.search(word))
                if not pattern or self._is_shown(now, source, pattern, (label, line)):
                    shown.append((label, line))
        shown.extend(self._expire(now))
        return shown

    def _is_shown(self, now: float, source: Hashable, pattern: str, line: Labelled) -> bool:
        repeats = self._recent.get(pattern)
        if repeats is None:
            self._recent[pattern] = _Repeats(now, line, source)
            return True
        repeats.sources.add(source)
        if len(repeats.sources) == 1 and source != SYSTEM:
            return True
        repeats.count += 1
        repeats.last = line
        return False

    def _expire(self, now: float) -> Iterator[Labelled]:
        while self._recent:
            pattern = next(iter(self._recent))
            repeats = self._recent[pattern]
            if now - repeats.since < self.window_s:
                return
            del self._recent[pattern]
            if repeats.count > 1:  # it keeps coming: go on counting, from now
                yield self._summary(repeats)
                repeats.since, repeats.count = now, 0
                self._recent[pattern] = repeats
            elif repeats.count:
                yield repeats.last

    def flush(self) -> list[Labelled]:
        """Everything that is held back, at once."""
        held = [
            self._summary(repeats) if repeats.count > 1 else repeats.last
            for repeats in self._recent.values()
            if repeats.count
        ]
        self._recent.clear()
        return held

    def _summary(self, repeats: _Repeats) -> Labelled:
        label, line = repeats.last
        hint, self._hinted = "" if self._hinted else HINT, True
        start, end = self.green
        return label, f"{line}{start} [repeated {repeats.count}x across cluster]{hint}{end}"


def folding_from_environment(green: tuple[str, str]) -> Folding:
    """A Folding as the variables RAY_DEDUP_LOGS_AGG_WINDOW_S, _ALLOW_REGEX and _SKIP_REGEX say."""
    return Folding(
        float(os.environ.get("RAY_DEDUP_LOGS_AGG_WINDOW_S") or 5),
        os.environ.get("RAY_DEDUP_LOGS_ALLOW_REGEX"),
        os.environ.get("RAY_DEDUP_LOGS_SKIP_REGEX"),
        green,
    )
