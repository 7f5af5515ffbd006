"""Measurements of a recording: tasks that ran far longer than others, attempts that failed, values in files.

The engine that names bottlenecks (`bottleneck`) and the doctor read these measurements and sentences, so both call the
same task a straggler and give the same numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from statistics import median

from ...core.records import ACTOR_CREATION_TASK, Failure
from ..amounts import count
from ..timeline.recording import CANCELLED, RETRIED, Recording, Row
from ..timeline.text import duration

STRAGGLER_AMONG = 4  # a median of fewer tasks means nothing
STRAGGLER_TIMES = 5.0  # a straggler runs at least this many times the median of its function
STRAGGLER_FROM_S = 0.05  # a shorter task may be late by chance
SPILLED_SHARE = 0.25  # of a store's capacity; with less than that in files, memory is not the bottleneck


class Evidence:
    """Measurements of a recording, each made when it is first asked for."""

    def __init__(self, recording: Recording):
        self.recording = recording

    # ------------------------------------------------------------ stragglers

    @cached_property
    def _parents(self) -> set[str]:
        return {row.parent for row in self.recording.rows}

    @cached_property
    def _medians(self) -> dict[tuple[str, str], float]:
        lengths: dict[tuple[str, str], list[float]] = defaultdict(list)
        for row in self.recording.rows:
            if row.started and row.outcome not in (RETRIED, CANCELLED):
                lengths[row.spec.module, row.spec.func_name].append(self.length(row))
        return {key: median(known) for key, known in lengths.items() if len(known) >= STRAGGLER_AMONG}

    def length(self, row: Row) -> float:
        """How long an attempt has been on its worker, in seconds."""
        return row.until(self.recording.now) - row.leased

    def usual(self, row: Row) -> float | None:
        """The median time that tasks of this one's function were on a worker; None if it means nothing."""
        if row.hex in self._parents or row.spec.kind == ACTOR_CREATION_TASK:
            return None  # a task waits for the tasks that it submits, and the time belongs to them
        return self._medians.get((row.spec.module, row.spec.func_name))

    def is_late(self, row: Row, seconds: float) -> bool:
        """Whether this much time on a worker is far more than tasks of this function usually need."""
        usual = self.usual(row)
        return usual is not None and seconds >= max(STRAGGLER_TIMES * usual, STRAGGLER_FROM_S)

    @cached_property
    def stragglers(self) -> dict[str, list[Row]]:
        """The tasks that are late, by name, the longest first."""
        late: dict[str, list[Row]] = defaultdict(list)
        for row in self.recording.rows:
            if row.started and row.outcome not in (RETRIED, CANCELLED) and self.is_late(row, self.length(row)):
                late[row.spec.name].append(row)
        for rows in late.values():
            rows.sort(key=self.length, reverse=True)
        return dict(late)

    def late_in_words(self, name: str, late: list[Row]) -> str:
        """How late the stragglers of a name are. late: at least one, the longest first."""
        length, usual = self.length(late[0]), self.usual(late[0]) or 0.0
        upto = " or less" if len(late) > 1 else ""
        times = f", {length / usual:,.0f} times the median of its function ({duration(usual)})" if usual else ""
        return f"{len(late):,} of {count(self.tasks(name), 'task')} {name} ran for {duration(length)}{upto}{times}"

    # ------------------------------------------------------------ failed attempts

    @cached_property
    def retries(self) -> dict[str, list[Row]]:
        """The attempts that failed and were repeated, by the name of their task."""
        failed: dict[str, list[Row]] = defaultdict(list)
        for row in self.recording.rows:
            if row.outcome == RETRIED:
                failed[row.spec.name].append(row)
        return dict(failed)

    def tasks(self, name: str) -> int:
        """How many tasks have this name."""
        return len({row.number for row in self.recording.rows if row.spec.name == name})

    def retries_in_words(self, name: str) -> str:
        """How many attempts the tasks of a name took, and the most frequent kind of error."""
        attempts = sum(row.spec.name == name for row in self.recording.rows)
        errors: dict[str, Counter[str]] = defaultdict(Counter)
        for row in self.recording.rows:
            if row.spec.name == name and row.failure is not None:
                error_type, message = first_failure(row.failure)
                errors[kind_of_error(error_type, message)][message] += 1
        kind = max(errors, key=lambda kind: errors[kind].total(), default="")
        cause = f"; {errors[kind].total():,} of them ended with {typical(kind, errors[kind])}" if kind else ""
        return f"{count(self.tasks(name), 'task')} {name} took {count(attempts, 'attempt')}{cause}"

    # ------------------------------------------------------------ values in files

    @cached_property
    def stores(self) -> Counter[str]:
        """The numbers of all object stores, added up."""
        total: Counter[str] = Counter()
        for store in self.recording.stores:
            total.update({name: value for name, value in store.items() if isinstance(value, int)})
        return total

    @cached_property
    def lacks_memory(self) -> bool:
        """Whether a store wrote so much to files that the values in use cannot have fitted."""
        return any(
            store.get("spilled_bytes", 0) >= SPILLED_SHARE * max(store.get("capacity_bytes", 0), 1)
            for store in self.recording.stores
        )

    def spilling_in_words(self) -> str:
        """How many values went to files and came back."""
        total = self.stores
        again = total["restored"] > total["spilled"]
        thrash = ", more than once each, so the values in use do not fit" if again else ""
        failed = f"; {total['spill_failures']:,} could not be written" if total["spill_failures"] else ""
        large = f"; {total['fallback']:,} were larger than a whole store" if total["fallback"] else ""
        return (
            f"{count(total['spilled'], 'value')} ({total['spilled_bytes'] / 2**20:,.1f} MiB) were written to files and "
            f"{total['restored']:,} read back{thrash}{failed}{large}"
        )


def first_failure(failure: Failure) -> tuple[str, str]:
    """The type and the last line of the failure that this one comes from."""
    while failure.error is None and failure.cause is not None:
        failure = failure.cause
    lines = failure.message.strip().splitlines()
    return failure.error_type, lines[-1].strip() if lines else ""


def kind_of_error(error_type: str | None, message: str) -> str:
    """The key by which errors are grouped: the exception's class if there is one, otherwise Ray's name for the error.

    The messages themselves would not do, since they differ in a path, a number or an id.
    """
    name = message.partition(":")[0]
    if error_type == "TASK_EXECUTION_EXCEPTION" and name.replace(".", "_").isidentifier():
        return name
    return error_type or "an unknown error"


def typical(kind: str, messages: Counter[str]) -> str:
    """The most frequent message of a kind of error, and the number of its other messages."""
    first, _ = messages.most_common(1)[0]
    more = f" ({count(len(messages) - 1, 'more message')} of this kind)" if len(messages) > 1 else ""
    return (first if first.startswith(kind) else f"{kind}: {first}") + more
