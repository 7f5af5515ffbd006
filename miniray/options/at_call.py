"""The checks of options at `.remote()`, with the decorator's options and those of `.options()` merged."""

from __future__ import annotations

from collections.abc import Mapping

from .known_options import METHOD_CALL_OPTIONS, TASK_OPTIONS, check_encodes, check_not_none, wrong_type
from .resources import check_reserved_names
from .runtime_env_fields import check_json
from .stand_ins import PlacementGroup, SchedulingStrategy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Options that tasks and actors share and that are checked at the call. Most calls have none of them.
_COMMON_AT_CALL = frozenset(
    {"scheduling_strategy", "placement_group", "placement_group_bundle_index", "_labels", "label_selector"}
)


def check_before_arguments(options: Mapping[str, Any], of_actor: bool) -> None:
    """Check what Ray checks at `.remote()` before it compares the arguments with the signature.

    Raises ValueError for a reserved name among the resources. For an actor: ValueError for an empty name or namespace.
    For a task: ValueError for a bundle index without a placement group, AssertionError for a placement_group of another
    kind.
    """
    check_reserved_names(options)
    if of_actor:
        _check_names_of_actor(options)
    else:
        _check_group(options)


def check_task_call(options: Mapping[str, Any]) -> None:
    """Check what Ray checks only when a task is submitted.

    Raises TypeError for max_retries=None; OverflowError for a number beyond 32 bits (64 bits for
    _generator_backpressure_num_objects); ValueError for an unknown scheduling strategy, a bundle index without a
    placement group, and a label that is not a string; AssertionError for a placement_group of another kind;
    UnicodeEncodeError for a name that has no UTF-8 form.
    """
    check_not_none(options, "max_retries")
    check_encodes(options.get("name"))
    for name in "num_returns", "max_retries", "_generator_backpressure_num_objects":
        number = options.get(name)
        if isinstance(number, int) and number >= (2**63 if name[0] == "_" else 2**31):
            raise OverflowError(f"option '{name}' must be below {2**63 if name[0] == '_' else 2**31}, not {number}")
    _check_common_at_call(options)


def check_actor_call(options: Mapping[str, Any]) -> None:
    """Check what Ray checks only when an actor is created.

    Raises TypeError if max_restarts, max_task_retries or max_pending_calls is None, and for a list of concurrency
    groups or a group size of a wrong type; AttributeError for a group name that is not a string; OverflowError for a
    number beyond 32 bits; ValueError for an empty name or namespace; TypeError for a runtime_env without a JSON
    form; and, for strategy, placement group and labels,
    what `check_task_call` raises; UnicodeEncodeError for a name or namespace that has no UTF-8 form.
    """
    _check_names_of_actor(options)
    check_encodes(options.get("name"), options.get("namespace"))
    check_not_none(options, "max_restarts", "max_task_retries", "max_pending_calls")
    for number in "max_concurrency", "max_pending_calls":
        if (options.get(number) or 0) >= 2**31:
            raise OverflowError(f"option '{number}' must be below 2147483648, not {options[number]}")
    _check_common_at_call(options)
    check_json(options.get("runtime_env"))
    _check_concurrency_groups(options.get("concurrency_groups"))


def check_method_call(options: Mapping[str, Any]) -> None:
    """Check what Ray checks only when a method is called. options: those of `@method` and `.options()`, merged.

    Raises TypeError for an unknown name or a wrong type; AssertionError for a retry_exceptions that is neither a bool
    nor a list; ValueError for labels that are not strings; OverflowError for a num_returns beyond 32 bits;
    UnicodeEncodeError for a name without a UTF-8 form.
    """
    for name, value in options.items():
        option = METHOD_CALL_OPTIONS.get(name)
        if option is None and name != "_num_objects_per_yield":
            raise TypeError(f"a method has no option '{name}'. The options are: {', '.join(METHOD_CALL_OPTIONS)}")
        if option is None or isinstance(value, option.types):
            continue
        assert name != "retry_exceptions", f"'retry_exceptions' takes True, False, or Exception classes; not {value!r}"
        raise wrong_type(name, option.types, value)
    check_encodes(options.get("name"), options.get("concurrency_group"))
    _check_labels("_labels", options.get("_labels"))
    num_returns = options.get("num_returns")
    if isinstance(num_returns, str) and num_returns not in ("streaming", "dynamic"):
        raise wrong_type("num_returns", (int,), num_returns)
    if num_returns is not None and not isinstance(num_returns, str) and int(num_returns) >= 2**31:
        raise OverflowError(f"num_returns must be below 2147483648, not {num_returns}")


def check_scheduling_strategy(strategy: Any) -> None:
    """Raise ValueError for a string other than "DEFAULT" and "SPREAD"; TypeError for any other non-strategy.

    None passes.
    """
    if isinstance(strategy, str):
        if strategy not in ("DEFAULT", "SPREAD"):
            raise ValueError(
                f"there is no scheduling strategy {strategy!r}: use 'DEFAULT', 'SPREAD', or one of the "
                "classes in util.scheduling_strategies"
            )
    elif strategy is not None and not isinstance(strategy, SchedulingStrategy):
        raise wrong_type("scheduling_strategy", TASK_OPTIONS["scheduling_strategy"].types, strategy)


def _check_names_of_actor(options: Mapping[str, Any]) -> None:
    if options.get("name") == "":
        raise ValueError("an actor's name cannot be an empty string; use None for no name")
    if options.get("namespace") == "":
        raise ValueError("a namespace cannot be an empty string; use None for the job's namespace")


def _check_group(options: Mapping[str, Any]) -> None:
    group = options.get("placement_group")
    assert group in (None, "default") or isinstance(group, PlacementGroup), f"{group!r} is not a placement group"
    if group in (None, "default") and options.get("scheduling_strategy") is None:
        if options.get("placement_group_bundle_index", -1) != -1:
            raise ValueError("'placement_group_bundle_index' needs a 'placement_group'")


def _check_common_at_call(options: Mapping[str, Any]) -> None:
    if not options.keys().isdisjoint(_COMMON_AT_CALL):
        check_scheduling_strategy(options.get("scheduling_strategy"))
        _check_group(options)
        for option in "_labels", "label_selector":
            _check_labels(option, options.get(option))


def _check_labels(option: str, labels: Any) -> None:
    for key, value in (labels or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ValueError(f"a label and its value must be strings, not {key!r} and {value!r} in '{option}'")


def _check_concurrency_groups(groups: Any) -> None:
    if groups and isinstance(groups, list):
        raise TypeError("'concurrency_groups' must be a dict from each group's name to its number of threads")
    for name, size in (groups or {}).items():
        if not isinstance(name, str):
            raise AttributeError(f"a concurrency group's name must be a string, not {name!r}")
        if not isinstance(size, (int, float)):
            raise TypeError(f"the size of the concurrency group {name!r} must be an integer, not {size!r}")
        if not 0 <= int(size) < 2**32:
            raise OverflowError(f"the size of the concurrency group {name!r} must be from 0 to 4294967295, not {size}")
