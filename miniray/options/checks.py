"""Every check of an option, and what the options ask for in resources.

A bad option is refused at one of two moments. Ray's choice is kept, because programs are written against it.

When it is given, to `@remote(...)`, `@method(...)` or `.options(...)`: an unknown name, a wrong type, a value out of
range, a combination that cannot be. `task_options`, `actor_options`, `method_decorator_options`, `method_options`.

At `.remote()`: what Ray finds out only when it submits. Its order is: `check_before_arguments`, then the arguments
against the signature, then `resources` or `actor_resources`, then `check_task_call`, `check_actor_call` or
`check_method_call`, then the arguments are serialised.

An unknown name or a bad value is a ValueError, a wrong type a TypeError, each naming the option; the exceptions to that
are Ray's. Options are checked in the order in which they were given, and the first bad one is reported.

In Ray: ray/_common/ray_option_utils.py.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any, NamedTuple

Options = dict[str, Any]
Resources = dict[str, float]

# The scheduler counts a resource in ten-thousandths of a unit, as Ray's does (fixed_point.h).
STEPS_PER_UNIT = 10_000


class Option(NamedTuple):
    """What one option may be: of one of `types`, and, if there is a `check`, without it returning what is wrong with
    it."""

    types: tuple[type, ...]
    check: Callable[[Any], str | None] | None = None


# --- Single values ------------------------------------------------------------------------------------------------

_NONE = type(None)


def _amount(name: str) -> Callable[[Any], str | None]:
    """A quantity of a resource: not negative, and none of it or at least the smallest amount that is counted."""

    def check(quantity: Any) -> str | None:
        if quantity is None:
            return None
        if quantity < 0:
            return f"the amount of {name} cannot be negative, and {quantity} is"
        if quantity != quantity:
            return f"the amount of {name} is a number, and {quantity} is none"
        if isinstance(quantity, float) and quantity != 0 and int(quantity * STEPS_PER_UNIT) == 0:
            return f"the amount of {name} is counted in steps of {1 / STEPS_PER_UNIT}, and {quantity} is less than one"
        return None

    return check


def _count(name: str, minus_one: str | None = None) -> Callable[[Any], str | None]:
    """A number of times. minus_one: what -1 stands for, if it may be given."""

    def check(number: Any) -> str | None:
        if number is None or number >= (0 if minus_one is None else -1):
            return None
        infinity = f", or -1 for {minus_one}" if minus_one else ""
        return f"'{name}' takes None, 0, a positive integer{infinity}; not {number}"

    return check


# Accelerators that cannot be shared by fractions are refused when the option is given; GPU and NPU, which can be below
# one, at `.remote()` (see `resources`).
_WHOLE_ACCELERATORS = frozenset({"neuron_cores", "HPU", "RBLN", "FURIOSA", "MBLT", "TTNPU"})
_WHOLE_ABOVE_ONE = frozenset({"GPU", "NPU"})
_TPU_CHIPS = (1, 2, 4, 8)


def _check_custom_resources(amounts: dict[Any, Any] | None) -> str | None:
    if amounts is None:
        return None
    if "CPU" in amounts or "GPU" in amounts:
        return "CPU and GPU are not given in 'resources': use 'num_cpus' and 'num_gpus'"
    for name, quantity in amounts.items():
        if not isinstance(quantity, (int, float)):
            raise TypeError(f"the amount of resource {name!r} must be a number, not {quantity!r}")
        problem = _amount(f"resource {name!r}")(quantity)
        if problem is None and name == "TPU" and quantity not in _TPU_CHIPS:
            problem = f"a node's TPU chips can be had in groups of {_TPU_CHIPS}, not {quantity}"
        if problem is None and name in _WHOLE_ACCELERATORS and quantity % 1:
            problem = f"resource {name!r} cannot be shared, so its amount must be a whole number, not {quantity}"
        if problem is not None:
            return problem
    return None


def _check_num_returns(value: Any) -> str | None:
    if value is None or value in ("streaming", "dynamic"):
        return None
    if isinstance(value, str):
        raise TypeError(f"'num_returns' takes a number, or 'streaming' for a generator; not {value!r}")
    if value >= 0:
        return None
    return f"'num_returns' takes None, 0 or a positive integer, or 'streaming' for a generator; not {value}"


def _check_retry_exceptions(value: Any) -> str | None:
    if isinstance(value, bool) or all(isinstance(item, type) and issubclass(item, Exception) for item in value):
        return None
    return f"'retry_exceptions' takes True, False, or a list of Exception classes; not {value!r}"


# Labels follow the syntax of Kubernetes: a name of at most 63 characters, for a key with an optional DNS prefix and a
# slash.
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"
_LABEL_NAME = re.compile(_LABEL)
_LABEL_PREFIX = re.compile(rf"(?:{_LABEL})?(?:\.(?:{_LABEL})?)*")
_LABEL_CONDITION = re.compile(rf"!?{_LABEL}|!?(?:in)?\({_LABEL}(?:, ?{_LABEL})*\)")


def _check_label_key(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _LABEL_PREFIX.fullmatch(prefix)):
        return f"{prefix!r} is not a prefix of a label key: DNS names joined by dots, at most 253 characters"
    if not _LABEL_NAME.fullmatch(name):
        return (
            f"{name!r} is not a label key: at most 63 letters, digits, '-', '_' and '.', the first and the last a "
            "letter or a digit"
        )
    return None


def _check_label_selector(selector: dict[str, Any] | None) -> str | None:
    for key, condition in (selector or {}).items():
        if not isinstance(key, str) or not isinstance(condition, (str, _NONE)):
            raise TypeError(f"'label_selector' must be a dict of strings, and {key!r}: {condition!r} is not")
        problem = _check_label_key(key)
        if problem is None and condition not in (None, "") and not _LABEL_CONDITION.fullmatch(condition):
            problem = f"{condition!r} is not a condition on a label: 'value', '!value', 'in(a,b)' or '!in(a,b)'"
        if problem is not None:
            return problem
    return None


def _check_fallback_strategy(strategies: list[Any] | None) -> str | None:
    for strategy in strategies or ():
        if not isinstance(strategy, dict):
            return f"each item of 'fallback_strategy' must be a dict, and {strategy!r} is not"
        if not strategy:
            return "an item of 'fallback_strategy' is empty"
        unknown = [name for name in strategy if name != "label_selector"]
        if unknown:
            return f"'fallback_strategy' knows only 'label_selector', not {unknown[0]!r}"
        selector = strategy["label_selector"]
        if selector and not isinstance(selector, dict):
            return f"'label_selector' must be a dict, not {selector!r}"
        problem = _check_label_selector(selector)
        if problem is not None:
            return problem
    return None


class _StrategyMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return getattr(type(value), "__miniray_strategy__", False) is True


class SchedulingStrategy(metaclass=_StrategyMeta):
    """Whatever stands for a place to run; options know no more of it. Its class has `__miniray_strategy__ = True`."""


class _PlacementGroupMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return type(value).__name__ == "PlacementGroup"


class PlacementGroup(metaclass=_PlacementGroupMeta):
    """Stands for the class of that name in `miniray.util`, which is above this module and may not be imported here."""

    id: Any
    is_empty: bool


# --- The options there are ----------------------------------------------------------------------------------------

_COMMON: dict[str, Option] = {
    "label_selector": Option((dict, _NONE), _check_label_selector),
    "fallback_strategy": Option((list, _NONE), _check_fallback_strategy),
    "accelerator_type": Option((str, _NONE)),
    "memory": Option((float, int, _NONE), _amount("memory")),
    "name": Option((str, _NONE)),
    "num_cpus": Option((float, int, _NONE), _amount("num_cpus")),
    "num_gpus": Option((float, int, _NONE), _amount("num_gpus")),
    "placement_group": Option((str, PlacementGroup, _NONE)),
    "placement_group_bundle_index": Option((int,)),
    "placement_group_capture_child_tasks": Option((bool, _NONE)),
    "resources": Option((dict, _NONE), _check_custom_resources),
    "runtime_env": Option((dict, _NONE)),
    "scheduling_strategy": Option((str, SchedulingStrategy, _NONE)),
    "enable_task_events": Option((bool,)),
    "_labels": Option((dict, _NONE)),
}

_TASK: dict[str, Option] = {
    **_COMMON,
    "max_calls": Option((int, _NONE), _count("max_calls")),
    "max_retries": Option((int, _NONE), _count("max_retries", "no limit")),
    "num_returns": Option((int, str, _NONE), _check_num_returns),
    "object_store_memory": Option(
        (int, _NONE), lambda value: None if value is None else "'object_store_memory' cannot be asked for by a task"
    ),
    "retry_exceptions": Option((bool, list, tuple), _check_retry_exceptions),
    "_generator_backpressure_num_objects": Option(
        (int, _NONE),
        lambda value: (
            None
            if value != 0
            else "'_generator_backpressure_num_objects' cannot be 0: a generator that may not be ahead by one item never "
            "yields. Use -1 for no limit"
        ),
    ),
    "_num_objects_per_yield": Option(
        (int, _NONE),
        lambda value: (
            None if value is None or value > 0 else f"'_num_objects_per_yield' must be at least 1, not {value}"
        ),
    ),
}

_ACTOR: dict[str, Option] = {
    **_COMMON,
    "concurrency_groups": Option((list, dict, _NONE)),
    "enable_tensor_transport": Option((bool, _NONE)),
    "lifetime": Option(
        (str, _NONE),
        lambda value: (
            None
            if value in (None, "detached", "non_detached")
            else f"'lifetime' takes 'detached', 'non_detached' or None, not {value!r}"
        ),
    ),
    "max_concurrency": Option((int, _NONE), _count("max_concurrency")),
    "max_restarts": Option((int, _NONE), _count("max_restarts", "no limit")),
    "max_task_retries": Option((int, _NONE), _count("max_task_retries", "no limit")),
    "max_pending_calls": Option((int, _NONE), _count("max_pending_calls", "no limit")),
    "namespace": Option((str, _NONE)),
    "get_if_exists": Option((bool,)),
    "allow_out_of_order_execution": Option((bool, _NONE)),
    "object_store_memory": Option((int, _NONE), _count("object_store_memory")),
    "_actor_generator_backpressure_num_objects": Option(
        (int, _NONE),
        lambda value: (
            None
            if value is None or value > 0 or value == -1
            else f"'_actor_generator_backpressure_num_objects' must be at least 1, or -1 for no limit; not {value}"
        ),
    ),
}

# Every name that `@remote` takes, in the order in which its error lists them.
REMOTE_OPTIONS: tuple[str, ...] = tuple(dict.fromkeys([*_TASK, *_ACTOR]))

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

_METHOD_CALL: dict[str, Option] = {
    "name": Option((str,)),
    "num_returns": Option((int, float, str, _NONE)),
    "max_task_retries": Option((int, float, _NONE)),
    "retry_exceptions": Option((bool, list, tuple, _NONE)),
    "concurrency_group": Option((str, _NONE)),
    "_generator_backpressure_num_objects": Option((int, float, _NONE)),
    "enable_task_events": Option((object,)),
    "tensor_transport": Option((str, _NONE)),
}

_KINDS = {
    _NONE: "None",
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "True or False",
    dict: "a dict",
    list: "a list",
    tuple: "a tuple",
    SchedulingStrategy: "a scheduling strategy",
    PlacementGroup: "a placement group",
}


def _must_be(name: str, types: Iterable[type], value: object) -> TypeError:
    kinds = [_KINDS[kind] for kind in types if not (kind is int and float in types)]
    expected = " or ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)
    return TypeError(f"option '{name}' must be {expected}, not {value!r} of type {type(value).__name__}")


def _check_each(options: Mapping[str, Any], known: Mapping[str, Option], whose: str) -> None:
    for name, value in options.items():
        option = known.get(name)
        if option is None:
            raise ValueError(f"{whose} have no option '{name}'. There are: {', '.join(known)}")
        if not isinstance(value, option.types):
            raise _must_be(name, option.types, value)
        problem = None if option.check is None else option.check(value)
        if problem is not None:
            raise ValueError(problem)


# --- When options are given ---------------------------------------------------------------------------------------


def task_options(
    options: Mapping[str, Any], decorated: Mapping[str, Any] | None = None, is_generator: bool | None = None
) -> Options:
    """The checked options of a remote function: a new dict of those that were given, with None where None was given.

    options: what `@remote(...)` or, when `decorated` is there, `.options(...)` was given. decorated: what the decorator
    was given, already checked. is_generator: whether the function yields; None leaves `check_num_returns` to the
    caller.

    Raises ValueError for an unknown name, a value out of range, a combination that cannot be, and for `max_calls` or
    another `_num_objects_per_yield` in `.options()`; TypeError for a wrong type.
    """
    if decorated is not None and "_num_objects_per_yield" in options:
        if options["_num_objects_per_yield"] != (decorated.get("_num_objects_per_yield") or 1):
            raise ValueError("'_num_objects_per_yield' belongs to the function: give it to @remote, not to .options()")
    _check_each(options, _TASK, "remote functions")
    if decorated is not None and "max_calls" in options:
        raise ValueError("'max_calls' belongs to the function: give it to @remote, not to .options()")
    _check_one_placement({**(decorated or {}), **options})
    if is_generator is not None:
        check_num_returns(options.get("num_returns"), is_generator)
    _check_runtime_env(options.get("runtime_env"))
    return _normalised(options)


def actor_options(options: Mapping[str, Any], decorated: Mapping[str, Any] | None = None) -> Options:
    """The checked options of an actor class: a new dict of those that were given, with None where None was given.

    options, decorated: as for `task_options`. Raises ValueError for an unknown name, a value out of range, a
    combination that cannot be, and for `concurrency_groups` in `.options()`; TypeError for a wrong type.
    """
    _check_each(options, _ACTOR, "actors")
    if decorated is None:
        _check_numbers_are_there(options, "max_restarts")
    elif "concurrency_groups" in options:
        raise ValueError("'concurrency_groups' belong to the class: give them to @remote, not to .options()")
    together = {**(decorated or {}), **options}
    if together.get("get_if_exists") and not together.get("name"):
        raise ValueError("'get_if_exists' needs the 'name' of the actor that may exist")
    if "object_store_memory" in options:
        _deprecated("'object_store_memory' of an actor reserves nothing; what does not fit into the store is spilled")
    _check_one_placement(together)
    _check_runtime_env(options.get("runtime_env"))
    return _normalised(options)


def check_num_returns(num_returns: Any, is_generator: bool) -> None:
    """Raises ValueError for a negative number, and for "streaming" or "dynamic" when the function does not yield."""
    if isinstance(num_returns, int) and num_returns < 0:
        raise ValueError(f"num_returns must be >= 0, not {num_returns}")
    if num_returns in ("streaming", "dynamic") and not is_generator:
        raise ValueError(f"num_returns='{num_returns}' is for a generator function, and this one does not yield")
    if num_returns == "dynamic":
        _deprecated("num_returns='dynamic' is an older form of num_returns='streaming'")


def method_decorator_options(options: Mapping[str, Any], is_generator: bool | None = None) -> Options:
    """The checked options of `@method(...)`: a new dict of those that were given.

    is_generator: whether the method yields; None before the decorator has seen it, when only names are checked.
    Raises AssertionError for an unknown name, as Ray does; ValueError or TypeError for a `num_returns` or
    `_num_objects_per_yield` that cannot be. Everything else is looked at when the method is called (`method_options`).
    """
    for name in options:
        assert name in METHOD_DECORATOR_OPTIONS, (
            f"@method has no option '{name}'. There are: {', '.join(METHOD_DECORATOR_OPTIONS)}"
        )
    if is_generator is not None:
        check_num_returns(options.get("num_returns"), is_generator)
        if "_num_objects_per_yield" in options:
            _check_each({"_num_objects_per_yield": options["_num_objects_per_yield"]}, _TASK, "methods")
        if "tensor_transport" in options:
            raise ValueError(
                f"there is no tensor transport {options['tensor_transport'].upper()!r} here: values go through the "
                "object store"
            )
    return _normalised(options)


def method_options(options: Mapping[str, Any], is_generator: bool) -> Options:
    """The checked options of `handle.method.options(...)`: a new dict of those that were given.

    Raises ValueError for what Ray refuses here: `_num_objects_per_yield`, and a `num_returns` that does not fit the
    method. Names and types are checked at `.remote()` (`check_method_call`).
    """
    if "_num_objects_per_yield" in options:
        raise ValueError("'_num_objects_per_yield' belongs to the method: give it to @method, not to .options()")
    check_num_returns(options.get("num_returns"), is_generator)
    if options.get("tensor_transport") is not None:
        check_tensor_transport(options["tensor_transport"])
    return _normalised(options)


def check_tensor_transport(value: Any) -> None:
    """ValueError for every transport but the object store: tensors of other devices are not moved here."""
    if value.upper() != "OBJECT_STORE":
        raise ValueError(f"there is no tensor transport {value!r} here: values go through the object store")


def _check_one_placement(options: Mapping[str, Any]) -> None:
    if options.get("placement_group") not in (None, "default") and options.get("scheduling_strategy") is not None:
        raise ValueError(
            "'placement_group' and 'scheduling_strategy' both say where to run: give only the strategy, "
            "PlacementGroupSchedulingStrategy(group)"
        )


def _check_runtime_env(runtime_env: Mapping[Any, Any] | None) -> None:
    """The fields that this runtime reads, or whose mistakes are common. Unknown fields pass, as in Ray: plugins own
    them."""
    if not runtime_env:
        return
    variables = runtime_env.get("env_vars")
    if variables is not None and not (isinstance(variables, Sized) and len(variables) == 0):
        if not isinstance(variables, dict):
            raise TypeError(f"runtime_env['env_vars'] must be a dict of strings, not {variables!r}")
        for key, value in variables.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError(f"runtime_env['env_vars'] must be a dict of strings, and {key!r}: {value!r} is not")
            check_variable(key, value)
    directory = runtime_env.get("working_dir")
    if directory is not None and not isinstance(directory, str):
        raise TypeError(f"runtime_env['working_dir'] must be a string, not {directory!r}")
    packages = runtime_env.get("pip")
    if packages is not None and not isinstance(packages, (str, list, dict)):
        raise TypeError(f"runtime_env['pip'] must be a list of strings, not {packages!r}")


def check_variable(name: str, value: str) -> None:
    """ValueError for what no process can have in its environment. With Ray a task would wait for a worker for ever."""
    if not name or "=" in name:
        raise ValueError(f"illegal environment variable name {name!r}")
    for text in name, value:
        if "\0" in text:
            raise ValueError(f"embedded null byte in the environment variable {name!r}")
        os.fsencode(text)  # a UnicodeEncodeError is a ValueError


def _normalised(options: Mapping[str, Any]) -> Options:
    """A copy that later changes of the caller's lists and dicts do not reach."""
    copied = dict(options)
    for name, value in copied.items():
        if type(value) is dict:
            copied[name] = value.copy()
        elif type(value) is list:
            copied[name] = tuple(value) if name == "retry_exceptions" else value.copy()
    return copied


def _deprecated(text: str) -> None:
    """Warns with the line of the user's code that is to blame: the nearest caller outside of this package."""
    package = __name__.partition(".")[0]
    frame, level = sys._getframe(0), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, DeprecationWarning, stacklevel=level)


# --- At .remote() -------------------------------------------------------------------------------------------------


def check_task_call(options: Mapping[str, Any]) -> None:
    """What Ray refuses only when a task is submitted with these options (the decorator's and `.options()` together).

    Raises TypeError for max_retries=None; OverflowError for a number beyond 32 bits; ValueError for a strategy of an
    unknown name, a bundle index without a group, a label that is not a string; AssertionError for a placement group
    that is none.
    """
    _check_numbers_are_there(options, "max_retries")
    for name in "num_returns", "max_retries", "_generator_backpressure_num_objects":
        number = options.get(name)
        if isinstance(number, int) and number >= (2**63 if name[0] == "_" else 2**31):
            raise OverflowError(f"option '{name}' must be below {2**63 if name[0] == '_' else 2**31}, not {number}")
    _check_common_at_call(options)


def check_actor_call(options: Mapping[str, Any]) -> None:
    """What Ray refuses only when an actor is created with these options (the decorator's and `.options()` together).

    Raises TypeError for None as max_restarts, max_task_retries or max_pending_calls, and for a concurrency group whose
    name or size is of a wrong type; OverflowError for a number beyond 32 bits; ValueError for an empty name or
    namespace; and what `check_task_call` raises for the others.
    """
    _check_names_of_actor(options)
    _check_numbers_are_there(options, "max_restarts", "max_task_retries", "max_pending_calls")
    for number in "max_concurrency", "max_pending_calls":
        if (options.get(number) or 0) >= 2**31:
            raise OverflowError(f"option '{number}' must be below 2147483648, not {options[number]}")
    _check_common_at_call(options)
    _check_concurrency_groups(options.get("concurrency_groups"))


def check_before_arguments(options: Mapping[str, Any], of_actor: bool) -> None:
    """What Ray refuses at `.remote()` before it looks whether the arguments fit.

    Raises ValueError for a reserved name among the resources; of an actor for an empty name or namespace; of a task for
    a bundle index without a group, and AssertionError for a placement group that is none.
    """
    _check_reserved_names(options)
    if of_actor:
        _check_names_of_actor(options)
    else:
        _check_group(options)


def check_method_call(options: Mapping[str, Any]) -> None:
    """What Ray refuses only when a method is called with these options (those of `@method` and `.options()` together).

    Raises TypeError for an unknown name or a wrong type, AssertionError for a retry_exceptions that is neither bool nor
    list.
    """
    for name, value in options.items():
        option = _METHOD_CALL.get(name)
        if option is None and name != "_num_objects_per_yield":
            raise TypeError(f"a method has no option '{name}'. There are: {', '.join(_METHOD_CALL)}")
        if option is None or isinstance(value, option.types):
            continue
        assert name != "retry_exceptions", f"'retry_exceptions' takes True, False, or Exception classes; not {value!r}"
        raise _must_be(name, option.types, value)
    num_returns = options.get("num_returns")
    if isinstance(num_returns, str) and num_returns not in ("streaming", "dynamic"):
        raise _must_be("num_returns", (int,), num_returns)
    if isinstance(num_returns, (int, float)) and int(num_returns) >= 2**31:
        raise OverflowError(f"num_returns must be below 2147483648, not {num_returns}")


def check_scheduling_strategy(strategy: Any) -> None:
    """Raises ValueError for a name other than "DEFAULT" and "SPREAD", TypeError for no strategy at all; None passes."""
    if isinstance(strategy, str):
        if strategy not in ("DEFAULT", "SPREAD"):
            raise ValueError(
                f"there is no scheduling strategy {strategy!r}: there are 'DEFAULT', 'SPREAD', and the "
                "classes in util.scheduling_strategies"
            )
    elif strategy is not None and not isinstance(strategy, SchedulingStrategy):
        raise _must_be("scheduling_strategy", _COMMON["scheduling_strategy"].types, strategy)


def _check_numbers_are_there(options: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if name in options and options[name] is None:
            raise TypeError(f"option '{name}' must be an integer when it is used, and it is None")


def _check_names_of_actor(options: Mapping[str, Any]) -> None:
    if options.get("name") == "":
        raise ValueError("an actor's name cannot be an empty string; None means no name")
    if options.get("namespace") == "":
        raise ValueError("a namespace cannot be an empty string; None means the job's namespace")


def _check_reserved_names(options: Mapping[str, Any]) -> None:
    for name in options.get("resources") or ():
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise ValueError(f"'{name}' is not given in 'resources': it has an option of its own")
        if name == "bundle":
            raise ValueError("'bundle' cannot be asked for in 'resources': placement groups use that name")


def _check_group(options: Mapping[str, Any]) -> None:
    group = options.get("placement_group")
    assert group in (None, "default") or isinstance(group, PlacementGroup), f"{group!r} is not a placement group"
    if group in (None, "default") and options.get("scheduling_strategy") is None:
        if options.get("placement_group_bundle_index", -1) != -1:
            raise ValueError("'placement_group_bundle_index' needs the 'placement_group' whose bundle it is")


def _check_common_at_call(options: Mapping[str, Any]) -> None:
    if not options.keys().isdisjoint(_CHECKED_AT_CALL):
        check_scheduling_strategy(options.get("scheduling_strategy"))
        _check_group(options)
        for what in "_labels", "label_selector":
            for key, value in (options.get(what) or {}).items():
                if not isinstance(value, str):
                    raise ValueError(f"a label's value must be a string, not {value!r} ({key!r} in '{what}')")


_CHECKED_AT_CALL = frozenset(
    {"scheduling_strategy", "placement_group", "placement_group_bundle_index", "_labels", "label_selector"}
)


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


# --- What options ask for -----------------------------------------------------------------------------------------


def resources(options: Mapping[str, Any], default_num_cpus: float) -> Resources:
    """The resources that options ask for: {"CPU": 1.0, "GPU": 0.5, "memory": 104857600.0, "disk": 2.5}.

    Amounts are floats, cut off after the fourth decimal place (memory: after the whole byte); what that leaves nothing
    of is left out. default_num_cpus: the CPUs when num_cpus is not given; a given None is none, as in Ray. Raises
    ValueError for resources that have an option of their own, and for more than one GPU or NPU that is not a whole
    number; AttributeError for a resource whose name is not a string, as Ray does.
    """
    _check_reserved_names(options)
    amounts: dict[Any, Any] = dict(options.get("resources") or {})
    for name in amounts:
        if not isinstance(name, str):
            raise AttributeError(f"a resource's name must be a string, not {name!r}")
    amounts["CPU"] = options.get("num_cpus", default_num_cpus)
    amounts["GPU"] = options.get("num_gpus")
    amounts["memory"] = int(options.get("memory") or 0)
    amounts["object_store_memory"] = options.get("object_store_memory")
    if options.get("accelerator_type") is not None:
        # A share too small to matter of a resource that only nodes with this accelerator have.
        amounts[f"accelerator_type:{options['accelerator_type']}"] = 0.001
    asked: Resources = {}
    for name, amount in amounts.items():
        steps = int(amount * STEPS_PER_UNIT) if amount else 0
        if name in _WHOLE_ABOVE_ONE and amount and amount > 1 and amount % 1:
            raise ValueError(f"more than one {name} must be a whole number of them, not {amount}")
        if steps:
            asked[name] = steps / STEPS_PER_UNIT
    return asked


def actor_resources(options: Mapping[str, Any]) -> tuple[Resources, Resources]:
    """What an actor holds for as long as it lives, and what a node must have free to be chosen for it.

    An actor that asks for nothing (or for memory only) holds no CPU, but is placed as if it needed one, so that a burst
    of such actors spreads over the nodes. One that asks for anything, be it for none of it (num_gpus=0), holds one CPU
    unless num_cpus says otherwise. Raises what `resources` raises.
    """
    given = [name for name in ("num_cpus", "num_gpus", "accelerator_type") if options.get(name) is not None]
    if not given and not options.get("resources"):
        held = resources({**options, "num_cpus": 0}, 0)
        return held, {**held, "CPU": 1.0}
    held = resources(options if options.get("num_cpus") is not None else {**options, "num_cpus": 1}, 1)
    return held, held


# --- init ---------------------------------------------------------------------------------------------------------

# Every keyword of Ray's `init`, and what it does here. "" means: accepted, so that a program need not change, and
# ignored.
INIT_PARAMETERS: dict[str, str] = {
    "address": 'None or "local" starts; the address of a running session connects to it',
    "num_cpus": "CPUs of the head node; by default those of the machine",
    "num_gpus": "GPUs of the head node; by default none",
    "resources": "custom resources of the head node",
    "labels": "labels of the head node",
    "object_store_memory": "capacity of the head node's object store, in bytes",
    "local_mode": "run every task on the caller's thread (Ray has given this up)",
    "ignore_reinit_error": "do nothing when init was called before",
    "include_dashboard": "",
    "dashboard_host": "",
    "dashboard_port": "",
    "job_config": "its namespace, runtime environment and metadata",
    "configure_logging": "whether to set the level and the format of the package's logger",
    "logging_level": "level of the package's logger",
    "logging_format": "format of the package's logger",
    "logging_config": "",
    "log_to_driver": "whether what tasks print is printed by the driver",
    "namespace": "where the job's named actors are looked up",
    "runtime_env": "default runtime environment of the job's tasks and actors",
    "enable_resource_isolation": "",
    "cgroup_path": "",
    "system_reserved_cpu": "",
    "system_reserved_memory": "",
    "proxy_server_url": "",
    # Those that Ray takes without listing them.
    "object_spilling_directory": "where objects are spilled to",
    "_memory": "the memory that tasks and actors can ask for, in bytes",
    "_temp_dir": "where the session keeps its files; an absolute path",
    "_node_name": "name of the head node",
    "_system_config": "settings of the core by their names in Ray; unknown ones are ignored",
    "_enable_object_reconstruction": "",
    "_plasma_directory": "",
    "_node_ip_address": "",
    "_driver_object_store_memory": "",
    "_redis_username": "",
    "_redis_password": "",
    "_metrics_export_port": "",
    "_tracing_startup_hook": "",
    "_skip_env_hook": "",
    # Not in Ray.
    "num_nodes": "how many nodes like the head node there are",
    "on_deadlock": '"raise": get raises DeadlockError when it can never return; "log": it says so and waits',
}

_MOST_OF_A_RESOURCE = 1e14


def check_init(arguments: Mapping[str, Any]) -> None:
    """Raises what Ray's `init` raises for these arguments, before anything is started. None is a default wherever it is
    one.

    RuntimeError: an unknown keyword. TypeError: a namespace that is no string, num_gpus or object_store_memory that is
    no number, and others of a wrong type. AssertionError: another amount that is no number, or "CPU", "GPU", "memory"
    or "object_store_memory" among the custom resources. ValueError: an empty namespace; an amount that is negative,
    above 1e14, or not a whole number (nodes have whole ones, requests may be fractions); an unknown level of logging; a
    relative _temp_dir.

    Ray also refuses an object store below 75 MiB. Here it may be as small as an example needs.
    """
    unknown = [name for name in arguments if name not in INIT_PARAMETERS]
    if unknown:
        raise RuntimeError(f"init has no argument {', '.join(unknown)}. There are: {', '.join(INIT_PARAMETERS)}")
    given = {name: value for name, value in arguments.items() if value is not None}
    if arguments.get("logging_level", logging.INFO) is None:
        raise TypeError("logging_level must be a level of the logging module, not None")
    _check_init_words(given)
    _check_init_amounts(given)


def _check_init_words(given: Mapping[str, Any]) -> None:
    namespace = given.get("namespace", "default")
    if not isinstance(namespace, str):
        raise TypeError(f"namespace must be a string or None, not {namespace!r}")
    if namespace == "":
        raise ValueError("a namespace cannot be an empty string; None means one that nobody else can know")
    runtime_env = given.get("runtime_env")
    if runtime_env and not isinstance(runtime_env, dict):
        raise AttributeError(f"runtime_env must be a dict, not {runtime_env!r}")
    _check_runtime_env(runtime_env)
    level = given.get("logging_level", logging.INFO)
    if isinstance(level, str) and not isinstance(logging.getLevelName(level.upper()), int):
        raise ValueError(f"logging_level must be a level of the logging module, not {level!r}")
    if not isinstance(given.get("logging_format", ""), str):
        raise TypeError(f"logging_format must be a string, not {given['logging_format']!r}")
    if not isinstance(given.get("_system_config", {}), dict):
        raise TypeError(f"_system_config must be a dict, not {given['_system_config']!r}")
    directory = given.get("_temp_dir", os.sep)
    if not isinstance(directory, (str, os.PathLike)):
        raise TypeError(f"_temp_dir must be a path, not {directory!r}")
    if not os.path.isabs(directory):
        raise ValueError(f"_temp_dir must be an absolute path, not {directory!r}")
    if given.get("on_deadlock", "log") not in ("log", "raise"):
        raise ValueError(f"on_deadlock takes 'log' or 'raise', not {given['on_deadlock']!r}")
    if not isinstance(given.get("num_nodes", 1), int) or given.get("num_nodes", 1) < 1:
        raise ValueError(f"num_nodes must be a whole number from 1 up, not {given['num_nodes']!r}")


def _check_init_amounts(given: Mapping[str, Any]) -> None:
    custom = given.get("resources") or {}
    if not isinstance(custom, dict):
        raise AttributeError(f"resources must be a dict from each name to its amount, not {custom!r}")
    for name in "CPU", "GPU", "memory", "object_store_memory":
        assert name not in custom, f"{name!r} is not given in 'resources': init has an argument of its own for it"
    if "node:__internal_head__" in custom:
        raise ValueError("'node:__internal_head__' is the head node's own resource and cannot be given")
    labels = given.get("labels") or {}
    if not isinstance(labels, dict):
        raise AttributeError(f"labels must be a dict of strings, not {labels!r}")
    for name in "num_gpus", "object_store_memory", "_memory":
        if not isinstance(given.get(name, 0), (int, float)):
            raise TypeError(f"{name} must be a number, not {given[name]!r}")
    amounts = {"num_cpus": given.get("num_cpus", 0), "num_gpus": given.get("num_gpus", 0), **custom}
    for name, amount in amounts.items():
        assert isinstance(amount, (int, float)), f"the amount of {name} must be a number, not {amount!r}"
        if isinstance(amount, float) and not amount.is_integer():
            raise ValueError(f"a node has a whole number of each resource, and {amount} of {name} is not")
    for name, amount in [
        *amounts.items(),
        ("object_store_memory", given.get("object_store_memory", 0)),
        ("_memory", given.get("_memory", 0)),
    ]:
        if amount < 0:
            raise ValueError(f"the amount of {name} cannot be negative, and {amount} is")
        if amount > _MOST_OF_A_RESOURCE:
            raise ValueError(f"the amount of {name} must be at most {_MOST_OF_A_RESOURCE:g}, and {amount} is more")
