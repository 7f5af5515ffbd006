"""Shrinking: a failing schedule with as few interruptions as possible, which still fails in the same way."""

from __future__ import annotations

from typing import Any, Callable

from ...runtime.simulated.baton import LimitExceeded
from .error_text import attribute_of
from .simulation import Run

MOST_RUNS = 300


def kind_of(error: BaseException | None) -> Any:
    """What must be the same about the error of a shrunk run: the name of its class, and that of its cause. A class that
    the program defines is another one in each run."""
    return None if error is None else [_name_of(type(each)) for each in (error, attribute_of(error, "cause"))]


def _name_of(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def shrink(run: Run, again: Callable[[list[int]], Run], most_runs: int = MOST_RUNS) -> list[int]:
    """The choices of a failing run, as many of them 0 as can be found. again: runs the program with other choices.

    Zeros at the end are left out. The result is not always the shortest: at most `most_runs` runs are made.
    """
    wanted = kind_of(run.error)
    best = _trimmed(run.schedule.taken)
    left = 1 if type(run.error) is LimitExceeded else most_runs  # a run that exceeds a limit takes long

    def fails(choices: list[int]) -> bool:
        nonlocal best, left
        choices = _trimmed(choices)
        if choices == best or left <= 0:
            return False
        left -= 1
        tried = again(choices)
        if kind_of(tried.error) != wanted:
            return False
        taken = _trimmed(tried.schedule.taken)
        best = taken if _size(taken) <= _size(choices) else choices
        return True

    if not fails([]):
        keep = len(best) // 2
        while keep and left > 0:  # the first choices alone
            if fails(best[:keep]):
                keep = len(best) // 2
            else:
                keep = (keep + len(best)) // 2 if keep < len(best) - 1 else 0
        size = max(len(best) // 2, 1)
        while left > 0:
            changed = False
            at = 0
            while at < len(best) and left > 0:
                if any(best[at : at + size]):
                    changed |= fails(best[:at] + [0] * len(best[at : at + size]) + best[at + size :])
                at += size
            if size == 1 and not changed:
                break
            size = max(size // 2, 1)
    return best


def fewest(struck: frozenset[str], fails: Callable[[frozenset[str]], bool], most_runs: int = 100) -> frozenset[str]:
    """As few of these faults as are needed for the run to fail. fails: whether it does with only these."""
    best, size, left = sorted(struck), max(len(struck), 1), most_runs
    while left > 0 and best:
        at, changed = 0, False
        while at < len(best) and left > 0:
            fewer = best[:at] + best[at + size :]
            left -= 1
            if fails(frozenset(fewer)):
                best, changed = fewer, True
            else:
                at += size
        if size == 1 and not changed:
            break
        size = max(size // 2, 1)
    return frozenset(best)


def _trimmed(choices: list[int]) -> list[int]:
    end = len(choices)
    while end and not choices[end - 1]:
        end -= 1
    return choices[:end]


def _size(choices: list[int]) -> tuple[int, int]:
    return sum(map(bool, choices)), len(choices)
