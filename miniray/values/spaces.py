"""Spaces: what would be a process in Ray has here a space, with its own copies of classes and functions sent by value.

In Ray a class that a worker cannot import is sent as its definition, and every process builds its own copy: a class
variable changed in an actor changes there and nowhere else. The copies know each other by a tracker id, so that a
value which goes home finds the class it started from. Here all of that happens in one process, and a `Space` keeps
the copies of one worker, one actor, or the driver apart from the others. The driver's space holds the classes the
program wrote.

A definition that arrives again brings its class up to date, as in Ray; only an original (a class that was defined in
this very space) is left as its own program made it, where Ray would overwrite it too.

Everything here is held weakly: a class that nobody uses any more leaves every table by itself.
"""

from __future__ import annotations

import os
import pickle
import threading
import weakref
from itertools import count
from typing import Any, Generic, TypeVar

from ..process import context

T = TypeVar("T")

_ids = count()
_counting = (
    threading.RLock()
)  # without the GIL two threads may get the same from a count; reentrant as Space's, see there
_ID_PREFIX = os.urandom(8).hex()  # dumps() may be read by another process, whose ids must not be taken for ours


class ByIdentity(Generic[T]):
    """Notes about objects, found by identity and dropped with the object.

    A WeakKeyDictionary would call the object's own __hash__ and __eq__, which a metaclass may define as it likes.
    """

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        self._notes: dict[int, tuple[weakref.ref, T]] = {}

    def get(self, obj: Any) -> T | None:
        """The note about this very object, or None."""
        entry = self._notes.get(id(obj))
        return None if entry is None else entry[1]

    def setdefault(self, obj: Any, note: T) -> T:
        """The note that stands, which is another thread's when that one came first."""
        key, notes = id(obj), self._notes
        # The callback runs before the memory, and with it the id, is given to another object.
        return notes.setdefault(key, (weakref.ref(obj, lambda _: notes.pop(key, None)), note))[1]

    def __len__(self) -> int:
        return len(self._notes)


class Tracked:
    """What is known of one class object: the id it shares with its copies in other spaces, and its last definition.

    original: it was defined in its space, not built there from a definition.
    definition: a `classes_by_value.Definition`, or None when the class has to be pickled anew.
    """

    __slots__ = ("ref", "tracker_id", "original", "definition", "__weakref__")

    def __init__(self, cls: Any, tracker_id: str, original: bool):
        self.ref = weakref.ref(cls)
        self.tracker_id, self.original = tracker_id, original
        self.definition: Any = None


_tracked: ByIdentity[Tracked] = ByIdentity()  # every class (or TypeVar) ever sent or built by value, while it lives


class Space:
    """The classes and functions by value of one worker, one actor or the driver.

    Whoever owns the space (a worker, an actor, a session) keeps the only strong reference to it.
    """

    __slots__ = ("_classes", "loaded", "_lock", "__weakref__")

    def __init__(self) -> None:
        # Guards the moment in which a finished load is made known. Reentrant, since a __del__ of the user's may run
        # in the middle of it, on this thread, and load something too.
        self._lock = threading.RLock()
        self._classes: weakref.WeakValueDictionary[str, Tracked] = weakref.WeakValueDictionary()
        self.loaded: ByIdentity[Any] = ByIdentity()

    def load(self, data: Any, buffers: tuple = (), once: Any = None) -> Any:
        """The value of a pickle stream that may hold classes and functions by value.

        once: a weakly referable key under which the result is kept for as long as the key lives. Who asks for it
        again, or asks on another thread at the same time, gets the identical object.
        """
        while True:
            if once is not None and (made := self.loaded.get(once)) is not None:
                return made
            loading = _Loading(self, getattr(_thread, "loading", None))
            _thread.loading = loading
            try:
                value = pickle.loads(data, buffers=buffers)
            finally:
                _thread.loading = loading.outer
            if self._make_known(loading.classes, once, value):
                return value

    def _make_known(self, classes: dict[str, Tracked], once: Any, value: Any) -> bool:
        """Let the other threads see what a load has built; False when another load built some of it first.

        A load runs user code (hooks, metaclasses, imports), so it cannot run under a lock; and a half-built class
        must not be seen. So each load builds in private, and the one that loses the race is done again: it then
        finds what the winner built.
        """
        if not classes and once is None:
            return True
        with self._lock:
            if once is not None and self.loaded.get(once) is not None:
                return False
            for tracker_id in classes:
                if (known := self._classes.get(tracker_id)) is not None and known.ref() is not None:
                    return False
            self._classes.update(classes)
            if once is not None:
                self.loaded.setdefault(once, value)
        return True


class _Loading:
    """One load in progress on this thread; classes: what it has built and nobody else can see yet."""

    __slots__ = ("space", "outer", "classes")

    def __init__(self, space: Space, outer: "_Loading" | None):
        self.space, self.outer = space, outer
        self.classes: dict[str, Tracked] = {}


_thread = threading.local()
_driver = Space()


def current_space() -> Space:
    """The space of the running task or actor method; the driver's when there is none."""
    execution = context.current.get()
    return _driver if execution is None else execution.space


def track(cls: Any) -> Tracked:
    """What is known of a class that the current space sends. One never seen becomes an original of that space."""
    tracked = _tracked.get(cls)
    if tracked is None:
        with _counting:
            number = next(_ids)
        tracked = _tracked.setdefault(cls, Tracked(cls, f"{_ID_PREFIX}:{number}", original=True))
    classes = current_space()._classes
    if tracked.tracker_id not in classes:
        # Also a class of another space, which came here as an attribute of some module: it is what is used here.
        classes[tracked.tracker_id] = tracked
    return tracked


def known(cls: Any) -> Tracked | None:
    """What is known of a class, without telling the current space of it."""
    return _tracked.get(cls)


def find(tracker_id: str) -> Tracked | None:
    """What the space that is being loaded into has under that id, finished or under construction on this thread."""
    loading: _Loading | None = getattr(_thread, "loading", None)
    space = current_space() if loading is None else loading.space
    while loading is not None:
        if loading.space is space and tracker_id in loading.classes:
            return loading.classes[tracker_id]
        loading = loading.outer
    return space._classes.get(tracker_id)


def adopt(cls: Any, tracker_id: str) -> None:
    """cls was just built, from the definition with that id, in the space that is being loaded into."""
    tracked = _tracked.setdefault(cls, Tracked(cls, tracker_id, original=False))
    loading: _Loading | None = getattr(_thread, "loading", None)
    # Without a loading, somebody has called pickle.loads himself on a stream of ours: known at once, done only once.
    (current_space()._classes if loading is None else loading.classes)[tracker_id] = tracked
