"""Placement groups for users: reserve resources together, and say how they are spread. Ray: util/placement_group.py.

The reserving itself is done in `core.placement_group`; here arguments are checked, and a group has a handle.
"""

from __future__ import annotations

from typing import Any

from miniray import api, runtime_context
from miniray.calls import placement_groups as groups
from miniray.ids import PlacementGroupID
from miniray.options.when_given import task_options

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
NODE_ID_LABEL = "ray.io/node-id"  # in a topology strategy this key means the strategy over nodes


class PlacementGroup:
    """A handle to a placement group. Handles are equal when their ids are; a pickled one is the same group's handle."""

    def __init__(self, id: PlacementGroupID, bundle_cache: list[dict[str, float]] | None = None):
        """Not for users: groups are made by `placement_group` and found by `get_placement_group`."""
        self.id = id
        self.bundle_cache = bundle_cache

    @staticmethod
    def empty() -> PlacementGroup:
        """A handle to no group, which the options take for "outside any group"."""
        return PlacementGroup(PlacementGroupID(b"\xff" * PlacementGroupID.SIZE))

    @property
    def is_empty(self) -> bool:
        """Whether this is the handle to no group."""
        return self.id.is_nil()

    def ready(self) -> Any:
        """A ref whose value is this handle once every bundle is reserved.

        TaskPlacementGroupRemoved when the group is removed instead.
        """
        if self.is_empty:
            return api.put(self)
        return groups.placement_group_ready(self.id.hex(), self)

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Whether every bundle was reserved within timeout_seconds. False for no group; Exception for a removed one."""
        if self.is_empty:
            return False
        reserved = groups.wait_placement_group(self.id.hex(), timeout_seconds)
        if not reserved and groups.placement_group_table(self.id.hex()).get("state") in (None, "REMOVED"):
            # Ray has no class of its own for it either.
            raise Exception(f"placement group {self.id.hex()} does not exist, or no longer")
        return reserved

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """The resources of each bundle, in the order in which they were asked for."""
        if not self.bundle_cache:
            self.bundle_cache = list(groups.placement_group_table(self.id.hex())["bundles"].values())
        return self.bundle_cache

    @property
    def bundle_count(self) -> int:
        """How many bundles there are; their indexes count from 0."""
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
    """Ask for a placement group. Returns at once; `ready()` and `wait()` tell when all its bundles are reserved.

    bundles: for each bundle, the amount of each resource. A bundle lies on one node.
    strategy: "PACK" (few nodes; the default), "SPREAD" (many), "STRICT_PACK" (one), "STRICT_SPREAD" (each its own).
    name: for `get_placement_group`. lifetime: "detached" to outlive its creator, None to go with it.
    bundle_label_selector: for each bundle, the labels that its node must have. topology_strategy: the strategy by
    label; only {"ray.io/node-id": strategy}, which is `strategy` in other words.
    ValueError for bundles, strategies, selectors and lifetimes that are none of these; TypeError for a name that is
    no string.
    """
    strategy = _node_strategy(strategy, topology_strategy)
    if _soft_target_node_id and strategy != "STRICT_PACK":
        raise ValueError(f"_soft_target_node_id is only for the strategy STRICT_PACK, not for {strategy}")
    _check_bundles(bundles)
    if bundle_label_selector is not None:
        _check_selectors(bundle_label_selector, len(bundles))
    if lifetime not in (None, "detached"):
        raise ValueError(f"the lifetime of a placement group is None or 'detached', not {lifetime!r}")
    if not isinstance(name, str):
        raise TypeError(f"the name of a placement group must be a string, and {name!r} is not")
    amounts = [{resource: float(amount) for resource, amount in bundle.items()} for bundle in bundles]
    reserved = [{resource: amount for resource, amount in bundle.items() if amount} for bundle in amounts]
    number = groups.create_placement_group(reserved, strategy, name, lifetime == "detached", bundle_label_selector)
    return _handle(number, amounts)


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Give back what a group has reserved, and end the tasks and actors in it. Nothing happens for a removed one."""
    assert placement_group is not None, "there is no placement group to remove"
    if not placement_group.is_empty:
        groups.remove_placement_group(placement_group.id.hex())


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """The group that was made with this name in this namespace. ValueError when there is none, or it was removed."""
    if not placement_group_name:
        raise ValueError("the name of a placement group cannot be empty")
    number, bundles = groups.find_placement_group(placement_group_name)
    return _handle(number, bundles)


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """What is known of a group, or of all of them by hex id.

    A group has: placement_group_id, name, strategy, state ("PENDING", "CREATED", "REMOVED", "RESCHEDULING"),
    bundles {index: resources}, bundles_to_node_id {index: hex id, "" while it has no place}, stats.
    """
    return groups.placement_group_table(None if placement_group is None else placement_group.id.hex())


def get_current_placement_group() -> PlacementGroup | None:
    """The group that the running task or actor is in; None outside of any, as the driver is."""
    number = runtime_context.current_placement_group_id()
    return None if number is None else _handle(number)


def _handle(number: str, bundles: list[dict[str, float]] | None = None) -> PlacementGroup:
    return PlacementGroup(PlacementGroupID(bytes.fromhex(number)), bundles)


# --- What is refused ----------------------------------------------------------------------------------------------


def _node_strategy(strategy: str | None, topology: dict[str, str] | None) -> str:
    """The one strategy that both arguments say."""
    if topology is None:
        if strategy is not None and strategy not in STRATEGIES:
            raise ValueError(f"{strategy!r} is no strategy of placement groups: {', '.join(STRATEGIES)}")
        return strategy or "PACK"
    if strategy is not None:
        raise ValueError("give either 'strategy' or 'topology_strategy', not both")
    if not isinstance(topology, dict):
        raise ValueError(f"'topology_strategy' must be a dict, and {topology!r} is not")
    for label, value in topology.items():
        if label != NODE_ID_LABEL or value not in STRATEGIES:
            raise ValueError(
                f"'topology_strategy' takes {NODE_ID_LABEL!r} with one of {', '.join(STRATEGIES)}; "
                f"not {label!r} with {value!r}"
            )
    return topology.get(NODE_ID_LABEL, "PACK")


def _check_bundles(bundles: Any) -> None:
    if not isinstance(bundles, list) or not bundles:
        raise ValueError(f"bundles must be a list of at least one dict, as in [{{'CPU': 1}}], and {bundles!r} is not")
    for bundle in bundles:
        if not isinstance(bundle, dict):
            raise ValueError(f"a bundle is a dict from resources to amounts, and {bundle!r} is not")
        for resource, amount in bundle.items():
            if not isinstance(resource, str) or not resource:
                raise ValueError(f"a resource is named by a string, and {resource!r} of bundle {bundle!r} is not")
            # Ray takes a negative amount, and the group then waits for ever.
            if not isinstance(amount, (int, float)) or not amount >= 0:
                raise ValueError(f"an amount is a number of at least 0, and {amount!r} of bundle {bundle!r} is not")
        if not any(bundle.values()):
            raise ValueError(f"a bundle must reserve something, and {bundle!r} does not")


def _check_selectors(selectors: Any, num_bundles: int) -> None:
    if not isinstance(selectors, list) or len(selectors) != num_bundles:
        raise ValueError(
            f"bundle_label_selector must be a list of one dict for each of the {num_bundles} bundles, and "
            f"{selectors!r} is not"
        )
    for selector in selectors:
        if not isinstance(selector, dict) or not all(isinstance(text, str) for text in [*selector, *selector.values()]):
            raise ValueError(f"a label selector is a dict from strings to strings, and {selector!r} is not")
        task_options({"label_selector": selector})  # the syntax of keys and conditions is that of the option
