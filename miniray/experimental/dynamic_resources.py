"""Resources that change while a node runs: Ray had them once. Ray: ray.experimental.dynamic_resources."""

from __future__ import annotations


def set_resource(resource_name: str, capacity: float, node_id: str | None = None) -> None:
    """Raise DeprecationWarning, as Ray does."""
    raise DeprecationWarning(
        "Dynamic custom resources are deprecated: use a placement group, or give the resources to `init` or `add_node`"
    )
