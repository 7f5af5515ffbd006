"""Every legal move of the five state machines, made by every event that its table lists for it.

`miniray/core/transitions.py` lists which events make which move. The folder `moves` holds one tiny scenario for each
move and event, and the test below plays it.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from miniray.core.records import ActorRecord, ObjectRecord, PlacementGroupRecord, TaskRecord, WorkerRecord
from miniray.core.transitions import ACTOR_MOVES, OBJECT_MOVES, PLACEMENT_GROUP_MOVES, TASK_MOVES, WORKER_MOVES, Moves
from tests.core.builders import EVENTS, NOW
from tests.core.moves import actors, groups, objects, tasks, workers
from tests.core.moves.scenarios import ON_THE_WAY, SCENARIOS, Triple

LATER = NOW + 60  # when the event of each scenario happens: every grace period is over
TABLES = {
    tasks: TASK_MOVES,
    objects: OBJECT_MOVES,
    actors: ACTOR_MOVES,
    groups: PLACEMENT_GROUP_MOVES,
    workers: WORKER_MOVES,
}


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, Any, Any]]]:
    """Every move that the core makes while the test runs: the record, its state before, and its state after."""
    moves: list[tuple[Any, Any, Any]] = []

    def noting(slot: Any) -> property:
        """The same field, which notes each change of a record that already has a status."""

        def write(record: Any, to: Any) -> None:
            if hasattr(record, "status"):  # otherwise its constructor writes the first status
                moves.append((record, slot.__get__(record), to))
            slot.__set__(record, to)

        return property(slot.__get__, write)

    for record_class in (TaskRecord, ObjectRecord, ActorRecord, PlacementGroupRecord, WorkerRecord):
        monkeypatch.setattr(record_class, "status", noting(vars(record_class)["status"]))
    yield moves


def name_of(triple: Triple) -> str:
    """For the reader of a test report."""
    state, to, event = triple
    return f"{type(state).__name__.removesuffix('Status')}: {state.name} to {to.name} by {event}"


@pytest.mark.parametrize("triple", SCENARIOS, ids=name_of)
def test_the_event_makes_the_move(triple: Triple, noted: list[tuple[Any, Any, Any]]) -> None:
    """The record is in the first state before the event and in the second after it, with no state in between. If the
    scenario is marked `on_the_way`, this move is one of several that the event makes in a row."""
    state, to, event = triple
    c, record, *args = SCENARIOS[triple]()
    before = None if callable(record) else record.status
    noted.clear()
    getattr(c, event)(LATER, *args)
    if callable(record):
        record = record()
    path = [(start, end) for moved, start, end in noted if moved is record]
    if triple in ON_THE_WAY:
        assert (state, to) in path and len(path) > 1
    else:
        assert path == [(state, to)]
    assert before in (None, path[0][0]) and record.status is path[-1][1]


@pytest.mark.parametrize("module, table", TABLES.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_every_listed_event_has_a_scenario_and_no_scenario_is_unlisted(module: ModuleType, table: Moves) -> None:
    """So the tables, and the pictures drawn from them, claim nothing that the core does not do."""
    listed = {(state, to, event) for state, moves in table.items() for to, events in moves.items() for event in events}
    assert {triple for triple, scenario in SCENARIOS.items() if scenario.__module__ == module.__name__} == listed


def test_every_listed_event_is_a_method_of_the_cluster() -> None:
    """A name that is no event would be drawn in the book."""
    assert {event for _, _, event in SCENARIOS} <= set(EVENTS)
