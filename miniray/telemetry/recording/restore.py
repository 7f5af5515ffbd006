"""A recording as a session that everything in `observe` can read: the rows of the file become the core's records again.

    with restored("run.db") as runtime:
        print(explain_run(runtime).sentence)

The session is as it was when the last row was written. Its threads are gone, so it has no stacks, and what was opaque
to the core is not in the file: no functions, arguments, values or exceptions. Nothing in the file is run or unpickled.
"""

from __future__ import annotations

import gc
import math
import os
import shutil
import sqlite3
import stat
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from itertools import accumulate
from typing import Any

from ...observe.amounts import rows_are
from ...core.cluster import Cluster
from ...core.records import NodeRecord, Waiter, WorkerRecord
from ...core.restoring import Contradiction, Restoring, kept_text
from ...observe.logs.session import SessionLogs
from ...observe.metrics.prometheus import OVERFLOW
from ...observe.metrics.registry import Curve, Table, summed
from ...observe.metrics.series import MOST_SAMPLES, ReadSeries
from ...observe.timeline.profile import Span
from ...process import context
from ..fork_gate import inside
from .recording_file import APPLICATION_ID, ENDINGS, is_empty, quoted_path, remove_empty_log, writer_of
from ..schema import VERSION
from ..schema.checked_rows import STORED, CheckedRows, Damaged

BUSY_S = 10.0
COPIES = 5  # how often a file and its log are copied, until nobody has written to them meanwhile
STEPS = 100_000  # of SQLite's machine, after which Python looks for Ctrl-C
OF_ROWS = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a reader may raise because rows contradict each other, in a way that no rule foresees. Any other error is
certainly a mistake of ours."""
LEAST_ROUNDS, ROUNDS_PER_BYTE = 100, 1 / 20_000  # of so many steps may be made: fifty times what tasks take


class Unreadable(Exception):
    """The file is not a recording that can be read; its text says why."""


class Lock:
    """In place of the core's lock: nobody else can reach these tables."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


class Restored:
    """A session that was read from a file. It has what the readers in `observe` take from a `Runtime`.

    path: the file. facts: the rows of the table `session`. gaps: what the recording lacks, a sentence for each. pid,
    entrypoint: of the program that was recorded. job_status, job_ended: as in its row of `jobs`. metric_tables: what
    its metrics had recorded at the end, as `observe.metrics.registry.Registry.tables`. See `Runtime` for the others.
    """

    local = False
    closed = True
    epoch = 0.0  # the records have seconds since the epoch
    unfinished_lines: Any = {}

    def __init__(self, path: str, connection: sqlite3.Connection, writer: int):
        """writer: the pid of the process that is recording into the file, 0 if none is. The caller gives this a context
        of its own, in which the session becomes the one that is read: names of logs have the pid of its program."""
        self.path, self._writer = path, writer
        self._rows = CheckedRows(connection)
        if {"_attempts", "actors", "nodes", "workers"} <= set(self._rows.missing) and not is_empty(connection):
            raise Unreadable(f"{path} is no recording of miniray: it has no table {', '.join(self._rows.missing)}")
        self.facts = self._rows.facts()
        self.pid = self.facts.get("pid", 0)
        self.entrypoint = self.facts.get("entrypoint", "")
        context.recorded.set(self)
        self.local = self.facts.get("local") == "1"
        restoring = Restoring()
        self.cluster: Cluster = restoring.rebuilt(self._rows)
        self.lock = Lock()
        self.error_text: Callable[[Any], str] = kept_text
        self._now: float = (self.facts.get("ended_us") or self.facts.get("written_us") or 0) / 1e6
        self.job_status: str = self.facts.get("status", "RUNNING")
        self.job_ended: float = (self.facts.get("ended_us") or 0) / 1e6
        self.options: dict[str, Any] = {"runtime_env": self.facts.get("runtime_env_json", {}), "log_to_driver": False}
        self.driver_waiters: dict[Waiter, list[Any]] = {}
        self._waits_forever = False
        restoring.reconstructions(self.facts.get("num_reconstructions", 0))
        restoring.totals(self.facts.get("totals_json", {}))
        self._restore_waits(restoring, self.facts.get("waits_json", {}))
        self.spans: deque[Span] = deque(self._spans())
        self.waits: deque[Any] = deque(self._waits())
        self._count_dropped()
        if self.cluster.dropped["tasks"]:
            restoring.attempts(self.facts.get("totals_json", {}).get("attempts", ()))
        self.gaps = list(self._gaps())
        self.logs = self._logs()
        self._curves = list(self._metrics())
        self.metric_tables = self._last_values()

    # ------------------------------------------------------------ what readers take from a runtime

    def now(self) -> float:
        """The moment at which the recording ends."""
        return self._now

    @contextmanager
    def locked(self) -> Iterator[Cluster]:
        """The tables, as `Runtime.locked` gives them."""
        yield self.cluster

    @property
    def head(self) -> NodeRecord:
        """The driver's node."""
        alive = self.cluster.scheduler.alive
        return alive[0] if alive else next(iter(self.cluster.nodes.values()))

    def waiting_for(self, worker: WorkerRecord) -> list[Any]:
        """What the thread of a worker waited for."""
        return list(worker.handle.waiting) if worker.handle is not None else []

    def waits_forever(self, ident: int) -> bool:
        """Whether every thread of the program waited without a timeout, whatever thread of this process is named."""
        return self._waits_forever

    def curves(self) -> list[Curve]:
        """The metrics of the program over time, as `observe.metrics.registry.curves` gives them. The points of a
        histogram are means: the file does not have its observations."""
        return self._curves

    # ------------------------------------------------------------ the parts

    def _restore_waits(self, restoring: Restoring, told: dict[str, Any]) -> None:
        for number, need, timed, awaited in told.get("workers", ()):
            restoring.worker_waits(number, need, timed, awaited)
        for need, timed, awaited in told.get("driver", ()):
            waiter, objects = restoring.wait(need, timed, awaited)
            self.driver_waiters[waiter] = objects
        for number, until in told.get("drains", ()):
            restoring.drain(number, until)
        self._waits_forever = bool(told.get("program_waits"))

    def _spans(self) -> Iterator[Span]:
        workers = self.cluster.workers
        for row in self._rows("profile_events"):
            span = Span(
                row["name"],
                workers.get(row["worker"]),
                row["task"],
                _s(row["start_us"]),
                _s(row["end_us"]),
                row["extra_json"] or {},
            )
            span.number = row["id"]
            yield span

    def _waits(self) -> Iterator[tuple[WorkerRecord | None, int, float, float]]:
        workers = self.cluster.workers
        for row in self._rows("waits"):
            worker = workers.get(row["worker"])
            if worker is not None or row["worker"] is None:
                yield worker, row["task"], _s(row["start_us"]), _s(row["end_us"])

    def _metrics(self) -> Iterator[Curve]:
        groups: dict[tuple[str, str, tuple[tuple[str, str], ...]], dict[str, list[dict[str, Any]]]] = {}
        for row in self._rows("metric_points"):
            group = groups.setdefault((row["name"], row["kind"], tuple(row["tags_json"].items())), {})
            group.setdefault(row["worker_id"], []).append(row)
        for (name, kind, tags), by_worker in sorted(groups.items()):
            points = [row for rows in by_worker.values() for row in rows]
            description = next((row["description"] for row in points if row["description"]), "")
            number = 0
            if kind == "histogram":
                number = sum(rows[-1]["count"] for rows in by_worker.values())
                samples = sorted(
                    (row["timestamp_us"] / 1e6, _number(row["delta"]) / row["delta_count"])
                    for row in points
                    if row["delta_count"]
                )
            else:
                lists = [
                    [(row["timestamp_us"] / 1e6, _number(row["value"])) for row in rows] for rows in by_worker.values()
                ]
                samples = summed(lists)
            yield Curve(name, kind, description, dict(tags), samples[-MOST_SAMPLES:], number)

    def _last_values(self) -> dict[tuple[str, str, str], Table]:
        tables: dict[tuple[str, str, str], Table] = {}
        for row in self._rows("metric_points"):  # a later row replaces an earlier one
            key = row["worker_id"], row["name"], row["kind"]
            table = tables.get(key)
            if table is None:
                table = tables[key] = Table(row["worker_id"], row["kind"], row["name"], row["description"], ())
            tags = row["tags_json"]
            overflows = OVERFLOW.items() <= tags.items()
            if overflows:
                tags = {name: value for name, value in tags.items() if name not in OVERFLOW}
            table.tag_keys.update(dict.fromkeys(tags))
            value = _histogram(row) if row["kind"] == "histogram" else _number(row["value"])
            table.series[tuple(sorted(tags.items())), overflows] = ReadSeries(tags, overflows, value)
        return tables

    def _count_dropped(self) -> None:
        """What the recording lacks counts as dropped: the rows that a question about it would have shown."""
        counted = {"tasks": "tasks", "task_attempts": "tasks", "actors": "actors", "workers": "workers"}
        for row in self._rows("dropped"):
            table = counted.get(row["table_name"], "events" if row["table_name"] == "cluster_events" else "")
            if table:
                self.cluster.dropped[table] += row["count"]

    def _gaps(self) -> Iterator[str]:
        version = self.facts.get("schema_version", VERSION)
        if version != VERSION:
            yield f"{self.path} has version {version} of the schema, and this miniray reads version {VERSION}"
        if not self.facts:
            yield f"{self.path} is empty: {without_rows(self.path)}"
        elif self.cluster.nodes and next(self._rows("nodes"), None) is None:
            yield f"{self.path} has no rows of nodes: what it says about nodes and resources is unknown"
        if self.facts and self._rows.missing:
            yield f"{self.path} lacks the tables {', '.join(self._rows.missing)}: what they would say is unknown"
        for row in self._rows("dropped"):
            table = row["table_name"]
            yield f"{rows_are(row['count'], table)} missing: {row['reason']}"
        if "stopped" in self.facts:
            return
        if self.facts and not self.facts.get("ended_us"):
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self._now))
            if self._writer:
                yield f"process {self._writer} is still recording: this is its state at {at}"
            else:
                yield f"the program was killed before its session had ended: this is its state at {at}"

    def why_empty(self) -> str:
        """Why the recording has no rows."""
        if "stopped" in self.facts:
            return f"the recording stopped: {self.facts['stopped']}"
        if self._writer:
            return f"process {self._writer} records into it, and has not written the first rows yet"
        return without_rows(self.path)

    def _logs(self) -> SessionLogs:
        """The logs, from the lines in the file."""
        runtime: Any = self
        logs = SessionLogs(runtime)
        tables = self.cluster
        for row in self._rows("log_lines"):
            worker = tables.workers.get(row["worker"])
            task = tables.tasks.get(row["task"])
            if worker is None:
                if row["log"] == logs.system.name:
                    logs.system.add(None, (row["line"] + "\n").encode(errors="backslashreplace"))
                continue
            attempt = (task.number, row["attempt_number"] or 0) if task is not None else None
            logs.recorded(worker, task, attempt, row["stream"], row["line"])
        return logs


def _s(us: int | None) -> float:
    """Seconds of microseconds; 0.0, the beginning of a simulation, for NULL."""
    return us / 1e6 if us else 0.0


def _number(value: float | None) -> float:
    """A value of a metric. SQLite stores NaN as NULL."""
    return math.nan if value is None else value


def _histogram(row: dict[str, Any]) -> dict[str, Any]:
    """The value of a histogram in a row of `metric_points`."""
    counts, bounds = row["bucket_counts_json"], row["bounds_json"]
    if len(counts) != len(bounds) + 1:
        raise Contradiction(
            f"a point of the histogram {row['name']} has {len(counts)} buckets and {len(bounds)} bounds"
        )
    buckets = zip((*bounds, math.inf), accumulate(counts))
    return {"count": row["count"], "sum": _number(row["sum"]), "buckets": dict(buckets)}


def without_rows(path: str) -> str:
    """Why a recording has no rows, as far as the files tell."""
    early, name = "its program ended before the first rows were written", os.path.basename(path)
    if _has_log(path):
        return early
    return (
        f"{early}, or they are in {name}-wal, which is not here. While a program runs, and after it was killed, "
        f"{name}, {name}-wal and {name}-shm belong together"
    )


@contextmanager
def restored(path: str) -> Iterator[Restored]:
    """The session in a recording. In the block, the readers of logs, and those that name a process, read this session;
    other threads do not.

    path: the file, which may still be written. It is opened for reading only. Raises Unreadable.
    """
    runtime = read(path)
    token = context.recorded.set(runtime)
    try:
        yield runtime
    finally:
        context.recorded.reset(token)


def read(path: str) -> Restored:
    """The session in a recording, read in one transaction: its tables belong to one moment. Raises Unreadable."""
    name = os.fspath(path)
    size = _size(name)
    with ExitStack() as stack:
        stack.enter_context(inside)
        stack.callback(remove_empty_log, name)
        connection = _opened(name, stack)
        return _read(name, connection, _Limit(size))


def _size(name: str) -> int:
    """The bytes of a recording's files. Raises Unreadable unless they are ordinary files: reading another kind may
    never end."""
    size = 0
    for ending in ENDINGS:
        try:
            found = os.stat(name + ending)
        except FileNotFoundError:
            if not ending:
                raise Unreadable(f"there is no file {name}") from None
            continue
        except (OSError, ValueError) as problem:  # ValueError: no file can have this name
            raise Unreadable(f"{ascii(name)} cannot be read: {problem}") from problem
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable(f"{name}{ending} is not an ordinary file")
        size += found.st_size
    return size


class _Limit:
    """Ends what SQLite does: after Ctrl-C, and after more steps than the rows of an honest file take. The definitions
    in a file may make it compute without an end.

    over: there were too many.
    """

    def __init__(self, size: int):
        """size: of the file, in bytes."""
        self._left = LEAST_ROUNDS + int(size * ROUNDS_PER_BYTE)
        self.over = False

    def __call__(self) -> bool:
        self._left -= 1
        self.over = self._left < 0
        return self.over


def _read(name: str, connection: sqlite3.Connection, limit: _Limit) -> Restored:
    """As `read`, for an open file."""
    connection.set_progress_handler(limit, STEPS)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN")
        _check_tables(name, connection)
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID and not is_empty(connection):
            raise Unreadable(f"{name} is not a recording of miniray")
        writer = writer_of(connection)
        if not writer:  # it may have closed the file since BEGIN: what is read after it has gone is its last word
            connection.execute("COMMIT")
            connection.execute("BEGIN")
        collects = gc.isenabled()
        gc.disable()  # nothing of this is garbage, and there may be a million records
        try:
            return copy_context().run(Restored, name, connection, writer)
        finally:
            if collects:
                gc.enable()
    except Unreadable:
        raise
    except (sqlite3.Error, OSError) as problem:
        if limit.over:
            raise Unreadable(f"{name} cannot be read: a query on it does not end") from problem
        if str(problem) == "interrupted":  # what the handler of Ctrl-C raised is lost in SQLite
            raise KeyboardInterrupt from None
        raise Unreadable(f"{name} cannot be read: {problem}") from problem
    except Damaged as problem:
        raise Unreadable(f"{name} cannot be read, because it is damaged: {problem}") from problem
    except OF_ROWS as problem:
        raise Unreadable(failed(name, problem)) from problem


def failed(name: str, problem: Exception) -> str:
    """The message about a file in which a reader met one of OF_ROWS."""
    if isinstance(problem, Contradiction):
        return f"{name} cannot be read, because its rows contradict each other: {problem}"
    place = traceback.extract_tb(problem.__traceback__)[-1]
    return (
        f"{name} cannot be read: {problem!r} in {os.path.basename(place.filename)}, line {place.lineno}. Its rows "
        "contradict each other, or this is a mistake of miniray"
    )


def _check_tables(name: str, connection: sqlite3.Connection) -> None:
    """Raise Unreadable if what should be a table is a view, or is computed in another way."""
    for kind, own, sql in connection.execute("SELECT type, lower(name), sql FROM sqlite_master"):
        if own in STORED and (kind != "table" or str(sql).upper().startswith("CREATE VIRTUAL")):
            raise Unreadable(f"{name} is not a recording of miniray: {own} is not a table")


def _opened(name: str, stack: ExitStack) -> sqlite3.Connection:
    """The file, for reading; `stack` closes it. Raises Unreadable."""
    try:
        return _connected(name, "mode=ro", stack)
    except (sqlite3.Error, UnicodeError) as problem:  # UnicodeError: SQLite quotes what it finds in a damaged file
        # SQLite wants to make a file beside it. In a folder where that is impossible, nobody writes to the file either.
        try:
            if _has_log(name):  # without its rows, the file would be an older state
                return _connected(_copied(name, stack), "mode=rw", stack)
            return _connected(name, "mode=ro&immutable=1", stack)
        except (sqlite3.Error, UnicodeError, OSError):
            raise Unreadable(f"{name} cannot be read: {problem}") from problem


def _has_log(name: str) -> bool:
    """Whether there are transactions beside the file. A reader leaves an empty log."""
    return os.path.exists(f"{name}-wal") and os.path.getsize(f"{name}-wal") > 0


def _connected(name: str, mode: str, stack: ExitStack) -> sqlite3.Connection:
    """A connection of which it is known that it can read the file."""
    connection = sqlite3.connect(f"file:{quoted_path(name)}?{mode}", uri=True, timeout=BUSY_S, isolation_level=None)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    stack.callback(connection.close)
    return connection


def _copied(name: str, stack: ExitStack) -> str:
    """A copy of a file and of its log in a folder of its own, until `stack` is closed. Raises OSError."""
    copy = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="miniray-")), "run.db")
    for _ in range(COPIES):
        before = [os.stat(name + ending) for ending in ENDINGS[:2]]
        for ending in ENDINGS[:2]:
            shutil.copyfile(name + ending, copy + ending)
        after = [os.stat(name + ending) for ending in ENDINGS[:2]]
        if [(one.st_mtime_ns, one.st_size) for one in before] == [(one.st_mtime_ns, one.st_size) for one in after]:
            return copy
    raise OSError("a program that may write here changes it all the time")
