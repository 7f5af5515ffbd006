"""`miniray.timeline`: what ran where and when, as Chrome trace events or as a page.

The events are those of `ray.timeline()`: for each attempt a span `task::NAME` around `task:deserialize_arguments`,
`task:execute` and `task:store_outputs`. miniray adds events that Ray leaves out:

    M       names of nodes and workers
    X       spans of user code (`profile`), and `ray.get` where a thread waited in get or wait
    b, e    waits before there was a worker: for arguments, and in a queue
    s, f    arrows: submission to execution, producer to consumer
    i       notes: how much of the run the trace covers

Every event has Ray's nine keys, so that a program written for Ray's list can read all of this list.

There are two forms, because viewers and programs need different things:

- Viewers multiply times by 1000 as floating-point numbers, drop spans that cross, and know threads by integers. So a
  file has integer ids, and times in quarters of a microsecond since the beginning of the run, which stay exact. Spans
  that would cross get rows of their own, see `lanes`.
- Programs that were written for Ray expect Ray's texts in `pid` and `tid`, and times since the Unix epoch. So the
  returned list has them, and under the `ray` alias a file has them too. Their times are whole microseconds.

An attempt that has not ended is drawn up to the moment of reading.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from itertools import count
from operator import attrgetter
from typing import Any

from ...core.records import TaskSpec, WorkerRecord
from ...ids import worker_hex
from ...process.context import running
from ...values.errors import TaskError
from .files import is_page, write_whole
from .lanes import Clock, Layout
from .recording import FINISHED, RUNNING, Recording, Row, lane_title, read

logger = logging.getLogger(__name__)

DETAILED_ATTEMPTS = 10_000
"""A timeline of more attempts has a short form. A finished attempt gets only its span, with the waiting times in its
args, and `task:execute`; the rest of the span before and after it is fetching and storing. The only arrows are those
from producers to consumers."""

NAMES_OF_WAITS = 200
"""A viewer gives every name of a wait a track. If there are more names of tasks, those of their functions are used."""

DRIVER = 1
"""The integer id of the driver's first row. Perfetto takes the thread 0 of a process for its main thread."""

_QUARTERS = (".0", ".25", ".5", ".75")
_files_as_ray = False


def write_files_as_ray(on: bool) -> None:
    """Whether a file has Ray's ids and times unless its caller asks for integers. The `ray` alias calls this."""
    global _files_as_ray
    _files_as_ray = on


def timeline(
    filename: str | os.PathLike[str] | None = None,
    *,
    html: str | os.PathLike[str] | bool | None = None,
    integer_ids: bool | None = None,
) -> list[dict[str, Any]] | InlinePage | None:
    """Return or write the timeline of the running session. Ray: `ray.timeline`.

    filename: write a JSON array of Chrome trace events to this file, for Perfetto, chrome://tracing or speedscope; a
    name that ends in .gz is compressed, and a name that ends in .html means `html`. html: write one self-contained page
    to this file; True returns the page instead, and a notebook shows it. A file is written as a whole or not at all,
    and replaces an existing one. Without a file, return the events as a list of dicts; otherwise None.
    integer_ids: whether `pid` and `tid` are numbers, and `ts` counts from the beginning of the run, as viewers need it;
    or texts, and since the Unix epoch, as in Ray. The default: numbers in a file, Ray's texts in the list, and under
    the `ray` alias everywhere.

    Each event has cat, name, pid, tid, ph, ts, dur, cname and args; ts and dur are microseconds. Raises RuntimeError if
    no session is running, and writes no file; OSError if a file cannot be written, such as FileNotFoundError for a
    missing folder. An empty timeline logs a warning that says why it is empty.
    """
    recording = read(running())
    if filename is not None and html is None and is_page(filename):
        filename, html = None, filename
    if recording.empty:
        logger.warning("The timeline is empty. %s", recording.why_empty())
    inline = None
    if html is not None and html is not False:
        from .page import page

        if html is True:
            inline = InlinePage("".join(page(recording)))
        else:
            write_whole(html, page(recording))
    if filename is not None:
        write_whole(filename, json_text(recording, not _files_as_ray if integer_ids is None else integer_ids))
    if inline is not None:
        return inline
    if filename is None and not html:
        events: list[dict[str, Any]] = json.loads("".join(json_text(recording, bool(integer_ids))))
        return events
    return None


class InlinePage:
    """The page of a timeline, which a notebook shows. str() is its HTML."""

    def __init__(self, text: str):
        self._text = text

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        from ..notebook import frame  # only a notebook needs it

        return frame(self._text)


def write(recording: Recording, filename: str | os.PathLike[str]) -> None:
    """Write a recording for viewers: as a page if the name ends in .html, otherwise as Chrome trace events. Raises
    OSError."""
    if is_page(filename):
        from .page import page

        write_whole(filename, page(recording))
    else:
        write_whole(filename, json_text(recording, integer_ids=True))


def json_text(recording: Recording, integer_ids: bool = False) -> Iterator[str]:
    """Yield the JSON array in pieces, with one event per line."""
    writer = _Writer(recording, integer_ids)
    between = "[\n"
    for text in writer.events():
        yield between
        yield text
        between = ",\n"
    yield "[]\n" if between == "[\n" else "\n]\n"


def quoted(text: str) -> str:
    """A text as JSON. Letters of every script stay as they are, since Perfetto shows an escape in a name as it stands;
    characters that do not print, such as those that steer a terminal, are escaped."""
    packed = json.dumps(text, ensure_ascii=False)
    if packed.isprintable():
        return packed
    return "".join([one if one.isprintable() else json.dumps(one)[1:-1] for one in packed])


def _args(args: dict[str, Any]) -> str:
    return "{" + ",".join(f"{quoted(str(key))}:{_value(value)}" for key, value in args.items()) + "}"


def _value(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else json.dumps(value, default=str)


class _Writer:
    """Writes the events of one recording as JSON texts.

    Most of a text is the same for all attempts of a function or on a worker, so these parts are built once. Times are
    in counts: quarters of a microsecond since the beginning, or whole microseconds since the Unix epoch.
    """

    def __init__(self, recording: Recording, integer_ids: bool):
        self.recording, self.integer_ids = recording, integer_ids
        self.start = min([recording.start, *(since for _, _, since, _ in recording.waits)])
        self.epoch = round(recording.epoch * 1e6)
        self.detailed = len(recording.rows) <= DETAILED_ATTEMPTS
        self.flow = count(1)
        self.heads: dict[TaskSpec, tuple[str, str]] = {}
        clock = Clock(self.start, 4e6, 0) if integer_ids else Clock(0.0, 1e6, self.epoch)
        self._count = clock.count
        self.layout = Layout(recording, clock, one_row=not integer_ids)
        self.times = self.layout.times
        self.numbers: dict[WorkerRecord, int] = {}  # of each worker's first row
        free = DRIVER + self._rows_of(None)
        for worker in recording.lanes:
            self.numbers[worker] = free
            free += self._rows_of(worker)
        self.places: dict[Any, str] = {None: self._place(None)}
        for worker in recording.lanes:
            self.places[worker] = self._place(worker)
        few = len({spec.name for spec in recording.by_spec}) <= NAMES_OF_WAITS if self.detailed else False
        self.name_of_wait = attrgetter("name" if few else "func_name")  # of a TaskSpec

    # ------------------------------------------------------------ where

    def _rows_of(self, worker: WorkerRecord | None) -> int:
        return self.layout.rows.get(worker, 1)

    def _place(self, worker: WorkerRecord | None, level: int = 0) -> str:
        """The part of an event that names its place: a worker, or the driver for None."""
        nodes = self.recording.nodes
        if worker is None:
            head = next((node for node in nodes if node.is_head), nodes[0] if nodes else None)
            pid: Any = head.name if head is not None else "127.0.0.1"
            tid: Any = f"driver:{worker_hex(0)}"
            if self.integer_ids:
                pid, tid = head.number if head is not None else 1, DRIVER + level
        elif self.integer_ids:
            pid, tid = worker.node.number, self.numbers[worker] + level
        else:
            pid, tid = worker.node.name, f"worker:{worker.hex}"
        return f'"pid":{_value(pid)},"tid":{_value(tid)},'

    def _place_of(self, row: Row) -> str:
        if row in self.layout.level_of:
            return self._place(row.worker, self.layout.level_of[row])
        return self.places[row.worker]

    # ------------------------------------------------------------ when

    def _us(self, counts: int) -> str:
        return f"{counts >> 2}{_QUARTERS[counts & 3]}" if self.integer_ids else str(counts)

    def _when(self, begin: int, end: int) -> str:
        """The part of an event with its time; begin and end are counts."""
        if not self.integer_ids:
            return f'"ts":{begin},"dur":{end - begin},'
        length = end - begin
        return f'"ts":{begin >> 2}{_QUARTERS[begin & 3]},"dur":{length >> 2}{_QUARTERS[length & 3]},'

    # ------------------------------------------------------------ events

    def events(self) -> Iterator[str]:
        """Yield all events in an order that also suits viewers that do not sort: names last, see `_names`."""
        recording = self.recording
        if recording.empty:
            return
        yield from self._spans_and_waits()
        write = self._attempt if self.detailed else self._short
        for row in recording.rows:
            if row.leased:
                yield write(row)
            if self.detailed:
                yield from self._before_the_worker(row)
            if row.producers:
                yield from self._arrows_from_producers(row)
        yield from self._names()

    def _spans_and_waits(self) -> Iterator[str]:
        """Spans of user code, and the times in get or wait. They come first, and outer ones before inner ones."""
        texts: list[tuple[int, int, str]] = []
        for span, (level, begin, end) in zip(self.recording.spans, self.layout.spans):
            shown, colour = span.extra.get("name", span.name), span.extra.get("cname", "generic_work")
            place = self._place(span.worker, level)
            texts.append((begin, -end, self._event(span.name, shown, "X", begin, end, place, colour, span.extra)))
        for (worker, _, _, _), (level, begin, end) in zip(self.recording.waits, self.layout.waits):
            if worker is None or worker in self.places:
                place = self._place(worker, level)
                texts.append((begin, -end, self._event("ray.get", "ray.get", "X", begin, end, place, "good")))
        texts.sort()
        return (text for _, _, text in texts)

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
            f'{{"cat":{quoted(cat)},"name":{quoted(name)},{place}{self._when(begin, end)}"ph":"{ph}",'
            f'"cname":{quoted(colour)},{more}"args":{_args(args or {})}}}'
        )

    def _head(self, row: Row) -> tuple[str, str]:
        """The beginning of an attempt's span, and of its args: the same for all attempts of a function."""
        head = self.heads.get(row.spec)
        if head is None:
            name = quoted(row.display_name)
            head = self.heads[row.spec] = (
                f'{{"cat":{quoted("task::" + row.spec.name)},"name":{name},',
                f'"ph":"X","cname":"generic_work","args":{{"name":{name},"task_id":"',
            )
        return head

    def _attempt(self, row: Row) -> str:
        """An attempt that reached a worker: its span, and the phases within."""
        place = self._place_of(row)
        head, args = self._head(row)
        begin, started, ended, end = self.times(row)
        outcome = row.outcome
        unfinished = outcome == RUNNING
        more = ',"unfinished":true' if unfinished else ""
        lines = [
            f'{head}{place}{self._when(begin, end)}{args}{row.hex}"{more}}}}}',
            f'{{"cat":"task:deserialize_arguments","name":"task:deserialize_arguments",{place}'
            f"{self._when(begin, started)}"
            '"ph":"X","cname":"rail_load","args":{}}',
        ]
        if row.started:
            error = "" if outcome in (FINISHED, RUNNING) else _args(self._error(row))[1:-1]
            ended = end if unfinished else ended
            lines.append(
                f'{{"cat":"task:execute","name":"task:execute",{place}{self._when(started, ended)}'
                f'"ph":"X","cname":"rail_animation","args":{{{error}{more[1:]}}}}}'
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
        begin, started, ended, end = self.times(row)
        if not self.integer_ids:
            outer, inner = self._when(begin, end), self._when(started, ended)
        else:  # `_when` written out, because calls would cost too much
            whole, part, parts = end - begin, ended - started, _QUARTERS
            outer = f'"ts":{begin >> 2}{parts[begin & 3]},"dur":{whole >> 2}{parts[whole & 3]},'
            inner = f'"ts":{started >> 2}{parts[started & 3]},"dur":{part >> 2}{parts[part & 3]},'
        return (
            f'{head}{place}{outer}{args}{row.hex}"{more}'
            f',"queued_us":{queued * 1e6:.0f}}}}},\n{{"cat":"task:execute","name":"task:execute",{place}{inner}'
            '"ph":"X","cname":"rail_animation","args":{}}'
        )

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
        created = self._count(row.created)
        now = self.recording.now
        yield self._event("submit_task", "submit_task", "X", created, created + 1, place, "background_memory_dump")
        if row.leased:
            times = self.times(row)
            arrived = times.started if row.started else times.begin
            yield self._arrow("submission", place, created, self._place_of(row), max(created, arrived))
        over = row.finished or now
        yield from self._side_phase("waiting for arguments", row, row.created, row.ready or over, place)
        if row.ready:
            yield from self._side_phase("queued", row, row.ready, row.leased or over, place)
        if not self.integer_ids and row.worker is not None and row.worker.actor is not None:
            if row.worker.actor.is_async and row.leased:
                yield from self._side_phase("running", row, row.leased, over, self._place_of(row))

    def _side_phase(self, phase: str, row: Row, begin: float, end: float, place: str) -> Iterator[str]:
        """A phase beside the threads; its id counts within its process only."""
        first, last = self._count(begin), self._count(end)
        if last <= first:
            return
        id = f'"id2":{{"local":"0x{next(self.flow):x}"}},'
        cat, name = "task:" + phase, f"{self.name_of_wait(row.spec)}: {phase}"
        facts: dict[str, Any] = {"task_id": row.hex, "attempt_number": row.attempt, "task": row.spec.name}
        if not row.finished and end == self.recording.now:
            facts["unfinished"] = True
        yield self._event(cat, name, "b", first, first, place, args=facts, more=id)
        yield self._event(cat, name, "e", last, last, place, more=id)

    def _arrows_from_producers(self, row: Row) -> Iterator[str]:
        """From the end of each producer to the beginning of the attempt that took its result."""
        if not row.leased:
            return
        begin = self.times(row).begin
        for producer in row.producers:
            source = self.recording.latest.get(producer)
            if source is None or not source.started or not source.finished or source.finished > row.leased:
                continue  # dropped from the records, failed before it ran, or run again since
            left = self.times(source).ended
            if left <= begin:
                yield self._arrow("dependency", self._place_of(source), left, self._place_of(row), begin)

    def _arrow(self, kind: str, from_place: str, left: int, to_place: str, arrived: int) -> str:
        """An arrow's two ends; each must lie in a span that is open at that time, or viewers drop the arrow."""
        number = next(self.flow)
        common = f'"cat":"{kind}","name":"{kind}","id":{number},"dur":0.0,"cname":"generic_work","args":{{}},'
        return (
            f'{{{common}{from_place}"ts":{self._us(left)},"ph":"s"}},\n'
            f'{{{common}{to_place}"ts":{self._us(arrived)},"ph":"f","bp":"e"}}'
        )

    def _names(self) -> Iterator[str]:
        """Yield the metadata.

        In order of time, Perfetto renames a thread at every event whose tid is a text. So the names for people carry
        the latest time of all.
        """
        recording = self.recording
        end = self._count(max(recording.end, recording.now))
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
        for level in range(self._rows_of(None)):
            title = f"driver ({level + 1})" if level else "driver"
            yield from self._thread_names(end, self._place(None, level), title, DRIVER + level)
        for worker in recording.lanes:
            for level in range(self._rows_of(worker)):
                yield from self._thread_names(
                    end, self._place(worker, level), lane_title(worker, level), self.numbers[worker] + level
                )
        notes = recording.dropped_sentences()
        if not self.detailed:
            notes.append(
                f"More than {DETAILED_ATTEMPTS:,} attempts: short form, without the spans and arrows that follow from "
                "the others."
            )
        start = self._count(recording.start)
        facts = {
            "attempts": len(recording.rows),
            "short_form": not self.detailed,
            "record_limit": recording.record_limit,
            "dropped": recording.dropped,
            "began_us": self.epoch + round(self.start * 1e6),
            "notes": notes,
        }
        # A note is an instant event. chrome://tracing warns of metadata that it does not know.
        yield self._event("recording", "recording", "i", start, start, self.places[None], args=facts, more='"s":"t",')
        for sentence in recording.dropped_sentences():
            yield self._event("dropped", sentence, "i", start, start, self.places[None], more='"s":"t",')

    def _thread_names(self, end: int, place: str, title: str, index: int) -> Iterator[str]:
        yield self._event("__metadata", "thread_name", "M", end, end, place, args={"name": title})
        yield self._event("__metadata", "thread_sort_index", "M", end, end, place, args={"sort_index": index})
