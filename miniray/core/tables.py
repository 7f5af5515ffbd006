"""The core's tables and the worklists of the event in progress. Every component of the core reads and writes them."""

from __future__ import annotations

from collections import deque

from .actions import Action
from .records import ActorRecord, Drain, NodeRecord, ObjectRecord, PlacementGroupRecord, TaskRecord, WorkerRecord
from .task_events import EventLog, Totals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Tables:
    """All records by number, in the order of their creation, and the components of the core.

    The components need each other in a circle: a task that ends frees a worker, and a worker that dies ends a task.
    Each component holds these tables and finds the others here, so the modules need not import each other in a circle.
    """

    scheduler: Any
    task_manager: Any
    actor_manager: Any
    references: Any
    store: Any
    groups: Any
    worker_pool: Any
    ownership: Any
    wakeups: Any
    history: Any

    def __init__(self, record_limit: int):
        self.number = 0  # the last number given to a task, actor, object or group
        self.tasks: dict[int, TaskRecord] = {}
        self.objects: dict[int, ObjectRecord] = {}
        self.actors: dict[int, ActorRecord] = {}
        self.nodes: dict[int, NodeRecord] = {}
        self.workers: dict[int, WorkerRecord] = {}
        self.placement_groups: dict[int, PlacementGroupRecord] = {}
        self.record_limit = record_limit
        # How many records were dropped because their table was full.
        self.dropped = {"tasks": 0, "actors": 0, "workers": 0, "events": 0}
        self.totals = Totals()
        self.events = EventLog(self.dropped)
        # Whether a waiter resumes as soon as it is woken. False for a runtime in which all tasks share one thread.
        self.resumes_at_wake = True
        self.actions: list[Action] = []  # the actions that this event has asked for so far
        self.ready: deque[ObjectRecord] = deque()  # objects that got their value in this event; see wakeups
        self.drained: deque[Drain] = deque()  # drains whose last task may have ended in this event; see ownership
