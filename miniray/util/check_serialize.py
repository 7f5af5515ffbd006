"""Why a value cannot be sent. Ray: ray.util.check_serialize."""

from miniray.values.inspect_serializability import inspect_serializability

__all__ = ["inspect_serializability"]
