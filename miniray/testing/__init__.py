"""For tests of Ray programs: the `ray` alias, and a plugin (`miniray.testing.plugin`) that pytest finds by itself."""
from .alias import alias_ray, unalias_ray

__all__ = ["alias_ray", "unalias_ray"]
