"""What the questions about a run read: the rows of a session, its waits and its stacks, all read once."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from ..process import context
from .explain.bottleneck import Bottleneck, bottlenecks
from .explain.evidence import Evidence
from .explain.explanation import explain, find_deadlock
from .explain.sentence import Explanation
from .logs.reading import get_log
from .stacks.reading import CallStack
from .stacks.report import Running, busy_workers, driver_stack
from .state import book, ray_tables as state
from .state.query import ListApiOptions, RayStateApiException
from .state.ray_rows import StateResource
from .timeline.recording import Recording, Row as AttemptRow, read
from .timeline.utilisation import Utilisation, utilisation

Row = dict[str, Any]

NO_LIMIT = 1 << 62
LAST_LINE_CHARACTERS = 120  # the most that a sentence quotes of a log's last line


class Tables:
    """The rows of a session, read once, with its waits and its stacks.

    driver: the stack of the driver's main thread, if it waits for objects or was interrupted. awaited: the ids of the
    tasks whose results the driver waits for. endless: what the waits say that can never return, one for each circle.
    blocking, stalled: the ids of the tasks, and of the actors, that an earlier question has found: they block an
    actor's queue, or have one that does not move.
    """

    def __init__(self, runtime: Any, interrupted: list[str] | None = None):
        self.runtime = runtime
        self.busy: list[Running] = busy_workers(runtime)
        waits = list(runtime.driver_waiters.copy().values())
        past = context.recorded.get() is not None  # then the threads of this process are not those of the program
        self.driver = interrupted or (driver_stack() if waits and not past else [])
        self.awaited = {obj.task.hex for objects in waits for obj in objects if getattr(obj, "task", None) is not None}
        waits += [getattr(running.worker.handle, "waiting", ()) for running in self.busy if running.blocked]
        self.endless = _circles(runtime, waits)
        self.blocking: set[str] = set()
        self.stalled: set[str] = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # dropped records are a finding of their own
            self.tasks = book.book_rows(runtime, StateResource.TASKS)
            self.actors = book.book_rows(runtime, StateResource.ACTORS)
            self.groups = book.book_rows(runtime, StateResource.PLACEMENT_GROUPS)
            self.objects = book.book_rows(runtime, StateResource.OBJECTS)
            self.nodes = book.book_rows(runtime, StateResource.NODES)
            self.deaths = {
                row.actor_id: row.death_cause
                for row in state.list_rows(
                    runtime, StateResource.ACTORS, ListApiOptions(limit=NO_LIMIT, detail=True), False
                )
            }
        with runtime.locked() as cluster:
            self.dropped = {table: count for table, count in cluster.dropped.items() if count}
        self.by_name: dict[str, list[Row]] = defaultdict(list)
        for row in self.tasks:
            self.by_name[row["name"]].append(row)

    def if_awaited(self, rows: Iterable[Row]) -> dict[str, list[str]]:
        """The driver's stack under its title, if the driver waits for one of these tasks or was interrupted."""
        awaited = not self.awaited or any(row["task_id"] in self.awaited for row in rows)
        return {"the driver": self.driver} if self.driver and awaited else {}

    def stack_of(self, task_id: str) -> CallStack | None:
        """The stack of a task that runs; None if it runs no longer, and in a recording."""
        stacks = [stack for running in self.busy for stack in running.stacks]
        return next((stack for stack in stacks if stack.task is not None and stack.task.hex == task_id), None)

    # ------------------------------------------------------------ what the timeline's page and `explain` read too

    @cached_property
    def recording(self) -> Recording:
        """The attempts with their times."""
        return read(self.runtime, explained=False)

    @cached_property
    def evidence(self) -> Evidence:
        """The measurements of the recording."""
        return Evidence(self.recording)

    @cached_property
    def used(self) -> Utilisation:
        """How many CPUs were in use over time."""
        return utilisation(self.recording)

    @cached_property
    def causes(self) -> list[Bottleneck]:
        """What determined the time of the run, the largest cause first."""
        return bottlenecks(self.recording, used=self.used, evidence=self.evidence)

    def took(self, kind: str, name: str, what: str) -> str:
        """The end of a sentence: which part of the time something took, if it is one of the causes."""
        shares = [cause.share for cause in self.causes if (cause.kind, cause.name) == (kind, name)]
        return f"; {what} took {shares[0]:.0%} of the time" if shares else ""

    def of_attempts(self, attempts: Iterable[AttemptRow]) -> list[Row]:
        """The rows of the tasks that these attempts belong to, each once and in their order."""
        known = {row["task_id"]: row for row in self.tasks}
        return [known[id] for id in dict.fromkeys(one.hex for one in attempts) if id in known]

    def why(self, row: Row) -> str:
        """The explanation of a task's, actor's or group's row."""
        id = row.get("task_id") or row.get("actor_id") or row["placement_group_id"]
        try:
            return str(explain(self.runtime, id))
        except ValueError:
            return "its record has since been dropped"


def _circles(runtime: Any, waits: list[Any]) -> list[Explanation]:
    """Why some of these waits can never return, if they wait for each other. A circle is told once, however many of
    its members wait."""
    told: list[tuple[set[str], Explanation]] = []
    for objects in waits:
        why = find_deadlock(runtime, objects) if objects else None
        if why is None or why.reason != "deadlock":
            continue
        members = {link["id"] for link in why.chain}
        if not any(members & others for others, _ in told):
            told.append((members, why))
    return [why for _, why in told]


def last_line(text: str | None) -> str:
    """The last line of a text, without the white space around it."""
    lines = (text or "").strip().splitlines()
    return lines[-1].strip() if lines else ""


def last_words(actor_id: str | None = None, task_id: str | None = None) -> str:
    """The last lines that a task or an actor printed, as the end of a sentence; "" if its log is missing or empty."""
    words = ""
    for suffix, introduction in (("out", "it last printed"), ("err", "the last line on its stderr")):
        try:
            lines = "".join(get_log(actor_id=actor_id, task_id=task_id, suffix=suffix, errors="replace")).splitlines()
        except RayStateApiException:
            continue
        # Lines that begin with a colon are the log's markers.
        last = next((line.strip() for line in reversed(lines) if line.strip() and not line.startswith(":")), "")
        if last:
            words += f"; {introduction}: {last[:LAST_LINE_CHARACTERS]}"
    return words
