"""Ray's core is a compiled module, `ray._raylet`; programs that check types look for references and ids there."""
from .ids import ActorID, BaseID, JobID, NodeID, PlacementGroupID, TaskID, WorkerID
from .object_ref import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator

ObjectID = ObjectRef

__all__ = ["ActorID", "BaseID", "DynamicObjectRefGenerator", "JobID", "NodeID", "ObjectID", "ObjectRef", "ObjectRefGenerator",
           "PlacementGroupID", "TaskID", "WorkerID"]
