"""The resources that options ask for: the checks of the amounts, and the totals for a task and for an actor."""

from __future__ import annotations

from collections.abc import Callable, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Resources = dict[str, float]

# The scheduler counts resources in ten-thousandths of a unit, as in Ray (fixed_point.h). `core.records.UNIT` is the
# same number; it is not imported because the core is loaded only when a session starts.
STEPS_PER_UNIT = 10_000

# These accelerators cannot be shared, so a fraction is refused when the option is given. A GPU or NPU can be shared:
# for these, only a fraction above one is refused, at `.remote()` (see `requested_resources`).
_WHOLE_ACCELERATORS = frozenset({"neuron_cores", "HPU", "RBLN", "FURIOSA", "MBLT", "TTNPU"})
_WHOLE_ABOVE_ONE = frozenset({"GPU", "NPU"})
_TPU_CHIPS = (1, 2, 4, 8)


def requested_resources(options: Mapping[str, Any], default_num_cpus: float) -> Resources:
    """Return the resources that a task asks for, such as {"CPU": 1.0, "GPU": 0.5, "memory": 104857600.0, "disk": 2.5}.

    Amounts are floats, truncated to four decimal places (memory: to whole bytes). A resource whose amount is then zero
    is left out. default_num_cpus: the CPUs if num_cpus is not given; num_cpus=None means no CPU, as in Ray. Raises
    ValueError for a custom resource that has an option of its own, or whose amount is neither an int nor a float, and
    for more than one GPU or NPU if the amount is not a whole number; AttributeError for a resource whose name is not a
    string, as Ray does.
    """
    check_reserved_names(options)
    custom: dict[Any, Any] = options.get("resources") or {}
    for name, amount in custom.items():
        if not isinstance(name, str):
            raise AttributeError(f"a resource's name must be a string, not {name!r}")
        if not isinstance(amount, (int, float)):
            raise ValueError(f"the amount of resource {name!r} must be an int or a float, not {amount!r}")
        name.encode()  # raises UnicodeEncodeError for a lone surrogate, since Ray sends names as UTF-8
    amounts = {
        "CPU": options.get("num_cpus", default_num_cpus),
        "GPU": options.get("num_gpus"),
        **custom,
        "memory": int(options.get("memory") or 0),
        "object_store_memory": options.get("object_store_memory"),
    }
    if options.get("accelerator_type") is not None:
        # Only nodes with this accelerator have this resource. The amount is too small to limit how many tasks share it.
        amounts[f"accelerator_type:{options['accelerator_type']}"] = 0.001
    asked: Resources = {}
    for name, amount in amounts.items():
        steps = int(amount * STEPS_PER_UNIT) if amount else 0
        if name in _WHOLE_ABOVE_ONE and amount and amount > 1 and amount % 1:
            raise ValueError(f"more than one {name} can be asked for in whole numbers only, not {amount}")
        if steps:
            asked[name] = steps / STEPS_PER_UNIT
    return asked


def actor_resources(options: Mapping[str, Any]) -> tuple[Resources, Resources]:
    """Return what an actor holds while it lives, and what a node must have available to be chosen for it.

    An actor that asks for nothing, or for memory only, holds no CPU. But it is placed as if it needed one, so that a
    burst of such actors spreads over the nodes. An actor that asks for anything else, even for none of it (num_gpus=0),
    holds one CPU unless num_cpus is given. Raises what `requested_resources` raises.
    """
    given = [name for name in ("num_cpus", "num_gpus", "accelerator_type") if options.get(name) is not None]
    if not given and not options.get("resources"):
        held = requested_resources({**options, "num_cpus": 0}, 0)
        return held, {**held, "CPU": 1.0}
    held = requested_resources(options if options.get("num_cpus") is not None else {**options, "num_cpus": 1}, 1)
    return held, held


def check_reserved_names(options: Mapping[str, Any]) -> None:
    """Raise ValueError if `resources` holds a name that has an option of its own, or one that placement groups use."""
    for name in options.get("resources") or ():
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise ValueError(f"'{name}' cannot be given in 'resources': it has an option of its own")
        if name == "bundle":
            raise ValueError("'bundle' cannot be given in 'resources': placement groups use this name")


def check_custom_resources(amounts: dict[Any, Any] | None) -> str | None:
    """Return what is wrong with the option `resources`, or None.

    Raises TypeError for an amount that is not a number. As in Ray, a number that is neither an int nor a float, such as
    one of numpy, passes here and is refused at the call.
    """
    if amounts is None:
        return None
    if "CPU" in amounts or "GPU" in amounts:
        return "Use the 'num_cpus' and 'num_gpus' keyword instead of 'CPU' and 'GPU' in 'resources' keyword"
    for name, quantity in amounts.items():
        if not hasattr(quantity, "__int__"):
            raise TypeError(f"the amount of resource {name!r} must be a number, not {quantity!r}")
        problem = amount_check(name)(quantity)
        if problem is None and name == "TPU" and quantity not in _TPU_CHIPS:
            problem = (
                f"The number of requested 'TPU' was set to {quantity}, which is not a supported chip configuration. "
                f"Supported configs: {_TPU_CHIPS}"
            )
        if problem is None and name in _WHOLE_ACCELERATORS and isinstance(quantity, float) and quantity % 1:
            problem = f"{name} resource quantity must be whole numbers: it cannot be shared, and {quantity} is invalid"
        if problem is not None:
            return problem
    return None


def amount_check(name: str) -> Callable[[Any], str | None]:
    """The check of an amount of a resource: zero, or at least the smallest amount that is counted. None passes."""

    def check(quantity: Any) -> str | None:
        if quantity is None:
            return None
        if quantity < 0:
            return f"The quantity of resource {name} cannot be negative: {quantity}"
        if isinstance(quantity, float) and quantity != quantity:
            return f"the amount of {name} must be a number, not {quantity}"
        if isinstance(quantity, float) and quantity != 0 and int(quantity * STEPS_PER_UNIT) == 0:
            return (
                f"The precision of the fractional quantity of resource {name} cannot go beyond {1 / STEPS_PER_UNIT}: "
                f"{quantity}"
            )
        return None

    return check
