"""Ray's core is a compiled module, `ray._raylet`; programs that check types look for references and ids there."""

from enum import Enum

from .ids import (
    ActorClassID,
    ActorID,
    BaseID,
    ClusterID,
    FunctionID,
    JobID,
    NodeID,
    PlacementGroupID,
    TaskID,
    UniqueID,
    WorkerID,
)
from .object_ref import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator

ObjectID = ObjectRef


class Language(Enum):
    """What a function or class is written in. Here it is Python."""

    PYTHON, JAVA, CPP = range(3)

    def __repr__(self) -> str:
        return self.name


__all__ = [
    "ActorClassID",
    "ActorID",
    "BaseID",
    "ClusterID",
    "DynamicObjectRefGenerator",
    "FunctionID",
    "JobID",
    "Language",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "TaskID",
    "UniqueID",
    "WorkerID",
]
