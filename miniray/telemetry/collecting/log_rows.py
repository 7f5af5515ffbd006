"""The rows of the table `log_lines`: what tasks and actors have printed since the last look."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ...observe.logs import session as log_session
from ...observe.logs.files import LogFile

Row = tuple[Any, ...]

MOST_LINES = 50_000  # of one look; the others come with the next one
MARKERS = (b":task_name:", b":actor_name:")


class NewLines:
    """Reads the logs of one session. A line is told once. lost: how many lines the logs dropped before they were read.

    The logs do not keep the time of a line, so its time is that of the look.
    """

    def __init__(self, runtime: Any):
        self.runtime = runtime
        self.lost = 0
        self._seen: dict[str, int] = {}  # how many lines of each log have been read or were dropped
        self._last = 0

    def rows(self, now_us: int) -> list[Row]:
        """The lines that ended since the last call, as rows."""
        logs = log_session.running
        if logs is None or logs.runtime is not self.runtime:
            return []
        found: list[tuple[Any, str, str, Any, bytes]] = []
        with logs.lock:
            outlets = {id(outlet): outlet for outlet in logs.outlets.values()}
            for outlet in outlets.values():
                for stream, file in outlet.files.items():
                    found += [(outlet.worker, stream, file.name, *line) for line in self._new(file, len(found))]
            found += [(None, "stdout", logs.system.name, *line) for line in self._new(logs.system, len(found))]
        rows = []
        for worker, stream, log, attempt, line in found:
            if attempt is None and line.startswith(MARKERS):
                continue
            self._last += 1
            text = line.decode(errors="backslashreplace").removesuffix("\n")
            number, attempt_number = attempt if attempt is not None else (None, None)
            actor = worker.actor if worker is not None else None
            rows.append(
                (
                    self._last,
                    now_us,
                    worker.hex if worker is not None else None,
                    worker.node.hex if worker is not None else None,
                    self._task_id(number),
                    actor.hex if actor is not None else None,
                    attempt_number,
                    stream,
                    log,
                    text,
                    worker.number if worker is not None else None,
                    number,
                )
            )
        return rows

    def _new(self, file: LogFile, taken: int) -> list[tuple[Any, bytes]]:
        """The lines of a log that are new, each with its attempt."""
        seen = self._seen.get(file.name, 0)
        total, lines = file.all_lines()
        if total == seen:
            return []
        missed = total - seen - len(lines)
        if missed > 0:
            self.lost += missed
            seen += missed
        start = len(lines) - (total - seen)
        new = list(islice(lines, start, start + max(0, MOST_LINES - taken)))
        self._seen[file.name] = seen + len(new)
        return new

    def _task_id(self, number: int | None) -> str | None:
        """The id of a task. Its record may be gone by now."""
        task = self.runtime.cluster.tasks.get(number) if number is not None else None
        return str(task.hex) if task is not None else None
