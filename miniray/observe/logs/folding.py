"""Folding: when many workers print the same line, show it once at first, and later how often it was repeated.

Two lines count as the same if they differ only in words that contain a digit. A repeat by another worker within the
window is held back and counted; repeats by the same worker are all shown. There is no timer: lines that were held back
are shown with the first line that is printed after the window, or at the end of the session. Ray: LogDeduplicator in
_private/ray_logging.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any

    Labelled = tuple[Any, str]  # the label of a line's source, opaque here, and the line

HINT = (
    " (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication, or see "
    "https://docs.ray.io/en/master/ray-observability/user-guides/configure-logging.html#log-deduplication "
    "for more options.)"
)
SYSTEM = "raylet"  # the only source whose own repeats are folded


class _Repeats:
    """A recent pattern. since: when it was shown. count, last: the repeats held back. sources: who printed it."""

    __slots__ = ("since", "count", "last", "sources")

    def __init__(self, since: float, last: Labelled, source: Hashable):
        self.since, self.count, self.last, self.sources = since, 0, last, {source}


class Folding:
    """The patterns of one stream. Not thread-safe: its owner holds a lock.

    window_s: how long repeats are held back. allow: lines that match are never folded. skip: lines that match are never
    shown. green: the codes that begin and end the colour of the count.
    """

    def __init__(
        self,
        window_s: float = 5.0,
        allow: str | None = None,
        skip: str | None = None,
        green: tuple[str, str] = ("", ""),
    ):
        self.window_s, self.green = window_s, green
        self._allow: re.Pattern[str] | None = None
        self._skip: re.Pattern[str] | None = None
        if allow or skip:
            import re

            self._allow = re.compile(allow) if allow else None
            self._skip = re.compile(skip) if skip else None
        self._recent: dict[str, _Repeats] = {}  # the oldest first
        self._hinted = False

    def fold(self, now: float, source: Hashable, label: Any, lines: list[str]) -> list[Labelled]:
        """Return the lines to show when `source` prints these. now: seconds; label: returned with each of the lines."""
        import re  # only for a program whose tasks print

        shown: list[Labelled] = []
        has_digit = re.compile(r"\d").search
        for line in lines:
            if self._allow is not None and self._allow.search(line):
                shown.append((label, line))
            elif self._skip is None or not self._skip.search(line):
                pattern = " ".join(word for word in line.split() if not has_digit(word))
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
            if repeats.count > 1:  # more repeats are likely: begin a new window
                yield self._summary(repeats)
                repeats.since, repeats.count = now, 0
                self._recent[pattern] = repeats
            elif repeats.count:
                yield repeats.last

    def flush(self) -> list[Labelled]:
        """Return everything that is held back."""
        lines = [
            self._summary(repeats) if repeats.count > 1 else repeats.last
            for repeats in self._recent.values()
            if repeats.count
        ]
        self._recent.clear()
        return lines

    def _summary(self, repeats: _Repeats) -> Labelled:
        label, line = repeats.last
        hint, self._hinted = "" if self._hinted else HINT, True
        start, end = self.green
        return label, f"{line}{start} [repeated {repeats.count}x across cluster]{hint}{end}"


def folding_from_environment(green: tuple[str, str]) -> Folding:
    """Make a Folding with the settings RAY_DEDUP_LOGS_AGG_WINDOW_S, _ALLOW_REGEX and _SKIP_REGEX."""
    return Folding(
        float(os.environ.get("RAY_DEDUP_LOGS_AGG_WINDOW_S") or 5),
        os.environ.get("RAY_DEDUP_LOGS_ALLOW_REGEX"),
        os.environ.get("RAY_DEDUP_LOGS_SKIP_REGEX"),
        green,
    )
