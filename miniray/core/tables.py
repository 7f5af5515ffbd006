"""The core's tables, and the worklists of the event in progress: what every component of the core reads and writes."""

from __future__ import annotations

from collections import deque
from typing import Any

from .actions import Action
from .records import ActorRecord, NodeRecord, ObjectRecord, PlacementGroupRecord, TaskRecord, WorkerRecord
from .task_events import EventLog


class Tables:
    """All records by number, in the order in which they were made.

    The components need each other in a circle: a task that ends frees a worker, and a worker that dies ends a task. Each of
    them holds the tables and finds the others here, so that no module imports one that imports it.
    """

    scheduler: Any
    task_manager: Any
    actor_manager: Any
    references: Any
    store: Any
    groups: Any
    worker_pool: Any
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
        self.dropped = {
            "tasks": 0,
            "actors": 0,
            "workers": 0,
            "events": 0,
        }  # records dropped because their table was full
        self.events = EventLog(self.dropped)
        self.resumes_at_wake = True  # a waiter can go on as soon as it is woken: false where all share one thread
        self.actions: list[Action] = []  # what this event asks of the runtime so far
        self.ready: deque[ObjectRecord] = deque()  # objects that got their value in this event; see wakeups
