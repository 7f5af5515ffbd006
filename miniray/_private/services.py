"""The address of the node that asks. Ray: ray._private.services."""

from __future__ import annotations

from miniray import util


def get_node_ip_address(address: str = "") -> str:
    """As `util.get_node_ip_address`. address: whom Ray would try to reach in order to find out; not used."""
    return util.get_node_ip_address()
