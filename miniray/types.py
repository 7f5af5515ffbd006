"""For annotations: `ObjectRef[int]` is a reference to an int. Ray: ray.types, where it is a class for checkers only."""

from .object_ref import ObjectRef

__all__ = ["ObjectRef"]
