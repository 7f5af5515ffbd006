"""A node's store when it is full: it evicts copies, spills primaries, and reads back the values that are used."""

from __future__ import annotations

import pytest

from miniray.core.actions import DropValues, SpillObject
from miniray.core.object_store import INLINE_BYTES
from miniray.core.records import LOST, READY, SPILLED, ObjectRecord, Waiter
from tests.core.builders import (
    LARGE,
    NOW,
    SMALL,
    a_call,
    a_value,
    drop,
    finish,
    living_actor,
    node,
    one_node,
    put,
    raise_in,
    running_task,
    several_nodes,
    started,
    submitted,
)


def store(c, number: int = 1):
    """The store of a node."""
    return c.nodes[number].store


def spill(c, obj: ObjectRecord) -> None:
    """The runtime has written the value's file."""
    obj.value = "file"
    c.object_spilled(NOW, obj)


def make(c, **options) -> tuple[ObjectRecord, list]:
    """A task makes a large value. Returns the value, and the actions that follow."""
    task, _ = running_task(c, **options)
    actions = finish(c, task, LARGE)
    return task.returns[0], actions


def test_a_small_value_is_in_no_store():
    """It stays with its owner, as in Ray up to 100 KiB."""
    c = one_node(store_bytes=10)
    at_the_limit, above = a_value(c, INLINE_BYTES), a_value(c, INLINE_BYTES + 1)
    assert at_the_limit.locations is None and list(store(c).objects.values()) == [above]
    assert put(c, INLINE_BYTES).locations is None and put(c, INLINE_BYTES + 1).locations


def test_the_store_counts_the_objects_in_it():
    """The bytes in use go up and down with the objects; the peak stays."""
    c = one_node()
    first, second = put(c, LARGE), put(c, LARGE)
    drop(c, first)
    stats = store(c).stats()
    assert (stats["num_objects"], stats["used_bytes"], stats["peak_bytes"], stats["created"]) == (
        1,
        LARGE,
        2 * LARGE,
        2,
    )
    drop(c, second)
    assert store(c).used == 0 and store(c).peak == 2 * LARGE


def test_the_least_recently_used_value_is_spilled_first():
    """A value that a task uses becomes the most recently used one."""
    c = one_node(store_bytes=2 * LARGE)
    old, new = put(c, LARGE), put(c, LARGE)
    raise_in(c, running_task(c, deps=(old,))[0])
    _, actions = make(c)
    assert actions == [SpillObject(new)]


def test_copies_are_evicted_before_any_primary_is_spilled():
    """Another node still has the value, so nothing has to be written."""
    c = several_nodes(2, 2, store_bytes=2 * LARGE)
    here, there = (("NODE_AFFINITY", node(c, number).hex, False) for number in (1, 2))
    primary = put(c, LARGE, on=1)
    foreign = a_value(c, LARGE, strategy=there)
    raise_in(c, running_task(c, deps=(foreign,), strategy=here)[0])
    assert list(store(c).objects.values()) == [primary, foreign]
    _, actions = make(c, strategy=here)
    assert actions == [] and list(foreign.locations) == [2] and store(c).counters["evicted"] == 1


def test_no_more_is_spilled_than_necessary():
    """A value that is being written to its file no longer counts."""
    c = one_node(store_bytes=2 * LARGE)
    first, second = put(c, LARGE), put(c, LARGE)
    assert make(c)[1] == [SpillObject(first)]
    assert make(c)[1] == [SpillObject(second)]


def test_one_byte_too_much_is_too_much():
    """A store that is exactly full spills nothing."""
    assert put(c := one_node(store_bytes=2 * LARGE), LARGE) and make(c)[1] == []
    c = one_node(store_bytes=2 * LARGE - 1)
    first = put(c, LARGE)
    assert make(c)[1] == [SpillObject(first)]


def test_a_spilled_value_counts_as_available():
    """A task that takes it can start, and reads it back itself."""
    c = one_node(store_bytes=LARGE)
    value = put(c, LARGE)
    make(c)
    spill(c, value)
    assert value.status is SPILLED and store(c).used == LARGE and store(c).spilled == LARGE
    assert (store(c).counters["spilled"], store(c).counters["spilled_bytes"]) == (1, LARGE)
    waiter = Waiter(1, "driver")
    c.wait_for(NOW, waiter, (value,))
    assert waiter.fired and submitted(c, deps=(value,)).worker is not None


def test_a_value_that_is_read_back_pushes_others_out():
    """It is in the store's memory again, so another value is spilled."""
    c = one_node(store_bytes=LARGE)
    value = put(c, LARGE)
    other, _ = make(c)
    spill(c, value)
    value.value = "a value that was put"
    assert c.object_restored(NOW, value) == [SpillObject(other)]
    assert value.status is READY and store(c).spilled == 0 and store(c).counters["restored_bytes"] == LARGE


def back_in_memory(c) -> tuple[ObjectRecord, ObjectRecord]:
    """A value that was spilled and read back into a store for two, and one that was used after it."""
    value, second = put(c, LARGE), put(c, LARGE)
    third, _ = make(c)
    spill(c, value)
    drop(c, second)
    c.references.take_freed()
    assert c.object_restored(NOW, value) == []
    value.value = "a value that was put"
    raise_in(c, running_task(c, deps=(third,))[0])
    return value, third


def test_a_value_is_written_once():
    """Its file stays when it is read back, as in Ray. So the next eviction costs nothing, and the value can be read
    again. It used to be written each time."""
    c = one_node(store_bytes=2 * LARGE)
    value, _ = back_in_memory(c)
    assert make(c)[1] == [] and value.status is SPILLED and value.value == "file"
    assert c.references.take_freed() == ["a value that was put"]
    assert (store(c).counters["spilled"], store(c).counters["evicted"], store(c).used) == (1, 1, 2 * LARGE)
    c.object_restored(NOW, value)
    assert value.status is READY and store(c).counters["restored"] == 2


def test_the_file_of_a_value_in_memory_is_removed_with_the_value():
    """When nobody needs it, when every copy is lost, and when the node dies."""
    c = one_node(store_bytes=2 * LARGE)
    value, _ = back_in_memory(c)
    drop(c, value)
    assert c.references.take_freed() == ["file", "a value that was put"] and store(c).files == {}
    c = one_node(store_bytes=2 * LARGE)
    value, _ = back_in_memory(c)
    assert c.lose_object(NOW, value) == [DropValues(["a value that was put"])] and c.references.take_freed() == ["file"]
    c = several_nodes(2, 2, store_bytes=2 * LARGE)
    value = put(c, LARGE, on=2)
    c.nodes[2].store.files[value.number] = "file"
    (dropped,) = (action for action in c.remove_node(NOW, node(c, 2)) if type(action) is DropValues)
    assert dropped.values == ["a value that was put", "file"]


def test_a_value_larger_than_the_store_is_kept_in_a_file():
    """Ray's fallback allocation: the value itself is spilled at once, and no other value makes room for it."""
    c = one_node(store_bytes=LARGE)
    small_enough = put(c, LARGE)
    giant = ObjectRecord(0, status=READY)
    giant.value = "giant"
    assert c.put(NOW, giant, 3 * LARGE, node(c)) == [SpillObject(giant)]
    assert store(c).counters["fallback"] == 1
    spill(c, giant)
    assert c.object_restored(NOW, giant) == [] and giant.status is SPILLED and small_enough.status is READY


def test_a_spill_that_fails_leaves_the_value_in_memory():
    """The failure is counted and logged, and the spill is ordered again when room is next needed."""
    c = one_node(store_bytes=LARGE)
    value = put(c, LARGE)
    make(c)
    c.spill_failed(NOW, value, "no space left")
    assert value.status is READY and store(c).counters["spill_failures"] == 1
    assert any(event.kind == "spill_failed" and "no space left" in event.text for event in c.events)
    assert SpillObject(value) in make(c)[1]


def test_a_spilled_value_is_freed_with_its_last_reference():
    """The core hands the file to the runtime, which removes it."""
    c = one_node(store_bytes=LARGE)
    value = put(c, LARGE)
    make(c)
    spill(c, value)
    drop(c, value)
    assert store(c).spilled == 0 and "file" in c.references.take_freed()


def test_a_file_of_a_value_that_was_freed_meanwhile_is_ignored():
    """The program dropped the value while it was being written."""
    c = one_node(store_bytes=LARGE)
    value = put(c, LARGE)
    make(c)
    drop(c, value)
    assert c.store.spilling_node(value) is None
    c.object_spilled(NOW, value)
    assert store(c).spilled == 0 and store(c).counters["spilled"] == 0


def test_a_file_that_a_dead_node_was_writing_is_ignored():
    """A copy on another node is in memory and stays there. It used to count as in memory although its value was a
    file."""
    c = several_nodes(2, 2, store_bytes=LARGE)
    value = put(c, LARGE, on=1)
    running_task(c, deps=(value,), strategy=("NODE_AFFINITY", node(c, 2).hex, False))
    task, _ = running_task(c, strategy=("NODE_AFFINITY", node(c, 1).hex, False))
    assert finish(c, task, LARGE) == [SpillObject(value)]
    c.remove_node(NOW, node(c, 1))
    assert value.status is READY and list(value.locations) == [2] and c.store.spilling_node(value) is None


def test_an_injected_fault_loses_every_copy_of_a_value():
    """A small value is in no store, so it cannot be lost."""
    c = one_node()
    small, large = put(c, SMALL), put(c, LARGE)
    assert c.lose_object(NOW, small) == [] and c.lose_object(NOW, large) == [DropValues(["a value that was put"])]
    assert small.status is READY and large.status is LOST and store(c).used == 0


def test_a_task_copies_its_arguments_to_its_node():
    """The copy is counted as transferred once; a second task on the node finds it."""
    c = several_nodes(2, 2)
    there = ("NODE_AFFINITY", node(c, 2).hex, False)
    value = put(c, LARGE, on=1)
    for _ in range(2):
        task = submitted(c, deps=(value,), strategy=there)
        started(c, task)
        finish(c, task)
    assert list(value.locations) == [1, 2] and store(c, 2).counters["transferred_bytes"] == LARGE


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_copies_its_arguments_to_the_node_of_its_actor(is_async):
    """A method, and a coroutine."""
    c = several_nodes(2, 2)
    actor = living_actor(c, is_async=is_async, strategy=("NODE_AFFINITY", node(c, 2).hex, False))
    value = put(c, LARGE, on=1)
    a_call(c, actor, deps=(value,))
    assert list(value.locations) == [1, 2] and store(c, 2).counters["transferred"] == 1
