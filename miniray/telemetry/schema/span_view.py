"""The view `spans`: the spans of traces, computed from the rows of attempts.

A session stores nothing for the spans of its calls and attempts (see `process.trace_context`): their ids follow from
the numbers of the tasks and from the session's seed, and `_callers` says in which span a call was made. Only the spans
that the program has opened itself have rows of their own, in `_own_spans`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ...core.records import TaskRecord
from ...ids import JOB_HEX
from ...process.trace_context import MASK, Caller, Context, Sent, parent_of, trace_of
from .ddl import NUMBER, View, actor_id, columns, hex_of, of, worker_id

SIGN = 1 << 63


def signed(number: int) -> int:
    """An unsigned number of 64 bits as SQLite holds it."""
    return number - (SIGN << 1) if number >= SIGN else number


def facts(runtime: Any) -> dict[str, object]:
    """What the table `session` says of the ids of spans."""
    seed = runtime.trace_seed
    return {"trace_prefix": f"{seed >> 64 & MASK:016x}", "span_seed": signed(seed & MASK)}


def caller_columns(seed: int, trace: Any) -> tuple[str | None, int | None, int | None, str | None]:
    """The columns of `_callers` for the context of a call: the trace; the span in which the call was made; the span of
    the call itself, if OpenTelemetry has made it; and the trace's state. All NULL for a call that begins a trace."""
    if trace is None:
        return None, None, None, None
    context: Context | None = trace.context if type(trace) is Caller else trace
    parent = parent_of(seed, trace)
    begins = type(trace) is not Caller and not trace.trace_id  # it has baggage, but no span
    return (
        None if begins else f"{trace_of(seed, trace, 0):032x}",
        signed(parent) if parent else None,
        signed(trace.span_id) if type(trace) is Sent else None,
        context.state or None if context is not None else None,
    )


def caller_key(task: TaskRecord, seed: int) -> tuple[Any, ...]:
    """What identifies a row of `_callers`, in the order of its columns without the first one."""
    return task.parent, task.owner.number if task.owner is not None else None, *caller_columns(seed, task.trace)


def own_rows(spans: Iterable[Any]) -> list[tuple[Any, ...]]:
    """The rows of `_own_spans`. spans: `tracing.spans.Span`s of the program."""
    return [
        (
            signed(span.span_id),
            span.start_ns // 1000,
            f"{span.trace_id:032x}",
            signed(span.parent_id) if span.parent_id else None,
            span.name,
            span.start_ns,
            span.end_ns,
            span.status.code,
            span.status.description or None,
            json.dumps(span.attributes),
            json.dumps([event._asdict() for event in span.events]) if span.events else None,
            span.task_id,
            span.attempt,
        )
        for span in spans
    ]


# ------------------------------------------------------------ the view


def _span_id(number: str, part: str) -> str:
    """The SQL of `trace_context.span_id_of`. SQLite has no XOR: it is (x | y) - (x & y)."""
    spread = f"(((({number}) & 65535) << 48) | ((({number}) >> 16) << 20) | ({part}))"  # all these bind alike
    seed = "(SELECT CAST(x.value AS INTEGER) FROM session x WHERE x.name = 'span_seed')"
    return f"(({spread} | {seed}) - ({spread} & {seed}))"


_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\u001b"}
_OTHERS = "'*['||char(1)||'-'||char(8)||char(11)||char(12)||char(14)||'-'||char(26)||char(28)||'-'||char(31)||']*'"


def _json(text: str) -> str:
    """The SQL of a text as JSON. SQLite's own functions for it are not permitted in a view (`trusted_schema`), and its
    parser does not take an expression that is deep enough for every control character."""
    made = text
    for character, escaped in _ESCAPED.items():
        made = f"replace({made}, char({ord(character)}), '{escaped}')"
    return f"'\"' || CASE WHEN {text} GLOB {_OTHERS} THEN '(see task_attempts.error_message)' ELSE {made} END || '\"'"


def _quoted(name: str) -> str:
    """The SQL of a name of the program as JSON."""
    return f"'\"' || replace(replace({name}, '\\', '\\\\'), '\"', '\\\"') || '\"'"


def _object(**values: str) -> str:
    """The SQL of a JSON object. values: the SQL of each value as JSON."""
    return (
        "'{' || "
        + " || ', ' || ".join(f"'\"{name.replace('_', '.', 1)}\": ' || {sql}" for name, sql in values.items())
        + " || '}'"
    )


_PREFIX = "(SELECT x.value FROM session x WHERE x.name = 'trace_prefix')"
_N = NUMBER.replace("key", "a.key")
_ID = "a.task_id"


def _spec(column: str) -> str:
    return f"(SELECT x.{column} FROM _specs x WHERE x.id = a.spec)"


def _caller(column: str) -> str:
    return f"(SELECT x.{column} FROM _callers x WHERE x.id = a.caller)"


def _worker(column: str) -> str:
    return f"(SELECT x.{column} FROM workers x WHERE x.number = a.worker)"


_CALL_ID = f"coalesce({_caller('call_span')}, {_span_id(_N, '0')})"
_TRACE = f"coalesce({_caller('trace_id')}, {_PREFIX} || printf('%016x', {_CALL_ID}))"
_FUNCTION = f"{_spec('module')} || '.' || {_spec('func_name')}"
_METHOD = (
    f"substr({_spec('func_name')}, length(rtrim({_spec('func_name')}, replace({_spec('func_name')}, '.', ''))) + 1)"
)
_CLASS = f"substr({_spec('func_name')}, 1, length({_spec('func_name')}) - length({_METHOD}) - 1)"
_QUALIFIED = "(SELECT x.class_name FROM actors x WHERE x.id = abs(a.actor))"
# A constructor that was run again had returned: it is the actor that died. A worker that ended as it was asked to is no
# error, and neither is a cancelled attempt.
_FAILED = (
    "(a.failure IS NOT NULL AND NOT (coalesce(a.actor, 0) < 0 AND a.key < 0 AND a.ended_us IS NOT NULL) AND "
    "(SELECT x.error_type FROM _failures x WHERE x.id = a.failure) <> 'TASK_CANCELLED' AND "
    f"(coalesce({_worker('exit_type')}, '') NOT LIKE 'INTENDED%' OR {{raised}} IS NOT NULL))"
)
_RAISED = (
    "(SELECT coalesce(x.user_error, y.user_error) FROM _failures x LEFT JOIN _failures y ON y.id = x.cause "
    "WHERE x.id = a.failure)"
)
_FAILED = _FAILED.format(raised=_RAISED)
_SAID = (
    "(SELECT CASE WHEN x.user_error IS NULL AND y.user_error IS NOT NULL THEN y.{column} ELSE x.{column} END "
    "FROM _failures x LEFT JOIN _failures y ON y.id = x.cause WHERE x.id = a.failure)"
)
_EXCEPTION = _object(
    exception_type=_quoted(_RAISED),
    exception_message=_json(f"substr({_SAID.format(column='message')}, length({_RAISED}) + 3)"),
    exception_stacktrace=_json(_SAID.format(column="text")),
    exception_escaped="'\"False\"'",
)
_EVENT = (
    f'CASE WHEN {_FAILED} AND {_RAISED} IS NOT NULL THEN \'[{{"name": "exception", "time_ns": \' || '
    f"(coalesce(a.ended_us, a.finished_us) * 1000) || ', \"attributes\": ' || {_EXCEPTION} || '}}]' END"
)
_PID = "(SELECT x.value FROM session x WHERE x.name = 'pid')"
_HEAD = "(SELECT x.node_id FROM workers x WHERE x.number = 0)"


def _attributes(function: str, cls: str, method: str, node: str, worker: str, task: str) -> str:
    """The SQL of a span's attributes: Ray's, as texts. Only names need quoting: ids are hexadecimal."""

    def plain(sql: str) -> str:
        return f"'\"' || {sql} || '\"'"

    place = {
        "ray_pid": plain(_PID),
        "ray_job_id": f"'\"{JOB_HEX}\"'",
        "ray_node_id": plain(node),
        "ray_worker_id": plain(worker),
    }
    of_function = {"ray_remote": "'\"function\"'", "ray_function": _quoted(function), **place}
    of_method = {
        "ray_remote": "'\"actor\"'",
        "ray_actor_class": _quoted(cls),
        "ray_actor_method": _quoted(method),
        "ray_function": _quoted(f"{cls} || '.' || {method}"),
        **place,
        "ray_actor_id": plain(actor_id("abs(a.actor)")),
    }
    in_task = _object(**of_function, ray_task_id=plain(task))
    return (
        f"CASE WHEN a.actor IS NOT NULL THEN {_object(**of_method)} "
        f"WHEN ({task}) IS NULL THEN {_object(**of_function)} ELSE {in_task} END"
    )


_OWNER = _caller("owner")
_OWNERS_NODE = f"CASE WHEN {_OWNER} IS NULL THEN {_HEAD} ELSE {of('workers', 'node_id', 'number', _OWNER)} END"
_PARENT = f"CASE WHEN {_OWNER} IS NOT NULL THEN {_caller('parent_task_id')} END"
_COLUMNS = (
    ("id", _CALL_ID, _span_id(_N, "a.attempt + 1"), "o.id"),
    ("trace_id", _TRACE, _TRACE, "o.trace_id"),
    ("parent_id", _caller("parent_span"), _CALL_ID, "o.parent_id"),
    (
        "name",
        f"CASE WHEN a.actor IS NULL THEN {_FUNCTION} ELSE {_QUALIFIED} || '.' || {_METHOD} END || ' ray.remote'",
        f"CASE WHEN a.actor IS NULL THEN {_FUNCTION} ELSE {_spec('func_name')} END || ' ray.remote_worker'",
        "o.name",
    ),
    ("kind", "'PRODUCER'", "'CONSUMER'", "'INTERNAL'"),
    ("start_ns", "a.created_us * 1000", "a.started_us * 1000", "o.start_ns"),
    ("end_ns", "a.created_us * 1000", "coalesce(a.ended_us, a.finished_us) * 1000", "o.end_ns"),
    ("status", "'UNSET'", f"CASE WHEN {_FAILED} THEN 'ERROR' ELSE 'UNSET' END", "o.status"),
    (
        "description",
        "NULL",
        f"CASE WHEN {_FAILED} THEN CASE WHEN {_RAISED} IS NULL THEN {_SAID.format(column='error_type')} || ': ' "
        f"ELSE '' END || {_SAID.format(column='message')} END",
        "o.description",
    ),
    (
        "attributes",
        _attributes(_FUNCTION, _QUALIFIED, _METHOD, _OWNERS_NODE, worker_id(_OWNER), _PARENT),
        _attributes(_FUNCTION, _CLASS, _METHOD, _worker("node_id"), worker_id("a.worker"), _ID),
        "o.attributes",
    ),
    ("events", "NULL", _EVENT, "o.events"),
    ("worker", worker_id(_OWNER), hex_of(56, "a.worker"), "NULL"),
    ("task_id", _ID, _ID, "o.task_id"),
    ("attempt", "NULL", "a.attempt", "o.attempt"),
)


def _select(place: int, source: str) -> str:
    return f"SELECT {', '.join(f'{row[place]} AS {row[0]}' for row in _COLUMNS)} FROM {source}"


SPANS = View(
    "spans",
    "The spans of traces: of each call, of each attempt, and of the program's own code.",
    columns("""
id INTEGER | s.id | The span's id as a number, the key of joins. Above 2 ** 63 it is negative.
timestamp_us INTEGER us | s.start_ns / 1000 | It began.
trace_id TEXT | s.trace_id | Of the trace: 32 hexadecimal digits.
span_id TEXT | printf('%016x', s.id) | 16 hexadecimal digits.
parent_span_id TEXT | CASE WHEN s.parent_id IS NOT NULL THEN printf('%016x', s.parent_id) END | The span around it.
parent_id INTEGER | s.parent_id | The same as a number; NULL for the first span of a trace.
name TEXT | s.name | Its name, as Ray gives it.
kind TEXT | s.kind | PRODUCER: a call. CONSUMER: an attempt. INTERNAL: a span of the program.
start_ns INTEGER ns | s.start_ns | It began; nanoseconds since the epoch.
end_ns INTEGER ns | s.end_ns | It ended; NULL while it runs.
duration_us INTEGER us | (s.end_ns - s.start_ns) / 1000 | How long it took.
status TEXT | s.status | UNSET or ERROR.
status_description TEXT | s.description | Of the error.
attributes_json TEXT json | s.attributes | Its attributes; all values are texts.
fields_json TEXT json | s.attributes | Monarch: the same.
events_json TEXT json | coalesce(s.events, '[]') | Its events: the exception that ended it.
links_json TEXT json | '[]' | Its links: none, as in Ray.
target TEXT | CASE s.kind WHEN 'INTERNAL' THEN 'program' ELSE 'ray' END | What made it.
level TEXT | CASE s.status WHEN 'ERROR' THEN 'ERROR' ELSE 'INFO' END | INFO, or ERROR if it failed.
thread_name TEXT | s.worker | The worker's id; NULL for a span of the program.
file TEXT | NULL | NULL.
line INTEGER | NULL | NULL.
task_id TEXT | s.task_id | The task that was called, that ran, or that opened the span.
attempt_number INTEGER | s.attempt | The attempt that ran, or that opened the span.
"""),
    f"({_select(1, '_attempts a WHERE a.attempt = 0')} UNION ALL "
    f"{_select(2, '_attempts a WHERE a.started_us IS NOT NULL')} UNION ALL {_select(3, '_own_spans o')}) s",
)
