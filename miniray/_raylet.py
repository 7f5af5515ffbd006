"""The classes of references and ids, under the name of Ray's compiled module, where type checks look for them."""

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
    """The language of a function or class. In miniray it is always Python."""

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
