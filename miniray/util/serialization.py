"""`register_serializer`: custom serializers for a class. Ray: ray.util.serialization."""

from miniray.values.serialization import deregister_serializer, register_serializer

__all__ = ["deregister_serializer", "register_serializer"]
