"""A fork waits for imports that nobody has written.

miniray imports most of its modules when they are first used. A child that is forked while another thread is in such an
import inherits the lock of the module, taken, and would wait forever at its own first use.
"""

from __future__ import annotations

import importlib
import sys
import threading
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OURS = frozenset({__name__.partition(".")[0], *sys.stdlib_module_names})
_locks: dict[str, Any] = getattr(sys.modules["_frozen_importlib"], "_module_locks", {})
"""Of the modules that are being imported: by name, weak references to their locks. A module that is still being looked
for is nowhere else."""


def being_imported() -> list[str]:
    """The names of all modules that some thread is importing, or looking for."""
    return list(_locks.copy())


def unfinished() -> list[str]:
    """The modules of miniray and of the standard library that another thread is importing. Those of the program are
    left out: an import of one may run for as long as the program does."""
    me = threading.get_ident()
    return [
        name
        for name, lock in _locks.copy().items()
        if name.partition(".")[0] in _OURS and getattr(lock(), "owner", None) not in (None, me)
    ]


def wait_for_others() -> None:
    """Return when no other thread is importing a module of ours."""
    for name in unfinished():
        with suppress(Exception):  # the other thread has raised it, too
            importlib.import_module(name)  # waits for the thread that is importing it
