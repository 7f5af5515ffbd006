"""`inspect_serializability`: why a value cannot be serialized. Ray: ray.util.check_serialize."""

from miniray.values.inspect_serializability import inspect_serializability

__all__ = ["inspect_serializability"]
