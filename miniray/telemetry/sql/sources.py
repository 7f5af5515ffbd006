"""Where queries go: a running session, or a file. Each source has one method, `query`, so what asks works on both."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ...observe.amounts import rows_are
from ..._version import __version__
from ...process import context
from ...process.doorbell import new_real_lock, real_clock, start_real_thread
from ...process.our_code import only_waits
from . import sandbox
from ..schema import span_view
from ..collecting.collector import Batch, Collector
from .result import QueryError, Result
from ..schema.ddl import View
from ..schema import BY_NAME, VERSION
from ..collecting.store import UNUSED, Store
from ..fork_gate import inside
from ..recording.recording_file import is_closed, quoted_path, remove_empty_log, writer_in

Params = Sequence[Any] | Mapping[str, Any]

# The part of a collection (`collector.EVERYTHING`) that fills a table. A view is filled by what its tables need.
PARTS = {
    "_attempts": {"tasks", "actors", "workers"},
    "_classes": {"tasks", "actors"},
    "_specs": {"tasks"},
    "_failures": {"tasks", "actors"},
    "actors": {"actors", "tasks"},
    "actor_events": {"actors"},
    "objects": {"objects"},
    "nodes": {"workers"},
    "node_resources": {"workers"},
    "workers": {"workers"},
    "log_search": {"rest"},
}
GRACE_S = 0.5  # what a statement may take to notice that its time is over
LATE = "An earlier statement has not ended yet: its time is over, but nothing can stop a function of SQLite. Ask later."
OWN_S = 5.0  # the most that our own statements on a file may take
HEARD_S = 0.2  # after which a thread that waits for a statement looks for signals
MOST_ROWS = 100_000
GROWING = (  # the tables of the live source that keep the last MOST_ROWS rows
    "log_lines",
    "metric_points",
    "node_resources",
    "profile_events",
    "stack_samples",
    "store_samples",
    "waits",
    "_own_spans",
)
MOST_SAID = 300  # characters of a reason that a file gives
SILENT_S = 30.0  # how long a process that records may write nothing until a file counts as incomplete


def facts(runtime: Any) -> dict[str, object]:
    """What the table `session` says about a session from its start."""
    import platform

    return {
        "miniray_version": __version__,
        "python_version": platform.python_version(),
        # `platform.platform` would start a process, to find out what `processor` is.
        "platform": f"{platform.system()}-{platform.release()}-{platform.machine()}",
        "pid": os.getpid(),
        "entrypoint": context.shown_entrypoint(),
        "namespace": runtime.options.get("namespace") or "",
        "runtime": type(runtime).__name__,
        "epoch": repr(runtime.epoch),
        "started_us": started_us(runtime),
        "record_limit": runtime.cluster.record_limit,
        **span_view.facts(runtime),
    }


def started_us(runtime: Any) -> int:
    """When the session started: when its first node joined."""
    first = next(iter(runtime.cluster.nodes.values()), None)
    started: float = first.t_started if first is not None else runtime.now()
    return int((started + runtime.epoch) * 1e6)


def check_statement(sql: str, limit: int | None = None, timeout_s: float = 1.0) -> None:
    """Raise QueryError for a statement that no session could answer: it is wrong, or would be refused; and ValueError
    for such a limit and such a time."""
    sandbox.check(sql, (), limit, timeout_s)
    with inside, contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        Store(connection).create()
        sandbox.tables_of(connection, sandbox.protect(connection), sql, ())


class _Aside:
    """A statement on a thread of its own. The caller of `result` waits for it as long as it may run, and no longer.

    is_over: whether the thread no longer needs the connection. The thread and its locks are real ones, also in a
    simulation, where a statement takes no virtual time.
    """

    def __init__(self, run: Callable[[], Result], then: Callable[[], None]):
        """then: called on the thread, after `is_over` has been set."""
        self._run, self._then = run, then
        self.is_over = False
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._begun = new_real_lock()  # taken by the thread, or by a caller that leaves before the thread has begun
        self._told = new_real_lock()  # taken until the caller of `result` has nothing to wait for
        self._over = new_real_lock()  # taken until `is_over`
        self._told.acquire()
        self._over.acquire()

    def _work(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._result = self._run()
        except BaseException as error:
            self._error = error
        self.is_over = True
        self._over.release()
        self.give_up()
        self._then()

    def give_up(self) -> None:
        """End the wait of the caller of `result`. Any thread may call this, and more than once."""
        with contextlib.suppress(RuntimeError):  # the lock is free already
            self._told.release()

    def wait(self, seconds: float) -> None:
        """Wait until the thread no longer needs the connection, or for this time."""
        if _wait(self._over, seconds):
            self._over.release()

    def result(self, seconds: float) -> Result | None:
        """Start, and return what `run` returns, or raise what it raises. None if it has not ended in time."""
        try:
            start_real_thread(self._work, ())  # unlike `Thread.start`, it does not wait for the thread
            _wait(self._told, seconds)  # the handler of a signal may raise here
        finally:
            if self._begun.acquire(blocking=False):  # it will never begin
                self.is_over = True
                self._over.release()
        if self._error is not None:
            raise self._error
        return self._result


@only_waits
def _wait(lock: Any, seconds: float) -> bool:
    """Take a lock within this time, which is real also in a simulation. A signal that comes just before a wait begins
    does not wake it, so its handler runs between two waits: Ctrl-C was heard only when the time was over."""
    ends = real_clock() + seconds
    while not lock.acquire(timeout=min(max(ends - real_clock(), 0.0), HEARD_S)):
        if real_clock() >= ends:
            return False
    return True


class _Source:
    """What both sources have in common: one connection, which answers one question at a time."""

    _from_anybody = False  # whether somebody else has written the views, which may call any function

    def __init__(self, connection: sqlite3.Connection):
        self._connection = connection
        self._guard = sandbox.protect(connection)
        self._lock = threading.RLock()  # re-entrant: a finaliser that runs while it is held may ask, too
        self._busy = False  # whether a thread is inside `_used`
        self._aside: _Aside | None = None  # the last one
        self._closing = new_real_lock()  # taken by the one that closes the connection
        self._process = os.getpid()

    @property
    def late(self) -> bool:
        """Whether a statement that nobody waits for any longer has not ended yet, since nothing can stop a function of
        SQLite. Its thread has the connection until then."""
        return not self._busy and self._runs_aside()

    def _runs_aside(self) -> bool:
        return self._aside is not None and not self._aside.is_over

    def _is_inherited(self) -> bool:
        """Whether a fork has copied this source: its locks may be held by threads that are not in this process."""
        return self._process != os.getpid()

    def query(self, sql: str, params: Params = (), limit: int | None = 10_000, timeout_s: float = 10.0) -> Result:
        """Run one statement that reads. Raises QueryError."""
        sandbox.check(sql, params, limit, timeout_s)
        ends = real_clock() + timeout_s
        with context.in_turn(self._lock), self._used(ends, timeout_s):
            with inside:
                read = sandbox.tables_of(self._connection, self._guard, sql, params)
            before = real_clock()
            self._refresh(read)
            ends += real_clock() - before  # reading what is new in the session is not the statement's work
            result = self._run(sql, params, limit, timeout_s, ends)
            with inside:
                result.reason = self._missing(read)
        result.complete = not result.reason
        return result

    @contextlib.contextmanager
    def _used(self, ends: float, timeout_s: float) -> Iterator[None]:
        """Within the block, this thread alone uses the connection, and nobody closes it. Raises QueryError if the
        connection is not free in time, or is closed. ends: on the real clock. timeout_s: for the text of an error."""
        if self._is_inherited():
            raise QueryError("It was opened before this process was forked. Open it again here.")
        if self.late and self._aside is not None:
            self._aside.wait(ends - real_clock())
        if not _wait(self._lock, ends - real_clock()):
            raise QueryError(
                self._guard.closed or f"The statements of other threads have taken all of timeout_s={timeout_s:g}."
            )
        try:
            if self._busy:
                raise QueryError("This thread is in the middle of another query.")
            if self.late:
                raise QueryError(self._guard.closed or LATE)
            self._busy = True  # set before the look at `closed`, since others look at `closed` first
            try:
                if self._guard.closed:
                    raise QueryError(self._guard.closed)
                self._guard.given_up = False
                yield
            finally:
                self._busy = False
                self._close_if_unused()
        finally:
            self._lock.release()

    def _run(self, sql: str, params: Params, limit: int | None, timeout_s: float, ends: float) -> Result:
        def run() -> Result:
            with inside:
                return sandbox.run(self._connection, self._guard, sql, params, limit, timeout_s, ends)

        if not (self._from_anybody or sandbox.may_take_long(sql)):
            return run()
        aside = self._aside = _Aside(run, self._close_if_unused)
        if self._guard.closed:  # `_close` sets this before it looks for `_aside`, and may have found none
            aside.give_up()
        try:
            result = aside.result(ends + GRACE_S - real_clock())
        finally:
            self._guard.given_up = not aside.is_over
        if result is None:
            raise QueryError(
                self._guard.closed or f"The statement ran longer than timeout_s={timeout_s:g} and was given up."
            )
        return result

    def _refresh(self, read: set[str]) -> None:
        """Bring the tables that a statement reads up to date."""

    def _missing(self, read: set[str]) -> str:
        """Why the tables that a statement reads may lack something; "" if they have everything."""
        raise NotImplementedError

    def _close(self, why: str) -> None:
        """Close the connection. A statement that runs in another thread ends at its next look at the guard. Nothing
        is called on the connection here: another thread may be closing it."""
        self._guard.closed = why
        if self._is_inherited():
            return
        if self._aside is not None:  # a function of SQLite does not look: its statement is late from now on
            self._aside.give_up()
        with context.in_turn(self._lock), self._lock:
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        """Close the connection of a source that has ended, unless it is in use. Each user calls this when it no longer
        needs the connection: a query, also one below us on this thread, and the thread of a statement. That thread is a
        real one, so in a simulation it may not wait for our lock."""
        if self._guard.closed and not (self._busy or self._runs_aside()) and self._closing.acquire(blocking=False):
            with inside:
                self._connection.close()
                self._after_closing()

    def _after_closing(self) -> None:
        """Clean up. Nobody uses the connection any longer."""


class LiveSource(_Source):
    """The running session, as a private database in memory that is brought up to date at each query."""

    def __init__(self, runtime: Any):
        self.runtime = runtime
        with inside:
            connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = OFF")
            self._store = Store(connection)
            self._store.create()
            self._store.note(**facts(runtime))
            super().__init__(connection)
        self._collector = Collector(runtime)
        self._dropped: dict[str, int] = {}
        self._waiting: list[Batch] = []  # collected, but not written yet
        self._cut_short = False  # whether a collection was interrupted
        self.replaces_another = False  # which had the history of values, and still runs a statement
        self._forgotten = 0  # rows of attempts deleted since unused rows were last looked for

    def _refresh(self, read: set[str]) -> None:
        """Bring the tables that a statement reads up to date, and delete what the session has dropped."""
        wanted = set()
        for name in read:
            if name in PARTS or name in BY_NAME and not isinstance(BY_NAME[name], View):
                wanted |= PARTS.get(name, {"rest"})
        if not wanted:
            return
        self.runtime.drain()
        try:
            self._waiting.append(self._collector.collect(frozenset(wanted)))
        except BaseException:
            self._cut_short = True
            raise
        with inside:
            self._write()
            self._mirror()

    def _write(self) -> None:
        while self._waiting:  # a batch is told once: one that cannot be written stays here
            batch = self._waiting[0]
            if batch:
                try:
                    self._store.write(batch)
                except sqlite3.Error as problem:
                    raise QueryError(f"What is new in the session could not be read: {problem}") from problem
            del self._waiting[0]
            self._shorten(batch.rows)

    def _shorten(self, new: Collection[str]) -> None:
        """Keep the tables within bounds. new: the tables that have new rows. Objects that were released are gone; of
        what grows as long as the session runs, the last MOST_ROWS rows of each table are kept."""
        execute = self._connection.execute
        if "_released" in new:
            execute("DELETE FROM objects WHERE released_us IS NOT NULL")
        now_us = int((self.runtime.now() + self.runtime.epoch) * 1e6)
        for name in GROWING:
            if name not in new:
                continue
            time = self._store.tables[name].time
            (count,) = execute(f"SELECT count(*) FROM {name}").fetchone()
            if count > MOST_ROWS * 1.1:
                execute(
                    f"DELETE FROM {name} WHERE {time} <= (SELECT {time} FROM {name} ORDER BY {time} DESC LIMIT 1 "
                    "OFFSET ?)",
                    (MOST_ROWS,),
                )
                (left,) = execute(f"SELECT count(*) FROM {name}").fetchone()
                self._store.drop(name, "SQL on the running session keeps only the last rows", count - left, now_us)

    def _mirror(self) -> None:
        """Delete the rows of records that the session no longer has. Otherwise the database would grow forever."""
        with self.runtime.lock:
            cluster = self.runtime.cluster
            dropped = dict(cluster.dropped)
            if dropped == self._dropped:
                return
            kept = {
                "_attempts": set(cluster.tasks),
                "actors": set(cluster.actors),
                "workers": {0, *cluster.workers},
            }
            first_event = dropped["events"]
        self._dropped = dropped
        execute = self._connection.execute
        execute("BEGIN")
        for table, numbers in kept.items():
            key = "number" if table == "workers" else "id" if table == "actors" else "key"
            there = [number for (number,) in execute(f"SELECT {key} FROM {table} WHERE {key} >= 0")]
            gone = [(number,) for number in there if number not in numbers]
            self._connection.executemany(f"DELETE FROM {table} WHERE {key} = ?", gone)
            if table == "_attempts" and gone:
                execute("DELETE FROM _attempts WHERE key < 0 AND (-key) >> 20 NOT IN (SELECT key FROM _attempts)")
                self._forgotten += len(gone)
        if self._forgotten > MOST_ROWS:  # what these rows shared may be unused now
            self._forgotten = 0
            self._collector.numbers.forget()
            for statement in UNUSED:
                execute(statement)
        execute("DELETE FROM cluster_events WHERE seq < ?", (first_event,))
        execute("COMMIT")

    def _missing(self, read: set[str]) -> str:
        names = {
            "tasks": {"_attempts"},
            "actors": {"actors", "actor_events"},
            "workers": {"workers"},
            "events": {"cluster_events"},
        }
        missing = [
            f"{self._dropped[name]:,} older {name}"
            for name, tables in names.items()
            if self._dropped.get(name) and read & tables
        ]
        said = [f"The session has dropped {', '.join(missing)} from its records."] if missing else []
        if self._cut_short:
            said.append("A query was interrupted while it read the session, and some rows are lost.")
        if self.replaces_another and "metric_points" in read:
            said.append("A statement that could not be stopped has the earlier values.")
        for table, reason, count in self._connection.execute("SELECT table_name, reason, count FROM dropped"):
            if table in read and table not in ("tasks", "cluster_events"):  # these were said above
                said.append(f"{rows_are(count, table)} missing: {reason}.")
        return " ".join(said)

    def close(self) -> None:
        """Drop the database. A statement that runs in another thread ends."""
        self._close("The session has ended.")
        self._collector.close()


class FileSource(_Source):
    """A recording, while it is written or afterwards. The file is opened read-only."""

    _from_anybody = True
    _kinds: dict[str, str]  # by name: "table" or "view", as the file was when it was opened

    def __init__(self, path: str | os.PathLike[str]):
        """Raises FileNotFoundError, or QueryError for a file that is no recording."""
        self.path = os.fspath(path)
        if not os.path.exists(self.path):
            said = f"there is no recording {self.path!r}"
            if os.path.islink(self.path):
                said += f": it is a link to {os.readlink(self.path)!r}, which is not there"
            raise FileNotFoundError(said)
        if not os.path.isfile(self.path):  # SQLite would wait for a FIFO
            what = "a folder" if os.path.isdir(self.path) else "not a regular file"
            raise QueryError(f"{self.path} is no recording of miniray: it is {what}")
        with inside:
            connection = self._open()
            try:
                super().__init__(connection)
            except (sqlite3.Error, UnicodeError) as problem:
                connection.close()
                raise QueryError(f"{self.path} cannot be read: {problem}") from problem

    def _open(self) -> sqlite3.Connection:
        address = f"file:{quoted_path(self.path)}"
        problem: Exception | None = None
        # A file in WAL mode needs its -shm file. If that cannot be made, nobody writes to the file either.
        for mode in ("mode=ro", "mode=ro&immutable=1"):
            try:
                connection = sqlite3.connect(
                    f"{address}?{mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=5.0
                )
                connection.text_factory = sandbox.readable  # a damaged file may have any bytes
                connection.execute("PRAGMA cache_size = -65536")
                self._kinds = dict(connection.execute("SELECT name, type FROM sqlite_master WHERE type != 'index'"))
                if self._kinds.get("session") == "table":
                    return connection
                problem = QueryError("it has no table session")
            except (sqlite3.Error, UnicodeError) as error:  # UnicodeError: SQLite quotes what it finds
                problem = error
        raise QueryError(f"{self.path} is no recording of miniray: {problem}")

    def session(self) -> dict[str, str]:
        """The facts of the table `session`. Raises QueryError."""
        with context.in_turn(self._lock), self._used(real_clock() + OWN_S, OWN_S), inside:
            return dict(self._own("SELECT name, value FROM session"))

    def _own(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement of ours. It runs in the sandbox, too: the file may come from anybody."""
        with sandbox.guarded(self._connection, self._guard, OWN_S):
            return self._connection.execute(sql).fetchall()

    def _missing(self, read: set[str]) -> str:
        known: dict[str, str] = dict(self._own("SELECT name, value FROM session"))
        reasons = []
        if known.get("schema_version") != str(VERSION):
            reasons.append(f"the file has version {_cut(known.get('schema_version'))} of the schema, this is {VERSION}")
        public = {"_attempts": ("tasks", "task_attempts", "task_events")}
        names = {name for table in read for name in (table, *public.get(table, ()))}
        if self._kinds.get("dropped") != "table":
            return "The file does not tell what is missing."
        for table, reason, count in self._own("SELECT table_name, reason, count FROM dropped"):
            if table in names or not table:
                number = count if type(count) is int else "some"  # a damaged file may say anything
                reasons.append(f"{rows_are(number, table or 'the recording')} missing: {_cut(reason)}")
        writer = writer_in(known)
        if not (writer or is_closed(known)):  # it may have closed the file since
            known = dict(self._own("SELECT name, value FROM session"))
        if not is_closed(known):
            reasons.extend(_lacks_its_end(known, writer))
        return f"{'; '.join(reasons)}." if reasons else ""

    def close(self) -> None:
        """Close the file. A statement that runs in another thread ends."""
        if self._guard.closed:
            return
        self._close(f"The recording {self.path} is closed.")

    def _after_closing(self) -> None:
        remove_empty_log(self.path)

    def __enter__(self) -> FileSource:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _lacks_its_end(facts: Mapping[str, Any], writer: int) -> Iterator[str]:
    """Why a file that nobody has closed may lack something. writer: the process that records into it, 0 if none does.
    Without one, the file lacks what happened after its last transaction, however short ago that was."""
    written = str(facts.get("written_us"))
    age = time.time() - int(written) / 1e6 if written.isdecimal() and len(written) < 20 else None
    last = "" if age is None else f"; it last wrote {max(age, 0.0):,.0f} s ago"
    if not writer:
        yield f"the program was killed, or could not write any longer, before its session had ended{last}"
    elif age is not None and age > SILENT_S:
        yield f"process {writer} should record into the file, and is silent{last}"


def _cut(said: Any) -> str:
    """What a file says, for a sentence."""
    text = str(said)
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}..."


def open(path: str | os.PathLike[str]) -> FileSource:  # noqa: A001 (the name is the package's)
    """Open a recording for queries. It may still be written to.

    Raises FileNotFoundError, or QueryError for a file that is no recording.
    """
    return FileSource(path)


# ------------------------------------------------------------ the running session

_guard = threading.RLock()
_live: list[LiveSource] = []
_inherited: list[LiveSource] = []  # in a forked child: the parent's, which are never closed here


def live() -> LiveSource:
    """The source of the running session; made at the first call. Raises QueryError without a session."""
    runtime = context.session
    if runtime is None:
        raise QueryError(
            "No session is running: call init first, or open a recording with miniray.telemetry.open(path)."
        )
    with context.in_turn(_guard), _guard:
        late = bool(_live) and _live[0].late and _live[0].runtime is runtime
        if _live and (_live[0].runtime is not runtime or late):
            _forget()
        if not _live:
            _live.append(LiveSource(runtime))
            _live[0].replaces_another = late
            if _forget not in context.at_end:
                context.at_end.append(_forget)
        return _live[0]


def _forget() -> None:
    """The session has ended."""
    while _live:
        with contextlib.suppress(sqlite3.Error):
            _live.pop().close()


def sql(statement: str, params: Params = (), limit: int | None = 10_000, timeout_s: float = 10.0) -> Result:
    """Run one SQL statement that reads, on the running session as it is now.

        miniray.sql("SELECT name, count(*) AS n FROM tasks WHERE state = ? GROUP BY name", ["FAILED"])

    Nothing has to be switched on. The tables have the records that the session has: `information_schema.tables` and
    `information_schema.columns` list them, and chapter 15 of the book explains them. The statement is one of SQLite's,
    and may only read.

    Args:
        statement: a SELECT; also WITH, VALUES or EXPLAIN.
        params: the values of `?`, or a dict for `:name`.
        limit: the most rows of the answer; None for no limit.
        timeout_s: seconds after which the statement is stopped.

    Returns:
        A Result: `columns`, `rows` (dicts), `truncated`, `complete` and the `reason` if it is not.

    Raises:
        QueryError: there is no session, or the statement is wrong, was refused, or took too long.
        TypeError, ValueError: an argument has a wrong type or value.
    """
    return live().query(statement, params, limit, timeout_s)


def _in_forked_child() -> None:
    global _guard
    _inherited.extend(_live)
    _live.clear()
    _guard = threading.RLock()


context.in_forked_child.append(_in_forked_child)
