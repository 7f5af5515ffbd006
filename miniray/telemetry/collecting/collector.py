"""The collector: what has changed in a session since the last time somebody asked.

Nothing in the core tells it. A hook in the core would cost every task something, even while nobody listens. Instead
the collector reads the core's tables, and the tables tell cheaply what is new:

- *New tasks* are at the end of the table of tasks, which keeps the order of submission. How many there are follows from
  two counts (`Tables.tasks`, `Tables.dropped`). References to them are copied in one step, at a few nanoseconds each.
- *Tasks that end* are at the end of the core's list of those (`History.finished`).
- *Unfinished tasks* are looked at again until they have finished. A finished task without arguments can never change
  again.
- *Tasks that run again* to rebuild a value are counted by the core. The collector searches the table only when that
  count has changed. The constructor of an actor runs again when the actor restarts, and its record says so.
- *Everything else* is compared with what it was: actors, workers, objects. That takes time in proportion to their
  number, so the collector paces itself: if a look will take t seconds, the look before it was PAUSE * t seconds ago,
  unless it is asked for everything. So a table of a thousand records is looked at every few tenths of a second, and one
  of a hundred thousand every minute. The same holds for tasks that are unfinished.

Rows are made in small steps. A task that may change is read under the runtime's lock, a few hundred at a time; the
others are read without it.

*What can be missed.* A task that is submitted, ends, and is dropped from the core's table (which keeps the last 100,000
finished tasks) between two collections. So a writer that takes long over a batch calls `take_in_time` in between. What
is missed all the same is counted exactly: `Batch.dropped`.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from ...core.records import TaskRecord
from ...core.transitions import TaskStatus
from ...observe.state.task_columns import Look
from ...process import context
from . import rows as make
from .metric_rows import NewPoints
from .changes import final, newest, plain, what_of_actor, what_of_object, what_of_task, what_of_worker
from .log_rows import NewLines
from .numbers import Numbers, Row, cut, to_json
from ..schema.span_view import own_rows

PAUSE = 50  # a look at tables that must be compared takes at most one part in this many of the time
RECORD_S = 10e-6  # how long a record takes, before that has been measured
STEP = 200  # records that are read under one hold of the lock
TAKE_S = 0.1  # the core keeps 100,000 finished tasks, and cannot run as many in this time
TAKE_EVERY = 20_000  # rows of new tasks that are made before new tasks are taken again
MOST_TAKEN = 300_000  # tasks whose rows are still to be made; their records take about 1 KB each
FINISHED = TaskStatus.FINISHED
FINISHED_COLUMNS = 12  # see Batch.finished
STACK_COLUMNS = "timestamp_us task_id actor_id worker_id name state stack samples".split()
EVERYTHING = frozenset({"tasks", "actors", "objects", "workers", "rest"})


class Batch:
    """What changed.

    rows: for each stored table, rows in the order of its columns; a row replaces the one with its key. finished: the
    values of the rows of tasks that succeeded at their first attempt, one row after the other: of each the first
    FINISHED_COLUMNS columns of `_attempts`. (A tuple for each row would keep Python's garbage collector busy.) dropped:
    how many rows of a table were missed. epoch: add it to a time on the runtime's clock to get seconds since the epoch.
    now: that clock. The rows under "_released" are (number of an object, time): a look found it released.
    """

    def __init__(self, epoch: float, now: float):
        self.epoch, self.now = epoch, now
        self.rows: dict[str, list[Row]] = {}
        self.finished: list[Any] = []
        self.dropped: dict[str, int] = {}

    def add(self, table: str, rows: Iterable[Row]) -> None:
        """Append rows of a table."""
        found = self.rows.get(table)
        if found is None:
            found = self.rows[table] = []
        found.extend(rows)

    def __len__(self) -> int:
        return len(self.finished) // FINISHED_COLUMNS + sum(map(len, self.rows.values()))

    def __bool__(self) -> bool:
        return bool(len(self) or self.dropped)


class _Pace:
    """When a look at a table is due. See PAUSE."""

    def __init__(self) -> None:
        self.last, self._cost, self._since = float("-inf"), RECORD_S, 0.0

    def due(self, number: int) -> bool:
        """Whether a look at so many records may begin."""
        return time.perf_counter() - self.last >= PAUSE * self._cost * number

    def begin(self) -> None:
        """A look begins. The processor's time counts: a thread that waits for the GIL keeps nobody from working."""
        self._since = time.thread_time()

    def end(self, number: int) -> None:
        """The look at so many records has ended."""
        if number >= STEP:
            self._cost = (self._cost + (time.thread_time() - self._since) / number) / 2
        self.last = time.perf_counter()


class Collector:
    """Reads one session. Only one thread may use it at a time."""

    def __init__(self, runtime: Any):
        self.runtime = runtime
        self.look = Look(runtime)
        self.numbers = Numbers(self.look, runtime.trace_seed)
        self._paces = {name: _Pace() for name in EVERYTHING}
        self._last_task = self._seen = self._rebuilt = 0
        self._open: dict[int, tuple[TaskRecord, Any]] = {}  # tasks that may change, with what they were
        self._last_ended: TaskRecord | None = None  # the last one in the core's list of tasks that have ended
        self._taken: list[TaskRecord] = []  # new tasks whose rows are still to be made
        self._took = 0.0  # when new tasks were last taken
        self._missed = 0  # tasks that were dropped before they were taken
        self._creations: dict[int, int] = {}  # actor -> the attempts of its constructor
        self._last: dict[str, dict[Any, Any]] = {}  # table -> key -> what the row was
        self._counts: dict[str, int] = {}  # how much of a log was read
        self._classes: dict[int, Any] = {}
        self._driver_told = False
        self._told_profiles: deque[Any] = deque(maxlen=16)
        self._points = NewPoints(runtime)
        self._lines = NewLines(runtime)

    def close(self) -> None:
        """Forget the session."""
        self._open.clear()
        self._last.clear()

    # ------------------------------------------------------------ one collection

    def collect(self, wanted: frozenset[str] | None = None) -> Batch:
        """What changed since the last call. wanted: which parts of EVERYTHING to read now, whether due or not; None for
        those that are due."""
        runtime = self.runtime
        self.look.now = runtime.now()
        batch = Batch(runtime.epoch, self.look.now)
        self.numbers.begin()
        cluster = runtime.cluster
        actors, workers = len(cluster.actors), len(cluster.workers) + len(cluster.nodes)
        self._part(batch, wanted, "actors", self._actors, actors)  # a restart says that a constructor runs again
        self._part(batch, wanted, "workers", self._workers, workers)
        self._part(batch, wanted, "objects", self._objects, len(cluster.objects))
        self._part(batch, wanted, "rest", self._rest, STEP)
        self._tasks(batch)
        if self._open:
            self._part(batch, wanted, "tasks", self._changed, len(self._open))
        self._shared(batch)
        return batch

    def _part(
        self, batch: Batch, wanted: frozenset[str] | None, name: str, read: Callable[[Batch], None], number: int
    ) -> None:
        pace = self._paces[name]
        if name in wanted if wanted is not None else pace.due(number):
            pace.begin()
            read(batch)
            pace.end(number)

    def _shared(self, batch: Batch) -> None:
        """The rows that others refer to by number. They come first in the file."""
        numbers = self.numbers
        for table, new in numbers.new.items():
            if new:
                batch.add(table, new)
                numbers.new[table] = []
        changed = []
        with self.runtime.lock:
            for wanted, number in numbers.classes.items():
                row = make.scheduling_class(wanted, number, self.look)
                if self._classes.get(number) != row:
                    self._classes[number] = row
                    changed.append(row)
        if changed:
            batch.add("_classes", changed)

    # ------------------------------------------------------------ tasks

    def take_in_time(self) -> None:
        """As `take`, unless it was called a moment ago: it waits for the core's lock."""
        if time.perf_counter() - self._took >= TAKE_S:
            self.take()

    def take(self) -> None:
        """Take references to the tasks that are new, so that they are not missed. Their rows are made later."""
        self._took = time.perf_counter()
        cluster = self.runtime.cluster
        with self.runtime.lock:
            tasks = cluster.tasks
            total = len(tasks) + cluster.dropped["tasks"]
            rebuilt = cluster.task_manager.num_reconstructions
            count = total - self._seen
            # A task that runs again, and had been dropped, is at the end of the table, too.
            taken = list(islice(reversed(tasks.values()), count + rebuilt - self._rebuilt))
            again = []
            if rebuilt != self._rebuilt:
                again = [task for task in tasks.values() if task.history is not None and task.number <= self._last_task]
        new = taken if rebuilt == self._rebuilt else [task for task in taken if task.number > self._last_task]
        new.reverse()
        self._seen, self._rebuilt = total, rebuilt
        self._missed += count - len(new)
        if new:
            self._last_task = new[-1].number
        room = MOST_TAKEN - len(self._taken)
        if len(new) > room:
            self._missed += len(new) - room
            del new[room:]
        self._taken += new
        for task in again:
            self._open.setdefault(task.number, (task, None))

    def _tasks(self, batch: Batch) -> None:
        self.take()
        new, self._taken = self._taken, []
        if self._missed > 0:
            batch.dropped["tasks"], self._missed = self._missed, 0
        for start in range(0, len(new), TAKE_EVERY):
            opened = self._finished(batch, new[start : start + TAKE_EVERY])
            self._open.update((task.number, (task, None)) for task in opened)
            if start:
                self.take_in_time()
        if self._open:
            self._ended(batch)

    def _ended(self, batch: Batch) -> None:
        """The rows of known tasks that have ended since the last time. The core lists the tasks that end, in order; a
        task that this list has lost again is found when the unfinished tasks are looked at."""
        with self.runtime.lock:
            ended = list(self.runtime.cluster.history.finished)
        last, self._last_ended = self._last_ended, ended[-1] if ended else None
        new = []
        for task in reversed(ended):
            if task is last:
                break
            if task.number in self._open:
                new.append(task)
        new.reverse()
        others = self._finished(batch, new)
        if others:
            self._rows_of(batch, others)

    def _finished(self, batch: Batch, tasks: list[TaskRecord]) -> list[TaskRecord]:
        """The rows of those of these tasks that have succeeded at once: most have, and never change again, so they are
        read without the lock. Returns the others."""
        numbers, finished, opened = self.numbers, batch.finished, self._open
        add = finished.extend
        spec = parent = trace = owner = None
        spec_number = caller = 0
        others = []
        for task in tasks:
            if task.status is not FINISHED or task.args is not None or not task.t_finished or not plain(task):
                others.append(task)
                continue
            actor = task.actor
            if task.spec is not spec:
                spec = task.spec
                spec_number = numbers.spec(spec)
            if task.parent is not parent or task.trace is not trace or task.owner is not owner:
                parent, trace, owner = task.parent, task.trace, task.owner
                caller = numbers.caller(task)
            producers = task.producers
            add(
                (
                    task.number,
                    spec_number,
                    caller,
                    None if actor is None else actor.number,
                    task.worker.number,
                    task.t_created,
                    task.t_ready,
                    task.t_leased,
                    task.t_started,
                    task.t_ended,
                    task.t_finished,
                    to_json(producers) if producers else None,
                )
            )
            if opened:
                opened.pop(task.number, None)
        return others

    def _rows_of(self, batch: Batch, tasks: list[TaskRecord]) -> None:
        """The rows of tasks that may change, and of those with more than one attempt."""
        made: list[Row] = []
        numbers, look, opened = self.numbers, self.look, self._open
        for start in range(0, len(tasks), STEP):
            with self.runtime.lock:
                for task in tasks[start : start + STEP]:
                    made += make.attempts(task, numbers, look)
                    if final(task):
                        opened.pop(task.number, None)
                    else:
                        opened[task.number] = task, what_of_task(task)
        if made:
            batch.add("_attempts", made)

    def _changed(self, batch: Batch) -> None:
        """The rows of known tasks that have changed. They are read without the lock if that is possible: a change that
        is missed now is found the next time."""
        others, over = [], []
        made: list[Row] = []
        numbers, opened = self.numbers, self._open
        for task, was in opened.values():
            now = what_of_task(task)
            if was == now:
                continue
            if not plain(task) or task.deps or task.contained or task.failure is not None or task.cancel_requested:
                others.append(task)
                continue
            made.append(make.plain_attempt(task, numbers))
            if now[7] and task.args is None:
                over.append(task.number)
            else:
                opened[task.number] = task, now
        for number in over:
            del opened[number]
        if made:
            batch.add("_attempts", made)
        if others:
            self._rows_of(batch, others)

    # ------------------------------------------------------------ tables that are compared

    def _compare(
        self,
        batch: Batch,
        table: str,
        records: list[Any],
        what: Callable[[Any], Any],
        row: Callable[[Any], Row],
    ) -> list[Any]:
        """Add the rows of the records that have changed. what: a value that differs whenever the row does."""
        before = self._last.setdefault(table, {})
        changed = []
        for record in records:
            key, now = record.number, what(record)
            if before.get(key) != now:
                before[key] = now
                changed.append(record)
        for start in range(0, len(changed), STEP):
            with self.runtime.lock:
                batch.add(table, [row(record) for record in changed[start : start + STEP]])
        if len(before) > len(records):
            kept = {record.number for record in records}
            for key in [key for key in before if key not in kept]:
                del before[key]
        return changed

    def _actors(self, batch: Batch) -> None:
        with self.runtime.lock:
            actors = list(self.runtime.cluster.actors.values())
        changed = self._compare(
            batch, "actors", actors, what_of_actor, lambda record: make.actor(record, self.numbers, self.look)
        )
        for record in changed:
            task = record.creation
            if self._creations.get(record.number, 0) != task.attempt:
                self._creations[record.number] = task.attempt
                if task.number <= self._last_task:
                    self._open.setdefault(task.number, (task, None))
        for start in range(0, len(changed), STEP):
            with self.runtime.lock:
                for record in changed[start : start + STEP]:
                    batch.add("actor_events", make.actor_events(record))
        if len(self._creations) > 2 * len(actors) + 1000:
            alive = {record.number for record in actors}
            self._creations = {number: attempt for number, attempt in self._creations.items() if number in alive}

    def _workers(self, batch: Batch) -> None:
        with self.runtime.lock:
            cluster = self.runtime.cluster
            workers = list(cluster.workers.values())
            nodes = list(cluster.nodes.values())
        if nodes and not self._driver_told:
            self._driver_told = True
            batch.add("workers", [make.driver(nodes[0])])
        self._compare(batch, "workers", workers, what_of_worker, lambda record: make.worker(record, self.numbers))
        with self.runtime.lock:
            found = [(record, make.node(record)) for record in nodes]
        before = self._last.setdefault("nodes", {})
        resources = self._last.setdefault("node_resources", {})
        for record, row in found:
            if before.get(record.number) == row:
                continue
            before[record.number] = row
            batch.add("nodes", [row])
            for name, total in record.total.items():
                now = total, record.available.get(name, 0)
                if resources.get((record.number, name)) != now:
                    resources[record.number, name] = now
                    batch.add(
                        "node_resources",
                        [(record.number, name, batch.now, record.hex, now[0] / 10_000, now[1] / 10_000)],
                    )

    def _objects(self, batch: Batch) -> None:
        with self.runtime.lock:
            objects = list(self.runtime.cluster.objects.values())
        known = set(self._last.get("objects", ()))
        self._compare(
            batch, "objects", objects, what_of_object, lambda record: make.object_row(record, self.numbers, self.look)
        )
        gone = known.difference(self._last["objects"])
        if gone:
            batch.add("_released", [(number, batch.now) for number in gone])

    # ------------------------------------------------------------ logs, and what is seldom

    def _rest(self, batch: Batch) -> None:
        runtime = self.runtime
        with runtime.lock:
            cluster = runtime.cluster
            groups = list(cluster.placement_groups.values())
            made = [make.placement_group(group, self.look) for group in groups]
            total = len(cluster.events) + cluster.dropped["events"]
            count = total - self._counts.get("cluster_events", 0)
            events = list(islice(reversed(cluster.events.events), count))
            samples = [(node.number, list(node.store.samples[-500:])) for node in cluster.nodes.values()]
        before = self._last.setdefault("placement_groups", {})
        for group, bundles in made:
            if before.get(group[0]) != (group, bundles):
                before[group[0]] = group, bundles
                batch.add("placement_groups", [group])
                batch.add("bundles", bundles)
        self._counts["cluster_events"] = total
        if count > len(events):
            batch.dropped["cluster_events"] = count - len(events)
        events.reverse()
        if events:
            batch.add("cluster_events", [make.event(seq, line) for seq, line in enumerate(events, total - len(events))])
        latest = self._last.setdefault("store_samples", {})
        for number, found in samples:
            new: list[Row] = []
            for at, used, spilled in found:
                if at > latest.get(number, 0.0):
                    # Two samples of one moment are a step of the curve. The key of a row is its microsecond.
                    shown = max(at, new[-1][1] + 2e-6) if new else at
                    new.append((number, shown, used, spilled))
            if new:
                latest[number] = found[-1][0]
                batch.add("store_samples", new)
        self._spans(batch)
        points = self._points.rows(int((batch.now + batch.epoch) * 1e6))
        if points:
            batch.add("metric_points", points)
        self._own_spans(batch)
        self._profiles(batch)
        lines = self._lines.rows(int((batch.now + batch.epoch) * 1e6))
        if lines:
            batch.add("log_lines", lines)
        if self._lines.lost:
            batch.dropped["log_lines"], self._lines.lost = self._lines.lost, 0

    def _spans(self, batch: Batch) -> None:
        """The spans of `miniray.profile`, and the waits."""
        spans = newest(self.runtime.spans, self._counts.get("profile_events", 0), lambda span: span.number + 1)
        if spans:
            self._counts["profile_events"] = spans[-1].number + 1
            batch.add(
                "profile_events",
                [
                    (
                        span.number,
                        cut(span.name),
                        span.t_start,
                        span.t_end,
                        span.worker.number if span.worker is not None else None,
                        span.task,
                        cut(to_json(span.extra)),
                    )
                    for span in spans
                ],
            )
        last = self._last.setdefault("waits", {"end": 0.0, "number": 0})
        waits = newest(self.runtime.waits, last["end"], lambda wait: wait[3])
        if waits:
            last["end"] = max(wait[3] for wait in waits)
            first, last["number"] = last["number"], last["number"] + len(waits)
            batch.add(
                "waits",
                [
                    (first + index, wait[0].number if wait[0] is not None else None, *wait[1:])
                    for index, wait in enumerate(waits)
                ],
            )

    def _profiles(self, batch: Batch) -> None:
        """The profiles that have stopped since the last look. Most sessions make none, and do not load the profiler."""
        recording = sys.modules.get(f"{__package__.rpartition('.')[0]}.profiler.recording")
        if recording is None or context.session not in (self.runtime, None):  # at the end of the session there is none
            return
        started = self.runtime.epoch + next(iter(self.runtime.cluster.nodes.values())).t_started
        for profile in list(recording.finished):
            if profile.began + profile.seconds < started or profile in self._told_profiles:
                continue
            self._told_profiles.append(profile)
            first = self._counts.get("stack_samples", 0)
            found = [(first + row["id"], *(row[name] for name in STACK_COLUMNS)) for row in profile.rows()]
            self._counts["stack_samples"] = first + len(found)
            batch.add("stack_samples", found)

    def _own_spans(self, batch: Batch) -> None:
        """The spans that the program has opened with `miniray.util.tracing`."""
        if self.runtime.tracing is None:
            return
        own = self.runtime.tracing.own_spans
        seen = self._counts.get("_own_spans", 0)
        opened = own_rows(own.opened())  # first: the row of one that ends meanwhile replaces its row here
        first, kept = own.kept_since(seen)
        told = self._last.setdefault("_own_spans", {})
        new = [row for row in opened if told.get(row[0]) != row]
        self._last["_own_spans"] = {row[0]: row for row in opened}
        if new or kept:
            batch.add("_own_spans", new + own_rows(kept))
        if first > seen:
            batch.dropped["spans"] = first - seen
        self._counts["_own_spans"] = first + len(kept)
