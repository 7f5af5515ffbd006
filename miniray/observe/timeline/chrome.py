"""`miniray.timeline`: what ran where and when, as Chrome trace events or as a page.

The events are those of `ray.timeline()`: for each attempt a span `task::NAME` around `task:deserialize_arguments`,
`task:execute` and `task:store_outputs`. miniray adds events that Ray leaves out:

    M       names of nodes and workers
    X       spans of user code (`profile`), and `ray.get` where a thread waited in get or wait
    b, e    "waiting for arguments" and "queued", before there is a worker; "running" for coroutines that share a thread
    s, f    arrows: submission to execution, producer to consumer
    B       spans that have begun and not ended
    i       a note on dropped records, if there are any

Every event has Ray's nine keys, so that a program written for Ray's list can read all of this list. Times are whole
quarters of a microsecond, the finest step that a float of today's epoch can hold. So the end of a span is exactly the
beginning of the next, and no span sticks out of the one around it; viewers drop spans that do.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any

from ...core.records import TaskSpec, WorkerRecord
from ...ids import worker_hex
from ...process.context import running
from ...values.errors import TaskError
from .recording import FINISHED, RUNNING, Recording, Row, lane_title, read

logger = logging.getLogger(__name__)

DETAILED_ATTEMPTS = 10_000
"""A timeline of more attempts has a short form. A finished attempt gets only its span, with the waiting times in its
args, and `task:execute`; the rest of the span before and after it is fetching and storing. The only arrows are those
from producers to consumers."""

_QUARTERS = (".0", ".25", ".5", ".75")
_temporary = count(1)


def timeline(
    filename: str | os.PathLike[str] | None = None,
    *,
    html: str | os.PathLike[str] | None = None,
    integer_ids: bool = False,
) -> list[dict[str, Any]] | None:
    """Return or write the timeline of the running session. Ray: `ray.timeline`.

    filename: write a JSON array of Chrome trace events to this file, for Perfetto, chrome://tracing or speedscope; a
    name that ends in .html means `html`. html: write one self-contained page to this file. A file is written as a whole
    or not at all, and replaces an existing one. Without a file, return the events as a list of dicts; otherwise None.
    integer_ids: put numbers into `pid` and `tid` instead of the texts of Ray's timeline, as the download of Ray's
    dashboard does. speedscope needs numbers, and coroutines that share a thread then get rows of their own, which every
    viewer shows best.

    Each event has cat, name, pid, tid, ph, ts, dur, cname and args; ts and dur are microseconds, ts since the Unix
    epoch. Raises RuntimeError if no session is running, and writes no file; OSError if a file cannot be written, such
    as FileNotFoundError for a missing folder. An empty timeline logs a warning that says why it is empty.
    """
    recording = read(running())
    if filename is not None and html is None and os.fsdecode(filename).lower().endswith((".html", ".htm")):
        filename, html = None, filename
    if recording.empty:
        logger.warning("The timeline is empty. %s", recording.why_empty())
    if html is not None:
        from .page import page

        write_whole(html, page(recording))
    if filename is not None:
        write_whole(filename, json_text(recording, integer_ids))
    if filename is None and html is None:
        events: list[dict[str, Any]] = json.loads("".join(json_text(recording, integer_ids)))
        return events
    return None


def write(recording: Recording, filename: str | os.PathLike[str]) -> None:
    """Write a recording: as a page if the name ends in .html, otherwise as Chrome trace events. Raises OSError."""
    if os.fsdecode(filename).lower().endswith((".html", ".htm")):
        from .page import page

        write_whole(filename, page(recording))
    else:
        write_whole(filename, json_text(recording))


def write_whole(filename: str | os.PathLike[str], pieces: Iterable[str]) -> None:
    """Write a file of ASCII text so that no reader ever sees half of it. Raises OSError, which names `filename`."""
    name = os.fsdecode(filename)
    if not name:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    path = os.path.realpath(name)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    try:
        if mode is not None and not stat.S_ISREG(mode):  # a pipe or /dev/stdout; a folder raises here, as it should
            with open(path, "w", encoding="ascii") as file:
                file.writelines(pieces)
            return
        beside = os.path.join(os.path.dirname(path), f".miniray-{os.getpid()}-{next(_temporary)}.tmp")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, name) from None
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.writelines(pieces)
        if mode is not None:
            os.chmod(beside, stat.S_IMODE(mode))
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def json_text(recording: Recording, integer_ids: bool = False) -> Iterator[str]:
    """Yield the JSON array in pieces, ASCII only, with one event per line."""
    writer = _Writer(recording, integer_ids)
    between = "[\n"
    for text in writer.events():
        yield between
        yield text
        between = ",\n"
    yield "[]\n" if between == "[\n" else "\n]\n"


class _Writer:
    """Writes the events of one recording as JSON texts.

    Most of a text is the same for all attempts of a function or on a worker, so these parts are built once.
    """

    def __init__(self, recording: Recording, integer_ids: bool):
        self.recording, self.integer_ids = recording, integer_ids
        self.epoch = round(recording.epoch * 4e6)  # in quarters of a microsecond
        self.detailed = len(recording.rows) <= DETAILED_ATTEMPTS
        self.flow = count(1)
        self.heads: dict[TaskSpec, tuple[str, str]] = {}
        self.levels: dict[Row, int] = {}  # of coroutines, see `_find_levels`; all other attempts are on level 0
        self.level_counts: dict[WorkerRecord, int] = {}
        if self.detailed or integer_ids:
            self._find_levels()
        self.numbers: dict[WorkerRecord, int] = {}  # of each worker's first level; the driver is 0
        free = 1
        for worker in recording.lanes:
            self.numbers[worker] = free
            free += self.level_counts.get(worker, 1)
        self.places: dict[Any, str] = {None: self._place(None)}
        for worker in recording.lanes:
            self.places[worker] = self._place(worker)

    # ------------------------------------------------------------ where

    def _find_levels(self) -> None:
        """Spread the coroutines of a worker's thread over levels, so that no two overlap on one level."""
        for worker, rows in self.recording.by_worker.items():
            if worker.actor is None or not worker.actor.is_async:
                continue
            taken: list[tuple[float, int]] = []
            free: list[int] = []
            for row in rows:
                while taken and taken[0][0] <= row.leased:
                    heappush(free, heappop(taken)[1])
                level = heappop(free) if free else len(taken)
                heappush(taken, (row.until(self.recording.now), level))
                if level:
                    self.levels[row] = level
                self.level_counts[worker] = max(self.level_counts.get(worker, 1), level + 1)

    def _place(self, worker: WorkerRecord | None, level: int = 0) -> str:
        """The part of an event that names its place: a worker, or the driver for None."""
        nodes = self.recording.nodes
        if worker is None:
            head = next((node for node in nodes if node.is_head), nodes[0] if nodes else None)
            pid: Any = head.name if head is not None else "127.0.0.1"
            tid: Any = f"driver:{worker_hex(0)}"
            if self.integer_ids:
                pid, tid = head.number if head is not None else 0, 0
        elif self.integer_ids:
            pid, tid = worker.node.number, self.numbers[worker] + level
        else:
            pid, tid = worker.node.name, f"worker:{worker.hex}"
        return f'"pid":{json.dumps(pid)},"tid":{json.dumps(tid)},'

    def _place_of(self, row: Row) -> str:
        if self.integer_ids and row in self.levels:
            return self._place(row.worker, self.levels[row])
        return self.places[row.worker]

    # ------------------------------------------------------------ when

    def _quarters(self, at: float) -> int:
        return self.epoch + int(at * 4e6 + 0.5)

    @staticmethod
    def _when(begin: int, end: int) -> str:
        """The part of an event with its time; begin and end are in quarters of a microsecond."""
        length = end - begin
        return f'"ts":{begin >> 2}{_QUARTERS[begin & 3]},"dur":{length >> 2}{_QUARTERS[length & 3]},'

    # ------------------------------------------------------------ events

    def events(self) -> Iterator[str]:
        """Yield all events in an order that also suits viewers that do not sort: names last, see `_names`."""
        recording = self.recording
        if recording.empty:
            return
        write = self._attempt if self.detailed else self._short
        for row in recording.rows:
            if row.leased:
                yield write(row)
            if self.detailed:
                yield from self._before_the_worker(row)
            if row.producers:
                yield from self._arrows_from_producers(row)
        for span in recording.spans:
            begin, end = self._quarters(span.t_start), self._quarters(span.t_end)
            shown, colour = span.extra.get("name", span.name), span.extra.get("cname", "generic_work")
            yield self._event(span.name, shown, "X", begin, end, self.places[span.worker], colour, span.extra)
        for worker, _, since, until in recording.waits:
            if worker is None or worker in self.places:
                begin, end = self._quarters(since), self._quarters(until)
                yield self._event("ray.get", "ray.get", "X", begin, end, self.places[worker], "good")
        yield from self._names()

    def _event(
        self,
        cat: str,
        name: str,
        ph: str,
        begin: int,
        end: int,
        place: str,
        colour: str = "generic_work",
        args: dict[str, Any] | None = None,
        more: str = "",
    ) -> str:
        return (
            f'{{"cat":{json.dumps(cat)},"name":{json.dumps(name)},{place}{self._when(begin, end)}"ph":"{ph}",'
            f'"cname":{json.dumps(colour)},{more}"args":{json.dumps(args or {}, default=str)}}}'
        )

    def _head(self, row: Row) -> tuple[str, str]:
        """The beginning of an attempt's span, and of its args: the same for all attempts of a function."""
        head = self.heads.get(row.spec)
        if head is None:
            name = json.dumps(row.display_name)
            head = self.heads[row.spec] = (
                f'{{"cat":{json.dumps("task::" + row.spec.name)},"name":{name},',
                f'"ph":"X","cname":"generic_work","args":{{"name":{name},"task_id":"',
            )
        return head

    def _attempt(self, row: Row) -> str:
        """An attempt that reached a worker: its span, and the phases within."""
        place = self._place_of(row)
        head, args = self._head(row)
        outcome = row.outcome
        if outcome == RUNNING:
            return self._unfinished(row, place, head, args)
        end = self._quarters(row.finished)
        begin = self._quarters(row.leased)
        lines = [f'{head}{place}{self._when(begin, end)}{args}{row.hex}"}}}}']
        started = self._quarters(row.started) if row.started else end
        ended = self._quarters(row.ended) if row.started else end
        if row.started and end - begin > 2:  # give every phase a length: speedscope cannot place an empty span
            started = min(max(started, begin + 1), end - 2)
            ended = min(max(ended, started + 1), end - 1)
        lines.append(
            f'{{"cat":"task:deserialize_arguments","name":"task:deserialize_arguments",{place}'
            f"{self._when(begin, started)}"
            '"ph":"X","cname":"rail_load","args":{}}'
        )
        if row.started:
            error = "" if outcome == FINISHED else json.dumps(self._error(row))[1:-1]
            lines.append(
                f'{{"cat":"task:execute","name":"task:execute",{place}{self._when(started, ended)}'
                f'"ph":"X","cname":"rail_animation","args":{{{error}}}}}'
            )
            if outcome == FINISHED:
                lines.append(
                    f'{{"cat":"task:store_outputs","name":"task:store_outputs",{place}{self._when(ended, end)}'
                    '"ph":"X","cname":"rail_idle","args":{}}'
                )
        return ",\n".join(lines)

    def _short(self, row: Row) -> str:
        """An attempt in short form, see `DETAILED_ATTEMPTS`."""
        if row.outcome != FINISHED:
            return self._attempt(row)
        place = self._place_of(row)
        head, args = self._head(row)
        ready = row.ready
        waiting, queued = ready - row.created, row.leased - ready
        more = f',"waiting_us":{waiting * 1e6:.0f}' if waiting > 0 else ""
        epoch, parts = self.epoch, _QUARTERS  # `_when` and `_quarters` written out, because calls would cost too much
        begin, end = epoch + int(row.leased * 4e6 + 0.5), epoch + int(row.finished * 4e6 + 0.5)
        started, ended = epoch + int(row.started * 4e6 + 0.5), epoch + int(row.ended * 4e6 + 0.5)
        whole, inner = end - begin, ended - started
        return (
            f'{head}{place}"ts":{begin >> 2}{parts[begin & 3]},"dur":{whole >> 2}{parts[whole & 3]},'
            f'{args}{row.hex}"{more}'
            f',"queued_us":{queued * 1e6:.0f}}}}},\n{{"cat":"task:execute","name":"task:execute",{place}'
            f'"ts":{started >> 2}{parts[started & 3]},"dur":{inner >> 2}{parts[inner & 3]},'
            '"ph":"X","cname":"rail_animation","args":{}}'
        )

    def _unfinished(self, row: Row, place: str, head: str, args: str) -> str:
        """An attempt that is still on its worker: spans that have begun and not ended."""
        now, begin = self._quarters(self.recording.now), self._quarters(row.leased)
        args = args.replace('"ph":"X"', '"ph":"B"')
        lines = [f'{head}{place}{self._when(begin, max(begin, now))}{args}{row.hex}"}}}}']
        if row.started:
            started = self._quarters(row.started)
            lines.append(
                self._event(
                    "task:deserialize_arguments", "task:deserialize_arguments", "X", begin, started, place, "rail_load"
                )
            )
            lines.append(
                self._event("task:execute", "task:execute", "B", started, max(started, now), place, "rail_animation")
            )
        return ",\n".join(lines)

    def _error(self, row: Row) -> dict[str, str]:
        """Ray's three args of a failed execution."""
        failure = row.failure
        while failure is not None and failure.error is None and failure.cause is not None:
            failure = failure.cause
        if failure is None:
            return {}
        error = failure.error
        if isinstance(error, TaskError):
            return {"type": error.type_text, "value": error.repr_text, "traceback": error.text}
        return {"type": failure.error_type, "value": failure.message, "traceback": failure.message}

    def _before_the_worker(self, row: Row) -> Iterator[str]:
        """The arrow from the submission, the phases before there was a worker, and "running" of a coroutine.

        Viewers draw the phases under the submitter's node, on rows of their own, since attempts wait side by side.
        """
        place = self.places.get(row.owner, self.places[None])
        created = self._quarters(row.created)
        now = self.recording.now
        facts = {"task_id": row.hex, "attempt_number": row.attempt, "task": row.spec.name}
        yield self._event("submit_task", "submit_task", "X", created, created + 1, place, "background_memory_dump")
        if row.leased:
            yield self._arrow(
                "submission", place, created, self._place_of(row), self._quarters(row.started or row.leased)
            )
        over = row.finished or now
        yield from self._side_phase(
            "waiting for arguments", row.created, row.ready or over, row.ready or row.finished, place, facts
        )
        if row.ready:
            yield from self._side_phase(
                "queued", row.ready, row.leased or over, row.leased or row.finished, place, facts
            )
        if row in self.levels:
            yield from self._side_phase("running", row.leased, over, row.finished, self._place_of(row), facts)

    def _side_phase(
        self, name: str, begin: float, end: float, over: float, place: str, facts: dict[str, Any]
    ) -> Iterator[str]:
        """A phase beside the threads. over: when it ended; 0.0 if it has not, in which case only its beginning is
        written.
        """
        first, last = self._quarters(begin), self._quarters(end)
        if last <= first:
            return
        number = next(self.flow)
        yield self._event("task:" + name, name, "b", first, first, place, args=facts, more=f'"id":{number},')
        if over:
            yield self._event("task:" + name, name, "e", last, last, place, more=f'"id":{number},')

    def _arrows_from_producers(self, row: Row) -> Iterator[str]:
        """From the end of each producer to the beginning of the attempt that took its result."""
        if not row.leased:
            return
        begin = self._quarters(row.leased)
        for producer in row.producers:
            source = self.recording.latest.get(producer)
            if source is None or not source.started or not source.finished or source.finished > row.leased:
                continue  # dropped from the records, failed before it ran, or run again since
            yield self._arrow(
                "dependency", self._place_of(source), self._quarters(source.ended), self._place_of(row), begin
            )

    def _arrow(self, kind: str, from_place: str, left: int, to_place: str, arrived: int) -> str:
        """An arrow's two ends; each must lie in a span that is open at that time, or viewers drop the arrow."""
        number = next(self.flow)
        common = f'"cat":"{kind}","name":"{kind}","id":{number},"dur":0.0,"cname":"generic_work","args":{{}},'
        return (
            f'{{{common}{from_place}"ts":{left >> 2}{_QUARTERS[left & 3]},"ph":"s"}},\n'
            f'{{{common}{to_place}"ts":{arrived >> 2}{_QUARTERS[arrived & 3]},"ph":"f","bp":"e"}}'
        )

    def _names(self) -> Iterator[str]:
        """Yield the metadata.

        In order of time, Perfetto renames a thread at every event whose tid is a text. So the names for people carry
        the latest time of all.
        """
        recording = self.recording
        end = self._quarters(max(recording.end, recording.now))
        for node in recording.nodes:
            any_worker = next((worker for worker in recording.lanes if worker.node is node), None)
            if any_worker is None and not node.is_head:
                continue
            place = self._place(any_worker)
            head = ", head" if node.is_head else ""
            dead = ", dead" if not node.alive else ""
            yield self._event(
                "__metadata",
                "process_name",
                "M",
                end,
                end,
                place,
                args={"name": f"Node {node.name} ({node.hex[:8]}{head}{dead})"},
            )
            yield self._event(
                "__metadata", "process_sort_index", "M", end, end, place, args={"sort_index": node.number}
            )
        yield from self._thread_names(end, self.places[None], "driver", 0)
        for worker in recording.lanes:
            for level in range(self.level_counts.get(worker, 1) if self.integer_ids else 1):
                yield from self._thread_names(
                    end, self._place(worker, level), lane_title(worker, level), self.numbers[worker] + level
                )
        notes = recording.dropped_sentences()
        if not self.detailed:
            notes.append(
                f"More than {DETAILED_ATTEMPTS:,} attempts: short form, without the spans and arrows that follow from "
                "the others."
            )
        yield self._event(
            "__metadata",
            "recording",
            "M",
            end,
            end,
            self.places[None],
            args={
                "attempts": len(recording.rows),
                "short_form": not self.detailed,
                "record_limit": recording.record_limit,
                "dropped": recording.dropped,
                "notes": notes,
            },
        )
        start = self._quarters(recording.start)
        for sentence in recording.dropped_sentences():
            yield self._event("dropped", sentence, "i", start, start, self.places[None], more='"s":"g",')

    def _thread_names(self, end: int, place: str, title: str, index: int) -> Iterator[str]:
        yield self._event("__metadata", "thread_name", "M", end, end, place, args={"name": title})
        yield self._event("__metadata", "thread_sort_index", "M", end, end, place, args={"sort_index": index})
