"""A fork waits until no other thread is inside an import of ours, or inside code that a fork would harm.

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
    from typing import Any, Callable

ROUNDS = 3

gates: list[tuple[Callable[[], None], Callable[[], None]]] = []
"""A module adds two functions. The first stops other threads at a point where a fork does no harm, the second lets them
go on. Hooks of `os.register_at_fork` would not do: a fork that has begun does not call hooks that are registered
meanwhile, for instance by the import that it waits for."""

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


def before_fork() -> None:
    """Return when no other thread is importing a module of ours, with the gates closed.

    An import may begin while the gates close. Nothing waits for it behind closed gates, because its thread may be the
    one that waits there.
    """
    for _ in range(ROUNDS):
        for name in unfinished():
            with suppress(Exception):  # the other thread has raised it, too
                importlib.import_module(name)  # waits for the thread that is importing it
        closed = gates.copy()
        for close, _open in closed:
            close()
        if closed == gates and not unfinished():
            return
        for _close, reopen in closed:
            reopen()
    for close, _open in gates.copy():
        close()


def after_fork_in_child() -> None:
    """An import that began in the last moment before the fork never ends here: the child begins it again."""
    me = threading.get_ident()
    for name, reference in _locks.copy().items():
        if name.partition(".")[0] in _OURS and getattr(reference(), "owner", None) != me:
            _locks.pop(name, None)
            if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
                del sys.modules[name]
