"""`--miniray-record DIR`: a recording of the session of every failed test.

Whether a test fails is known at its end. So each session is recorded from its beginning, in a file that is named after
the test in which it began, and the file is deleted when the session and the test have ended well. A session that lasts
for several tests, because a wider fixture has started it, is kept if one of them failed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest


class Recordings:
    """The plugin's part for --miniray-record. files: the recordings by session, with whether to keep them."""

    def __init__(self, folder: str):
        self.folder = os.path.abspath(folder)
        self.item = "session"  # the test that runs
        self.failed = False  # whether it has failed so far
        self.recordings: list[_Recorded] = []
        self.names: set[str] = set()
        self._listens = False

    # ------------------------------------------------------------ sessions

    def _listen(self) -> None:
        """Hear of new sessions. Not before the first test: `import miniray` is the program's."""
        if not self._listens:
            from .. import session

            session.after_start.append(self._started)
            self._listens = True

    def _started(self, runtime: Any) -> None:
        """A session has begun."""
        from ..telemetry.recording import recorder
        from ..telemetry.config import TelemetryConfig

        simulation = getattr(runtime, "simulation", None)
        if simulation is not None and not getattr(runtime, "ends_simulation", False):
            return  # one of the thousands that a search through schedules runs
        os.makedirs(self.folder, exist_ok=True)
        recording = recorder.start(runtime, TelemetryConfig(self._path(), retention_secs=0))
        if recording is not None:
            self.recordings.append(_Recorded(runtime, recording))

    def _path(self) -> str:
        """A name for the recording of a session that begins in this test. Those of one run are all different."""
        stem = name = os.path.join(self.folder, re.sub(r"[^\w.-]+", "-", self.item).strip("-.")[-150:])
        number = 1
        while name in self.names:
            number += 1
            name = f"{stem}-{number}"
        self.names.add(name)
        return f"{name}.db"

    def _settle(self) -> list[str]:
        """The test is over. Deletes the recordings of sessions that have ended well; returns the paths of those kept
        for this test."""
        from ..process import context

        kept, running = [], []
        for recorded in self.recordings:
            recorded.keep = recorded.keep or self.failed
            if self.failed:
                kept.append(recorded.recording.path)
            if recorded.runtime is context.session:
                running.append(recorded)
            elif not recorded.keep:
                for ending in "", "-wal", "-shm":
                    with suppress(OSError):
                        os.unlink(recorded.recording.path + ending)
        self.recordings = running
        return kept

    # ------------------------------------------------------------ hooks

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note which test runs, and settle when its fixtures have ended."""
        self.item, self.failed = item.nodeid, False
        self._listen()
        result = yield
        self._settle()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Name the recordings in the report of a failed test."""
        report = yield
        if report.failed and not hasattr(report, "wasxfail"):
            self.failed = True
            paths = [recorded.recording.path for recorded in self.recordings]
            if paths:
                report.sections.append(("miniray recording", "\n".join(paths)))
        return report

    def pytest_unconfigure(self) -> None:
        """Stop to listen, and settle what is left."""
        if self._listens:
            from .. import session

            session.after_start.remove(self._started)
            self._listens = False


class _Recorded:
    def __init__(self, runtime: Any, recording: Any):
        self.runtime, self.recording = runtime, recording
        self.keep = False
