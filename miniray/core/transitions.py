"""The state machines: each state with its meaning, and the legal moves as tables.

How to read a table. Each state lists the states that may follow it and, for each of those, the events that make the
move. An event is the name of a method of `cluster.Cluster`. The table lists the events that a reader should know, not
every indirect cause: any event that frees a CPU can start the next task in the queue, and the table names
`task_finished` for all of them. One event may make several moves in a row. A retry, for example, takes a task from
SUBMITTED_TO_WORKER through two states back to SUBMITTED_TO_WORKER within one `task_failed`. tests/core/test_moves.py
plays a scenario for every move and event listed here.

A move that is not in its table is a bug in miniray, never the user's mistake: `move` raises IllegalMove and changes
nothing. No status is written in any other way, except that a few lines on the hot path have `move` written out: an `if`
checks the state before, and a test checks both states against the table. The names of the states are Ray's
(src/ray/protobuf/common.proto, gcs.proto).

What is not in these tables, and why:

- *Running* is not a state of a task. A worker enters the user's function without taking the core's lock, because taking
  the lock at each start would cost every task as much as its submission does. The worker notes the time in
  `TaskRecord.t_started`. State rows show RUNNING for a task that is SUBMITTED_TO_WORKER and has started.
- A request is not a state either. `TaskRecord.cancel_requested` records that somebody called `cancel`, and
  `was_interrupted` that the task's code has received the interrupt. The task stays in its state until the attempt ends.
- The end of a stream (`StreamRecord.ended`) and the wake-up of a waiter (`Waiter.fired`) happen once and are never
  undone, so a flag is enough. So is it for the life of a node (`NodeRecord.alive`).
- The end of a session moves only objects and workers. Nothing is decided after it, so tasks, actors and placement
  groups keep the state that they had.
"""

from __future__ import annotations

from enum import Enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class IllegalMove(AssertionError):
    """The core tried a move that its table does not allow: a bug in miniray. Please report it with this text."""

    def __init__(self, record: Any, to: "_Status"):
        super().__init__(
            f"{record!r} cannot go from {record.status.name} to {to.name}. Its history:\n"
            + "\n".join(f"  {line}" for line in record.story())
        )


class _Status(Enum):
    """A state; its value is a sentence. moves: the states that may follow, filled in from the tables below."""

    moves: "tuple[_Status, ...]"

    def __str__(self) -> str:
        return self.name


class TaskStatus(_Status):
    """The state of a task's current attempt."""

    PENDING_ARGS_AVAIL = "an argument has no value yet"
    PENDING_NODE_ASSIGNMENT = "its arguments are ready; no node, or no living actor, has been found for it yet"
    SUBMITTED_TO_WORKER = "a worker was told to run it, or it is in the queue of a living actor"
    FINISHED = "its return values are stored"
    FAILED = "no attempts are left; its return objects hold the error"


class ObjectStatus(_Status):
    """The state of an object's value."""

    PENDING = "no value has been stored yet"
    READY = "its value is in memory"
    SPILLED = "its value is in a file"
    LOST = "every copy of its value is gone; the value is rebuilt if somebody needs it"
    FAILED = "it holds an error in place of a value"
    RELEASED = "nobody holds it: its value was dropped, and its record is kept only as lineage"
    ENDED = "its session was shut down"


class ActorStatus(_Status):
    """The state of an actor."""

    DEPENDENCIES_UNREADY = "an argument of its constructor has no value yet"
    PENDING_CREATION = "it waits for a node, or its constructor is running"
    ALIVE = "its constructor has returned; it runs calls"
    RESTARTING = "it died and is being restarted"
    DEAD = "it accepts no more calls"


class PlacementGroupStatus(_Status):
    """The state of a placement group."""

    PENDING = "its bundles are not reserved yet"
    CREATED = "every bundle is reserved on a node"
    RESCHEDULING = "a node with some of its bundles died; those bundles must be reserved again"
    REMOVED = "it was removed; its resources were returned"


class WorkerStatus(_Status):
    """The state of a worker, which is a thread here and a process in Ray."""

    STARTING = "the runtime was told to start it and has not reported yet"
    IDLE = "it waits for work"
    LEASED = "it has a task, or an actor lives in it"
    BLOCKED = "its task waits in get or wait and has lent its CPU"
    DEAD = "it has ended, or must end; the core ignores its reports"


Moves = dict[_Status, dict[_Status, tuple[str, ...]]]

TASK_MOVES: Moves = {
    TaskStatus.PENDING_ARGS_AVAIL: {
        TaskStatus.PENDING_NODE_ASSIGNMENT: ("submit_task", "submit_actor_task", "create_actor", "task_finished"),
        TaskStatus.FAILED: ("submit_task", "submit_actor_task", "task_failed", "cancel", "kill_actor"),
    },
    TaskStatus.PENDING_NODE_ASSIGNMENT: {
        TaskStatus.SUBMITTED_TO_WORKER: (
            "submit_task",
            "submit_actor_task",
            "create_actor",
            "task_finished",
            "wait_for",
            "add_node",
        ),
        TaskStatus.FAILED: ("submit_task", "cancel", "kill_actor", "worker_died", "remove_node"),
    },
    TaskStatus.SUBMITTED_TO_WORKER: {
        TaskStatus.FINISHED: ("task_finished",),
        TaskStatus.FAILED: (
            "task_failed",
            "worker_died",
            "remove_node",
            "cancel",
            "timer",
            "kill_actor",
            "actor_exited",
            "remove_placement_group",
        ),
        TaskStatus.PENDING_ARGS_AVAIL: ("task_failed", "worker_died", "remove_node", "kill_actor", "arguments_lost"),
    },
    # A value that the task returned was lost, and somebody needs it.
    TaskStatus.FINISHED: {
        TaskStatus.PENDING_ARGS_AVAIL: ("wait_for", "submit_task", "submit_actor_task", "arguments_lost")
    },
    TaskStatus.FAILED: {},
}
OBJECT_MOVES: Moves = {
    ObjectStatus.PENDING: {
        # task_failed: the object that marks the end of a stream holds no error if the generator itself raised.
        ObjectStatus.READY: ("task_finished", "stream_item", "task_failed", "create_placement_group", "add_node"),
        ObjectStatus.FAILED: (
            "submit_task",
            "submit_actor_task",
            "task_failed",
            "worker_died",
            "remove_node",
            "cancel",
            "kill_actor",
            "remove_placement_group",
        ),
        ObjectStatus.ENDED: ("session_ended",),
    },
    ObjectStatus.READY: {
        ObjectStatus.SPILLED: ("object_spilled", "make_room"),
        ObjectStatus.LOST: ("remove_node", "lose_object"),
        # The worker that owned it crashed, or ended when the last task that it had submitted was over.
        ObjectStatus.FAILED: ("worker_died", "task_finished"),
        ObjectStatus.RELEASED: ("references_dropped", "task_finished"),
        ObjectStatus.ENDED: ("session_ended",),
    },
    ObjectStatus.SPILLED: {
        ObjectStatus.READY: ("object_restored",),
        ObjectStatus.LOST: ("remove_node", "lose_object", "restore_failed"),
        ObjectStatus.FAILED: ("worker_died",),
        ObjectStatus.RELEASED: ("references_dropped", "task_finished"),
        ObjectStatus.ENDED: ("session_ended",),
    },
    ObjectStatus.LOST: {
        # Its task runs again, or cannot: then the object holds an error that says why.
        ObjectStatus.PENDING: ("wait_for", "submit_task", "submit_actor_task", "arguments_lost"),
        ObjectStatus.FAILED: ("wait_for", "submit_task", "submit_actor_task", "arguments_lost", "worker_died"),
        # Lost while its task was running anyway: a generator, or for the sake of another value.
        ObjectStatus.READY: ("task_finished", "stream_item"),
        ObjectStatus.RELEASED: ("references_dropped",),
        ObjectStatus.ENDED: ("session_ended",),
    },
    ObjectStatus.FAILED: {ObjectStatus.RELEASED: ("references_dropped",), ObjectStatus.ENDED: ("session_ended",)},
    ObjectStatus.RELEASED: {
        ObjectStatus.LOST: ("wait_for", "submit_task"),  # a value made from it was lost, and must be rebuilt
        ObjectStatus.READY: ("placement_group_ready",),
    },
    ObjectStatus.ENDED: {},
}
ACTOR_MOVES: Moves = {
    ActorStatus.DEPENDENCIES_UNREADY: {
        ActorStatus.PENDING_CREATION: ("create_actor", "task_finished"),
        ActorStatus.DEAD: ("create_actor", "task_failed", "kill_actor", "references_dropped"),
    },
    ActorStatus.PENDING_CREATION: {
        ActorStatus.ALIVE: ("task_finished",),
        ActorStatus.RESTARTING: ("worker_died", "remove_node", "kill_actor"),
        ActorStatus.DEAD: (
            "create_actor",
            "task_failed",
            "worker_died",
            "remove_node",
            "kill_actor",
            "references_dropped",
        ),
    },
    ActorStatus.ALIVE: {
        # actor_exited: its code raised SystemExit with an error.
        ActorStatus.RESTARTING: ("worker_died", "remove_node", "kill_actor", "actor_exited"),
        ActorStatus.DEAD: (
            "kill_actor",
            "actor_exited",
            "worker_died",
            "remove_node",
            "references_dropped",
            "task_finished",  # its last call returned, and nobody holds a handle
            "remove_placement_group",
        ),
    },
    ActorStatus.RESTARTING: {
        ActorStatus.ALIVE: ("task_finished",),
        ActorStatus.RESTARTING: ("worker_died", "remove_node", "kill_actor"),
        ActorStatus.DEAD: ("task_failed", "worker_died", "remove_node", "kill_actor", "references_dropped"),
    },
    # It ended because nobody held it, and later somebody needed a value that it had returned and that was lost.
    ActorStatus.DEAD: {ActorStatus.RESTARTING: ("wait_for", "submit_task")},
}
PLACEMENT_GROUP_MOVES: Moves = {
    PlacementGroupStatus.PENDING: {
        PlacementGroupStatus.CREATED: ("create_placement_group", "add_node", "task_finished"),
        PlacementGroupStatus.REMOVED: ("remove_placement_group",),
    },
    PlacementGroupStatus.CREATED: {
        PlacementGroupStatus.RESCHEDULING: ("remove_node",),
        PlacementGroupStatus.REMOVED: ("remove_placement_group",),
    },
    PlacementGroupStatus.RESCHEDULING: {
        PlacementGroupStatus.CREATED: ("remove_node", "add_node", "task_finished"),
        PlacementGroupStatus.REMOVED: ("remove_placement_group",),
    },
    PlacementGroupStatus.REMOVED: {},
}
WORKER_MOVES: Moves = {
    WorkerStatus.STARTING: {
        WorkerStatus.LEASED: ("worker_started",),
        WorkerStatus.DEAD: ("worker_died", "remove_node", "cancel", "kill_actor", "session_ending"),
    },
    WorkerStatus.IDLE: {
        WorkerStatus.LEASED: ("submit_task", "task_finished"),
        # task_finished: too many workers are idle, or this one has run a function max_calls times.
        WorkerStatus.DEAD: ("task_finished", "worker_died", "remove_node", "session_ending"),
    },
    WorkerStatus.LEASED: {
        WorkerStatus.IDLE: ("task_finished", "task_failed", "arguments_lost"),
        WorkerStatus.BLOCKED: ("wait_for", "blocked", "producer_waits"),
        WorkerStatus.DEAD: (
            "worker_died",
            "remove_node",
            "cancel",
            "timer",
            "kill_actor",
            "actor_exited",
            "references_dropped",
            "task_finished",  # its actor had ended, and this was the last task that it had submitted
            "remove_placement_group",
            "session_ending",
        ),
    },
    WorkerStatus.BLOCKED: {
        WorkerStatus.LEASED: ("stop_waiting", "unblocked"),
        WorkerStatus.DEAD: ("worker_died", "remove_node", "cancel", "session_ending"),
    },
    WorkerStatus.DEAD: {},
}
# `to in status.moves` compares identities. A lookup in a dict would call the Python-level __hash__ of Enum at every
# move.
for _table in (TASK_MOVES, OBJECT_MOVES, ACTOR_MOVES, PLACEMENT_GROUP_MOVES, WORKER_MOVES):
    for _status, _moves in _table.items():
        _status.moves = tuple(_moves)


def move(record: Any, to: _Status) -> None:
    """Change a record's status. The caller holds the core's lock.

    Raises IllegalMove, with the record, both states and the record's history, if the table does not allow the move;
    then nothing has changed.
    """
    if to not in record.status.moves:
        raise IllegalMove(record, to)
    record.status = to


def restore(record: Any, name: str) -> None:
    """Give a record that is rebuilt from a recording the status with this name. See `restoring`; nothing else may."""
    record.status = type(record.status)[name]
