"""The version of miniray, and the version of Ray whose answers it reproduces."""

__version__ = "0.1.0"
__ray_version__ = "2.60.0"
