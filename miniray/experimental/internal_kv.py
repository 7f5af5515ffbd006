"""The key-value store that Ray's own libraries keep notes in; it lasts as long as the session. Ray: experimental.internal_kv.

Keys and values are bytes; texts are encoded. A namespace has its own keys. RuntimeError when no session runs.
"""

from __future__ import annotations

import threading
from typing import Any, Union
from weakref import WeakKeyDictionary

from ..process import context

Text = Union[str, bytes]
_lock = threading.Lock()
_stores: WeakKeyDictionary[Any, dict[tuple[bytes, bytes], bytes]] = WeakKeyDictionary()


def _store() -> dict[tuple[bytes, bytes], bytes]:
    """The running session's; the lock is held."""
    return _stores.setdefault(context.running(), {})


def _bytes(text: Text) -> bytes:
    found = text.encode() if isinstance(text, str) else text
    assert isinstance(found, bytes), f"keys and values are bytes or texts, and {text!r} is not"
    return found


def _key(key: Text, namespace: Text | None) -> tuple[bytes, bytes]:
    return _bytes(namespace or b""), _bytes(key)


def _internal_kv_initialized() -> bool:
    return context.session is not None


def _internal_kv_get(key: Text, *, namespace: Text | None = None) -> bytes | None:
    """The value, or None."""
    with _lock:
        return _store().get(_key(key, namespace))


def _internal_kv_exists(key: Text, *, namespace: Text | None = None) -> bool:
    with _lock:
        return _key(key, namespace) in _store()


def _internal_kv_put(key: Text, value: Text, overwrite: bool = True, *, namespace: Text | None = None) -> bool:
    """Whether the key was there before."""
    wanted, stored = _key(key, namespace), _bytes(value)
    with _lock:
        store = _store()
        there = wanted in store
        if overwrite or not there:
            store[wanted] = stored
    return there


def _internal_kv_del(key: Text, *, del_by_prefix: bool = False, namespace: Text | None = None) -> int:
    """How many keys went."""
    space, name = _key(key, namespace)
    with _lock:
        store = _store()
        gone = [k for k in store if k[0] == space and (k[1].startswith(name) if del_by_prefix else k[1] == name)]
        for found in gone:
            del store[found]
    return len(gone)


def _internal_kv_list(prefix: Text, *, namespace: Text | None = None) -> list[bytes]:
    """The keys that begin so."""
    space, start = _key(prefix, namespace)
    with _lock:
        return [name for found, name in _store() if found == space and name.startswith(start)]
