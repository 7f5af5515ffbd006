"""Reads a session's logs. The output of tasks, by `print` or `logging`, passes through these modules:

    process.standard_streams    sends a text to the logs of the worker whose task wrote it, or to the driver's stream
    session                     makes whole lines of it, stores them, and shows them with their prefixes
    files                       keeps the lines, up to a bound
    folding                     holds back lines that many workers repeat

`list_logs` and `get_log` answer like those of `ray.util.state`. Ray: util/state/api.py,
dashboard/modules/log/log_manager.py.
"""

from __future__ import annotations

import fnmatch
import os
import re
import time
import urllib.error
from collections import deque
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from ..amounts import count
from ...core.records import ACTOR_CREATION_TASK, ActorRecord, TaskRecord
from ...process import context
from . import session as log_session
from ..escape import escaped
from .files import Attempt, Follower, LogFile, WorkerLog, header, log_name
from .session import DEAD, SessionLogs, keeps_no_log_of_its_own
from ..state.lookup import find
from ..state.query import RayStateApiException, whole_number

if TYPE_CHECKING:
    from ...core.records import NodeRecord, WorkerRecord

SUFFIXES = {"out": "stdout", "err": "stderr"}
ESCAPE_CODE = re.compile(rb"\x1b(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])")
BLOCK = 1 << 16  # the most bytes of a log that one step of get_log yields


def _session() -> SessionLogs:
    logs = log_session.shown()
    if logs is None:
        raise context.not_found()
    return logs


# ---------------------------------------------------------------- list_logs


def list_logs(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    glob_filter: str | None = None,
    timeout: int = 30,
) -> dict[str, list[str]]:
    """Return the names of a node's logs by category: worker_out, worker_err, raylet. {} if none matches glob_filter.

    Raises AssertionError without a node, ConnectionError without a session, and urllib's HTTPError (an OSError; Ray
    raises that of `requests`) for an unknown node or a filter that leaves the folder of logs.
    """
    assert node_ip is not None or node_id is not None, "At least one of node ip and node id is required"
    logs = _session()
    wanted = glob_filter or "*"
    if os.path.isabs(wanted) or ".." in wanted.split("/"):
        raise _refused(500, f"Invalid glob filter: {wanted}. It must be a relative path and cannot contain '..'.")
    try:
        node = _node(logs, node_id, node_ip)
    except RayStateApiException as problem:
        raise _refused(500 if node_id else 404, str(problem)) from None
    names: dict[str, list[str]] = {}
    for worker in _workers(logs, node):
        for suffix in SUFFIXES:
            names.setdefault(f"worker_{suffix}", []).append(f"{log_name(worker)}.{suffix}")
    names["raylet"] = [logs.system.name]
    wanted = wanted.removeprefix("**/")
    matches = {category: fnmatch.filter(members, wanted) for category, members in names.items()}
    return {category: members for category, members in matches.items() if members}


def _refused(code: int, text: str) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("miniray://logs", code, text, None, None)  # type: ignore[arg-type]


def _node(logs: SessionLogs, node_id: str | None, node_ip: str | None) -> "NodeRecord":
    with logs.runtime.locked() as cluster:
        nodes = list(cluster.nodes.values())
    for node in nodes:
        if node.hex == node_id if node_id else node.name == node_ip:
            return node
    if node_id:
        raise RayStateApiException(f"Agent for node id: {node_id} doesn't exist.")
    raise RayStateApiException(f"Cannot find matching node_id for a given node ip {node_ip}")


def _workers(logs: SessionLogs, node: "NodeRecord") -> list["WorkerRecord"]:
    """The workers of a node that have logs of their own. The threads of an actor share those of the first one."""
    with logs.runtime.locked() as cluster:
        workers = {
            worker.number: worker
            for worker in cluster.workers.values()
            if worker.actor is None or worker.actor.worker is worker or worker.number in logs.outlets
        }
    with logs.lock:
        workers.update((outlet.worker.number, outlet.worker) for outlet in logs.outlets.values())
        first = {key: outlet.worker for key, outlet in logs.outlets.items()}
    return [
        worker
        for number, worker in sorted(workers.items())
        if worker.node is node and first.get(number, worker) is worker
    ]


# ---------------------------------------------------------------- get_log


def get_log(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    filename: str | None = None,
    actor_id: str | None = None,
    task_id: str | None = None,
    pid: int | None = None,
    follow: bool = False,
    tail: int = -1,
    timeout: int = 30,
    suffix: str = "out",
    encoding: str | None = "utf-8",
    errors: str | None = "strict",
    submission_id: str | None = None,
    attempt_number: int = 0,
    _interval: float | None = None,
    filter_ansi_code: bool = False,
) -> Generator[Any, None, None]:
    """Yield a log in chunks of text, or of bytes if encoding is None. Checks nothing before the first `next`.

    actor_id: the whole log of the actor's worker. task_id: the lines that this attempt wrote, and no others. filename:
    a name of `list_logs`. pid: the logs of all workers of this process, one after the other; all of miniray's workers
    share one process. tail: the number of last lines, -1 for all, 0 for 1000. follow: then wait for new lines, until
    the task, the actor or the session ends.

    Raises ConnectionError without a session, ValueError for arguments that name no log, and RayStateApiException for a
    log that does not exist. A method of an actor has no log either: its lines are in the actor's log.
    """
    logs = _session()
    names = {"node_id": node_id, "node_ip": node_ip, "filename": filename, "actor_id": actor_id, "task_id": task_id}
    node_id, node_ip, filename, actor_id, task_id = (_text(name, value) for name, value in names.items())
    submission_id = _text("submission_id", submission_id)
    lines, wanted_pid = whole_number("tail", tail) or 1000, whole_number("pid", pid) if pid else None
    number = whole_number("attempt_number", attempt_number)
    whole_number("timeout", timeout)  # there is nothing to wait for, but Ray refuses what is no number
    if _interval is not None and not follow:
        raise ValueError("_interval is the time between two reads with follow=True, and follow is False")
    if not (node_id or node_ip or actor_id or task_id):
        raise ValueError("node_id or node_ip must be provided when neither an actor_id nor a task_id is")
    if node_id and node_ip:
        raise ValueError(
            f"Both node_id and node_ip are given. Only one of them can be provided. "
            f"Given node id: {node_id}, given node ip: {node_ip}"
        )
    if not (actor_id or task_id or wanted_pid or filename or submission_id):
        raise ValueError("None of actor_id, task_id, pid, submission_id or filename is provided. One is required.")
    if suffix not in SUFFIXES:
        raise ValueError(f"Invalid suffix: {suffix}. Must be one of 'out' or 'err'.")
    if actor_id:
        log = _log_of_actor(logs, actor_id, suffix)
    elif task_id:
        log = _log_of_task(logs, task_id, number, suffix)
    elif submission_id:
        raise RayStateApiException(f"Could not find a log file: no job {submission_id} was submitted here.")
    elif wanted_pid:
        log = _log_of_process(logs, _node(logs, node_id, node_ip), wanted_pid, suffix)
    else:
        log = _log_of_name(logs, _node(logs, node_id, node_ip), str(filename))
    for chunk in log.chunks(lines, follow):
        if filter_ansi_code:
            chunk = ESCAPE_CODE.sub(b"", chunk)
        yield chunk if encoding is None else chunk.decode(encoding, errors or "strict")


def last_lines(logs: SessionLogs, most: int) -> dict[Attempt, str]:
    """The last `most` lines that each attempt wrote, those on stdout first. Reads every log once.

    Unlike `get_log`, this knows the lines of an actor's calls too.
    """
    found: dict[tuple[Attempt, str], deque[bytes]] = {}
    with logs.lock:
        outlets = {id(outlet): outlet for outlet in logs.outlets.values()}
        for name in SUFFIXES.values():
            for outlet in outlets.values():
                for attempt, line in outlet.files[name].written():
                    found.setdefault((attempt, name), deque(maxlen=most)).append(line)
    texts: dict[Attempt, str] = {}
    for (attempt, _), lines in found.items():
        text = b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines).decode(errors="replace")
        texts[attempt] = "".join((texts.get(attempt, "") + text).splitlines(keepends=True)[-most:])
    return texts


def _text(name: str, value: Any) -> str | None:
    """An argument of get_log that is a text or None. As in Ray, bytes are taken as UTF-8. Raises ValueError."""
    if isinstance(value, bytes):
        return value.decode()
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{name} must be a string, not {value!r}")


class _Log:
    """A log to read.

    parts: the log files that it consists of, with their workers. attempt: read this attempt's lines only; None for
    all lines. task: a follower stops when this task ends.
    """

    def __init__(
        self,
        logs: SessionLogs,
        parts: list[tuple["WorkerRecord", LogFile]],
        attempt: Attempt | None = None,
        task: "TaskRecord | None" = None,
    ):
        self.logs, self.parts, self.attempt, self.task = logs, parts, attempt, task

    def lines(self, follower: Follower | None = None) -> list[bytes]:
        """Return every line, the unfinished ones last. A follower gets an unfinished line only when it ends."""
        lines: list[bytes] = []
        with self.logs.lock:
            for worker, file in self.parts:
                if self.attempt is None:
                    lines += header(worker, file.label)
                lines += file.read(self.attempt)
                if follower is not None:
                    file.followers.append(follower)
                else:
                    lines += self.logs.unfinished_in(file, self.attempt)
        return lines

    def chunks(self, tail: int, follow: bool) -> Iterator[bytes]:
        """Yield the last `tail` lines (-1: all, less: none), and if `follow`, every new line."""
        follower = Follower() if follow else None
        lines = self.lines(follower)
        try:
            data = b"".join(lines if tail == -1 else lines[-tail:] if tail > 0 else [])
            for start in range(0, len(data), BLOCK):
                yield data[start : start + BLOCK]
            if follower is not None:
                yield from self._new_lines(follower)
        finally:
            for _, file in self.parts:
                if follower is not None:
                    file.followers.remove(follower)

    def _new_lines(self, follower: Follower) -> Iterator[bytes]:
        runtime = self.logs.runtime
        result = self.task.returns[0] if self.task is not None and self.task.returns else None
        waiter = runtime.subscribe(result, follower.wake) if result is not None else None
        try:
            while True:
                follower.lock.acquire(False)
                ended = self.has_ended()  # before looking for lines: those written before the end are still read
                if follower.lines:
                    attempt, line = follower.lines.popleft()
                    if self.attempt in (None, attempt):
                        yield line
                elif ended:
                    return
                else:
                    runtime.park(follower.lock, None)
        finally:
            if waiter is not None:
                runtime.unsubscribe(result, waiter)

    def has_ended(self) -> bool:
        """Whether no task can add to this log any longer."""
        if (
            self.logs.closed
            or self.task is not None
            and (self.task.t_finished or self.attempt is not None and self.task.attempt != self.attempt[1])
        ):
            return True
        return all(worker.status is DEAD for worker, _ in self.parts)


def _file_of(logs: SessionLogs, worker: "WorkerRecord", suffix: str) -> LogFile:
    outlet = logs.outlets.get(worker.number)
    if outlet is None and worker.status is DEAD:  # the worker wrote nothing, or its logs were dropped
        file = LogFile(f"{log_name(worker)}.{suffix}")
        if logs.dropped_workers:
            note = b"[the logs of %d dead workers have been dropped; this may be one of them]\n"
            file.add(None, note % logs.dropped_workers)
        return file
    return (outlet or logs.outlet_of(worker)).files[SUFFIXES[suffix]]


def _log_of_actor(logs: SessionLogs, actor_id: str, suffix: str) -> _Log:
    """The log of the worker that the actor lives in, or of the last one it lived in."""
    with logs.runtime.locked() as cluster:
        actor = find(cluster, actor_id)
    if not isinstance(actor, ActorRecord):
        raise RayStateApiException(f"Actor ID {actor_id} not found.")
    worker = actor.worker or _last_worker(logs, actor)
    if worker is None:
        raise RayStateApiException(f"Worker ID for Actor ID {actor_id} not found. Actor is not scheduled yet.")
    return _Log(logs, [(worker, _file_of(logs, worker, suffix))])


def _last_worker(logs: SessionLogs, actor: "ActorRecord") -> "WorkerRecord | None":
    with logs.lock:
        outlets: list[WorkerLog] = [outlet for outlet in logs.outlets.values() if outlet.worker.actor is actor]
    if outlets:
        return outlets[-1].worker
    return actor.creation.worker if actor.creation is not None else None


def _log_of_task(logs: SessionLogs, task_id: str, number: int, suffix: str) -> _Log:
    with logs.runtime.locked() as cluster:
        task = find(cluster, task_id)
    where = f"Could not find log file for task: {task_id} (attempt {number}) with suffix: {suffix}"
    if not isinstance(task, TaskRecord):
        raise RayStateApiException(where)
    history: Any = task.history
    workers = {earlier.number: earlier.worker for earlier in history or ()}
    workers[task.attempt] = task.worker
    if number not in workers:
        raise RayStateApiException(f"{where}: it has {count(task.attempt + 1, 'attempt')} so far.")
    worker = workers[number]
    if worker is None:
        raise RayStateApiException(f"{where}: no worker has run it.")
    if task.actor is not None and (task.spec.kind == ACTOR_CREATION_TASK or keeps_no_log_of_its_own(task.spec.kind)):
        raise RayStateApiException(
            f"For actor task, please query actor log for actor({task.actor.hex}): e.g. miniray logs actor --id "
            f"{task.actor.hex} . Or set RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING=1 ."
        )
    return _Log(logs, [(worker, _file_of(logs, worker, suffix))], (task.number, number), task)


def _log_of_process(logs: SessionLogs, node: "NodeRecord", pid: int, suffix: str) -> _Log:
    workers = _workers(logs, node) if pid == context.shown_pid() else []
    if not workers:
        raise RayStateApiException(f"Could not find a log file: no worker of node {node.hex} has the pid {pid}.")
    return _Log(logs, [(worker, _file_of(logs, worker, suffix)) for worker in workers])


def _log_of_name(logs: SessionLogs, node: "NodeRecord", filename: str) -> _Log:
    for worker in _workers(logs, node):
        for suffix in SUFFIXES:
            if filename == f"{log_name(worker)}.{suffix}":
                return _Log(logs, [(worker, _file_of(logs, worker, suffix))])
    if filename == logs.system.name:
        return _SystemLog(logs, [])
    raise RayStateApiException(f"A file is not found at: {filename}")


class _SystemLog(_Log):
    """raylet.out: the core's events of nodes, workers, actors and spills, and the system's messages to the driver."""

    def lines(self, follower: Follower | None = None) -> list[bytes]:
        """Return the core's events, then the messages. A follower gets no further lines."""
        with self.logs.runtime.locked() as cluster:
            events = list(cluster.events)
        epoch = self.logs.runtime.epoch
        times = [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch + event.at)) for event in events]
        lines = [f"[{at}] {event.kind}: {escaped(event.text)}\n" for at, event in zip(times, events)]
        with self.logs.lock:
            return [line.encode(errors="backslashreplace") for line in lines] + self.logs.system.read()
