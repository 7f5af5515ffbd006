"""Spaces and captures: loaded once in each, the same for all threads, holding references, and gone without a trace."""

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
    """A worker's."""
    return Space()


def test_a_function_is_captured_once_and_loaded_once_in_each_space():
    """Later changes of what it closes over do not reach it; each space has a copy with a state of its own."""
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
    """At the capture, not at the definition."""
    lock = threading.Lock()

    def guarded():
        with lock:
            return [1]

    with pytest.raises(TypeError) as caught:
        capture(guarded)
    assert "Could not serialize the function" in str(caught.value)
    assert "closure variable 'lock' of guarded is <unlocked _thread.lock" in str(caught.value)


class Reference:
    """Stands for an ObjectRef."""

    def __init__(self, record):
        self.record = record

    def __reduce__(self):
        contain(self.record)
        return Reference, (self.record,)


def test_references_in_a_closure_and_in_a_class_are_contained():
    """In the capture that holds them, and in every value of the class, though its definition is made once only."""

    class Holding:
        reference = Reference("in the class")

    reference = Reference("in the closure")
    assert capture(lambda: reference).contained == ("in the closure",)
    assert [serialize(Holding()).contained for _ in range(2)] == [("in the class",)] * 2
    with inside(Space()):
        copy = deserialize(serialize(Holding()))
        assert serialize(copy).contained == ("in the class",)


def test_threads_that_load_the_same_thing_at_once_get_the_same_thing(space):
    """Both build it, since user code cannot run under a lock; then the first one's copy is everybody's."""
    meeting = threading.Barrier(2)
    builds = []

    class Meeting:
        """Holds up the loading of a definition that it is in, until the other thread has come as far."""

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


def test_no_two_classes_have_one_id():
    """Also when threads name them at once; without the GIL a plain count gives some numbers twice."""

    def name_some() -> None:
        start.wait()
        for cls in [type("Local", (), {}) for _ in range(300)]:
            named.append((spaces.track(cls).tracker_id, cls))

    named, start = [], threading.Barrier(4)
    threads = [threading.Thread(target=name_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tracker_id for tracker_id, _ in named}) == len(named) == 1200


@frees_memory
def test_nothing_is_left_of_a_class_that_is_gone():
    """Neither the original nor a copy nor a definition stays in any table."""
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


def test_a_space_that_is_gone_takes_its_copies_along():
    """The capture that outlives it does not hold them."""
    captured = capture(lambda: 1)
    space = Space()
    copy = weakref.ref(captured.load(space))
    del space
    gc.collect()
    assert copy() is None
