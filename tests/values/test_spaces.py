"""Spaces and captures: each space loads a capture once, keeps its references, and frees unused classes."""

import gc
import threading
import weakref

import pytest

from miniray.values import spaces
from miniray.values.serialization import Space, capture, contain, deserialize, serialize
from tests.interpreter import frees_memory
from tests.runtime.worker_stand_in import inside


@pytest.fixture
def space():
    """The space of a worker."""
    return Space()


def test_a_function_is_captured_once_and_loaded_once_in_each_space():
    """A later change of a variable in its closure does not reach it. The copy in each space has its own state."""
    start = [1]

    def add():
        start.append(len(start))
        return start

    captured = capture(add)
    start.append("later")
    one, other = Space(), Space()
    assert captured.load(one) is captured.load(one)
    assert captured.load(one)() == [1, 1] and captured.load(one)() == [1, 1, 2]
    assert captured.load(other)() == [1, 1]
    assert captured.size > 0


def test_a_capture_that_fails_names_the_variable():
    """The error is raised by the capture, not by the definition."""
    lock = threading.Lock()

    def guarded():
        with lock:
            return [1]

    with pytest.raises(TypeError) as caught:
        capture(guarded)
    assert "Could not serialize the function" in str(caught.value)
    assert "closure variable 'lock' of guarded is <unlocked _thread.lock" in str(caught.value)


class Reference:
    """A stand-in for an ObjectRef."""

    def __init__(self, record):
        self.record = record

    def __reduce__(self):
        contain(self.record)
        return Reference, (self.record,)


def test_references_in_a_closure_and_in_a_class_are_listed():
    """In the capture, and in every instance of the class, although the class is pickled only once."""

    class Holding:
        reference = Reference("in the class")

    reference = Reference("in the closure")
    assert capture(lambda: reference).contained == ("in the closure",)
    assert [serialize(Holding()).contained for _ in range(2)] == [("in the class",)] * 2
    with inside(Space()):
        copy = deserialize(serialize(Holding()))
        assert serialize(copy).contained == ("in the class",)


def test_two_threads_that_load_a_class_at_once_get_the_same_class(space):
    """Both build it, because user code cannot run under a lock. Then both use the copy that was finished first."""
    meeting = threading.Barrier(2)
    builds = []

    class Meeting:
        """Delays the load of a definition that holds it, until the other thread has reached the same point."""

        def __reduce__(self):
            return meet, ()

    def meet():
        builds.append(1)
        if len(builds) <= 2:
            meeting.wait()
        return "met"

    globals()["_meet_for_this_test"] = meet
    meet.__module__, meet.__qualname__ = __name__, "_meet_for_this_test"
    try:

        class Built:
            hold_up = Meeting()

        stored = serialize(Built())
        captured = capture(lambda: Built)
        values, functions = [], []

        def load():
            with inside(space):
                values.append(deserialize(stored))
                functions.append(captured.load(space))

        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        del globals()["_meet_for_this_test"]
    assert type(values[0]) is type(values[1])
    assert functions[0] is functions[1] and functions[0]() is type(values[0])
    assert len(builds) >= 2


def test_no_two_classes_have_the_same_id():
    """Even if several threads track them at once. Without the GIL, a plain count gives some numbers twice."""

    def track_some() -> None:
        start.wait()
        for cls in [type("Local", (), {}) for _ in range(300)]:
            tracked.append((spaces.track(cls).tracker_id, cls))

    tracked, start = [], threading.Barrier(4)
    threads = [threading.Thread(target=track_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tracker_id for tracker_id, _ in tracked}) == len(tracked) == 1200


@frees_memory
def test_a_class_that_was_freed_leaves_nothing_behind():
    """No table keeps the original, a copy, or a definition."""
    space = Space()

    def use():
        class Local:
            registry = [1]

            def own(self):
                return Local

        stored, captured = serialize(Local()), capture(lambda: Local)
        with inside(space):
            copy = deserialize(stored)
            assert captured.load(space)() is type(copy)
        return weakref.ref(Local), weakref.ref(type(copy))

    gc.collect()
    before = len(spaces._tracked)
    original, copy = use()
    gc.collect()
    assert original() is None and copy() is None
    assert len(spaces._tracked) == before
    assert len(space._classes) == 0 and len(space.loaded) == 0


def test_the_copies_in_a_space_are_freed_with_it():
    """The capture outlives the space, but does not hold them."""
    captured = capture(lambda: 1)
    space = Space()
    copy = weakref.ref(captured.load(space))
    del space
    gc.collect()
    assert copy() is None
