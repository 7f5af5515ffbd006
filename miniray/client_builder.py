"""`ray.client(...).connect()`, an older way to write `init`. Ray: ray.client_builder.

There is nothing to connect to here: without an address, or with "local", it starts a session in this process; with another it is
the ConnectionError that `init` gives, which says how to run the program on a cluster.
"""

from __future__ import annotations

from typing import Any

from .api import RayContext, init

ClientContext = RayContext  # what `connect` returns, which can be used in a `with`

__all__ = ["ClientBuilder", "ClientContext", "client"]


class ClientBuilder:
    """Collects what a session is to be like; `connect` starts it. address: None, "local", or that of a cluster."""

    def __init__(self, address: str | None = None):
        self.address = address
        self._given: dict[str, Any] = {}

    def env(self, env: dict[str, Any]) -> ClientBuilder:
        """The runtime environment of the session's tasks and actors."""
        self._given["runtime_env"] = env
        return self

    def namespace(self, namespace: str) -> ClientBuilder:
        """The namespace of its named actors."""
        self._given["namespace"] = namespace
        return self

    def connect(self) -> RayContext:
        """Start the session. Raises what `init` raises."""
        return init(self.address, **self._given)


def client(address: str | None = None, _deprecation_warn_enabled: bool = True) -> ClientBuilder:
    """A builder for a session at this address."""
    return ClientBuilder(address)
