"""The worker of an async actor in a simulation."""

from __future__ import annotations

from ...core.records import TaskRecord
from ..async_worker import AsyncWorker
from ..outcomes import Outcome


class SimulatedAsyncWorker(AsyncWorker):
    """An AsyncWorker whose reports come after a point."""

    def _report(self, task: TaskRecord, outcome: Outcome) -> None:
        runtime: object = self.runtime
        runtime.before_report(task, outcome)  # type: ignore[attr-defined]
        super()._report(task, outcome)
