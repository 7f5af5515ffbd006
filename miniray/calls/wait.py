"""What `wait` does with its lists: which references are ready, and whether each is there once."""

from __future__ import annotations

import threading
from typing import Any

from ..core.records import FAILED, READY
from ..object_ref import ObjectRef, ObjectRefGenerator, is_ready

SURPLUS = 3  # how many more than wanted are looked for


def record_of(waitable: Any) -> Any:
    """The record behind a reference or a generator."""
    return waitable._record if type(waitable) is ObjectRef else waitable._stream


def ready_positions(waitables: list, wanted: int) -> list[int]:
    """The positions of up to `wanted` that are ready.

    Which ones, when more are, Ray decides by the hash of their ids. No program should come to rely on getting the first ones, so
    they are taken from the middle of the first few.
    """
    ready: list[int] = []
    enough = wanted + SURPLUS
    for position, waitable in enumerate(waitables):
        if type(waitable) is ObjectRef:
            status = waitable._record.status
            if status is not READY and status is not FAILED and not is_ready(waitable._record):
                continue
        elif not is_ready(waitable._stream):
            continue
        ready.append(position)
        if len(ready) == enough:
            break
    first = max(0, len(ready) - wanted) // 2
    return ready[first : first + wanted]


class Waits:
    """Checks lists for `wait`, and remembers the last long one it handed out.

    To look for duplicates takes longer than all the rest, and a loop that drains n references would do it n times over n. The
    list that such a loop passes in is the one it got back the time before: if it still holds the very same references,
    it was checked. (Comparing two lists of identical items is done in C, without calling anything of the items.)
    """

    LONG = 64

    def __init__(self):
        self._local = threading.local()

    def check(self, waitables: list) -> None:
        """TypeError for what is no reference, ValueError for duplicates."""
        known = getattr(self._local, "known", None)
        if known is not None:
            if known == waitables:
                return
            self._local.known = None
        for waitable in waitables:
            kind = type(waitable)
            if kind is not ObjectRef and kind is not ObjectRefGenerator:
                raise TypeError(
                    f"wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got list containing {kind}"
                )
        if len({id(record_of(w)) for w in waitables}) != len(waitables):
            raise ValueError("Wait requires a list of unique ray_waitables.")

    def split(self, waitables: list, ready: list[int]) -> tuple[list, list]:
        """The waitables at these positions, and the others."""
        found = [waitables[position] for position in ready]
        if not ready:
            rest = waitables[:]
        elif ready[-1] - ready[0] == len(ready) - 1:  # side by side: one long copy, and the few before them
            rest = waitables[ready[-1] + 1 :]
            rest[:0] = waitables[: ready[0]]
        else:
            chosen = set(ready)
            rest = [w for position, w in enumerate(waitables) if position not in chosen]
        known = getattr(self._local, "known", None)
        if known is not None:  # it is as `waitables` was: take out the same, which is cheaper than a copy
            for position in reversed(ready):
                del known[position]
        elif len(rest) >= self.LONG:
            self._local.known = rest[:]
        return found, rest

    def forget(self) -> None:
        """Let go of the references remembered for this thread."""
        self._local.known = None


_waits = Waits()
check, split = _waits.check, _waits.split
