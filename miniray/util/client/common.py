"""What Ray Client gives in place of references and handles: classes to ask with `isinstance`, of which nothing here is an instance.

Ray: python/ray/util/client/common.py.
"""

from __future__ import annotations


class ClientBaseRef:
    """A reference held for a program elsewhere."""


class ClientObjectRef(ClientBaseRef):
    """An ObjectRef of a program elsewhere."""


class ClientActorRef(ClientBaseRef):
    """An actor's id, for a program elsewhere."""


class ClientActorHandle:
    """A handle of an actor, for a program elsewhere."""


class ClientActorClass:
    """A class that was made remote by a program elsewhere."""


class ClientRemoteFunc:
    """A function that was made remote by a program elsewhere."""


class ClientRemoteMethod:
    """A method of a `ClientActorHandle`."""
