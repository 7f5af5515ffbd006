"""Warnings about options, which name the line of the user's code: older options, and options that have no effect here.

An option that miniray accepts and cannot honour is told once in a process, so that nobody relies on it unawares.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_told: set[str] = set()  # options of which the user knows; adding is atomic, and to tell twice does no harm

# Options of tasks, actors and methods that are checked and then have no effect, each with the values that ask for
# nothing.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "enable_task_events": (True,),
    "fallback_strategy": (None, []),
    "allow_out_of_order_execution": (None, False),
    "enable_tensor_transport": (None, False),
    "_labels": (None, {}),
    "_actor_generator_backpressure_num_objects": (None, -1),
    "_num_objects_per_yield": (None, 1),
}


def tell_without_effect(options: Mapping[str, Any]) -> None:
    """Warn about those of these options of a task, an actor or a method that have no effect."""
    for name in _WITHOUT_EFFECT.keys() & options.keys():
        given = options[name]
        # By type first: the equality of an array is not a truth value.
        if not any(type(given) is type(nothing) and given == nothing for nothing in _WITHOUT_EFFECT[name]):
            tell_once(f"the option {name!r}")


def tell_once(what: str) -> None:
    """Warn that something that was given has no effect in miniray, unless this process has been told before."""
    if what not in _told:
        _told.add(what)
        warn_user(f"{what} is accepted, and has no effect in miniray", UserWarning)


def warn_user(text: str, category: type[Warning]) -> None:
    """Issue a warning for the line of the nearest caller outside this package, which is the user's code."""
    package = __name__.partition(".")[0]
    frame, level = sys._getframe(0), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    import warnings

    warnings.warn(text, category, stacklevel=level)
