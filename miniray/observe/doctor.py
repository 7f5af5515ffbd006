"""The runbook as a program: it asks questions of a session's tables, and explains what the answers mean.

    for finding in findings(runtime):
        print(finding.symptom, finding.sentence)

A question reads the same rows that a user would (`miniray.state`), and a finding contains the rows that it is based on.
What made the run slow is answered by the engine that the timeline's page and `explain` ask too: `explain.bottleneck`.
A value beyond one of the thresholds below is worth a look; it is not necessarily an error.
"""

from __future__ import annotations

import os
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from ..core.object_store import INLINE_BYTES
from ..core.records import ACTOR_CREATION_TASK, ACTOR_TASK
from .amounts import count
from .run_tables import Row, Tables, last_line, last_words
from .explain.evidence import STRAGGLER_TIMES, kind_of_error, typical
from .stacks.frames import as_lines
from .stacks.reading import CallStack
from .stacks.report import Running
from .state.short_ids import short


FEW = 5  # the most rows that a finding contains; its sentence has the whole count
RUNNING_FROM_S = 1.0  # the least time that a task must have been running, and five times the median of its name
STORM_RETRIES = 3  # the least retries of all tasks of one name; they must also be half of the attempts
LEAK_OBJECTS = 10  # the least number of large values from one call site that are still held
LEAK_SHARE = 0.05  # their least total size, as a share of the stores' capacity; any size is enough if one is spilled
LEAK_BYTES = 32 * 2**20  # ... or this many bytes, if that is less
TINY_TASKS, TINY_MS = 500, 1.0  # the least number of tasks of one name; their median is shorter than this
QUEUE_CALLS = 10  # the least calls that wait at this moment
IDLE_BELOW, IDLE_SHARE, IDLE_FROM_S = 0.5, 0.2, 0.2  # the most use of the CPUs; the least part of the run, and time
IDLE_TASKS = 10  # the least number of tasks that a cause of it must concern
DRIVER_SHARE, DRIVER_FROM_S = 0.5, 2.0  # the same for the driver's own code, which concerns no task
IDLE_KINDS = ("actor", "driver", "resource")  # the bottlenecks (explain.bottleneck) that leave CPUs idle
INTENDED_DEATHS = ("RAY_KILL", "OUT_OF_SCOPE", "REF_DELETED")  # the reasons of deaths that the program asked for


@dataclass
class Finding:
    """The answer to a question that found something.

    symptom: its line in the runbook. sentence: how many cases there are, and their cause if it is known. rows: a few of
    the rows that it is based on. advice: what to do. look: the call that shows the rest, while the session runs.
    command: the same as words of the command line, for a program that has ended ("get tasks 3"). covers: symptoms whose
    cases with this cause are counted here, and not again. stacks: stacks that belong to it, each under its title.
    """

    symptom: str
    sentence: str
    rows: list[Row]
    advice: str
    look: str
    command: str
    covers: tuple[str, ...] = ()
    stacks: dict[str, list[str]] = field(default_factory=dict)

    def asdict(self) -> dict[str, Any]:
        """The finding as plain data."""
        return asdict(self)


def findings(runtime: Any, interrupted: list[str] | None = None) -> list[Finding]:
    """Ask every question of the runbook, in order.

    runtime: a session that has not ended. interrupted: the stack of the driver's main thread, if the program was
    interrupted there.
    """
    return findings_in(Tables(runtime, interrupted))


def findings_in(tables: Tables) -> list[Finding]:
    """Ask every question of tables that have been read. A question that fails is itself a finding: it must not take the
    answers of the others with it."""
    found: list[Finding] = []
    for symptom, question in RUNBOOK.items():
        try:
            found += list(question(tables))
        except Exception as problem:
            found.append(
                Finding(
                    symptom,
                    f"this question could not be answered, because of a mistake in the doctor: {problem!r}",
                    [],
                    "Please report the mistake, with the program. The other answers are complete.",
                    "state.list_tasks()",
                    "list tasks",
                    stacks={"raised in": traceback.format_tb(problem.__traceback__)[-1].rstrip().split("\n")},
                )
            )
    return found


def _few(rows: Iterable[Row], *columns: str) -> list[Row]:
    return [{column: row[column] for column in columns} for row in list(rows)[:FEW]]


def _mib(num_bytes: float) -> str:
    return f"{num_bytes / 2**20:.1f} MiB"


# ------------------------------------------------------------ no progress


def pending(tables: Tables) -> Iterator[Finding]:
    """Is anything waiting to be placed, or for an argument, and why?"""
    waiting: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in tables.tasks:
        if row["state"].startswith("PENDING") and row["type"] != ACTOR_CREATION_TASK:
            waiting[row["name"], row["state"], str(row["required_resources"])].append(row)
    for (name, status, _), rows in waiting.items():
        yield Finding(
            "PENDING",
            f"{count(len(rows), 'task')} {name} {'is' if len(rows) == 1 else 'are'} {status}: {tables.why(rows[0])}",
            _few(rows, "name", "state", "required_resources", "task_id"),
            "Request resources that a node has, free the resources, or add a node. If a task waits for an argument, "
            "look at the task that produces it.",
            'state.explain(task_id); state.list_tasks(filters=[("state", "=", "PENDING_NODE_ASSIGNMENT")])',
            f"list tasks --filter state={status}",
            stacks=tables.if_awaited(rows),
        )
    actors = [row for row in tables.actors if row["state"] in ("PENDING_CREATION", "DEPENDENCIES_UNREADY")]
    for row in actors[:FEW]:
        yield Finding(
            "PENDING",
            f"actor {row['class_name']} is {row['state']}: {tables.why(row)}",
            _few([row], "class_name", "state", "required_resources", "actor_id"),
            "As for tasks. Actors hold their resources until they end: see which ones you no longer need.",
            "state.explain(actor_id); state.list_actors()",
            f"get actors {short(row['actor_id'])}",
        )
    for row in [row for row in tables.groups if row["state"] in ("PENDING", "RESCHEDULING")][:FEW]:
        yield Finding(
            "PENDING",
            f"{tables.why(row)}",
            _few([row], "state", "strategy", "bundles", "placement_group_id"),
            "Request smaller bundles, or another strategy; remove groups that you no longer need.",
            "state.explain(group); state.list_placement_groups()",
            f"get placement-groups {short(row['placement_group_id'])}",
        )


def deadlocks(tables: Tables) -> Iterator[Finding]:
    """Do calls wait for each other, so that none of them can ever return?"""
    for why in tables.endless:
        ids = {link["id"] for link in why.chain}
        stacks = {
            f"worker {running.worker.number}, which runs {running.tasks[0].spec.name}": running.lines
            for running in tables.busy
            if any(task.hex in ids for task in running.tasks)
        }
        yield Finding(
            "DEADLOCK",
            why.sentence.removeprefix("deadlock: "),
            _few((row for row in tables.tasks if row["task_id"] in ids), "name", "state", "actor_id", "task_id"),
            "Break the circle: let one side return a reference or a value instead of waiting; make the actor async, or "
            "give it max_concurrency, so that it can take a call while another one waits.",
            "state.explain(ref); init(on_deadlock='raise')",
            "stack",
            stacks={**stacks, **({"the driver": tables.driver} if tables.driver else {})},
        )


def queues(tables: Tables) -> Iterator[Finding]:
    """Does an actor's queue not move, and which call blocks it?"""
    circles = {link["id"] for why in tables.endless for link in why.chain}
    calls: dict[str, list[Row]] = defaultdict(list)
    for row in tables.tasks:
        if row["state"] == "RUNNING" and row["type"] == ACTOR_TASK:
            calls[row["actor_id"]].append(row)
    for actor in tables.actors:
        rows = calls[actor["actor_id"]]
        # A queue moves when any of the calls that run ends, so the shortest of them decides.
        if not actor["mailbox_backlog"] or not rows or not all(_runs_on(tables, row) for row in rows):
            continue
        if any(row["task_id"] in circles for row in rows):
            continue
        longest = max(rows, key=lambda row: row["duration_ms"])
        tables.blocking.update(row["task_id"] for row in rows)
        tables.stalled.add(actor["actor_id"])
        stood = tables.stack_of(longest["task_id"])
        others = f", and {count(len(rows) - 1, 'other call')}" if len(rows) > 1 else ""
        yield Finding(
            "QUEUE",
            f"the queue of actor {actor['class_name']} does not move: {count(actor['mailbox_backlog'], 'call')} "
            f"{'waits' if actor['mailbox_backlog'] == 1 else 'wait'} behind {longest['name']}{others}, which has been "
            f"running for {longest['duration_ms'] / 1000:,.1f} s{_standing(stood)}{_awaiting(tables, longest)}"
            f"{last_words(task_id=longest['task_id'])}",
            _few(rows, "name", "state", "duration_ms", "actor_id", "task_id"),
            "Look at the line where the call stands. Give its loop an end and its wait a timeout. If its calls mostly "
            "wait, make the actor async, or give it max_concurrency.",
            "state.stacks(); state.list_actors() and its mailbox_backlog",
            "stack --after 3",
            ("RUNNING",),
            {
                f"{longest['name']}, which blocks the queue": as_lines(stood.frames) if stood is not None else [],
                **tables.if_awaited([row for row in tables.tasks if row["actor_id"] == actor["actor_id"]]),
            },
        )


def _runs_on(tables: Tables, row: Row) -> bool:
    """Whether a task has been running for very long, compared with the others of its name."""
    done = [r["duration_ms"] for r in tables.by_name[row["name"]] if r["end_time_ms"] and r["start_time_ms"]]
    least: float = max(RUNNING_FROM_S * 1000, STRAGGLER_TIMES * median(done) if done else 0.0)
    return bool(row["duration_ms"] >= least)


def _standing(stack: CallStack | None) -> str:
    """The end of a sentence: the line in which a task stands."""
    if stack is None or not stack.frames:
        return ""
    frame = stack.frames[-1]
    return f" and stands in {frame.function}, line {frame.line} of {os.path.basename(frame.file)}"


def _awaiting(tables: Tables, row: Row) -> str:
    """The end of a sentence: what a call waits for that is in get() or wait(), or in an await."""
    stack = tables.stack_of(row["task_id"])
    if stack is not None and stack.awaits:
        return f"; it awaits {stack.awaits[-1]}"
    blocked = any(one.blocked and any(task.hex == row["task_id"] for task in one.tasks) for one in tables.busy)
    return f"; {tables.why(row)}" if blocked else ""


def running(tables: Tables) -> Iterator[Finding]:
    """Does a task run on and on?"""
    rows_of = {row["task_id"]: row for row in tables.tasks}
    groups: dict[str, list[tuple[Row, Running]]] = defaultdict(list)
    for worker in tables.busy:
        for task in worker.tasks:
            row = rows_of.get(task.hex)
            if row is None or row["state"] != "RUNNING" or worker.blocked or row["task_id"] in tables.blocking:
                continue  # a task that is blocked waits for another one, which has a finding of its own
            if _runs_on(tables, row):
                groups[row["name"]].append((row, worker))
    for name, members in groups.items():
        rows = sorted((row for row, _ in members), key=lambda row: -row["duration_ms"])
        longest = next(worker for row, worker in members if row is rows[0])
        stood = tables.stack_of(rows[0]["task_id"])
        has = "has" if len(rows) == 1 else "have"
        yield Finding(
            "RUNNING",
            f"{count(len(rows), 'task')} {name} {has} been running for "
            f"{rows[0]['duration_ms'] / 1000:,.1f} s{' or less' if len(rows) > 1 else ''}, and {has} not ended"
            f"{_standing(stood).replace(' and stands', '; it stands' if len(rows) == 1 else '; the first stands')}"
            f"{'; the driver waits for it' if any(row['task_id'] in tables.awaited for row in rows) else ''}"
            f"{last_words(task_id=rows[0]['task_id'])}",
            _few(rows, "name", "state", "duration_ms", "worker_id", "task_id"),
            "Look at the line where it is. Give a loop an end and a wait a timeout; cancel a task that is no longer "
            "needed (ray.cancel).",
            "state.list_tasks(filters=[('state', '=', 'RUNNING')]); state.get_log(task_id=...)",
            "stack --after 3",
            stacks={
                f"worker {longest.worker.number}, which runs {name}": as_lines(stood.frames)
                if stood
                else longest.lines,
                **tables.if_awaited(rows),
            },
        )


def idle(tables: Tables) -> Iterator[Finding]:
    """Are CPUs free while calls wait for one actor, or while the driver or another resource holds up the run?"""
    cpus = sum(row["resources_total"].get("CPU", 0.0) for row in tables.nodes if row["state"] == "ALIVE")
    free = sum(row["resources_available"].get("CPU", 0.0) for row in tables.nodes)
    classes = {row["actor_id"]: row["class_name"] for row in tables.actors}
    calls: dict[str, list[Row]] = defaultdict(list)
    for row in tables.tasks:
        if row["type"] == ACTOR_TASK and row["ready_time_ms"] and row["actor_id"] in classes:
            calls[row["actor_id"]].append(row)
    spread = (
        "Spread the calls over several actors (ray.util.ActorPool); raise max_concurrency if they mostly wait; or "
        "turn methods that need no state into tasks."
    )
    columns = "name", "state", "duration_ms", "actor_id", "task_id"
    named = set()
    for actor_id, rows in calls.items():
        waiting = sum(row["state"] == "SUBMITTED_TO_WORKER" for row in rows)
        if waiting >= QUEUE_CALLS and free >= 1 and actor_id not in tables.stalled:
            named.add(actor_id)
            yield Finding(
                "IDLE",
                f"{free:g} of {cpus:g} CPU are free while {waiting:,} calls wait: actor {classes[actor_id]} runs its "
                "calls one at a time",
                _few(sorted(rows, key=lambda row: -row["creation_time_ms"]), *columns),
                spread,
                "state.list_actors() and its mailbox_backlog; ray.timeline(html=...)",
                f"list tasks --filter actor_id={actor_id}",
            )
    if cpus < 2 or tables.used.share(tables.used.busy) > IDLE_BELOW or tables.endless:
        return
    for cause in tables.causes:
        about = cause.rows[0].worker.actor if cause.rows and cause.rows[0].worker is not None else None
        actor = about.hex if cause.kind == "actor" and about is not None else ""
        if cause.kind not in IDLE_KINDS or actor in named:
            continue
        if cause.rows:
            small = cause.tasks < IDLE_TASKS or cause.share < IDLE_SHARE or cause.seconds < IDLE_FROM_S
        else:
            small = cause.share < DRIVER_SHARE or cause.seconds < DRIVER_FROM_S
        if small:
            continue
        yield Finding(
            "IDLE",
            cause.sentence.rstrip("."),
            _few(tables.of_attempts(cause.rows), *columns),
            cause.advice,
            "state.explain(); ray.timeline(html=...)",
            f"list tasks --filter actor_id={actor}" if actor else "timeline -o run.html",
        )


# ------------------------------------------------------------ failures


def dead_actors(tables: Tables) -> Iterator[Finding]:
    """Did an actor die that should have lived, or was an actor called after its death?"""
    refused = Counter(row["actor_id"] for row in tables.tasks if row["error_type"] == "ACTOR_DIED")
    called_later = {
        row["actor_id"] for row in tables.tasks if row["error_type"] == "ACTOR_DIED" and not row["start_time_ms"]
    }
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in tables.actors:
        if row["state"] == "DEAD" and not (
            _was_intended(tables.deaths.get(row["actor_id"])) and row["actor_id"] not in called_later
        ):
            groups[row["class_name"], last_line(row["death_cause"])].append(row)
    for (class_name, cause), rows in groups.items():
        ids = {row["actor_id"] for row in rows}
        calls = sum(refused[id] for id in ids)
        failed = f"; {count(calls, 'call')} failed because of it" if calls else ""
        call = next(
            (
                f", in {task['name']}"
                for task in tables.tasks
                if task["actor_id"] in ids and task["error_type"] == "ACTOR_DIED" and task["start_time_ms"]
            ),
            "",
        )
        done = sum(row["tasks_executed"] for row in rows)
        constructor_failed = any(
            task["actor_id"] in ids and task["type"] == ACTOR_CREATION_TASK and task["state"] == "FAILED"
            for task in tables.tasks
        )
        yield Finding(
            "DEAD_ACTOR",
            f"{count(len(rows), 'actor')} {class_name} died after {count(done, 'task')}{call}: "
            f"{cause}{failed}{last_words(actor_id=rows[0]['actor_id'])}",
            _few(rows, "class_name", "name", "state", "death_cause", "num_restarts", "max_restarts", "actor_id"),
            "Fix the cause. max_restarts restarts the actor without its state; max_task_retries repeats the calls that "
            "were lost.",
            "state.get_actor(actor_id); state.get_log(actor_id=...)",
            f"logs actor --id {short(rows[0]['actor_id'])}",
            ("FAILED",) if calls or constructor_failed else (),
        )


def _was_intended(cause: dict[str, Any] | None) -> bool:
    context = (cause or {}).get("actor_died_error_context", {})
    return context.get("reason") in INTENDED_DEATHS or "INTENDED_USER_EXIT" in context.get("error_message", "")


def failures(tables: Tables) -> Iterator[Finding]:
    """Which errors did tasks fail with, and how often?"""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in tables.tasks:
        if (
            row["state"] == "FAILED"
            and row["type"] != ACTOR_CREATION_TASK
            and row["error_type"] not in ("ACTOR_DIED", "TASK_CANCELLED")
        ):
            groups[kind_of_error(row["error_type"], last_line(row["error_message"]))].append(row)
    for kind, rows in sorted(groups.items(), key=lambda item: -len(item[1])):
        names = Counter(row["name"] for row in rows)
        most_common = ", ".join(f"{count} {name}" for name, count in names.most_common(3))
        yield Finding(
            "FAILED",
            f"{count(len(rows), 'task')} failed ({most_common}) with "
            f"{typical(kind, Counter(last_line(row['error_message']) for row in rows))}",
            _few(rows, "name", "state", "error_type", "num_attempts", "task_id"),
            "The column error_message has the traceback, and the task's log has its output. A task that takes the "
            "result of a failed task fails with the same error: look at the first of them.",
            "state.get_task(task_id)['error_message']; print(*state.get_log(task_id=...))",
            f"get tasks {short(rows[0]['task_id'])}",
        )


def retries(tables: Tables) -> Iterator[Finding]:
    """Were there many retries of tasks, or restarts of actors?"""
    for name, failed in tables.evidence.retries.items():
        if len(failed) < STORM_RETRIES or len(failed) < tables.evidence.tasks(name):
            continue
        rows = sorted(tables.of_attempts(failed), key=lambda row: -row["num_attempts"])
        yield Finding(
            "RETRIES",
            f"{tables.evidence.retries_in_words(name)}{tables.took('retries', name, 'the repeated attempts')}",
            _few(rows, "name", "num_attempts", "state", "task_id"),
            "Fix the error; or retry only errors that may not happen again (retry_exceptions=[...]), fewer times, and "
            "after a pause.",
            'util.state.list_tasks(detail=True, filters=[("name", "=", ...)]) has a row per attempt',
            f"get tasks {short(rows[0]['task_id'] if rows else failed[0].hex)}",
        )
    for row in tables.actors:
        if row["num_restarts"] >= STORM_RETRIES:
            yield Finding(
                "RETRIES",
                f"actor {row['class_name']} was restarted {row['num_restarts']} times",
                _few([row], "class_name", "state", "num_restarts", "actor_id"),
                "Look for the cause in the cluster's events and in the actor's log.",
                "state.list_cluster_events(); state.get_log(actor_id=...)",
                f"logs actor --id {short(row['actor_id'])}",
            )


# ------------------------------------------------------------ slow tasks


def stragglers(tables: Tables) -> Iterator[Finding]:
    """Did a task run far longer than others of its name?"""
    for name, late in tables.evidence.stragglers.items():
        yield Finding(
            "STRAGGLER",
            f"{tables.evidence.late_in_words(name, late)}{tables.took('straggler', name, 'the excess')}"
            f"{last_words(task_id=late[0].hex)}",
            _few(tables.of_attempts(late), "name", "state", "duration_ms", "node_id", "task_id"),
            "Compare its log and its arguments with those of the others. Divide the work more evenly, or into more "
            "parts than there are CPUs.",
            "print(*state.get_log(task_id=...)); ray.timeline(html=...)",
            f"logs task --id {short(late[0].hex)}",
        )


def tiny(tables: Tables) -> Iterator[Finding]:
    """Are there many tasks that take less than a millisecond?"""
    for name, rows in tables.by_name.items():
        done = [row["duration_ms"] for row in rows if row["end_time_ms"] and row["start_time_ms"]]
        if len(done) >= TINY_TASKS and median(done) < TINY_MS:
            yield Finding(
                "TINY",
                f"{count(len(done), 'task')} {name} took a median of {median(done):.3f} ms; "
                "on Ray, sending a task costs about a millisecond",
                _few(rows, "name", "duration_ms", "task_id"),
                "Give each task a batch of items instead of a single item.",
                "state.summarize_tasks()",
                "summary tasks",
            )


# ------------------------------------------------------------ memory


def leaks(tables: Tables) -> Iterator[Finding]:
    """Do references hold more and more large values?"""
    capacity = sum(row["object_store"]["capacity_bytes"] for row in tables.nodes if row["state"] == "ALIVE")
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in tables.objects:
        if row["refs"] > 0 and row["object_size"] > INLINE_BYTES and row["state"] in ("READY", "SPILLED"):
            groups[row["call_site"]].append(row)
    makers = {row["task_id"]: row["name"] for row in tables.tasks}
    for made_by, rows in groups.items():
        total = sum(row["object_size"] for row in rows)
        spilled = sum(row["state"] == "SPILLED" for row in rows)
        if len(rows) < LEAK_OBJECTS or total < min(LEAK_SHARE * capacity, LEAK_BYTES) and not spilled:
            continue
        rows.sort(key=lambda row: row["creation_time_ms"])
        # One batch of calls is not growth: all of them were submitted before the first value was ready.
        later = sum(row["creation_time_ms"] >= rows[0]["ready_time_ms"] for row in rows)
        made = sum(row["state"] == "FINISHED" for row in tables.by_name.get(makers.get(rows[0]["produced_by"], ""), ()))
        if later < len(rows) / 2 or len(rows) < made / 2:
            continue
        of = f" of {made:,}" if made else ""
        yield Finding(
            "LEAK",
            f"{len(rows):,}{of} objects made by {made_by} are still held, {_mib(total)} in all, "
            f"{total / capacity:.0%} of the object stores"
            f"{f', {spilled} of them in files' if spilled else ''}; they were made one after another, and none was "
            "released",
            _few(
                sorted(rows, key=lambda row: -row["object_size"]),
                "call_site",
                "object_size",
                "refs",
                "reference_type",
                "object_id",
            ),
            "Drop a reference after using its value: delete the variable, empty the list, or overwrite the element. "
            "Keep results, not references to them.",
            'sorted(state.list_objects(), key=lambda o: o.get("object_size", 0)); python -m miniray memory',
            "memory",
        )


def spilling(tables: Tables) -> Iterator[Finding]:
    """Did values have to be written to files and read back?"""
    total = tables.evidence.stores
    if not total["spilled"] and not total["spill_failures"]:
        return
    stores = [{"node_id": row["node_id"], **row["object_store"]} for row in tables.nodes]
    in_files = Counter(row["call_site"] for row in tables.objects if row["state"] == "SPILLED")
    now = (
        "; in files now: " + ", ".join(f"{count:,} of {made_by}" for made_by, count in in_files.most_common(3))
        if in_files
        else ""
    )
    yield Finding(
        "SPILLING",
        f"{tables.evidence.spilling_in_words()}{now}"
        f"{tables.took('memory', 'the object store', 'fetching and storing values')}",
        _few(stores, "node_id", "used_bytes", "peak_bytes", "capacity_bytes", "spilled", "restored", "evicted"),
        "Release values earlier, keep fewer in flight, or give the store more memory (object_store_memory=).",
        "state.summarize_objects()",
        "memory --stats-only",
    )


# ------------------------------------------------------------ missing records


def dropped(tables: Tables) -> Iterator[Finding]:
    """Were records dropped, so that the other answers cover only a part?"""
    if tables.dropped:
        counts = ", ".join(
            f"{number:,} {table[:-1] if number == 1 and table.endswith('s') else table}"
            for table, number in tables.dropped.items()
        )
        were = "was" if sum(tables.dropped.values()) == 1 else "were"
        yield Finding(
            "DROPPED",
            f"the tables were full, and {counts} {were} dropped: the other answers cover only the remaining records",
            [{"table": table, "dropped": number} for table, number in tables.dropped.items()],
            "Look earlier, or at a smaller run.",
            "state.summarize_tasks()['num_dropped']",
            "summary tasks",
        )


RUNBOOK: dict[str, Callable[[Tables], Iterator[Finding]]] = {
    "DEADLOCK": deadlocks,
    "PENDING": pending,
    "QUEUE": queues,
    "RUNNING": running,
    "DEAD_ACTOR": dead_actors,
    "FAILED": failures,
    "RETRIES": retries,
    "STRAGGLER": stragglers,
    "IDLE": idle,
    "LEAK": leaks,
    "SPILLING": spilling,
    "TINY": tiny,
    "DROPPED": dropped,
}
"""The questions by symptom, the most urgent first: tasks that never end come before tasks that are slow."""
