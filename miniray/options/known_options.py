"""The options of tasks, actors and methods: one table for each, with the types and the check of every option."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .labels import check_fallback_strategy, check_label_selector
from .resources import amount_check, check_custom_resources
from .stand_ins import PlacementGroup, SchedulingStrategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Options = dict[str, Any]

_NONE = type(None)


class _HasInt(type):
    def __instancecheck__(cls, value: object) -> bool:
        return hasattr(value, "__int__")


class SupportsInt(metaclass=_HasInt):
    """The type of everything that int() takes, except text. `isinstance` decides as for `typing.SupportsInt`."""


class Option:
    """The values that one option may have: instances of `types` for which `check`, if there is one, returns None.

    check: returns what is wrong with a value, as a text for the user, or None. It may also raise TypeError.
    """

    __slots__ = ("types", "check")

    def __init__(self, types: tuple[type, ...], check: Callable[[Any], str | None] | None = None):
        self.types, self.check = types, check


def _count_check(name: str, minus_one: str | None = None) -> Callable[[Any], str | None]:
    """The check of an option that is a count. minus_one: what -1 stands for, if it is allowed."""

    def check(number: Any) -> str | None:
        if number is None or number >= (0 if minus_one is None else -1):
            return None
        # These words, and those of `wrong_type`, are in Ray's texts, and programs match them.
        if minus_one is None:
            return f"The keyword '{name}' only accepts None, 0 or a positive integer. It is {number}."
        return (
            f"The keyword '{name}' only accepts None, 0, -1 or a positive integer, where -1 represents {minus_one}. "
            f"It is {number}."
        )

    return check


def _check_num_returns(value: Any) -> str | None:
    if value is None or value in ("streaming", "dynamic"):
        return None
    if isinstance(value, str):
        raise TypeError(f"'num_returns' takes a number, or 'streaming' for a generator; not {value!r}")
    if value >= 0:
        return None
    return (
        "The keyword 'num_returns' only accepts None, a non-negative integer, 'streaming' (for generators), or the "
        f"older 'dynamic'. It is {value}."
    )


def _check_retry_exceptions(value: Any) -> str | None:
    if isinstance(value, bool) or all(isinstance(item, type) and issubclass(item, Exception) for item in value):
        return None
    return f"retry_exceptions must be either a boolean or a list of exceptions, not {value!r}"


_COMMON: dict[str, Option] = {
    "label_selector": Option((dict, _NONE), check_label_selector),
    "fallback_strategy": Option((list, _NONE), check_fallback_strategy),
    "accelerator_type": Option((str, _NONE)),
    "memory": Option((float, int, _NONE), amount_check("memory")),
    "name": Option((str, _NONE)),
    "num_cpus": Option((float, int, _NONE), amount_check("num_cpus")),
    "num_gpus": Option((float, int, _NONE), amount_check("num_gpus")),
    "placement_group": Option((str, PlacementGroup, _NONE)),
    "placement_group_bundle_index": Option((int,)),
    "placement_group_capture_child_tasks": Option((bool, _NONE)),
    "resources": Option((dict, _NONE), check_custom_resources),
    "runtime_env": Option((dict, _NONE)),
    "scheduling_strategy": Option((str, SchedulingStrategy, _NONE)),
    "enable_task_events": Option((bool,)),
    "_labels": Option((dict, _NONE)),
}

TASK_OPTIONS: dict[str, Option] = {
    **_COMMON,
    "max_calls": Option((int, _NONE), _count_check("max_calls")),
    "max_retries": Option((int, _NONE), _count_check("max_retries", "infinity")),
    "num_returns": Option((int, str, _NONE), _check_num_returns),
    "object_store_memory": Option(
        (int, _NONE),
        lambda value: None if value is None else "Setting 'object_store_memory' is not implemented for tasks",
    ),
    "retry_exceptions": Option((bool, list, tuple), _check_retry_exceptions),
    "_generator_backpressure_num_objects": Option(
        (int, _NONE),
        lambda value: (
            None
            if value != 0
            else "'_generator_backpressure_num_objects' cannot be 0: a generator that may not have a single unread "
            "item never yields. Use -1 for no limit"
        ),
    ),
    "_num_objects_per_yield": Option(
        (int, _NONE),
        lambda value: (
            None if value is None or value > 0 else f"'_num_objects_per_yield' must be at least 1, not {value}"
        ),
    ),
}

ACTOR_OPTIONS: dict[str, Option] = {
    **_COMMON,
    "concurrency_groups": Option((list, dict, _NONE)),
    "enable_tensor_transport": Option((bool, _NONE)),
    "lifetime": Option(
        (str, _NONE),
        lambda value: (
            None
            if value in (None, "detached", "non_detached")
            else f"actor `lifetime` argument must be one of 'detached', 'non_detached' and 'None', not {value!r}"
        ),
    ),
    "max_concurrency": Option((int, _NONE), _count_check("max_concurrency")),
    "max_restarts": Option((int, _NONE), _count_check("max_restarts", "infinity")),
    "max_task_retries": Option((int, _NONE), _count_check("max_task_retries", "infinity")),
    "max_pending_calls": Option((int, _NONE), _count_check("max_pending_calls", "infinity")),
    "namespace": Option((str, _NONE)),
    "get_if_exists": Option((bool,)),
    "allow_out_of_order_execution": Option((bool, _NONE)),
    "object_store_memory": Option((int, _NONE), _count_check("object_store_memory")),
    "_actor_generator_backpressure_num_objects": Option(
        (int, _NONE),
        lambda value: (
            None
            if value is None or value > 0 or value == -1
            else f"'_actor_generator_backpressure_num_objects' must be at least 1, or -1 for no limit; not {value}"
        ),
    ),
}

# What `@method(...)` takes.
METHOD_DECORATOR_OPTIONS: tuple[str, ...] = (
    "num_returns",
    "concurrency_group",
    "max_task_retries",
    "retry_exceptions",
    "_generator_backpressure_num_objects",
    "_num_objects_per_yield",
    "enable_task_events",
    "tensor_transport",
)

# What `handle.method.options(...)` takes, as checked at `.remote()`. Ray puts its numbers into fields of C, which take
# whatever int() takes, unless it is a text: a Decimal, a number of numpy.
METHOD_CALL_OPTIONS: dict[str, Option] = {
    "name": Option((str,)),
    "num_returns": Option((SupportsInt, str, _NONE)),
    "max_task_retries": Option((SupportsInt, _NONE)),
    "retry_exceptions": Option((bool, list, tuple, _NONE)),
    "concurrency_group": Option((str, _NONE)),
    "_generator_backpressure_num_objects": Option((SupportsInt, _NONE)),
    "enable_task_events": Option((object,)),
    "tensor_transport": Option((str, _NONE)),
    "_labels": Option((dict, _NONE)),
}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean X?` if one of the known names is similar, otherwise ""."""
    from difflib import get_close_matches  # only for an error

    close = get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""


def check_each(options: Mapping[str, Any], known: Mapping[str, Option], whose: str) -> None:
    """Raise ValueError or TypeError for the first option that is unknown, of a wrong type, or out of range.

    whose: "remote functions", "actors" or "methods", for the text.
    """
    for name, value in options.items():
        option = known.get(name)
        if option is None:
            text = f"Invalid option keyword {name} for {whose}. Valid ones are {', '.join(known)}."
            raise ValueError(text + did_you_mean(name, known))
        if not isinstance(value, option.types):
            raise wrong_type(name, option.types, value)
        problem = None if option.check is None else option.check(value)
        if problem is not None:
            raise ValueError(problem)


def wrong_type(name: str, types: Iterable[type], value: object) -> TypeError:
    """Return the error for an option whose value has none of these types."""
    known = tuple(types)
    expected = known if len(known) > 1 else known[0]
    return TypeError(
        f"The type of keyword '{name}' must be {expected}, but received type {type(value)}, for the value {value!r}"
    )


def check_encodes(*texts: str | None) -> None:
    """Raise UnicodeEncodeError for text that has no UTF-8 form, since it contains a lone surrogate. None passes.

    Ray sends names and the like as UTF-8.
    """
    for text in texts:
        if text is not None and not text.isascii():
            text.encode()


def check_not_none(options: Mapping[str, Any], *names: str) -> None:
    """Raise TypeError if one of these options was given as None."""
    for name in names:
        if name in options and options[name] is None:
            raise TypeError(f"option '{name}' must be an integer here, not None")
