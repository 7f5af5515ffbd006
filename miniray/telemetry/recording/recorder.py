"""The recorder: writes what a session does into a file, while the session runs.

Theory of operation.

*One thread, which the program never waits for.* The recorder's thread asks the collector every FLUSH_S seconds for what
has changed, and writes it in one transaction. The program does nothing for it: the collector reads the core's tables,
and holds the core's lock for a few records at a time. Only the end of the session waits, for the last transaction. The
thread is started through `_thread`, as those of the workers are: it does not keep the process alive.

*What a killed process leaves.* Each transaction is complete or absent (SQLite's write-ahead log), so the file opens at
any time, and lacks at most what happened after the last transaction began: FLUSH_S seconds, and the time that the last
one took. The row of the table `session` tells when it was. A transaction is first in the log beside the file; every
CHECKPOINT_S seconds SQLite moves it into the file, so that the file alone, copied without the log, lacks little.

*A locked file.* Nothing waits longer than BUSY_S for another program's lock. The thread tries again at the next flush;
`init` takes another file; the end of the session tries a few times and gives up.

*When the file fails.* If a transaction cannot be written, because the disk is full or the file is gone, the recording
stops: one warning, one row in the table `dropped` where that is still possible, and the collector is closed, so that
nothing piles up. The program goes on. RESERVE_BYTES of the disk are kept for that row, in a file without a name.

*A forked child* has no such thread. A fork waits until the thread is outside SQLite: a child that inherits one of the
locks that SQLite has for the whole process, taken, could never open a file again. The child forgets the recorder and
keeps the parent's connection open until it ends: to close it would remove locks and files that are the parent's.

*A simulated session* has its own time and one thread at a time, so no thread of ours may look at it. It is recorded in
one transaction at its end, and whole: its hours are virtual, so the retention does not apply.
"""

from __future__ import annotations

import _thread
import ctypes
import json
import logging
import os
import sqlite3
import sys
import tempfile
import threading
from collections import Counter
from contextlib import suppress
from typing import Any

from ...core.records import StreamRecord
from ...core.task_events import attempts
from ...core.transitions import WorkerStatus
from ...process import context, signal_handlers
from ..collecting.collector import EVERYTHING, Batch, Collector
from ..config import TelemetryConfig
from ..fork_gate import inside
from .recording_file import ENDINGS, Identity, InUse, Refused, claim, named, process_started
from ..collecting.numbers import Numbers, masked, to_json
from ..sql.sources import facts
from ..collecting.store import Store

FLUSH_S = 0.5  # how often what has changed is written
HEARTBEAT_S = 5.0  # how often the file says that the session still runs, while nothing changes
LOCKED_S = 30.0  # how long another program may keep the file locked before the recording stops
LAST_FLUSH_S = 60.0  # how long the end of a session waits for the last transaction
CHECKPOINT_S = 2.0  # how often the rows move from the write-ahead log into the file itself
# What the job's status is, by how the session ended. Anything else is a failure.
STATUS = {"shutdown": "SUCCEEDED", "exit code 0": "SUCCEEDED", "ended": "UNKNOWN"}
RESERVE_BYTES = 256 * 1024
SWEEP_SHARE, SWEEP_LEAST_S, SWEEP_MOST_S = 0.1, 0.5, 300.0  # how often retention is enforced, as a share of its time

logger = logging.getLogger(__name__)
_allocate_lock, _start_new_thread = _thread.allocate_lock, _thread.start_new_thread  # a simulation replaces them

_begun: dict[str, int] = {}  # how many sessions of this process have claimed a path
_first_pid = os.getpid()  # a forked child never replaces what its parent has recorded
_recording: list[Recorder] = []  # those that have not ended


class Stop(Exception):
    """The recording cannot go on; the text says why."""


def start(runtime: Any, config: TelemetryConfig) -> Recorder | None:
    """Begin to record a session. Returns None, after one warning, if that is impossible: then the session is not
    recorded. Raises nothing: a session never fails because of its recording.

    The caller holds no lock. `Recorder.finish` ends it; the end of the session calls that for all of
    `runtime.recorders`.
    """
    assert config.path is not None
    try:
        with inside:
            recorder = _claimed(runtime, config, os.path.abspath(config.path))
    except Refused as refused:
        logger.warning("This session is not recorded: %s.", refused)
        return None
    except Exception as problem:  # such as a name that is not Unicode, or a folder that is gone
        logger.warning("This session is not recorded: %s.", ascii(problem))
        return None
    runtime.recorders.append(recorder)
    _recording.append(recorder)
    try:
        recorder.begin()
    except Exception as problem:
        recorder.fail(problem)
    return recorder


def _claimed(runtime: Any, config: TelemetryConfig, path: str) -> Recorder:
    """A recorder with a file. The second session of a program, and a second process, get a file of their own."""
    own = path
    if os.getpid() != _first_pid:  # a forked child
        own = named(path, str(os.getpid()))
    number = _begun[own] = _begun.get(own, 0) + 1
    if number > 1:
        own = named(own, str(number))
    try:
        return Recorder(runtime, config, own)
    except InUse as taken:
        other = named(own, str(os.getpid()))
        recorder = Recorder(runtime, config, other)
        logger.warning("%s: this session is recorded in %s.", taken, other)
        return recorder


class Recorder:
    """The recording of one session.

    path: the file. exit_code: of the program, if that is known when the session ends, otherwise 0. stopped: why the
    recording ended before its session; "" as long as it has not. num_tasks: how many tasks the file has at the end.
    Only the recorder's thread uses the connection once `begin` has been called, or the thread that ends a simulated
    session.
    """

    def __init__(self, runtime: Any, config: TelemetryConfig, path: str):
        """Claims the file. Raises Refused."""
        self.runtime, self.config, self.path = runtime, config, path
        self.stopped = ""
        self.num_tasks = self.exit_code = 0
        self.id = os.urandom(8).hex()
        self._connection = claim(path, self._create)
        self._identity = Identity(path)
        self._logs = [Identity(f"{path}{ending}") for ending in ENDINGS if ending]
        self._store = Store(self._connection)
        self._collector: Collector | None = None
        self._pid = os.getpid()
        self._finishing = self._ended = False
        self._how_it_ended = ""
        self._wake, self._done = _allocate_lock(), _allocate_lock()
        self._wake.acquire()
        self._done.acquire()
        self._waiting: list[Batch] = []  # what could not be written because another program had locked the file
        self._locked_since = 0.0
        self._next_sweep = self._next_picture = self._next_beat = self._next_checkpoint = 0.0
        self._waits = ""
        self._reserve: Any = None

    def _create(self, connection: sqlite3.Connection) -> None:
        """Create the tables, with the facts about the session that are known at its beginning."""
        store = Store(connection)
        store.create_open()
        store.note(
            **facts(self.runtime),
            recording_id=self.id,
            process_started=process_started(os.getpid()) or "",
            written_us=self._us(self.runtime.now()),
            retention_secs=self.config.retention_secs,
            snapshot_interval_secs=self.config.snapshot_interval_secs,
            flush_secs=FLUSH_S,
            local=int(self.runtime.local),
            runtime_env_json=to_json(masked(self.runtime.options.get("runtime_env") or {})),
        )

    def begin(self) -> None:
        """Start to listen, and start the thread."""
        self._keep_reserve()
        self._collector = Collector(self.runtime)
        if self._is_simulated():
            return
        try:
            _start_new_thread(self._run, ())
        except RuntimeError as problem:  # the system has no more threads
            self._stop(str(problem))
            self._done.release()

    def _is_simulated(self) -> bool:
        return getattr(self.runtime, "simulation", None) is not None

    def _us(self, at: float) -> int:
        return int((at + self.runtime.epoch) * 1e6)

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            while not self._finishing and not self.stopped:
                with inside:
                    self.flush()
                self._wake.acquire(True, FLUSH_S)
        finally:
            try:
                with inside:
                    self._end()
            finally:
                self._done.release()

    def flush(self, last: bool = False) -> None:
        """Write what has changed since the last time. Never raises: a failure stops the recording."""
        if self.stopped:
            return
        try:
            self._flush(last)
            if not last:
                self._sweep()
        except Stop as reason:
            self._stop(str(reason))
        except (sqlite3.Error, OSError) as problem:
            self._stop(f"{self.path} cannot be written: {problem}")
        except Exception as problem:  # a mistake of ours must not end the program's recording without a word
            self.fail(problem)

    def fail(self, problem: Exception) -> None:
        """Stop the recording after a mistake of ours."""
        logger.debug("The recorder has failed.", exc_info=problem)
        self._stop(f"the recorder has failed: {problem!a}")

    def _flush(self, last: bool) -> None:
        collector, now = self._collector, self.runtime.now()
        assert collector is not None
        if self._identity.changed():
            raise Stop(f"{self.path} was deleted or replaced")
        picture = last or now >= self._next_picture > 0
        if picture or not self._next_picture:
            self._next_picture = now + (self.config.snapshot_interval_secs or float("inf"))
        ended = _attempts(self.runtime) if last else []  # before the batch, which then has all of these
        waits = json.dumps(_waits(self.runtime))  # before the batch, too: it then has every task that waits
        batch = collector.collect(EVERYTHING if picture else None)
        if not batch and not last and waits == self._waits and now < self._next_beat and not self._waiting:
            return
        self._waiting.append(batch)
        if not self._begin_transaction(now):
            return
        try:
            for one in self._waiting:
                self._store.write_open(one, collector.take_in_time)
            cluster = self.runtime.cluster
            with self.runtime.lock:
                rebuilt, totals = cluster.task_manager.num_reconstructions, cluster.totals.whole()
            noted: dict[str, object] = {
                "written_us": self._us(now),
                "waits_json": waits,
                "num_reconstructions": rebuilt,
            }
            if last:
                totals["attempts"] = ended
                noted |= {
                    "ended_us": self._us(now),
                    "how_it_ended": self._how_it_ended,
                    "status": STATUS.get(self._how_it_ended, "FAILED"),
                }
            self._store.note(**noted, totals_json=json.dumps(totals))
            self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        self._waiting.clear()
        self._waits, self._next_beat = waits, now + HEARTBEAT_S
        if not last and now >= self._next_checkpoint:  # the last one is made when the file is closed
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # waits for nobody
            self._next_checkpoint = now + CHECKPOINT_S

    def _begin_transaction(self, now: float) -> bool:
        """Begin, if no other program has locked the file, and it is still this recorder's. Returns whether it has
        begun. Raises Stop."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem):
                raise
            self._locked_since = self._locked_since or now
            if now - self._locked_since > LOCKED_S or self._finishing:
                raise Stop(f"another program has kept {self.path} locked") from problem
            return False
        self._locked_since = 0.0
        row = self._connection.execute("SELECT value FROM session WHERE name = 'recording_id'").fetchone()
        if row is None or row[0] != self.id:
            self._roll_back()
            raise Stop(f"another process records into {self.path} now")
        return True

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _sweep(self) -> None:
        """Remove what is older than the retention, now and then."""
        retention, now = self.config.retention_secs, self.runtime.now()
        if not retention or now < self._next_sweep or self._waiting:
            return
        if self._next_sweep:
            assert self._collector is not None
            if not self._trim(now, self._collector.numbers):
                return
        self._next_sweep = now + min(max(retention * SWEEP_SHARE, SWEEP_LEAST_S), SWEEP_MOST_S)

    def _trim(self, now: float, numbers: Numbers | None = None) -> bool:
        """Remove what is older than the retention. Returns False if another program has locked the file."""
        if now + self.runtime.epoch <= self.config.retention_secs:  # nothing is that old
            return True
        try:
            self._store.trim(self._us(now - self.config.retention_secs), numbers)
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem):
                raise
            self._roll_back()
            return False
        return True

    # ------------------------------------------------------------ the end

    def finish(self) -> None:
        """The session is about to end: write the rest, and close the file. Returns when that is done; the tables of the
        session must stay as they are until then. Does nothing in a forked child."""
        if self._ended or self._pid != os.getpid():
            return
        self._how_it_ended = f"exit code {self.exit_code}" if self.exit_code else _how_it_ends()
        if self._is_simulated():
            self._end()
            return
        self._finishing = True
        with suppress(RuntimeError):  # it is awake already
            self._wake.release()
        if not self._done.acquire(True, LAST_FLUSH_S):
            logger.warning("The recording in %s may lack its end: the file could not be written in time.", self.path)

    def _end(self) -> None:
        """The last transaction, and the end of the recorder. The file is closed whatever happens."""
        try:
            self.flush(last=True)
            if not self.stopped and self.config.retention_secs and not self._is_simulated():
                self._trim(self.runtime.now())
            if not self.stopped:
                self.num_tasks = self._connection.execute("SELECT count(*) FROM tasks").fetchone()[0]
        except sqlite3.Error as problem:
            self._stop(f"{self.path} cannot be written: {problem}")
        except Exception as problem:  # a mistake of ours
            self.fail(problem)
        finally:
            self._close()

    def _stop(self, reason: str) -> None:
        """The recording cannot go on: say so once, in the log and in the file, and stop to listen."""
        self.stopped = reason
        lost = self._waiting
        if self._reserve is not None:
            self._reserve.close()  # gives its part of the disk back
            self._reserve = None
        try:
            self._roll_back()
            if not self._identity.changed() and self._begin_transaction(self.runtime.now()):
                now_us = self._us(self.runtime.now())
                self._store.note(stopped=reason, stopped_us=now_us)
                lost_rows = sum(map(len, lost)) or 1  # at least one row says that something is missing
                self._store.drop("", f"the recording stopped: {reason}", lost_rows, now_us)
                self._connection.execute("COMMIT")
        except (Stop, sqlite3.Error, OSError) as problem:
            logger.debug("The end of the recording could not be noted in its file: %s", problem)
        self._waiting = []
        logger.warning("The recording has stopped, and the program goes on: %s.", reason)
        if not self._finishing:
            self._close()

    def _close(self) -> None:
        """Release everything."""
        if self._ended:
            return
        self._ended = True
        if self in _recording:
            _recording.remove(self)
        try:
            if self._collector is not None:
                self._collector.close()
            if self._reserve is not None:
                self._reserve.close()
        finally:
            try:
                self._roll_back()
                self._connection.close()
            except sqlite3.Error as problem:
                logger.debug("%s could not be closed: %s", self.path, problem)
            self._remove_logs_without_file()

    def _remove_logs_without_file(self) -> None:
        """SQLite leaves them if the file was deleted or replaced. It would take them for those of the next file."""
        if self._identity.changed():
            for log in self._logs:
                if not log.changed():
                    with suppress(OSError):  # there was none
                        os.unlink(log.path)

    def _keep_reserve(self) -> None:
        """Take a part of the disk that the last row can use when the disk is full. The file has no name, so nothing is
        left of it when the process is killed."""
        try:
            self._reserve = tempfile.TemporaryFile(dir=os.path.dirname(self.path))
            self._reserve.write(bytes(RESERVE_BYTES))
            self._reserve.flush()
        except OSError:  # the first transaction will find out
            self._reserve = None

    def forget(self) -> None:
        """In a forked child: the recording is the parent's. Its connection is never closed here, since that would touch
        locks and files of the parent, and may wait for a thread that does not exist here."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
        self._ended, self.stopped = True, "this is a forked child"


def _after_fork() -> None:
    for recorder in _recording:
        recorder.forget()
    _recording.clear()


context.in_forked_child.append(_after_fork)


def _how_it_ends() -> str:
    """How the session ends, as far as this thread can tell. A program that has ended without an exception has called
    `sys.exit`, or it has come to its end: Python keeps nothing that tells which, and no exit code. That is "ended"."""
    error = sys.exc_info()[1]
    over = not threading.main_thread().is_alive()
    if error is None and over:
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None and over:
        return "ended" if signal_handlers.exits_by is None else signal_handlers.exits_by.name
    if error is None:
        return "shutdown"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, SystemExit):
        return f"exit code {exit_code_of(error)}"
    return f"error: {type(error).__name__}"


def exit_code_of(leaving: SystemExit) -> int:
    """The exit code of a program that ends by this exception."""
    return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)


def _waits(runtime: Any) -> dict[str, Any]:
    """Who waits for what at this moment: the rows that `restore` needs to explain a wait."""
    with runtime.lock:
        cluster = runtime.cluster
        workers = []
        for worker in cluster.workers.values():
            handle = worker.handle
            waiting, waiter = getattr(handle, "waiting", ()), getattr(handle, "waiter", None)
            if waiting and waiter is not None and worker.status is not WorkerStatus.DEAD:
                workers.append([worker.number, waiter.need, waiter.timed, _awaited(waiting)])
        drains = [[drain.actor.number, drain.until] for drain in cluster.ownership.drains if drain.actor is not None]
    # Threads leave this table without the lock; a copy is one step.
    driver = [[waiter.need, waiter.timed, _awaited(found)] for waiter, found in runtime.driver_waiters.copy().items()]
    threads = [thread for thread in threading.enumerate() if not thread.daemon]
    waits = all(runtime.waits_forever(thread.ident or 0) for thread in threads)
    return {"workers": workers, "driver": driver, "drains": drains, "program_waits": waits}


def _attempts(runtime: Any) -> list[list[Any]]:
    """How many attempts of tasks have ended in the whole session: the name of the task, whether it was a retry, whether
    it succeeded, and the number. The file may lack some of them, and the metrics count all."""
    with runtime.lock:
        cluster = runtime.cluster
        cluster.totals.flush()
        counts = Counter(cluster.totals.dropped_tasks)
        tasks = list(cluster.tasks.values())
    for task in tasks:
        counts.update(attempts(task))
    return [[*key, number] for key, number in counts.items()]


MOST_AWAITED = 1_000  # objects of one wait that are written down


def _awaited(objects: Any) -> list[list[Any]]:
    return [
        ["stream", one.task.number] if type(one) is StreamRecord else ["object", one.number]
        for one in list(objects)[:MOST_AWAITED]
    ]
