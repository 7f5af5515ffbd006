"""All that the readers in `observe` answer about a session, and the differences between two such answers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

from miniray.observe.doctor import findings
from miniray.observe.explain.bottleneck import explain_run
from miniray.observe.explain.explanation import explain
from miniray.observe.logs.reading import get_log, list_logs
from miniray.observe.state import book, ray_tables
from miniray.observe.state.query import ListApiOptions
from miniray.observe.state.ray_rows import SummaryResource
from miniray.observe.timeline.recording import read

OF_THREADS = {"thread_id"}  # of a thread that is gone
OF_THE_END = {  # of a job that runs, and of one that has ended
    "/state.list_jobs/0/status",
    "/util.state.list_jobs/0/status",
    "/util.state.list_jobs/0/end_time",
}
NUMBER = re.compile(r"\d[\d,]*\.?\d*")
OF_STACKS = {"RUNNING", "QUEUE"}  # findings that say where a thread stands
SLACK_S = 0.05  # the file has microseconds, some rows have whole milliseconds, and sums add up what was cut off


def answers(runtime: Any) -> dict[str, Any]:
    """The answers by question."""
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for resource in book.BOOK:
            found[f"state.list_{resource.value}"] = book.book_rows(runtime, resource)
        for resource in ray_tables.TABLES:
            rows = ray_tables.list_rows(runtime, resource, ListApiOptions(limit=1 << 62, detail=True), False)
            found[f"util.state.list_{resource.value}"] = [row.asdict() for row in rows]
        for summary in SummaryResource:
            found[f"util.state.summarize_{summary.value}"] = ray_tables.summary(runtime, summary, False, True)
        found["state.summarize_tasks"] = book.book_tasks(runtime)
        found["state.summarize_actors"] = book.book_actors(runtime)
        found["state.summarize_objects"] = book.book_objects(runtime)
        for name in "tasks", "actors", "objects", "placement_groups":
            column = f"{name[:-1]}_id"
            ids = [row[column] for row in found[f"state.list_{name}"]]
            found[f"explain {name}"] = {id: explain(runtime, id).asdict() for id in ids[-200:]}
        # Which cause of a short run comes first may depend on a microsecond.
        found["explain"] = bool(explain_run(runtime).sentence)
        found["doctor"] = [
            {**finding.asdict(), "stacks": None} for finding in findings(runtime) if finding.symptom not in OF_STACKS
        ]
        found["timeline"] = list(of_recording(read(runtime)))
        if not runtime.local:
            found["logs"] = dict(of_logs(runtime))
    return found


def of_recording(recording: Any) -> Iterator[Any]:
    for row in recording.rows:
        numbers = [one.number if one is not None else None for one in (row.worker, row.node, row.owner)]
        times = [row.created, row.ready, row.leased, row.started, row.ended, row.finished]
        failure = row.failure and (row.failure.error_type, row.failure.message)
        yield [row.hex, row.attempt, row.outcome, numbers, row.parent, row.producers, failure, row.display_name, times]
    yield recording.reasons
    yield [(mark.at, mark.kind, mark.text) for mark in recording.marks]
    yield [[(at, used, spilled) for at, used, spilled in curve] for curve in recording.curves]
    yield recording.logs
    yield [(span.name, span.task, span.t_start, span.t_end, span.extra) for span in recording.spans]


def of_logs(runtime: Any) -> Iterator[tuple[str, Any]]:
    names = list_logs(node_ip=runtime.head.name)
    yield "names", names
    for name in sum(names.values(), []):
        if name != "raylet.out":
            yield name, "".join(get_log(filename=name, node_ip=runtime.head.name, errors="replace"))


def differences(one: Any, other: Any, epoch: float, where: str = "") -> Iterator[str]:
    """What differs. epoch: add it to a time in `one` that is not in seconds since the epoch."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            if key not in OF_THREADS and f"{where}/{key}" not in OF_THE_END:
                yield from differences(one.get(key), other.get(key), epoch, f"{where}/{key}")
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) != len(other):
            yield f"{where}: {len(one)} entries, and {len(other)}"
        for place, (mine, yours) in enumerate(zip(one, other)):
            yield from differences(mine, yours, epoch, f"{where}/{place}")
    elif isinstance(one, (int, float)) and isinstance(other, (int, float)) and not isinstance(one, bool):
        near = abs(one - other) <= (2.1 if one > 1e9 else SLACK_S) or abs(one + epoch - other) <= SLACK_S
        if not near:
            yield f"{where}: {one!r}, and {other!r}"
    elif one != other and not _near_texts(one, other):
        yield f"{where}: {one!r}, and {other!r}"


def _near_texts(one: Any, other: Any) -> bool:
    """Whether two sentences, or two times, differ only in their numbers, and by little. Ids must be equal."""
    if not isinstance(one, str) or not isinstance(other, str) or NUMBER.sub("", one) != NUMBER.sub("", other):
        return False
    if one.isdigit():
        slack = {19: 1e9 * SLACK_S}.get(len(one), 2)  # 19 digits: nanoseconds since the epoch; fewer: microseconds
        return len(one) < 20 and abs(int(one) - int(other)) <= slack
    if " " not in one:
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other))
    return all(mine == yours or abs(_number(mine) - _number(yours)) <= _number(mine) / 20 + 1 for mine, yours in pairs)


def _number(text: str) -> float:
    return float(text.replace(",", ""))
