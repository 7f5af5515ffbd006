"""`ray.client(...).connect()`: an older way to write `init`. Ray: ray.client_builder.

Without an address, or with "local", it starts a session in this process. Any other address raises the ConnectionError
of `init`, which explains how to run the program on a cluster.
"""

from __future__ import annotations

from typing import Any

from .api import RayContext, init

ClientContext = RayContext  # returned by `connect`; also a context manager

__all__ = ["ClientBuilder", "ClientContext", "client"]


class ClientBuilder:
    """Collects settings for a session; `connect` starts it. address: None, "local", or that of a cluster."""

    def __init__(self, address: str | None = None):
        self.address = address
        self._given: dict[str, Any] = {}

    def env(self, env: dict[str, Any]) -> ClientBuilder:
        """Set the runtime environment of the session's tasks and actors."""
        self._given["runtime_env"] = env
        return self

    def namespace(self, namespace: str) -> ClientBuilder:
        """Set the namespace of the session's named actors."""
        self._given["namespace"] = namespace
        return self

    def connect(self) -> RayContext:
        """Start the session. Raises what `init` raises."""
        return init(self.address, **self._given)


def client(address: str | None = None, _deprecation_warn_enabled: bool = True) -> ClientBuilder:
    """Return a builder for a session at this address."""
    return ClientBuilder(address)
