"""Ray Client is a connection to a cluster elsewhere. There is none here, and programs that ask are told so.

Code that runs with and without a client asks `ray.util.client.ray.is_connected()`. Ray: python/ray/util/client.
"""

from __future__ import annotations


class _NoClient:
    def is_connected(self) -> bool:
        """Whether this program is a client of a cluster elsewhere: never."""
        return False


ray = _NoClient()
