"""Placement groups: reserve several bundles of resources together, packed or spread. Ray: util/placement_group.py.

This module checks the arguments and defines the handle. `core.placement_group` reserves the bundles.
"""

from __future__ import annotations

from typing import Any

from miniray import api, runtime_context
from miniray.calls import placement_groups as groups
from miniray.ids import PlacementGroupID
from miniray.options.known_options import check_encodes
from miniray.options.when_given import task_options

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
VALID_PLACEMENT_GROUP_STRATEGIES = set(STRATEGIES)  # Ray's name
NODE_ID_LABEL = "ray.io/node-id"  # the one key of a topology strategy: its value is the strategy over nodes


class PlacementGroup:
    """A handle to a placement group. It can be passed to tasks. Handles to the same group are equal.

    `placement_group()` creates a group, and `get_placement_group()` finds one by name. To use it, pass
    `scheduling_strategy=PlacementGroupSchedulingStrategy(group)` as an option of a task or an actor.
    """

    def __init__(self, id: PlacementGroupID, bundle_cache: list[dict[str, float]] | None = None):
        """Not for users. bundle_cache: the bundles, if they are known already."""
        self.id = id
        self.bundle_cache = bundle_cache

    @staticmethod
    def empty() -> PlacementGroup:
        """Return the empty handle. As the option `placement_group`, it means "outside any group"."""
        return PlacementGroup(PlacementGroupID(b"\xff" * PlacementGroupID.SIZE))

    @property
    def is_empty(self) -> bool:
        """Whether this is the empty handle."""
        return self.id.is_nil()

    def ready(self) -> Any:
        """Return a reference that is ready when every bundle is reserved. Its value is this handle.

        If the group is removed instead, `get` of the reference raises TaskPlacementGroupRemoved.
        """
        if self.is_empty:
            return api.put(self)
        return groups.placement_group_ready(self.id.hex(), self)

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Wait at most `timeout_seconds` until every bundle is reserved. Return whether they are.

        The empty handle returns False. Raises Exception, as Ray does, if the group was removed.
        """
        if self.is_empty:
            return False
        reserved = groups.wait_placement_group(self.id.hex(), timeout_seconds)
        if not reserved and groups.placement_group_table(self.id.hex()).get("state") in (None, "REMOVED"):
            # Ray raises a bare Exception, too.
            raise Exception(f"Placement group {self.id} does not exist.")
        return reserved

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """The resources of each bundle, in the order of creation."""
        if not self.bundle_cache:
            self.bundle_cache = list(groups.placement_group_table(self.id.hex())["bundles"].values())
        return self.bundle_cache

    @property
    def bundle_count(self) -> int:
        """The number of bundles. Their indexes start at 0."""
        return len(self.bundle_specs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"PlacementGroup({self.id.hex()})"


def placement_group(
    bundles: list[dict[str, float]],
    strategy: str | None = None,
    name: str = "",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> PlacementGroup:
    """Request a placement group: either all of its bundles are reserved, or none.

        group = placement_group([{"CPU": 1}, {"CPU": 2, "GPU": 1}], strategy="SPREAD")
        ray.get(group.ready())

    Returns a handle at once. `ready()` and `wait()` of the handle tell when the bundles are reserved.

    Args:
        bundles: for each bundle, the amount of each resource. A bundle is reserved on a single node.
        strategy: "PACK" (as few nodes as possible; the default), "SPREAD" (as many as possible), "STRICT_PACK" (exactly
            one node) or "STRICT_SPREAD" (a different node for each bundle).
        name: a name for `get_placement_group`.
        lifetime: None if the group ends with the task or actor that creates it, "detached" if it outlives it.
        bundle_label_selector: for each bundle, the labels that its node must have.
        topology_strategy: another way to give the strategy: {"ray.io/node-id": strategy}.

    Raises:
        ValueError: a bundle, strategy, selector or lifetime is not one of these.
        TypeError: the name is not a string, or the strategy is a list or a dict.
        RaySystemError: a group of this name exists already.
    """
    strategy = _node_strategy(strategy, topology_strategy)
    if _soft_target_node_id and strategy != "STRICT_PACK":
        raise ValueError(f"_soft_target_node_id is only for the strategy STRICT_PACK, not for {strategy}")
    _check_bundles(bundles)
    if bundle_label_selector is not None:
        _check_selectors(bundle_label_selector, len(bundles))
    if lifetime not in (None, "detached"):
        raise ValueError(f"Placement group `lifetime` argument must be either `None` or 'detached'. Got {lifetime}.")
    if not isinstance(name, str):
        raise TypeError(f"the name of a placement group must be a string, not {name!r}")
    check_encodes(name)
    amounts = [{resource: float(amount) for resource, amount in bundle.items()} for bundle in bundles]
    reserved = [{resource: amount for resource, amount in bundle.items() if amount} for bundle in amounts]
    group_hex = groups.create_placement_group(reserved, strategy, name, lifetime == "detached", bundle_label_selector)
    return _handle(group_hex, amounts)


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Release the resources of a placement group, and end the tasks and actors in it. A removed group is left alone."""
    assert placement_group is not None, "there is no placement group to remove"
    if not placement_group.is_empty:
        groups.remove_placement_group(placement_group.id.hex())


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """Return the placement group with this name. Raises ValueError if there is none, or if it was removed."""
    if not placement_group_name:
        raise ValueError("Please supply a non-empty value to get_placement_group: the name of a group")
    group_hex, bundles = groups.find_placement_group(placement_group_name)
    return _handle(group_hex, bundles)


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """Return the row of one placement group, or a dict with the rows of all groups by hex id.

    The keys of a row are placement_group_id, name, strategy, state ("PENDING", "CREATED", "RESCHEDULING" or "REMOVED"),
    bundles ({index: resources}), bundles_to_node_id ({index: hex id, or "" while the bundle is not reserved}) and
    stats.
    """
    return groups.placement_group_table(None if placement_group is None else placement_group.id.hex())


def get_current_placement_group() -> PlacementGroup | None:
    """Return the placement group in which the running task or actor is; None on the driver and outside a group."""
    group_hex = runtime_context.current_placement_group_id()
    return None if group_hex is None else _handle(group_hex)


def _handle(group_hex: str, bundles: list[dict[str, float]] | None = None) -> PlacementGroup:
    return PlacementGroup(PlacementGroupID(bytes.fromhex(group_hex)), bundles)


# --- Checks -------------------------------------------------------------------------------------------------------


def _node_strategy(strategy: str | None, topology: dict[str, str] | None) -> str:
    """The strategy that the two arguments give. Raises ValueError if both are given, or the strategy is unknown."""
    if topology is None:
        if strategy is not None and strategy not in frozenset(
            STRATEGIES
        ):  # a TypeError for what has no hash, as in Ray
            raise ValueError(
                f"Invalid placement group strategy {strategy}. Supported strategies are: {', '.join(STRATEGIES)}"
            )
        return strategy or "PACK"
    if strategy is not None:
        raise ValueError("give either 'strategy' or 'topology_strategy', not both")
    if not isinstance(topology, dict):
        raise ValueError(f"'topology_strategy' must be a dict, not {topology!r}")
    for label, value in topology.items():
        if label != NODE_ID_LABEL or value not in STRATEGIES:
            raise ValueError(
                f"'topology_strategy' takes {NODE_ID_LABEL!r} with one of {', '.join(STRATEGIES)}; "
                f"not {label!r} with {value!r}"
            )
    return topology.get(NODE_ID_LABEL, "PACK")


def _check_bundles(bundles: Any) -> None:
    if not isinstance(bundles, list):
        raise ValueError(f"Placement group bundles must be a list, got {type(bundles)}.")
    if not bundles:
        raise ValueError("Bundles must be a non-empty list of resource dictionaries, such as [{'CPU': 1}]")
    for bundle in bundles:
        if not isinstance(bundle, dict):
            raise ValueError(f"Bundles must be a non-empty list of resource dictionaries, and {bundle!r} is none")
        for resource, amount in bundle.items():
            if not isinstance(resource, str) or not resource:
                raise ValueError(f"the name of a resource must be a string, not {resource!r} as in bundle {bundle!r}")
            check_encodes(resource)
            # Ray accepts a negative amount, and the group then waits forever.
            if not isinstance(amount, (int, float)) or not amount >= 0:
                raise ValueError(f"an amount must be a number of at least 0, not {amount!r} as in bundle {bundle!r}")
        if not any(bundle.values()):
            raise ValueError(f"Bundles cannot be an empty dictionary or resources with only 0 values, as {bundle!r} is")


def _check_selectors(selectors: Any, num_bundles: int) -> None:
    if not isinstance(selectors, list) or len(selectors) != num_bundles:
        raise ValueError(
            f"bundle_label_selector must be a list of one dict for each of the {num_bundles} bundles, not {selectors!r}"
        )
    for selector in selectors:
        if not isinstance(selector, dict) or not all(isinstance(text, str) for text in [*selector, *selector.values()]):
            raise ValueError(f"a label selector must be a dict from strings to strings, not {selector!r}")
        task_options({"label_selector": selector})  # checks the syntax of keys and conditions
