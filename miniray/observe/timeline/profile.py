"""`profile`: a span of user code for the timeline, as Ray's `ray._private.profiling.profile`, but always on.

The session keeps the last `runtime.spans.maxlen` spans. Recording one does not take the core's lock.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from ...core.records import WorkerRecord
from ...process import context
from ...process.worker_process import caller

# Guards the numbers of spans: the first number in the deque is the count of dropped spans. Re-entrant, because a
# finaliser that runs while the lock is held may use a span itself.
_numbering = threading.RLock()


class Span:
    """A finished span.

    number: how many spans its session recorded before it. worker: None for the driver. task: the number of the task it
    ran in, 0 for none. t_start, t_end: seconds on the runtime's clock. extra: the user's texts by name, plus "type"
    and "value" of an exception that ended the span.
    """

    __slots__ = ("number", "name", "worker", "task", "t_start", "t_end", "extra")

    def __init__(
        self, name: str, worker: WorkerRecord | None, task: int, t_start: float, t_end: float, extra: dict[str, Any]
    ):
        self.number = 0
        self.name, self.worker, self.task = name, worker, task
        self.t_start, self.t_end, self.extra = t_start, t_end, extra


class profile:
    """`with miniray.profile("load"): ...` shows in the timeline as a span of that name, in the lane of the driver or
    of the task's worker.

    name: a str. extra_data: a dict of texts that the span carries; its keys "name" and "cname" (one of Chrome's
    colours) change how the JSON timeline shows the span. Raises TypeError for other types. Records nothing without a
    session. An exception passes through, and the span notes it.
    """

    __slots__ = ("name", "extra_data", "_runtime", "_started")

    def __init__(self, name: str, extra_data: dict[str, str] | None = None):
        if not isinstance(name, str):
            raise TypeError(f"the name of a span is a str, got {type(name).__name__}")
        if extra_data is not None and not isinstance(extra_data, dict):
            raise TypeError(f"extra_data is a dict of texts, got {type(extra_data).__name__}")
        self.name, self.extra_data = name, extra_data
        self._runtime: Any = None
        self._started = 0.0

    def __enter__(self) -> profile:
        self._runtime = context.session
        if self._runtime is not None:
            self._started = self._runtime.now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is None:
            return
        ended = runtime.now()
        extra = {str(key): str(value) for key, value in self.extra_data.items()} if self.extra_data else {}
        if kind is not None:
            extra["type"], extra["value"] = str(kind), _text_of(error)
        execution = caller()
        worker = task = None
        if execution is not None and execution.runtime is runtime:
            worker, task = execution.worker, execution.task
        span = Span(self.name, worker, task.number if task is not None else 0, self._started, ended, extra)
        with _numbering:
            spans = runtime.spans
            span.number = spans[-1].number + 1 if spans else 0
            spans.append(span)


def _text_of(error: BaseException | None) -> str:
    try:
        return str(error)
    except Exception as problem:  # the user's __str__ may raise; its error must not replace the original exception
        return f"<its __str__ raised {type(problem).__name__}>"
