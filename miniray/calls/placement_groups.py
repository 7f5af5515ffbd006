"""Placement groups: from the arguments of `util.placement_group` to the core's records, and back to Ray's rows.

A group is named here by its id, 36 hex digits: the number of its record, then the id of the job.
"""

from __future__ import annotations

from typing import Any

from ..core.actor_manager import NameTaken
from ..core.records import PENDING, PlacementGroupRecord, amounts, units
from ..core.transitions import PlacementGroupStatus
from ..exceptions import RaySystemError
from ..object_ref import ObjectRef
from ..options.known_options import check_encodes
from ..process.worker_process import caller
from ..runtime.runtime import Runtime
from ..session import session_or_start
from ..values.serialization import serialize
from .placement import selector_of


def _group(runtime: Runtime, group_hex: str) -> PlacementGroupRecord | None:
    return runtime.cluster.placement_groups.get(int(group_hex[:-8], 16))


def create_placement_group(
    bundles: list[dict[str, float]],
    strategy: str,
    name: str,
    detached: bool,
    label_selectors: list[dict[str, str]] | None = None,
) -> str:
    """Request a placement group and return its id at once. Raises RaySystemError if the name is taken.

    bundles: for each bundle, the amounts by resource name. label_selectors: for each bundle, the labels that its node
    must have. detached: whether the group outlives the task or actor that creates it.
    """
    runtime = session_or_start()
    selectors = [selector_of(one) for one in label_selectors] if label_selectors else None
    execution = caller()
    group = PlacementGroupRecord(
        [units(bundle) for bundle in bundles],
        strategy,
        name,
        detached,
        execution.worker if execution is not None else None,
        selectors,
    )
    try:
        runtime.create_placement_group(group)
    except NameTaken:
        raise RaySystemError(f"Failed to create a placement group because name {name!r} already exists.") from None
    return group.hex


def remove_placement_group(group_hex: str) -> None:
    """Release the group's resources and end the tasks and actors in it. Does nothing if there is no such group."""
    runtime = session_or_start()
    group = _group(runtime, group_hex)
    if group is not None:
        runtime.tell(runtime.cluster.remove_placement_group, group)


def placement_group_ready(group_hex: str, value: Any) -> ObjectRef[Any]:
    """A reference that has this value as soon as all bundles are reserved, and holds TaskPlacementGroupRemoved if the
    group is removed. Raises ValueError if the session has no such group."""
    runtime = session_or_start()
    group = _group(runtime, group_hex)
    if group is None:
        raise ValueError("the placement group does not exist in this session")
    return ObjectRef._adopt(runtime.placement_group_ready(group, serialize(value)))


def wait_placement_group(group_hex: str, timeout: float | None) -> bool:
    """Wait at most `timeout` seconds until all bundles are reserved. Returns whether they are.

    Raises TypeError if the timeout is not a number; None is not allowed, as in Ray.
    """
    if not isinstance(timeout, (int, float)):
        raise TypeError(f"'timeout_seconds' must be a number, not {timeout!r}")
    runtime = session_or_start()
    group = _group(runtime, group_hex)
    if group is None:
        return False
    if runtime.before_look is not None:
        runtime.before_look("a placement group", [group.ready], timeout == 0)
    if group.ready.status is PENDING:
        runtime.wait_values([group.ready], timeout)
    return group.status is PlacementGroupStatus.CREATED


def find_placement_group(name: str) -> tuple[str, list[dict[str, float]]]:
    """The id and the bundles of the group with this name.

    Raises ValueError if there is none, TypeError unless the name is a string.
    """
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"the name of a placement group must be a string, not {name!r}")
    if isinstance(name, str):
        check_encodes(name)
    runtime = session_or_start()
    with runtime.locked() as cluster:
        for group in cluster.placement_groups.values():
            if group.name == name and name and group.status is not PlacementGroupStatus.REMOVED:
                return group.hex, [amounts(bundle.total) for bundle in group.bundles]
    raise ValueError(f"Failed to look up placement group with name: {name}")


def placement_group_table(group_hex: str | None = None) -> dict[str, Any]:
    """Ray's row for one group ({} if there is none), or the rows of all groups by id."""
    runtime = session_or_start()
    with runtime.locked() as cluster:
        found = {
            group.hex: _group_row(group, cluster.groups.scheduling_state(group))
            for group in cluster.placement_groups.values()
        }
    return found if group_hex is None else found.get(group_hex, {})


def _group_row(group: PlacementGroupRecord, scheduling_state: str) -> dict[str, Any]:
    return {
        "placement_group_id": group.hex,
        "name": group.name,
        "bundles": {bundle.index: amounts(bundle.total) for bundle in group.bundles},
        "bundles_to_node_id": {
            bundle.index: bundle.node.hex if bundle.node is not None else "" for bundle in group.bundles
        },
        "strategy": group.strategy,
        "state": group.status.name,
        "stats": {
            "end_to_end_creation_latency_ms": max(0.0, group.t_placed - group.t_created) * 1000,
            "scheduling_latency_ms": 0.0,
            "scheduling_attempt": group.attempts,
            "highest_retry_delay_ms": 0.0,
            "scheduling_state": scheduling_state,
        },
    }
