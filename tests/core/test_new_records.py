"""How records begin: each holds what it is given, under the name of the slot, and nothing has happened to it yet."""

from __future__ import annotations

import inspect

import pytest

from miniray.core import records
from miniray.core.records import (
    NORMAL_TASK,
    PENDING,
    READY,
    UNIT,
    ActorRecord,
    Attempt,
    Bundle,
    ConcurrencyGroup,
    Drain,
    Failure,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
    SchedulingClass,
    StreamRecord,
    TaskRecord,
    TaskSpec,
    Waiter,
    WorkerRecord,
)
from miniray.core.transitions import ActorStatus, PlacementGroupStatus, TaskStatus, WorkerStatus

SPEC = TaskSpec(NORMAL_TASK, "f", "f", max_retries=3)
FIRST = {TaskStatus.PENDING_ARGS_AVAIL, ActorStatus.DEPENDENCIES_UNREADY, PlacementGroupStatus.PENDING, PENDING, READY}
FIRST |= {WorkerStatus.STARTING}
# Class -> what is given to it, where a text does not do, and the slots that it computes from what is given.
CLASSES: dict[type, tuple[dict, dict]] = {
    Failure: ({}, {}),
    SchedulingClass: ({"hold": {"CPU": 1, "GPU": UNIT}}, {"plain": False, "devices": {"GPU": UNIT}}),
    TaskSpec: ({}, {"streams": False}),
    TaskRecord: ({"spec": SPEC}, {"retries_left": 3}),
    ObjectRecord: ({"number": 7, "status": READY}, {"size": -1}),
    StreamRecord: ({}, {"refs": 1}),
    WorkerRecord: ({}, {}),
    NodeRecord: (
        {"number": 2, "total": {"CPU": 4, "GPU": 2 * UNIT + 1}, "now": 5.0},
        {
            "name": "127.0.0.2",
            "alive": True,
            "available": {"CPU": 4, "GPU": 2 * UNIT + 1},
            "free_devices": {"GPU": {0: UNIT, 1: UNIT}},
            "t_started": 5.0,
        },
    ),
    ConcurrencyGroup: ({}, {}),
    ActorRecord: ({"groups": {"": 2}}, {}),
    Bundle: ({"total": {"CPU": 1}}, {"available": {"CPU": 1}}),
    Waiter: ({}, {}),
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_record_holds_what_it_is_given_and_nothing_else(kind):
    """Every slot is filled: by what was given, by what follows from it, or by what says that nothing has happened yet."""
    special, computed = CLASSES[kind]
    given = {name: special.get(name, f"its {name}") for name in inspect.signature(kind).parameters}
    record = kind(**given)
    expected = {**given, **computed}
    for slot in kind.__slots__:
        value = getattr(record, slot)
        if slot == "groups":
            assert [(group.name, group.limit) for group in value.values()] == list(given[slot].items())
        elif slot == "status" and slot not in given:
            assert value in FIRST
        else:
            assert value == expected[slot] if slot in expected else not value, slot


def test_the_records_of_this_page_are_all_there_are():
    """A new class belongs into the table above."""
    known = {*CLASSES, Attempt, Drain, PlacementGroupRecord}
    no_record = {records.Aside}
    slotted = {
        kind for kind in vars(records).values() if isinstance(kind, type) and kind.__module__ == records.__name__
    }
    assert {kind for kind in slotted if not kind.__name__.startswith("_")} - no_record == known


def test_what_a_record_is_given_when_nothing_is_said():
    """One return and no retry; one reference, which is the caller's; one call at a time."""
    spec = TaskSpec(NORMAL_TASK, "f", "f")
    assert (spec.num_returns, spec.max_retries, spec.backpressure, spec.max_calls) == (1, 0, -1, 0)
    assert spec.resources == spec.options == {}
    assert not (spec.retry_exceptions or spec.capture_child_tasks or spec.group or spec.runtime_env or spec.streams)
    assert (
        ActorRecord("A").number == TaskRecord(spec).number == 0
    )  # which no entity has: it is given when it is created
    assert ObjectRecord(1).refs == 1 and ObjectRecord(1).status is PENDING
    actor = ActorRecord("A")
    assert (list(actor.groups), actor.groups[""].limit, actor.max_restarts) == ([""], 1, 0)
    assert not (actor.detached or actor.is_async) and not Waiter(1, None).fail_fast


def test_an_attempt_is_what_the_task_was():
    """Its number, its worker and its times; the failure is that of the attempt."""
    task = TaskRecord(SPEC)
    values = {name: f"its {name}" for name in Attempt.__slots__ if name not in ("number", "failure")}
    for name, value in values.items():
        setattr(task, name, value)
    task.attempt = 2
    attempt = Attempt(task, "the failure")
    assert {name: getattr(attempt, name) for name in values} == values
    assert (attempt.number, attempt.failure) == (2, "the failure")


def test_a_placement_group_has_its_bundles_in_order():
    """Each with its place, its resources, of which all are free, and its labels, if there are any."""
    selectors = [(("zone", "in", ("a",)),), ()]
    group = PlacementGroupRecord([{"CPU": 1}, {"GPU": 2}], "PACK", "name", True, "its owner", selectors)
    assert (group.strategy, group.name, group.detached, group.owner) == ("PACK", "name", True, "its owner")
    assert [(one.index, one.total, one.available, one.selector, one.node) for one in group.bundles] == [
        (0, {"CPU": 1}, {"CPU": 1}, selectors[0], None),
        (1, {"GPU": 2}, {"GPU": 2}, (), None),
    ]
    assert [bundle.selector for bundle in PlacementGroupRecord([{}], "PACK").bundles] == [()]
    assert group.status is PlacementGroupStatus.PENDING
    assert not (group.number or group.ready or group.t_created or group.t_placed or group.attempts)


def test_when_an_actor_keeps_order():
    """It runs one call at a time, in one group, and is not async."""
    in_order = {
        name: ActorRecord("A", groups=groups, is_async=is_async).in_order
        for name, groups, is_async in (
            ("plain", None, False),
            ("two at a time", {"": 2}, False),
            ("two groups", {"": 1, "io": 1}, False),
            ("async", {"": 1}, True),
        )
    }
    assert in_order == {"plain": True, "two at a time": False, "two groups": False, "async": False}


def test_which_demands_any_node_with_room_will_do_for():
    """The default strategy, and no labels asked for."""
    label = (("zone", "exists", ()),)
    plain = [SchedulingClass({}, {}, *rest).plain for rest in ((), (("SPREAD",),), (("DEFAULT",), label))]
    assert plain == [True, False, False]


def test_ids_are_made_of_the_numbers_of_a_record():
    """The object of a task has the task's id and its own index; so has the handle of an actor, and what was put."""
    task = TaskRecord(SPEC, number=5)
    one, two = ObjectRecord(5 << 32 | 1, task), ObjectRecord(5 << 32 | 2, task)
    assert one.hex[:-8] == two.hex[:-8] == task.hex and one.hex[-8:] == "01000000" and two.hex[-8:] == "02000000"
    assert ObjectRecord(6 << 32 | 1).hex[:-8] == TaskRecord(SPEC, number=6).hex
    actor = ActorRecord("A", number=9)
    call = TaskRecord(SPEC, number=7, actor=actor)
    assert call.hex.endswith(actor.hex) and ObjectRecord(7 << 32 | 1, call).hex[:-8] == call.hex
    assert actor.hex in ObjectRecord(9 << 32 | 1, actor=actor).hex
    assert len({NodeRecord(number, {}, {}, False, None, 0.0).hex for number in (1, 2)}) == 2
