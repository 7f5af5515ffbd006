"""Steps: what a simulated thread does next, and which steps of two threads may be exchanged.

A simulated thread stops before everything that another thread could notice: a submission, a report, a lock. What it is
about to do is a `Step`. Two steps are *independent* if the order of the two makes no difference. A search through all
schedules tries only one of the two orders.
"""

from __future__ import annotations

from typing import Any, Iterable


class Step:
    """One step of a simulated thread.

    what: a few words for the story. touches: what the step reads or changes: tuples such as ("actor", 3). An empty
    tuple says that no other thread can notice the step, and None that the step may concern everything. polls: the
    thread does this again and again until another thread has made progress.
    """

    __slots__ = ("what", "touches", "polls")

    def __init__(self, what: str, touches: Iterable[Any] | None = (), polls: bool = False):
        self.what = what
        self.touches = frozenset(touches) if touches is not None else None
        self.polls = polls

    def __repr__(self) -> str:
        return f"Step({self.what!r})"


GOES_ON = Step("goes on")
"""A thread that was woken runs up to its next step. Nobody else can notice that."""


def independent(one: Step, other: Step) -> bool:
    """Whether the order of two steps of different threads makes no difference."""
    if one.touches is None or other.touches is None:
        return False
    return one.touches.isdisjoint(other.touches)
