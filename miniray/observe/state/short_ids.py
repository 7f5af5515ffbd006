"""Short forms of ids, for people: `3` instead of `0000000000000003ffffffffffffffffffffffff01000000`.

An id contains the number of its record, and its length tells the kind of record. So the number is enough beside a
table's name, and the command line accepts it there. `task 3` and `actor 3` are different records.

    task 3                   3            the creation task of actor 5      init-5
    its second object        3.2          the object of that actor's handle init-5.1
    the object of a `put`    put-4        the driver, and its task          driver
    actor, worker, node      5
"""

from __future__ import annotations

from ...ids import task_hex, worker_hex
from .lookup import CREATION

DRIVER = (task_hex(0), worker_hex(0))
PUT = 1 << 31  # is set in the index of an object that `put` made
LENGTHS = (32, 36, 48, 56)  # digits: actors, placement groups, tasks, and everything else
NODE_DIGITS = 8  # the id of a node is its number in eight digits, again and again


def short(id: str) -> str:
    """The short form of an id; a text that is no id stays as it is."""
    if len(id) not in LENGTHS or not id.isascii() or id.strip("0123456789abcdef"):
        return id
    if id in DRIVER:
        return "driver"
    if len(id) in (32, 36):
        return f"{int(id[:-8], 16):x}"
    if len(id) == 56 and id == id[:NODE_DIGITS] * 7:
        return f"{int(id[:NODE_DIGITS], 16):x}"
    if len(id) == 56 and id.startswith("0" * 40):
        return f"{int(id, 16):x}"  # a worker
    if id.startswith(CREATION):
        task = f"init-{int(id[16:40], 16):x}"
    else:
        task = f"{int(id[:16], 16):x}"
    if len(id) == 48:
        return task
    index = int.from_bytes(bytes.fromhex(id[48:]), "little")
    return f"put-{task}" if index & PUT else f"{task}.{index:x}"


def matches(id: str, text: str) -> bool:
    """Whether a text that somebody typed means this id: its short form, or its first digits. Zeros in front may be
    left out."""
    text = text.lower()
    return bool(text) and (short(id) == text or id.startswith(text) or id.lstrip("0").startswith(text))
