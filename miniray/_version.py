"""The version of miniray, and the version of Ray whose answers it reproduces."""

__version__ = "0.1.0"
__ray_version__ = "2.60.0"
__ray_commit__ = "b7f4259e944bf6959f721b106adc366ddfa0c356"
