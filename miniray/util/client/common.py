"""The classes that stand for references and handles in Ray Client. Ray: python/ray/util/client/common.py.

They exist so that `isinstance` checks work. miniray creates no instances of them.
"""

from __future__ import annotations


class ClientBaseRef:
    """A reference that a server holds for a client."""


class ClientObjectRef(ClientBaseRef):
    """An ObjectRef of a client."""


class ClientActorRef(ClientBaseRef):
    """An actor's id, for a client."""


class ClientActorHandle:
    """An actor handle of a client."""


class ClientActorClass:
    """An actor class of a client."""


class ClientRemoteFunc:
    """A remote function of a client."""


class ClientRemoteMethod:
    """A method of a `ClientActorHandle`."""
