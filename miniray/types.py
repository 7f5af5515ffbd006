"""`ObjectRef` for annotations: `ObjectRef[int]` is a reference to an int. Ray: ray.types."""

from .object_ref import ObjectRef

__all__ = ["ObjectRef"]
