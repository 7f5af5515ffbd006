"""The names of `ray.cloudpickle`: pickling that also supports lambdas, local classes and what `__main__` defines."""

from __future__ import annotations

import os
import pickle
from pickle import PicklingError, load
from typing import Any, Callable

from .values.inspect_serializability import inspect_serializability
from .values.pickler import ByValuePickler, register_pickle_by_value, unregister_pickle_by_value
from .values.serialization import dumps, loads

__all__ = [
    "CloudPickler",
    "Pickler",
    "PicklingError",
    "dump",
    "dump_debug",
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


def dump_debug(obj: Any, *args: Any, **kwargs: Any) -> None:
    """`dump` with the errors of `dumps_debug`."""
    _explained("dump", obj, lambda: dump(obj, *args, **kwargs))


def dumps_debug(obj: Any, *args: Any, **kwargs: Any) -> bytes:
    """`dumps`, whose error for something that cannot be pickled says how to find the part that is at fault.

    Raises TypeError or PicklingError, as `dumps` does. With RAY_PICKLE_VERBOSE_DEBUG=1 in the environment, it also
    prints the report of `inspect_serializability`.
    """
    data: bytes = _explained("dumps", obj, lambda: dumps(obj, *args, **kwargs))
    return data


def _explained(verb: str, obj: Any, pickle_it: Callable[[], Any]) -> Any:
    try:
        return pickle_it()
    except (TypeError, PicklingError) as problem:
        if os.environ.get("RAY_PICKLE_VERBOSE_DEBUG"):
            inspect_serializability(obj)
            raise
        text = f"ray.cloudpickle.{verb}({obj!s}) failed: {problem} Set RAY_PICKLE_VERBOSE_DEBUG=1 to see which part."
        raise type(problem)(text) from None
