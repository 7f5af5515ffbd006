"""The versions: of miniray, and of the Ray whose answers it reproduces."""

__version__ = "0.1.0"
__ray_version__ = "2.60.0"
