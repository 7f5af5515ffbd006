"""The names of `ray.cloudpickle`: pickling that also supports lambdas, local classes and what `__main__` defines."""

from __future__ import annotations

import pickle
from pickle import PicklingError, load
from typing import Any, Callable

from .values.pickler import ByValuePickler, register_pickle_by_value, unregister_pickle_by_value
from .values.serialization import dumps, loads

__all__ = [
    "CloudPickler",
    "Pickler",
    "PicklingError",
    "dump",
    "dumps",
    "load",
    "loads",
    "register_pickle_by_value",
    "unregister_pickle_by_value",
]


class CloudPickler(ByValuePickler):
    """A pickle.Pickler that also sends functions and classes by value."""

    def __init__(self, file: Any, protocol: int | None = None, buffer_callback: Callable[[Any], Any] | None = None):
        protocol = pickle.HIGHEST_PROTOCOL if protocol is None else protocol
        super().__init__(file, protocol, buffer_callback=buffer_callback)


Pickler = CloudPickler


def dump(obj: Any, file: Any, protocol: int | None = None, buffer_callback: Callable[[Any], Any] | None = None) -> None:
    """Write what `dumps` returns to a file that is open for writing bytes."""
    file.write(dumps(obj, protocol, buffer_callback))
