"""Ids: a counter of the cluster gives each entity a number, and the entity's public id is derived from this number.

Inside miniray an id is a plain int: it is small, hashes fast, and never repeats within a session. Users see ids in
Ray's form: hexadecimal text of Ray's lengths. An object's id contains the id of the task that creates it; a
task's id contains that of its actor, and an actor's id that of its job.

    JobID 4 bytes | ActorID 12 + job | TaskID 8 + actor (16) | ObjectID task (24) + index (4, little endian)

Nothing here is random, so a program gets the same ids in each run. Ray: src/ray/common/id.h.
"""

from __future__ import annotations

from os import urandom

JOB_HEX = "01000000"  # one driver, so one job
_NO_ACTOR = "f" * 24
ObjectIDBytes = 28
INDEX_BITS = 32  # an object's number is its task's number followed by the return index in this many bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    ID = TypeVar("ID", bound="BaseID")


class BaseID:
    """An immutable id of a fixed number of bytes. Ids are equal if their types and bytes are."""

    SIZE = 0
    __slots__ = ("_bytes",)

    def __init__(self, data: bytes):
        """data: exactly SIZE bytes. Raises TypeError if it is not bytes, and ValueError for another length."""
        if not isinstance(data, bytes):
            raise TypeError(f"{type(self).__name__} must be made from bytes, not {type(data).__name__}")
        if len(data) != self.SIZE:
            raise ValueError(f"{type(self).__name__} must have {self.SIZE} bytes, not {len(data)}")
        self._bytes = data

    @classmethod
    def from_hex(cls: type[ID], text: str | bytes) -> ID:
        """Return the id with this hex(). As in Ray, a text that is no such id gives the nil id. Raises TypeError for
        anything but text and bytes."""
        if not isinstance(text, (str, bytes)):
            raise TypeError(f"expected the text of an id, {type(text).__name__} found")
        try:
            data = bytes.fromhex(text.decode() if isinstance(text, bytes) else text)
        except ValueError:
            return cls.nil()
        return cls(data) if len(text) == 2 * cls.SIZE == 2 * len(data) else cls.nil()

    @classmethod
    def from_binary(cls: type[ID], data: bytes) -> ID:
        """Return the id with these bytes. Raises what the constructor raises."""
        return cls(data)

    @classmethod
    def nil(cls: type[ID]) -> ID:
        """Return the id that names nothing: all its bits are set."""
        return cls(b"\xff" * cls.SIZE)

    @classmethod
    def size(cls) -> int:
        """Return the number of bytes of an id of this type."""
        return cls.SIZE

    def hex(self) -> str:
        """Return the id as lower-case hexadecimal text, two digits for each byte."""
        return self._bytes.hex()

    def binary(self) -> bytes:
        """Return the bytes of the id."""
        return self._bytes

    def is_nil(self) -> bool:
        """Whether this is the nil id."""
        return self._bytes == b"\xff" * self.SIZE

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._bytes == self._bytes

    def __hash__(self) -> int:
        return hash(int.from_bytes(self._bytes, "big"))  # of a number, which PYTHONHASHSEED does not change

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hex()})"

    def __reduce__(self) -> tuple[type[BaseID], tuple[bytes]]:
        return type(self), (self._bytes,)


class JobID(BaseID):
    """The id of the driver's job."""

    SIZE = 4
    __slots__ = ()

    @classmethod
    def from_int(cls, number: int) -> JobID:
        """Return the id of the job with this number."""
        return cls(number.to_bytes(4, "little"))

    def int(self) -> int:
        """Return the number of the job."""
        return int.from_bytes(self._bytes, "little")


class _RandomID(BaseID):
    __slots__ = ()

    @classmethod
    def from_random(cls: type[ID]) -> ID:
        """Return a new random id. miniray itself does not use it; it is for programs that need ids of their own."""
        return cls(urandom(cls.SIZE))


class UniqueID(_RandomID):
    """The id of an entity that is not part of another one."""

    SIZE = 28
    __slots__ = ()

    @classmethod
    def from_hex(cls: type[ID], text: str | bytes) -> ID:
        """As BaseID.from_hex, for the classes of this one. UniqueID itself raises NotImplementedError, as in Ray."""
        if cls is UniqueID:
            raise NotImplementedError("UniqueID has no from_hex, only its subclasses have one")
        return super().from_hex(text)


class NodeID(UniqueID):
    """The id of a node."""

    __slots__ = ()


class WorkerID(UniqueID):
    """The id of a worker. The driver has a worker id too."""

    __slots__ = ()


class ClusterID(UniqueID):
    """The id of a cluster. miniray has only the type, for programs that name it."""

    __slots__ = ()


class FunctionID(UniqueID):
    """The id of a captured function. miniray has only the type, for programs that name it."""

    __slots__ = ()


class ActorClassID(UniqueID):
    """The id of a captured class. miniray has only the type, for programs that name it."""

    __slots__ = ()


class ActorID(_RandomID):
    """The id of an actor."""

    SIZE = 16
    __slots__ = ()

    @property
    def job_id(self) -> JobID:
        """The id of the actor's job."""
        return JobID(self._bytes[-JobID.SIZE :])


class TaskID(BaseID):
    """The id of a task. All its attempts share the id."""

    SIZE = 24
    __slots__ = ()

    def actor_id(self) -> ActorID:
        """Return the id of the task's actor; of a task without an actor, an id whose digits before the job's are f."""
        return ActorID(self._bytes[-ActorID.SIZE :])

    def job_id(self) -> JobID:
        """Return the id of the task's job."""
        return JobID(self._bytes[-JobID.SIZE :])


class PlacementGroupID(_RandomID):
    """The id of a placement group."""

    SIZE = 18
    __slots__ = ()


def actor_hex(number: int) -> str:
    """Return the id of the actor with this number: 32 hex digits."""
    return f"{number:024x}{JOB_HEX}"


def task_hex(number: int, actor_number: int | None = None) -> str:
    """Return the id of a task: 48 hex digits. A method's id ends with its actor's id. Number 0 is the driver itself."""
    if number == 0:
        return "f" * 40 + JOB_HEX
    actor = _NO_ACTOR if actor_number is None else f"{actor_number:024x}"
    return f"{number:016x}{actor}{JOB_HEX}"


def creation_task_hex(actor_number: int) -> str:
    """Return the id of the task that runs an actor's constructor: sixteen f and the actor's id, as in Ray."""
    return "f" * 16 + actor_hex(actor_number)


def object_hex(of_task: str, index: int) -> str:
    """Return the id of an object: the id of the task that creates it, and its index among that task's objects."""
    return of_task + index.to_bytes(4, "little").hex()


def node_hex(number: int) -> str:
    """Return the id of a node: 56 hex digits."""
    return f"{number:08x}" * 7


def worker_hex(number: int) -> str:
    """Return the id of a worker: 56 hex digits. Number 0 is the driver, whose id begins with its job's."""
    return JOB_HEX + "f" * 48 if number == 0 else f"{number:056x}"


def placement_group_hex(number: int) -> str:
    """Return the id of a placement group: 36 hex digits."""
    return f"{number:028x}{JOB_HEX}"


def object_number(data: bytes) -> int:
    """Return the number of the object with these 28 bytes, if it is an object of this session."""
    return int.from_bytes(data[:8], "big") << INDEX_BITS | int.from_bytes(data[24:28], "little")


def foreign_number(data: bytes) -> int:
    """Return a number, always negative, for 28 bytes that name no object of this session; -1 for the nil id."""
    return int.from_bytes(data, "big") - (1 << 8 * ObjectIDBytes)


def foreign_hex(number: int) -> str:
    """Return the 56 hex digits of the bytes from which `foreign_number` made this number."""
    return (number + (1 << 8 * ObjectIDBytes)).to_bytes(ObjectIDBytes, "big").hex()
