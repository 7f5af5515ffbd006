"""The state machines: each state with its meaning, and the legal moves as tables.

How to read a table. Each state lists the states that may follow it, and for each of those the events that make the move:
names of methods of `cluster.Cluster`. Consequences of an event are not listed. When a task returns a CPU, for example, the
next task in the queue moves from PENDING_NODE_ASSIGNMENT to SUBMITTED_TO_WORKER; the table names the event that is about the
task itself.

A move that is not in its table is a bug in miniray, never the user's mistake: `move` raises IllegalMove and changes nothing.
No status is ever written in another way. The names of the states are Ray's (src/ray/protobuf/common.proto, gcs.proto).

What is not in these tables, and why:

- *Running* is not a state of a task. A worker enters the user's function without taking the core's lock, since a lock per
  start would cost every task as much as its submission does. It notes the time in `TaskRecord.t_started`; state rows show
  RUNNING for a task that is SUBMITTED_TO_WORKER and has started.
- A wish is not a state either. `TaskRecord.cancel_requested` says that somebody called `cancel`; `was_interrupted` says that
  the task's code has received the interrupt. The task is in the same state until an attempt ends.
- The end of a stream (`StreamRecord.ended`) and a waiter's wake-up (`Waiter.fired`) happen once and are never undone. A flag
  says as much as a table of two states.
- Whether a node lives (`NodeRecord.alive`) is such a flag, too.
"""

from __future__ import annotations

from enum import Enum
from typing import Any


class IllegalMove(AssertionError):
    """The core tried a move that its table does not allow. This is a bug in miniray: please report it with the text."""

    def __init__(self, record: Any, to: "_Status"):
        super().__init__(
            f"{record!r} cannot go from {record.status.name} to {to.name}. Its history:\n"
            + "\n".join(f"  {line}" for line in record.story())
        )


class _Status(Enum):
    """A state whose value is a sentence. `moves` is filled from the table below."""

    moves: "tuple[_Status, ...]"

    def __str__(self) -> str:
        return self.name


class TaskStatus(_Status):
    """The state of a task's current attempt."""

    PENDING_ARGS_AVAIL = "an argument has no value yet"
    PENDING_NODE_ASSIGNMENT = "its arguments are ready; no node, or no living actor, has been found for it yet"
    SUBMITTED_TO_WORKER = "a worker was told to run it, or it is in its actor's queue"
    FINISHED = "its return values are stored"
    FAILED = "no attempts are left; its return objects hold the error"


class ObjectStatus(_Status):
    """The state of an object's value."""

    PENDING = "no value has been stored yet"
    READY = "its value is in memory"
    SPILLED = "its value is in a file"
    LOST = "every copy of its value is gone; it is rebuilt if somebody needs it"
    FAILED = "it holds an error in place of a value"
    RELEASED = "nobody holds it: its value was dropped, and its record stays only as lineage"
    ENDED = "its session was shut down"


class ActorStatus(_Status):
    """The state of an actor."""

    DEPENDENCIES_UNREADY = "an argument of its constructor has no value yet"
    PENDING_CREATION = "it waits for a node, or its constructor runs"
    ALIVE = "its constructor has returned; it takes calls"
    RESTARTING = "it died and is being restarted"
    DEAD = "it takes no more calls"


class PlacementGroupStatus(_Status):
    """The state of a placement group."""

    PENDING = "its bundles are not reserved yet"
    CREATED = "every bundle is reserved on a node"
    RESCHEDULING = "a node with some of its bundles died; these bundles must be reserved again"
    REMOVED = "its resources were returned"


class WorkerStatus(_Status):
    """The state of a worker, which is a thread here and a process in Ray."""

    STARTING = "it was ordered and has not answered yet"
    IDLE = "it waits for work"
    LEASED = "it has a task, or an actor lives in it"
    BLOCKED = "its task waits in get or wait and has lent its CPU"
    DEAD = "the core ignores what it reports"


Moves = dict[_Status, dict[_Status, tuple[str, ...]]]

TASK_MOVES: Moves = {
    TaskStatus.PENDING_ARGS_AVAIL: {
        TaskStatus.PENDING_NODE_ASSIGNMENT: ("submit_task", "submit_actor_task", "create_actor", "task_finished"),
        TaskStatus.FAILED: ("cancel", "task_failed", "kill_actor"),
    },
    TaskStatus.PENDING_NODE_ASSIGNMENT: {
        TaskStatus.SUBMITTED_TO_WORKER: ("submit_task", "submit_actor_task", "create_actor", "task_finished"),
        TaskStatus.FAILED: ("cancel", "kill_actor"),
    },
    TaskStatus.SUBMITTED_TO_WORKER: {
        TaskStatus.FINISHED: ("task_finished",),
        TaskStatus.FAILED: ("task_failed", "worker_died", "kill_actor", "cancel"),
        TaskStatus.PENDING_ARGS_AVAIL: ("task_failed", "worker_died", "arguments_lost"),
    },
    TaskStatus.FINISHED: {TaskStatus.PENDING_ARGS_AVAIL: ("wait_for", "submit_task", "lose_object")},
    TaskStatus.FAILED: {},
}
OBJECT_MOVES: Moves = {
    ObjectStatus.PENDING: {
        ObjectStatus.READY: ("task_finished", "stream_item"),
        ObjectStatus.FAILED: ("task_failed", "worker_died", "cancel"),
        ObjectStatus.ENDED: ("session_ended",),
    },
    ObjectStatus.READY: {
        ObjectStatus.SPILLED: ("object_spilled",),
        ObjectStatus.LOST: ("remove_node", "lose_object"),
        ObjectStatus.FAILED: ("worker_died",),
        ObjectStatus.RELEASED: ("references_dropped",),
        ObjectStatus.ENDED: ("session_ended",),
    },
    ObjectStatus.SPILLED: {
        ObjectStatus.READY: ("object_restored",),
        ObjectStatus.LOST: ("remove_node", "lose_object"),
        ObjectStatus.FAILED: ("worker_died",),
        ObjectStatus.RELEASED: ("references_dropped",),
        ObjectStatus.ENDED: ("session_ended",),
    },
    ObjectStatus.LOST: {
        ObjectStatus.PENDING: ("wait_for", "submit_task", "lose_object"),
        ObjectStatus.READY: ("task_finished", "stream_item"),
        ObjectStatus.FAILED: ("wait_for", "submit_task", "lose_object"),
        ObjectStatus.RELEASED: ("references_dropped",),
        ObjectStatus.ENDED: ("session_ended",),
    },
    ObjectStatus.FAILED: {ObjectStatus.RELEASED: ("references_dropped",), ObjectStatus.ENDED: ("session_ended",)},
    ObjectStatus.RELEASED: {
        ObjectStatus.LOST: ("wait_for", "submit_task", "lose_object"),
        ObjectStatus.READY: ("placement_group_ready",),
    },
    ObjectStatus.ENDED: {},
}
ACTOR_MOVES: Moves = {
    ActorStatus.DEPENDENCIES_UNREADY: {
        ActorStatus.PENDING_CREATION: ("create_actor", "task_finished"),
        ActorStatus.DEAD: ("kill_actor", "task_failed"),
    },
    ActorStatus.PENDING_CREATION: {
        ActorStatus.ALIVE: ("task_finished",),
        ActorStatus.RESTARTING: ("worker_died",),
        ActorStatus.DEAD: ("task_failed", "kill_actor", "worker_died"),
    },
    ActorStatus.ALIVE: {
        ActorStatus.RESTARTING: ("worker_died", "remove_node", "kill_actor"),
        ActorStatus.DEAD: ("kill_actor", "actor_exited", "worker_died", "references_dropped"),
    },
    ActorStatus.RESTARTING: {
        ActorStatus.ALIVE: ("task_finished",),
        ActorStatus.RESTARTING: ("worker_died",),
        ActorStatus.DEAD: ("task_failed", "kill_actor"),
    },
    ActorStatus.DEAD: {
        ActorStatus.RESTARTING: ("wait_for", "lose_object")
    },  # nobody held it, and then a lost result of it was needed
}
PLACEMENT_GROUP_MOVES: Moves = {
    PlacementGroupStatus.PENDING: {
        PlacementGroupStatus.CREATED: ("create_placement_group", "add_node"),
        PlacementGroupStatus.REMOVED: ("remove_placement_group",),
    },
    PlacementGroupStatus.CREATED: {
        PlacementGroupStatus.RESCHEDULING: ("remove_node",),
        PlacementGroupStatus.REMOVED: ("remove_placement_group",),
    },
    PlacementGroupStatus.RESCHEDULING: {
        PlacementGroupStatus.CREATED: ("add_node",),
        PlacementGroupStatus.REMOVED: ("remove_placement_group",),
    },
    PlacementGroupStatus.REMOVED: {},
}
WORKER_MOVES: Moves = {
    WorkerStatus.STARTING: {
        WorkerStatus.LEASED: ("worker_started",),
        WorkerStatus.DEAD: ("worker_died", "session_ending"),
    },
    WorkerStatus.IDLE: {WorkerStatus.LEASED: ("submit_task",), WorkerStatus.DEAD: ("remove_node", "session_ending")},
    WorkerStatus.LEASED: {
        WorkerStatus.IDLE: ("task_finished", "task_failed"),
        WorkerStatus.BLOCKED: ("wait_for", "blocked"),
        WorkerStatus.DEAD: ("worker_died", "kill_actor", "session_ending"),
    },
    WorkerStatus.BLOCKED: {
        WorkerStatus.LEASED: ("stop_waiting", "unblocked"),
        WorkerStatus.DEAD: ("worker_died", "session_ending"),
    },
    WorkerStatus.DEAD: {},
}
# `to in status.moves` compares identities; an Enum as the key of a dict would call its Python-level __hash__ each time.
for _table in (TASK_MOVES, OBJECT_MOVES, ACTOR_MOVES, PLACEMENT_GROUP_MOVES, WORKER_MOVES):
    for _status, _moves in _table.items():
        _status.moves = tuple(_moves)


def move(record: Any, to: _Status) -> None:
    """Change a record's status. Raises IllegalMove, with the record, both states and its history, if the table has no such move."""
    if to not in record.status.moves:
        raise IllegalMove(record, to)
    record.status = to
