"""Resources: which amounts may be asked for, and what a task or an actor asks for in all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Resources = dict[str, float]

# The scheduler counts a resource in ten-thousandths of a unit, as Ray's does (fixed_point.h).
STEPS_PER_UNIT = 10_000

# Accelerators that cannot be shared by fractions are refused when the option is given; GPU and NPU, which can be below
# one, at `.remote()` (see `requested_resources`).
_WHOLE_ACCELERATORS = frozenset({"neuron_cores", "HPU", "RBLN", "FURIOSA", "MBLT", "TTNPU"})
_WHOLE_ABOVE_ONE = frozenset({"GPU", "NPU"})
_TPU_CHIPS = (1, 2, 4, 8)


def requested_resources(options: Mapping[str, Any], default_num_cpus: float) -> Resources:
    """The resources that options ask for: {"CPU": 1.0, "GPU": 0.5, "memory": 104857600.0, "disk": 2.5}.

    Amounts are floats, cut off after the fourth decimal place (memory: after the whole byte); what that leaves nothing
    of is left out. default_num_cpus: the CPUs when num_cpus is not given; a given None is none, as in Ray. Raises
    ValueError for resources that have an option of their own, and for more than one GPU or NPU that is not a whole
    number; AttributeError for a resource whose name is not a string, as Ray does.
    """
    check_reserved_names(options)
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
    unless num_cpus says otherwise. Raises what `requested_resources` raises.
    """
    given = [name for name in ("num_cpus", "num_gpus", "accelerator_type") if options.get(name) is not None]
    if not given and not options.get("resources"):
        held = requested_resources({**options, "num_cpus": 0}, 0)
        return held, {**held, "CPU": 1.0}
    held = requested_resources(options if options.get("num_cpus") is not None else {**options, "num_cpus": 1}, 1)
    return held, held


def check_reserved_names(options: Mapping[str, Any]) -> None:
    """Raise ValueError if `resources` holds a name that has an option of its own, or one that miniray keeps to itself."""
    for name in options.get("resources") or ():
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise ValueError(f"'{name}' is not given in 'resources': it has an option of its own")
        if name == "bundle":
            raise ValueError("'bundle' cannot be asked for in 'resources': placement groups use that name")


def check_custom_resources(amounts: dict[Any, Any] | None) -> str | None:
    """Return what is wrong with the option `resources`, or None. Raises TypeError for an amount that is not a number."""
    if amounts is None:
        return None
    if "CPU" in amounts or "GPU" in amounts:
        return "CPU and GPU are not given in 'resources': use 'num_cpus' and 'num_gpus'"
    for name, quantity in amounts.items():
        if not isinstance(quantity, (int, float)):
            raise TypeError(f"the amount of resource {name!r} must be a number, not {quantity!r}")
        problem = check_amount(f"resource {name!r}")(quantity)
        if problem is None and name == "TPU" and quantity not in _TPU_CHIPS:
            problem = f"a node's TPU chips can be had in groups of {_TPU_CHIPS}, not {quantity}"
        if problem is None and name in _WHOLE_ACCELERATORS and quantity % 1:
            problem = f"resource {name!r} cannot be shared, so its amount must be a whole number, not {quantity}"
        if problem is not None:
            return problem
    return None


def check_amount(name: str) -> Callable[[Any], str | None]:
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
