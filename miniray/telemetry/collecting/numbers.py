"""What the rows of several tables share: values as JSON, and the numbers of what many rows name.

No function here runs code of the program: a value, a function or an exception is never looked into.
"""

from __future__ import annotations

import json
from typing import Any

from ...core.records import Failure, SchedulingClass, TaskRecord, TaskSpec
from ...observe.state.task_columns import PATHS, Look
from ...values.errors import TaskError
from ..schema.span_view import caller_key

MOST_TEXT = 64 << 10  # characters of an error's text
Row = tuple[Any, ...]


def to_json(value: Any) -> str:
    """A value of the core as JSON. What has no form in JSON is shown as its class: no code of the program runs."""
    return json.dumps(value, default=lambda odd: str(odd) if type(odd) in PATHS else f"<{type(odd).__name__}>")


def masked(value: Any) -> Any:
    """A runtime environment with its names, but without its values."""
    if type(value) is dict:
        return {str(key) if type(key) is str else "***": masked(inner) for key, inner in value.items()}
    return [masked(inner) for inner in value] if type(value) in (list, tuple) else "***"


def cut(text: str) -> str:
    """A text that a file can hold: not too long, and without lone surrogates."""
    if len(text) > MOST_TEXT:
        text = f"{text[:MOST_TEXT]} [{len(text) - MOST_TEXT} more characters]"
    return str(storable(text))


def storable(value: Any) -> Any:
    """A value that SQLite can hold: in a text, a lone surrogate is spelled out. Other values are as they were."""
    if type(value) is not str or value.isascii():
        return value
    return value.encode(errors="backslashreplace").decode()


class Numbers:
    """Gives numbers to what many rows share: specifications, callers, failures and demands.

    `new` holds the rows of things that got their number since the last collection. Things are found again by what they
    say, or while they are remembered by their identity; the memory is bounded, so a thing may get a second number.
    """

    def __init__(self, look: Look, seed: int = 0, most: int = 10_000):
        self.look, self.seed, self.most = look, seed, most
        self.new: dict[str, list[Row]] = {"_specs": [], "_callers": [], "_failures": []}
        self._last: dict[str, int] = dict.fromkeys(self.new, 0)
        self._specs: dict[Any, int] = {}  # by what they say
        self._seen_specs: dict[tuple[int, str], tuple[TaskSpec, int]] = {}  # during one collection, by identity
        self._callers: dict[tuple[Any, ...], int] = {}
        self._failures: dict[Failure, int] = {}
        self.classes: dict[SchedulingClass, int] = {}

    def begin(self) -> None:
        """A collection begins: nothing of the program's is remembered from the last one."""
        self._seen_specs.clear()
        for memory in (self._specs, self._callers, self._failures):
            if len(memory) > self.most:
                memory.clear()

    def _number(self, table: str) -> int:
        self._last[table] += 1
        return self._last[table]

    def forget(self) -> None:
        """Nothing is remembered: the rows may be gone. Whatever comes again gets a new number."""
        for memory in (self._seen_specs, self._specs, self._callers, self._failures):
            memory.clear()

    def spec(self, spec: TaskSpec, repr_name: str = "") -> int:
        """The number of a specification. repr_name: of the actor, if rows show it in the name of its calls."""
        seen = self._seen_specs.get((id(spec), repr_name))
        if seen is not None and seen[0] is spec:
            return seen[1]
        name = f"{repr_name}.{spec.name.rpartition('.')[2]}" if repr_name and spec.name == spec.func_name else spec.name
        options = spec.options or {}
        retry = spec.retry_exceptions
        row = (
            spec.kind,
            cut(name),
            cut(spec.name),
            cut(spec.func_name),
            spec.module,
            self.scheduling_class(spec.scheduling_class),
            to_json(spec.resources),
            str(spec.num_returns) if type(spec.num_returns) in (int, str) else "",
            spec.max_retries,
            _retried(retry),
            spec.group,
            to_json(masked(spec.runtime_env)) if spec.runtime_env else None,
            spec.capture_child_tasks,
            spec.backpressure,
            spec.max_calls,
            _selector(options.get("label_selector")),
            _selector(options.get("fallback_strategy")),
        )
        number = self._specs.get(row)
        if number is None:
            number = self._specs[row] = self._number("_specs")
            self.new["_specs"].append((number, *row))
        if len(self._seen_specs) > self.most:
            self._seen_specs.clear()
        self._seen_specs[id(spec), repr_name] = spec, number
        return number

    def caller(self, task: TaskRecord) -> int:
        """The number of what submitted a task: another task, or the driver, in a span or not."""
        key = caller_key(task, self.seed)
        number = self._callers.get(key)
        if number is None:
            number = self._callers[key] = self._number("_callers")
            self.new["_callers"].append((number, *key, actor_of(task.parent)))
        return number

    def failure(self, failure: Failure | None) -> int | None:
        """The number of a failure, and of its causes."""
        if failure is None:
            return None
        number = self._failures.get(failure)
        if number is None:
            number = self._failures[failure] = self._number("_failures")
            about = failure.about
            error = failure.error
            self.new["_failures"].append(
                (
                    number,
                    failure.error_type,
                    cut(failure.message),
                    cut(self.look.error_text(failure)),
                    self.failure(failure.cause),
                    *about_of(about),
                    error.class_name if isinstance(error, TaskError) else None,
                )
            )
        return number

    def scheduling_class(self, wanted: SchedulingClass | None) -> int | None:
        """The number of a demand."""
        if wanted is None:
            return None
        number = self.classes.get(wanted)
        if number is None:
            number = self.classes[wanted] = len(self.classes) + 1
        return number


def _retried(retry: Any) -> str:
    """Which exceptions are retried: true, false, or names. The name of a class is read without its metaclass."""
    if type(retry) not in (list, tuple):
        return to_json(bool(retry)) if type(retry) is bool or retry is None else "?"
    return ", ".join(_name.__get__(one) for one in retry if issubclass(type(one), type))


_name: Any = type.__dict__["__name__"]


def _selector(value: Any) -> str | None:
    return to_json(value) if value else None


KINDS = {
    "TaskRecord": "task",
    "ActorRecord": "actor",
    "ObjectRecord": "object",
    "NodeRecord": "node",
    "WorkerRecord": "worker",
    "PlacementGroupRecord": "placement_group",
}


def about_of(record: Any) -> tuple[str | None, str | None, int | None]:
    """The kind, the id and the number of a record that something is about."""
    kind = KINDS.get(type(record).__name__)
    return (kind, record.hex, record.number) if kind is not None else (None, None, None)


def actor_of(task_id: str) -> int | None:
    """The number of the actor that a task's id names; None if it names none."""
    digits = task_id[16:40]
    return None if digits == "f" * 24 else int(digits, 16)
