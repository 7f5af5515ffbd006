"""Spaces: each process that Ray would have is a space here, with its own copies of functions and classes sent by value.

In Ray, a class that a worker cannot import is sent as its definition, and every process builds its own copy. If an
actor changes a class variable, it changes in that actor's process and nowhere else. The copies of one class share a
tracker id, so that an instance that is sent back finds the class that it came from. In miniray all this happens in one
process: a `Space` keeps the copies of one worker, one actor, or the driver apart from the others. The driver's space
holds the classes that the program itself defined.

When a definition arrives again, it updates the class, as in Ray. Only an original, which is a class defined in this
very space, is never updated; Ray would overwrite it too.

All tables here hold classes weakly, so a class that is no longer used disappears from them.
"""

from __future__ import annotations

import _pickle as pickle
import os
import threading
import weakref
from itertools import count

from ..generics import Generic, TypeVar
from ..process.worker_process import caller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

T = TypeVar("T")

_ids = count()
# Without the GIL, two threads may get the same number from a count. Reentrant for the reason given at Space's lock.
_ids_lock = threading.RLock()
# Another process may read a stream of `dumps`, and must not mistake these ids for its own.
_ID_PREFIX = os.urandom(8).hex()


class _Entry(weakref.ref[T]):
    """The entry of an object in a table of notes."""

    __slots__ = ("key", "note")

    key: int
    note: Any


class ByIdentity(Generic[T]):
    """A table of notes about objects. A note is found by the object's identity, and is dropped with the object.

    A WeakKeyDictionary would call the object's own __hash__ and __eq__, and a metaclass may define these in any way.
    """

    __slots__ = ("_notes", "_forget")

    def __init__(self) -> None:
        notes: dict[int, _Entry[Any]] = {}
        self._notes = notes
        # The callback runs before the object's memory, and with it the id, can be given to another object.
        self._forget: Callable[[_Entry[Any]], Any] = lambda entry: notes.pop(entry.key, None)

    def get(self, obj: Any) -> T | None:
        """Return the note about this very object, or None."""
        entry = self._notes.get(id(obj))
        return None if entry is None else entry.note

    def setdefault(self, obj: Any, note: T) -> T:
        """Store a note if there is none, and return the stored note, which may be that of another thread."""
        entry = _Entry(obj, self._forget)
        entry.key, entry.note = id(obj), note
        stored: T = self._notes.setdefault(entry.key, entry).note
        return stored

    def __len__(self) -> int:
        return len(self._notes)


class Tracked:
    """What is known about one class object.

    ref: a weak reference to the class. tracker_id: shared with its copies in other spaces.
    original: the class was defined in its space, not built there from a definition.
    definition: the last `classes_by_value.Definition` of the class, or None if it must be pickled again.
    """

    __slots__ = ("ref", "tracker_id", "original", "definition", "__weakref__")

    def __init__(self, cls: Any, tracker_id: str, original: bool):
        self.ref = weakref.ref(cls)
        self.tracker_id, self.original = tracker_id, original
        self.definition: Any = None


_tracked: ByIdentity[Tracked] = ByIdentity()  # every class and TypeVar that was sent or built by value and still exists


class Space:
    """The copies of functions and classes by value that belong to one worker, one actor or the driver.

    The owner of the space (a worker, an actor, a session) holds the only strong reference to it. pinned: references
    that live as long as the space, by the number of their object (see `object_ref.pin`); not used in the driver's
    space.
    """

    __slots__ = ("_classes", "loaded", "pinned", "_lock", "__weakref__")

    def __init__(self) -> None:
        # Guards both tables while the results of a load are published. Reentrant, because a user's __del__ may run on
        # this thread in the middle of that, and may load something itself.
        self._lock = threading.RLock()
        self._classes: weakref.WeakValueDictionary[str, Tracked] = weakref.WeakValueDictionary()
        self.loaded: ByIdentity[Any] = ByIdentity()
        self.pinned: dict[int, Any] = {}

    def load(self, data: Any, buffers: tuple[Any, ...] = (), once: Any = None) -> Any:
        """Return the value of a pickle stream that may hold classes and functions by value.

        once: a weakly referable key. The result is kept for as long as the key exists, and each later or simultaneous
        call with this key, on any thread, returns the identical object.
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
            if self._publish(loading.classes, once, value):
                return value

    def _publish(self, classes: dict[str, Tracked], once: Any, value: Any) -> bool:
        """Make what a load has built visible to other threads. Returns False if another load built a part of it first.

        A load runs user code (hooks, metaclasses, imports), so it cannot run under a lock. And no other thread may see
        a half-built class. So each load builds in private. A load that loses the race is repeated, and then finds the
        classes that the winner built.
        """
        if not classes and once is None:
            return True
        with self._lock:
            if once is not None and self.loaded.get(once) is not None:
                return False
            for tracker_id in classes:
                if (tracked := self._classes.get(tracker_id)) is not None and tracked.ref() is not None:
                    return False
            self._classes.update(classes)
            if once is not None:
                self.loaded.setdefault(once, value)
        return True


class _Loading:
    """A load in progress on this thread. classes: those that it has built and that no other thread can see yet."""

    __slots__ = ("space", "outer", "classes")

    def __init__(self, space: Space, outer: "_Loading" | None):
        self.space, self.outer = space, outer
        self.classes: dict[str, Tracked] = {}


_thread = threading.local()
_driver = Space()


def current_space() -> Space:
    """Return the space of the running task or actor method, or the driver's space outside of these."""
    execution = caller()
    return _driver if execution is None else execution.space


def track(cls: Any) -> Tracked:
    """Return the entry of a class that the current space sends. A new class becomes an original of that space."""
    tracked = _tracked.get(cls)
    if tracked is None:
        with _ids_lock:
            number = next(_ids)
        tracked = _tracked.setdefault(cls, Tracked(cls, f"{_ID_PREFIX}:{number}", original=True))
    classes = current_space()._classes
    if tracked.tracker_id not in classes:
        # This may be a class of another space that is an attribute of a shared module. This space uses it as its own.
        classes[tracked.tracker_id] = tracked
    return tracked


def tracked_or_none(cls: Any) -> Tracked | None:
    """Return the entry of a class, or None. Unlike `track`, this adds nothing to the current space."""
    return _tracked.get(cls)


def loads_into_driver() -> bool:
    """Whether the value that this thread is loading, or would load, is for the driver."""
    loading: _Loading | None = getattr(_thread, "loading", None)
    return (current_space() if loading is None else loading.space) is _driver


def find_copy(tracker_id: str) -> Tracked | None:
    """Return the class with this id in the space that is being loaded into, finished or still built by this thread."""
    loading: _Loading | None = getattr(_thread, "loading", None)
    space = current_space() if loading is None else loading.space
    while loading is not None:
        if loading.space is space and tracker_id in loading.classes:
            return loading.classes[tracker_id]
        loading = loading.outer
    return space._classes.get(tracker_id)


def adopt(cls: Any, tracker_id: str) -> None:
    """Enter a class that was just built, from the definition with this id, into the space that is being loaded into."""
    tracked = _tracked.setdefault(cls, Tracked(cls, tracker_id, original=False))
    loading: _Loading | None = getattr(_thread, "loading", None)
    # Without a load in progress, the user has called pickle.loads on a stream of ours: the class is visible at once.
    (current_space()._classes if loading is None else loading.classes)[tracker_id] = tracked
