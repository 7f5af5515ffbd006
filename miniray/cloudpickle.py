"""The names of `ray.cloudpickle`: pickling that also supports lambdas, local classes and what `__main__` defines."""

from __future__ import annotations

import pickle
from pickle import PicklingError, load
from typing import Any, Callable

from .values.inspect_serializability import explain
from .values.pickler import ByValuePickler, register_pickle_by_value, unregister_pickle_by_value
from .values.serialization import dumps, loads

__all__ = [
    "CloudPickler",
    "Pickler",
    "PicklingError",
    "dump",
    "dumps",
    "dumps_debug",
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


def dumps_debug(obj: Any, protocol: int | None = None, buffer_callback: Callable[[Any], Any] | None = None) -> bytes:
    """The same as `dumps`, but the TypeError for an object that cannot be pickled gives the path to the culprit."""
    try:
        return dumps(obj, protocol, buffer_callback)
    except (TypeError, PicklingError) as error:
        raise TypeError(
            explain(obj, f"ray.cloudpickle.dumps({obj!r})", error).removeprefix("Could not serialize ")
        ) from error
