"""The key-value store of the session, which Ray's own libraries use. Ray: ray.experimental.internal_kv.

Keys and values are bytes; strings are encoded. Each namespace has keys of its own. The entries last until the session
ends. All functions but `_internal_kv_initialized` raise RuntimeError if no session is running.
"""

from __future__ import annotations

from typing import Any, Union
from weakref import WeakKeyDictionary

from ..process import context
from ..runtime.core_lock import core_lock  # no finaliser that calls these functions runs under it

Text = Union[str, bytes]
_stores: WeakKeyDictionary[Any, dict[tuple[bytes, bytes], bytes]] = WeakKeyDictionary()


def _look() -> None:
    """Called before each look at the store and each change of it: in a simulation, another thread may come first."""
    runtime = context.running()
    if runtime.before_look is not None:
        runtime.before_look("keys")


def _store() -> dict[tuple[bytes, bytes], bytes]:
    """The store of the running session. The caller holds the lock."""
    return _stores.setdefault(context.running(), {})


def _bytes(text: Text) -> bytes:
    found = text.encode() if isinstance(text, str) else text
    assert isinstance(found, bytes), f"keys and values must be bytes or strings, not {text!r}"
    return found


def _key(key: Text, namespace: Text | None) -> tuple[bytes, bytes]:
    return _bytes(namespace or b""), _bytes(key)


def _internal_kv_initialized() -> bool:
    return context.session is not None


def _internal_kv_get(key: Text, *, namespace: Text | None = None) -> bytes | None:
    """The value of a key, or None."""
    _look()
    with core_lock:
        return _store().get(_key(key, namespace))


def _internal_kv_exists(key: Text, *, namespace: Text | None = None) -> bool:
    _look()
    with core_lock:
        return _key(key, namespace) in _store()


def _internal_kv_put(key: Text, value: Text, overwrite: bool = True, *, namespace: Text | None = None) -> bool:
    """Store a value, unless the key exists and `overwrite` is False. Return whether the key existed before."""
    full_key, stored = _key(key, namespace), _bytes(value)
    _look()
    with core_lock:
        store = _store()
        existed = full_key in store
        if overwrite or not existed:
            store[full_key] = stored
    return existed


def _internal_kv_del(key: Text, *, del_by_prefix: bool = False, namespace: Text | None = None) -> int:
    """Delete a key, or with `del_by_prefix` all keys that begin with it. Return how many were deleted."""
    space, name = _key(key, namespace)
    _look()
    with core_lock:
        store = _store()
        deleted = [k for k in store if k[0] == space and (k[1].startswith(name) if del_by_prefix else k[1] == name)]
        for found in deleted:
            del store[found]
    return len(deleted)


def _internal_kv_list(prefix: Text, *, namespace: Text | None = None) -> list[bytes]:
    """The keys that begin with a prefix, in the order in which they were stored."""
    space, start = _key(prefix, namespace)
    _look()
    with core_lock:
        return [name for found, name in _store() if found == space and name.startswith(start)]
