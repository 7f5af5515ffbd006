"""The state machines: every state with its meaning, and the moves that are legal, as tables.

A move that is not in a table is a bug of miniray's, never the user's: `move` raises IllegalMove. What a state means stands
in the member's value; the names are Ray's (src/ray/protobuf/common.proto and gcs.proto).
"""
from __future__ import annotations

from enum import Enum


class IllegalMove(AssertionError):
    """The core tried a move that its table does not hold. A mistake in miniray: please report it."""


class _Status(Enum):
    """A state whose value is a sentence. `moves` is filled from the table below each enum."""

    moves: tuple

    def __str__(self) -> str:
        return self.name


class TaskStatus(_Status):
    """Where the current attempt of a task stands."""

    PENDING_ARGS_AVAIL = "an argument has no value yet"
    PENDING_NODE_ASSIGNMENT = "its arguments are there; no node, or no living actor, was found for it yet"
    SUBMITTED_TO_WORKER = "a worker was told to run it, or it stands in its actor's queue"
    RUNNING = "the user's function has been entered"
    FINISHED = "its return values are stored"
    FAILED = "no attempt is left; its returns hold the error"


class ActorStatus(_Status):
    """Where an actor stands."""

    DEPENDENCIES_UNREADY = "an argument of its constructor has no value yet"
    PENDING_CREATION = "it waits for a node, or its constructor runs"
    ALIVE = "its constructor has returned; it takes calls"
    RESTARTING = "it died, and is being made anew"
    DEAD = "it will never take a call again"


class PlacementGroupStatus(_Status):
    """Where a placement group stands."""

    PENDING = "its bundles are not reserved yet"
    CREATED = "every bundle is reserved on a node"
    RESCHEDULING = "a node with bundles of it died; they are to be reserved anew"
    REMOVED = "its resources were given back"


class WorkerStatus(_Status):
    """Where a worker stands. A worker is a thread here, a process in Ray."""

    STARTING = "it was ordered and has not answered yet"
    IDLE = "it waits for work"
    LEASED = "it has a task, or an actor lives in it"
    BLOCKED = "its task waits in get or wait and has lent its CPU"
    DEAD = "what it reports no longer counts"


TASK_MOVES = {
    TaskStatus.PENDING_ARGS_AVAIL: (TaskStatus.PENDING_NODE_ASSIGNMENT, TaskStatus.FAILED),
    TaskStatus.PENDING_NODE_ASSIGNMENT: (TaskStatus.SUBMITTED_TO_WORKER, TaskStatus.FAILED),
    TaskStatus.SUBMITTED_TO_WORKER: (
        TaskStatus.RUNNING, TaskStatus.FAILED,
        TaskStatus.PENDING_NODE_ASSIGNMENT, TaskStatus.PENDING_ARGS_AVAIL),     # its worker or its actor died: once more
    TaskStatus.RUNNING: (
        TaskStatus.FINISHED, TaskStatus.FAILED,
        TaskStatus.PENDING_NODE_ASSIGNMENT, TaskStatus.PENDING_ARGS_AVAIL),     # the next attempt
    TaskStatus.FINISHED: (TaskStatus.PENDING_ARGS_AVAIL, TaskStatus.PENDING_NODE_ASSIGNMENT),   # a lost result is rebuilt
    TaskStatus.FAILED: (),
}
ACTOR_MOVES = {
    ActorStatus.DEPENDENCIES_UNREADY: (ActorStatus.PENDING_CREATION, ActorStatus.DEAD),
    ActorStatus.PENDING_CREATION: (ActorStatus.ALIVE, ActorStatus.RESTARTING, ActorStatus.DEAD),
    ActorStatus.ALIVE: (ActorStatus.RESTARTING, ActorStatus.DEAD),
    ActorStatus.RESTARTING: (ActorStatus.ALIVE, ActorStatus.RESTARTING, ActorStatus.DEAD),
    ActorStatus.DEAD: (ActorStatus.RESTARTING,),         # nobody held it, and then a lost result of it was wanted
}
PLACEMENT_GROUP_MOVES = {
    PlacementGroupStatus.PENDING: (PlacementGroupStatus.CREATED, PlacementGroupStatus.REMOVED),
    PlacementGroupStatus.CREATED: (PlacementGroupStatus.RESCHEDULING, PlacementGroupStatus.REMOVED),
    PlacementGroupStatus.RESCHEDULING: (PlacementGroupStatus.CREATED, PlacementGroupStatus.REMOVED),
    PlacementGroupStatus.REMOVED: (),
}
WORKER_MOVES = {
    WorkerStatus.STARTING: (WorkerStatus.LEASED, WorkerStatus.IDLE, WorkerStatus.DEAD),
    WorkerStatus.IDLE: (WorkerStatus.LEASED, WorkerStatus.DEAD),
    WorkerStatus.LEASED: (WorkerStatus.IDLE, WorkerStatus.BLOCKED, WorkerStatus.DEAD),
    WorkerStatus.BLOCKED: (WorkerStatus.LEASED, WorkerStatus.DEAD),
    WorkerStatus.DEAD: (),
}
# `to in status.moves` compares identities; an Enum as the key of a dict would call its Python-level __hash__ each time.
for _table in (TASK_MOVES, ACTOR_MOVES, PLACEMENT_GROUP_MOVES, WORKER_MOVES):
    for _status, _moves in _table.items():
        _status.moves = _moves


def move(record, to: _Status) -> None:
    """Change a record's status. Raises IllegalMove, with the record and both states, when the table has no such move."""
    if to not in record.status.moves:
        raise IllegalMove(f"{record!r} cannot go from {record.status.name} to {to.name}")
    record.status = to
