"""What determined the total time of a run: the causes, the largest first.

The timeline's page, the doctor and `explain` ask this module, so they give the same answer.

The critical path (`timeline.critical_path`) divides the time of the run into steps. Each step is charged to a cause:

    actor         a busy actor: the calls of the path stood in its queue
    straggler     a task ran far longer than others of its function; the excess over their median is charged
    driver        the driver's own code, or a driver that waits for each result before it submits the next task
    retries       attempts that failed and were repeated
    memory        fetching and storing values while the object store wrote values to files
    cpus          tasks queued because the CPUs were busy
    resource      tasks queued for another resource
    dependencies  tasks waited for each other's results
    work          a task that nothing else explains
    pending       nothing runs, and something waits
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from ...core.records import ACTOR_TASK, UNIT, ActorRecord
from ..amounts import count
from ..timeline.critical_path import Step, critical_path
from ..timeline.recording import RETRIED, RUNNING, WAITING, Recording, Row, read
from ..timeline.utilisation import Utilisation, utilisation
from .evidence import Evidence
from .sentence import Explanation, name_of

WORTH_NAMING = 0.1  # of the total time; smaller causes are left out, unless nothing else is left


@dataclass
class Bottleneck:
    """A cause of the total time.

    kind: one of the words above. name: what it is about, such as an actor. seconds, share: of the time of the run.
    sentence: the evidence. advice: what would make the run shorter. rows: attempts that it is based on, longest first.
    tasks: how many tasks it concerns; for an actor, all of its calls.
    """

    kind: str
    name: str
    seconds: float
    share: float
    sentence: str
    advice: str
    rows: list[Row] = field(default_factory=list, repr=False)
    tasks: int = 0

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}"


ADVICE = {
    "actor": "Spread the calls over several actors (ray.util.ActorPool), raise max_concurrency if they mostly wait, or "
    "turn methods that need no state into tasks. More CPUs would not help.",
    "straggler": "Compare its arguments and its log with those of the others; divide the work more evenly, or into "
    "more parts than there are CPUs. More CPUs would not help.",
    "driver": "Move the work into tasks, or submit the tasks before doing it. More CPUs would not help.",
    "rounds": "Submit all tasks first, and then get all results, or take them in the order in which they are ready "
    "(ray.wait). More CPUs would not help.",
    "retries": "Fix the error, or retry only errors that may not happen again (retry_exceptions=[...]).",
    "memory": "Release values earlier, keep fewer in flight, or give the store more memory (object_store_memory=).",
    "cpus": "More CPUs, or less work in each task, would make the run shorter.",
    "resource": "More of this resource, or tasks that need less of it, would make the run shorter.",
    "dependencies": "Shorter tasks, or a shorter chain, would make the run shorter.",
    "work": "Divide it into tasks that can run at the same time.",
    "pending": "Request resources that a node has, free the resources, or add a node.",
}


def bottlenecks(
    recording: Recording,
    steps: list[Step] | None = None,
    used: Utilisation | None = None,
    evidence: Evidence | None = None,
) -> list[Bottleneck]:
    """The causes of the total time, the largest first; empty if nothing has run and nothing waits.

    steps, used, evidence: the critical path, the use of the CPUs and the measurements, if the caller has them already.
    """
    steps = critical_path(recording) if steps is None else steps
    return _Charges(recording, steps, used, evidence or Evidence(recording)).causes()


def explain_run(runtime: Any) -> Explanation:
    """The bottleneck of a running session, in the form of an explanation. Its chain has all causes."""
    causes = bottlenecks(read(runtime))
    chain: list[dict[str, Any]] = [
        {
            "kind": "run",
            "id": "",
            "name": cause.name,
            "reason": cause.kind,
            "text": cause.sentence,
            "details": {"seconds": cause.seconds, "share": cause.share, "advice": cause.advice},
        }
        for cause in causes
    ]
    if not causes:
        return Explanation("nothing_ran", "Nothing has run yet.", "run")
    return Explanation(causes[0].kind, str(causes[0]), "run", "", causes[0].name, dict(chain[0]["details"]), chain)


Key = tuple[str, object]


class _Charges:
    """The time of each cause, and the attempts that it was spent in."""

    def __init__(self, recording: Recording, steps: list[Step], used: Utilisation | None, evidence: Evidence):
        self.recording, self.steps, self.used, self.evidence = recording, steps, used, evidence
        self.seconds: dict[Key, float] = defaultdict(float)
        self.rows: dict[Key, dict[Row, float]] = defaultdict(dict)
        self.total = max(recording.end - recording.start, 1e-9)

    def causes(self) -> list[Bottleneck]:
        pending = self._pending()
        self._charge()
        found = [self._told(key, seconds) for key, seconds in self.seconds.items() if seconds > 0]
        found.sort(key=lambda one: -one.seconds)
        worth = [one for one in found if one.share >= WORTH_NAMING] or found[:1]
        return ([pending] if pending is not None else []) + worth

    # ------------------------------------------------------------ charging

    def _charge(self) -> None:
        tasks = [number for number, step in enumerate(self.steps) if step.kind == "task"]
        after = {place: self.steps[later] for place, later in zip(tasks, tasks[1:])}
        held: dict[int, Key] = {}  # the steps of the path that kept the next task of the path in a queue
        for place, later in after.items():
            held_by = self._queue_behind(self.steps[place].row, later.row)
            if held_by is not None:
                held[place] = held_by
        in_rounds = self._rounds(tasks)
        before: Key | None = None  # why the last task of the path had to wait for the one before it
        for place, step in enumerate(self.steps):
            row, length = step.row, step.end - step.start
            if step.kind == "driver" or row is None:
                self._add(("driver", ""), length, None)
            elif step.kind == "queued":
                self._add(before or self._queue_of(row), length, row)
            elif step.kind == "arguments":
                self._add(("dependencies", ""), length, row)
            else:
                cause = held.get(place)
                self._charge_task(row, length, step, cause or before, place in in_rounds)
                before = cause

    def _charge_task(self, row: Row, length: float, step: Step, queue: Key | None, in_rounds: bool) -> None:
        """A step on a worker: part of it may be a failure, values, or an excess over the median."""
        if row.outcome == RETRIED:
            self._add(("retries", row.spec.name), length, row)
            return
        if self.evidence.lacks_memory and row.started:
            values = _overlap(step, row.leased, row.started)
            if row.ended and row.finished:
                values += _overlap(step, row.ended, row.finished)
            self._add(("memory", ""), min(values, length), row)
            length -= min(values, length)
        if self.evidence.is_late(row, length):
            usual = self.evidence.usual(row) or 0.0
            self._add(("straggler", row.spec.name), length - usual, row)
            length = usual
        if queue is not None:
            self._add(queue, length, row)
        elif in_rounds:
            self._add(("rounds", ""), length, row)
        elif any(one.kind == "task" and one.row is not row for one in self.steps):
            self._add(("dependencies", ""), length, row)
        else:
            self._add(("work", row.spec.name), length, row)

    def _add(self, key: Key, seconds: float, row: Row | None) -> None:
        self.seconds[key] += seconds
        if row is not None:
            self.rows[key][row] = self.rows[key].get(row, 0.0) + seconds

    def _queue_behind(self, row: Row | None, later: Row | None) -> Key | None:
        """The queue in which a task of the path stood until the one before it ended; None if that is not the reason."""
        if row is None or later is None or row is later or row.number in later.producers:
            return None
        if later.number == row.number or not later.ready < (row.finished or self.recording.now) <= later.leased:
            return None
        return self._queue_of(later)

    def _queue_of(self, row: Row) -> Key:
        """What a task that is ready queues for: its actor, or the resource that admits the fewest tasks like it."""
        actor = row.worker.actor if row.worker is not None else None
        if row.spec.kind == ACTOR_TASK:
            return "actor", actor if actor is not None else row.actor
        need = row.spec.scheduling_class.need if row.spec.scheduling_class is not None else {}
        total: Counter[str] = Counter()
        for node in self.recording.nodes:
            total.update(node.total)
        admits = {name: (total[name] / amount, name) for name, amount in need.items() if amount}
        scarce = min(admits, key=admits.__getitem__, default="")
        return ("cpus", "") if scarce in ("CPU", "") else ("resource", scarce)

    def _rounds(self, tasks: list[int]) -> set[int]:
        """The tasks of the path that the driver submitted only when the one before had ended: a `get` in a loop."""
        found: list[int] = []
        for place, later in zip(tasks, tasks[1:]):
            between = self.steps[place + 1 : later]
            row = self.steps[later].row
            if row is not None and row.owner is None and any(step.kind == "driver" for step in between):
                if self.steps[place].row is not row:
                    found += [place, later]
        return set(found) if len(set(found)) > 2 else set()

    # ------------------------------------------------------------ telling

    def _told(self, key: Key, seconds: float) -> Bottleneck:
        kind, about = key
        rows = sorted(self.rows[key], key=self.rows[key].__getitem__, reverse=True)
        share = min(1.0, seconds / self.total)
        name, sentence = getattr(self, f"_tell_{kind}")(about, rows, f"{share:.0%} of the time", seconds)
        word = "driver" if kind == "rounds" else kind
        tasks = self._calls_of(about) if kind == "actor" else len(rows)
        return Bottleneck(word, name, seconds, share, sentence, ADVICE[kind], rows, tasks)

    def _tell_actor(self, about: object, rows: list[Row], part: str, seconds: float) -> tuple[str, str]:
        name = name_of(about) if isinstance(about, ActorRecord) else f"actor {about}"
        one = "one at a time" if isinstance(about, ActorRecord) and about.in_order else "as many at once as it allows"
        calls = count(self._calls_of(about), "call")
        return name, (
            f"{name[:1].upper()}{name[1:]} was busy: its {calls} ran {one}, and queueing for it took "
            f"{part}{self._cpus_were()}."
        )

    def _calls_of(self, actor: object) -> int:
        return sum(
            row.spec.kind == ACTOR_TASK and row.worker is not None and row.worker.actor is actor
            for row in self.recording.rows
        )

    def _tell_straggler(self, name: str, rows: list[Row], part: str, seconds: float) -> tuple[str, str]:
        late = sorted(rows, key=self.evidence.length, reverse=True)
        return name, f"{self.evidence.late_in_words(name, late)}; the excess took {part}{self._cpus_were()}."

    def _tell_driver(self, about: object, rows: list[Row], part: str, seconds: float) -> tuple[str, str]:
        return "the driver", f"The driver's own code took {part}, while the run waited for it{self._cpus_were()}."

    def _tell_rounds(self, about: object, rows: list[Row], part: str, seconds: float) -> tuple[str, str]:
        return "the driver", (
            f"The driver waited for each result before it submitted the next task: {count(len(rows), 'task')} ran one "
            f"after the other for {part}{self._cpus_were()}."
        )

    def _tell_retries(self, name: str, rows: list[Row], part: str, seconds: float) -> tuple[str, str]:
        return name, f"{self.evidence.retries_in_words(name)}; the repeated attempts took {part}."

    def _tell_memory(self, about: object, rows: list[Row], part: str, seconds: float) -> tuple[str, str]:
        return "the object store", (
            f"The values did not fit into the object store: {self.evidence.spilling_in_words()}; "
            f"fetching and storing values took {part}."
        )

    def _tell_cpus(self, about: object, rows: list[Row], part: str, seconds: float) -> tuple[str, str]:
        return "the CPUs", f"Tasks queued for a CPU: that determined {part}{self._cpus_were()}."

    def _tell_resource(self, name: str, rows: list[Row], part: str, seconds: float) -> tuple[str, str]:
        total = sum(node.total.get(name, 0) for node in self.recording.nodes) / UNIT
        return name, f"Tasks queued for {total:g} {name}: that determined {part}{self._cpus_were()}."

    def _tell_dependencies(self, about: object, rows: list[Row], part: str, seconds: float) -> tuple[str, str]:
        names = [name for name, _ in Counter(row.spec.name for row in rows).most_common(3)]
        if len(rows) == 1:
            return "dependencies", f"One task, {names[0]}, determined {part}{self._cpus_were()}."
        return "dependencies", (
            f"{count(len(rows), 'task')} could only run one after the other ({', '.join(names)}): that chain "
            f"determined {part}{self._cpus_were()}."
        )

    def _tell_work(self, name: str, rows: list[Row], part: str, seconds: float) -> tuple[str, str]:
        return name, f"One task, {name}, determined {part}{self._cpus_were()}."

    def _cpus_were(self) -> str:
        used = self.used = self.used or utilisation(self.recording)
        return f" ({used.share(used.busy):.0%} of the CPUs were in use)" if sum(used.capacity) else ""

    def _pending(self) -> Bottleneck | None:
        """Nothing runs, and something waits: that determines how long the run takes from now on."""
        waiting = [row for row in self.recording.rows if row.outcome == WAITING]
        if not waiting or any(row.outcome == RUNNING for row in self.recording.rows):
            return None
        row = next((one for one in waiting if one.number in self.recording.reasons), waiting[0])
        reason = self.recording.reasons.get(row.number, f"task {row.spec.name} waits")
        since = max([one.finished for one in self.recording.rows if one.finished], default=self.recording.start)
        since = max(since, row.created)
        seconds = max(0.0, self.recording.now - since)
        share = min(1.0, seconds / self.total)
        others = f", and so do {len(waiting) - 1:,} more" if len(waiting) > 1 else ""
        return Bottleneck(
            "pending",
            row.spec.name,
            seconds,
            share,
            f"Nothing runs. {reason[:1].upper()}{reason[1:]}{others}.",
            ADVICE["pending"],
            waiting[:10],
            len(waiting),
        )


def _overlap(step: Step, begin: float, end: float) -> float:
    return max(0.0, min(step.end, end) - max(step.start, begin))
