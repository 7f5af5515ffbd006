"""Ids: every entity is numbered by a counter of its cluster, and its public id is spelled from that number.

Inside miniray an id is a plain int, which is small, hashes fast and never repeats within a session. What users see is
Ray's: hexadecimal text of Ray's lengths, in which an object names the task that makes it, a task its actor, an actor its job.

    JobID 4 bytes | ActorID 12 + job | TaskID 8 + actor (16) | ObjectID task (24) + index (4, little endian)

Nothing of a session is random: the same program gives the same ids again. Ray: src/ray/common/id.h.
"""

from __future__ import annotations

from os import urandom
from typing import TypeVar

JOB_HEX = "01000000"  # one driver, so one job
_NO_ACTOR = "f" * 24
ObjectIDBytes = 28
INDEX_BITS = 32  # an object's number is its task's number with the return index behind it

ID = TypeVar("ID", bound="BaseID")


class BaseID:
    """An immutable id of a fixed number of bytes; equal and hashed by type and bytes."""

    SIZE = 0
    __slots__ = ("_bytes",)

    def __init__(self, data: bytes):
        """data: exactly SIZE bytes. TypeError for what is not bytes, ValueError for another length."""
        if not isinstance(data, bytes):
            raise TypeError(f"{type(self).__name__} is made of bytes, got {type(data).__name__}")
        if len(data) != self.SIZE:
            raise ValueError(f"{type(self).__name__} has {self.SIZE} bytes, got {len(data)}")
        self._bytes = data

    @classmethod
    def from_hex(cls: type[ID], text: str) -> ID:
        """The id that hex() spelled. ValueError when text is not hexadecimal or has another length."""
        return cls(bytes.fromhex(text))

    @classmethod
    def from_binary(cls: type[ID], data: bytes) -> ID:
        """The id that these bytes are."""
        return cls(data)

    @classmethod
    def nil(cls: type[ID]) -> ID:
        """The id that names nothing: all bits set."""
        return cls(b"\xff" * cls.SIZE)

    @classmethod
    def size(cls) -> int:
        """How many bytes an id of this type has."""
        return cls.SIZE

    def hex(self) -> str:
        """Lower-case hexadecimal text, two digits a byte."""
        return self._bytes.hex()

    def binary(self) -> bytes:
        """The raw bytes."""
        return self._bytes

    def is_nil(self) -> bool:
        """Whether this is the id that names nothing."""
        return self._bytes == b"\xff" * self.SIZE

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._bytes == self._bytes

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._bytes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hex()})"

    def __reduce__(self):
        return type(self), (self._bytes,)


class JobID(BaseID):
    """The driver's session."""

    SIZE = 4
    __slots__ = ()

    @classmethod
    def from_int(cls, number: int) -> JobID:
        """The job with this number."""
        return cls(number.to_bytes(4, "little"))

    def int(self) -> int:
        """Its number."""
        return int.from_bytes(self._bytes, "little")


class UniqueID(BaseID):
    """What names a thing that is not part of another."""

    SIZE = 28
    __slots__ = ()

    @classmethod
    def from_random(cls: type[ID]) -> ID:
        """One that nothing else has. Nothing here is named so; it is for programs that name things of their own."""
        return cls(urandom(cls.SIZE))


class NodeID(UniqueID):
    """A node of the cluster."""

    __slots__ = ()


class WorkerID(UniqueID):
    """A worker; the driver has one too."""

    __slots__ = ()


class ClusterID(UniqueID):
    """A cluster. Only its type is used here."""

    __slots__ = ()


class FunctionID(UniqueID):
    """A function that was captured. Only its type is used here."""

    __slots__ = ()


class ActorClassID(UniqueID):
    """A class that was captured. Only its type is used here."""

    __slots__ = ()


class ActorID(BaseID):
    """An actor."""

    SIZE = 16
    __slots__ = ()


class TaskID(BaseID):
    """A task, whatever number of attempts it takes."""

    SIZE = 24
    __slots__ = ()


class PlacementGroupID(BaseID):
    """A placement group."""

    SIZE = 18
    __slots__ = ()


def actor_hex(number: int) -> str:
    """32 hex digits of the actor with this number."""
    return f"{number:024x}{JOB_HEX}"


def task_hex(number: int, actor_number: int | None = None) -> str:
    """48 hex digits of a task; an actor's method carries its actor's id. Number 0 is the driver itself."""
    if number == 0:
        return "f" * 40 + JOB_HEX
    actor = _NO_ACTOR if actor_number is None else f"{actor_number:024x}"
    return f"{number:016x}{actor}{JOB_HEX}"


def creation_task_hex(actor_number: int) -> str:
    """48 hex digits of the task that runs an actor's constructor: sixteen f and the actor's id, as in Ray."""
    return "f" * 16 + actor_hex(actor_number)


def object_hex(of_task: str, index: int) -> str:
    """56 hex digits of an object: the id of the task that makes it, and its index among that task's objects."""
    return of_task + index.to_bytes(4, "little").hex()


def node_hex(number: int) -> str:
    """56 hex digits of a node."""
    return f"{number:08x}" * 7


def worker_hex(number: int) -> str:
    """56 hex digits of a worker; number 0 is the driver, whose id is its job's."""
    return JOB_HEX + "f" * 48 if number == 0 else f"{number:056x}"


def placement_group_hex(number: int) -> str:
    """36 hex digits of a placement group."""
    return f"{number:028x}{JOB_HEX}"


def object_number(data: bytes) -> int:
    """The number of the object whose 28 bytes these are, if it is one of ours."""
    return int.from_bytes(data[:8], "big") << INDEX_BITS | int.from_bytes(data[24:28], "little")


def foreign_number(data: bytes) -> int:
    """A number, always below zero, for 28 bytes that name nothing here; -1 for those of the nil reference."""
    return int.from_bytes(data, "big") - (1 << 8 * ObjectIDBytes)


def foreign_hex(number: int) -> str:
    """The 56 hex digits that `foreign_number` was given."""
    return (number + (1 << 8 * ObjectIDBytes)).to_bytes(ObjectIDBytes, "big").hex()
