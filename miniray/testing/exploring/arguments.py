"""Checks of what `simulate`, `explore`, `FaultPlan` and the marker `simulate` are given: a mistake is an error before
any run begins."""

from __future__ import annotations

import contextlib
import inspect
import math
import numbers
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

STRATEGIES = ("random", "pct", "exhaustive")
KINDS = ("crash", "lose_node", "lose_object", "delay", "slow", "full_store", "clock_jump")
"""The faults that strike with a probability: each is an argument of `FaultPlan`."""


def whole_number(name: str, value: Any, least: int | None = None) -> int:
    """A whole number of any type, as an int. least: the smallest that is allowed. Raises TypeError, ValueError."""
    if not isinstance(value, (bool, float)):
        with contextlib.suppress(TypeError):
            number = operator.index(value)
            if least is not None and number < least:
                raise ValueError(f"{name} must be at least {least}, not {value!r}")
            return number
    raise TypeError(f"{name} must be a whole number, not {value!r}")


def real_number(name: str, value: Any, least: float = 0.0, most: float = math.inf) -> float:
    """A number from `least` to `most`, as a float. Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    number = float(value)
    if not least <= number <= most:  # false for NaN as well
        limits = f"from {least:g} to {most:g}" if most < math.inf else f"at least {least:g}"
        raise ValueError(f"{name} must be a number {limits}, not {value!r}")
    return number


def seconds(name: str, value: Any) -> float:
    """A time span that is neither negative nor infinite, as a float. Raises TypeError, ValueError."""
    number = real_number(name, value)
    if number == math.inf:
        raise ValueError(f"{name} must be a finite number of seconds, not {value!r}")
    return number


def seeds_of(seeds: Any) -> Iterable[int]:
    """The seeds that an exploration tries. seeds: whole numbers, or a number N for range(N).

    Raises TypeError for anything else, and ValueError if there is none: an exploration without a run proves nothing. An
    iterator, which may be endless, is checked while it is used.
    """
    if isinstance(seeds, numbers.Number) or hasattr(seeds, "__index__"):
        return range(whole_number("seeds", seeds, 1))
    if isinstance(seeds, (str, bytes, bytearray, Mapping)) or not isinstance(seeds, Iterable):
        raise TypeError(f"seeds must be a number, or whole numbers such as range(100), not {seeds!r}")
    if isinstance(seeds, Collection):
        if not len(seeds):
            raise ValueError(f"seeds must name at least one seed, not {seeds!r}")
        return seeds if isinstance(seeds, range) else [whole_number("each of seeds", seed) for seed in seeds]
    return _checked(seeds)


def _checked(seeds: Iterable[Any]) -> Iterator[int]:
    empty = True
    for seed in seeds:
        empty = False
        yield whole_number("each of seeds", seed)
    if empty:
        raise ValueError(f"seeds must name at least one seed, not {seeds!r}")


def check_function(fn: Any) -> None:
    """Raise TypeError unless this can be called without arguments."""
    if not callable(fn):
        raise TypeError(f"fn must be a function, not {fn!r}")
    try:
        signature = inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):  # some built-in functions tell nothing
        return
    try:
        signature.bind()
    except TypeError as problem:
        raise TypeError(f"fn is called without arguments, but {fn!r} cannot be: {problem}") from None


def check_exploration(
    strategy: Any = "random",
    max_steps: Any = 1,
    max_virtual_s: Any = 1.0,
    depth: Any = 1,
    max_schedules: Any = 1,
    replay: Any = None,
    shrink: Any = True,
    quiet: Any = True,
    watchdog_s: Any = 0.0,
    globals_: Any = None,
) -> None:
    """Check the arguments of `explore`, except the function, the seeds and the faults. Raises TypeError, ValueError."""
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(map(repr, STRATEGIES))}, not {strategy!r}")
    for name, value in (("max_steps", max_steps), ("depth", depth), ("max_schedules", max_schedules)):
        whole_number(name, value, 1)
    real_number("max_virtual_s", max_virtual_s)
    seconds("watchdog_s", watchdog_s)
    if replay is not None and not callable(replay):
        raise TypeError(f"replay must be a function or None, not {replay!r}")
    for name, value in (("shrink", shrink), ("quiet", quiet)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, not {value!r}")
    if globals_ is not None and not isinstance(globals_, dict):
        raise TypeError(f"globals_ must be a dict or None, not {globals_!r}")
