"""`get_node_ip_address` under its older name. Ray: ray._private.services."""

from __future__ import annotations

from miniray import util


def get_node_ip_address(address: str = "") -> str:
    """The same as `util.get_node_ip_address`. address: not used; Ray would try to reach it."""
    return util.get_node_ip_address()
