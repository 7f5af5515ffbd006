"""Whether this program is a Ray Client, connected to a remote cluster. In miniray it never is.

Code that runs with and without a client calls `ray.util.client.ray.is_connected()`. Ray: python/ray/util/client.
"""

from __future__ import annotations


class _NoClient:
    def is_connected(self) -> bool:
        """Return False: this program is never a client of a remote cluster."""
        return False


ray = _NoClient()
