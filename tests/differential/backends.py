"""Sessions that answer programs: each a child process, restarted after so many programs, a hang, or its end."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import queue
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from tests.differential.program import Program

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAST_SECONDS = 5.0
START_SECONDS = 200.0
START_TRIES = 12


@dataclass
class Answer:
    """What one program showed: (index of the statement, text) per line. `end`: "answered", "hung" or "died"."""

    lines: list[tuple[int, str]]
    end: str = "answered"
    seconds: float = 0.0


@dataclass
class Backend:
    """One way to run programs: `name` is what the child is told, `python` the interpreter that has it.

    timeout_s: for one statement. Answers in `cache`, a folder, are not asked again: Ray takes seconds for one."""

    name: str
    python: str
    timeout_s: float = 12.0
    programs_per_session: int = 100
    nice: int = 0
    cache: pathlib.Path | None = None
    sessions: int = field(default=0, init=False)
    stopped: bool = field(default=False, init=False)
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _buffer: bytes = field(default=b"", init=False)
    _asked: int = field(default=0, init=False)

    def answer(self, program: Program, again: bool = False) -> Answer:
        """Run a program, or take its answer from the cache. `again`: its second answer, kept beside the first."""
        kept = self.cache / f"{self.name}-{program.key}{'-again' * again}.json" if self.cache else None
        if kept and kept.exists():
            found = json.loads(kept.read_text(encoding="utf-8"))
            return Answer([(i, text) for i, text in found["lines"]], found["end"])
        if "fresh" in program.needs:
            self.close()
        found_now = self._run(program)
        if any("LocalRayletDiedError" in text for _, text in found_now.lines):  # Ray's session broke, under load
            self.close()
            found_now = self._run(program)
        if "fresh" in program.needs or found_now.end != "answered":
            self.close()
        if kept and not self.stopped:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps({"lines": found_now.lines, "end": found_now.end}), encoding="utf-8")
        return found_now

    def _run(self, program: Program) -> Answer:
        if self._asked >= self.programs_per_session:
            self.close()
        if self._child is None:
            self._start()
        assert self._child and self._child.stdin
        started = time.monotonic()
        self._asked += 1
        try:
            self._child.stdin.write(program.to_json().encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            return Answer([(-1, "DIED")], "died")
        line, at = self._answer_line(self.timeout_s)
        asked_to_stop = line is None
        if asked_to_stop and self._child:
            os.kill(self._child.pid, signal.SIGUSR1)
            line, _ = self._answer_line(LAST_SECONDS)
        seconds = time.monotonic() - started
        if not line:
            return Answer([(at, "HUNG" if line is None else "DIED")], "hung" if line is None else "died", seconds)
        lines = [(i, text) for i, text in json.loads(line)["lines"]]
        return Answer(lines, "hung" if asked_to_stop else "answered", seconds)

    def _answer_line(self, timeout_s: float) -> tuple[bytes | None, int]:
        """The line with the answer, as `_line` gives it, and the statement that the program has reached."""
        at, deadline = -1, time.monotonic() + timeout_s
        while (line := self._line(max(0.0, deadline - time.monotonic()))) and line.startswith(b"@"):
            at, deadline = int(line[1:]), time.monotonic() + timeout_s
        return line, at

    def _start(self) -> None:
        """Start a session. Ray gives up after 30 s, so that a loaded machine may need several tries."""
        for _ in range(START_TRIES):
            if self.stopped:
                raise RuntimeError(f"the sessions of {self.name} have been ended")
            self._start_child()
            if self._line(START_SECONDS) == b"ready":
                return
            self.close()
        raise RuntimeError(f"no session of {self.name}: run `python -m tests.differential.child {self.name}`")

    def _start_child(self) -> None:
        self.sessions += 1
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "RAY_DEDUP_LOGS": "0"}
        self._child = subprocess.Popen(
            [self.python, "-m", "tests.differential.child", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
            preexec_fn=(lambda: os.nice(self.nice) and None) if self.nice else None,
        )
        self._buffer, self._asked = b"", 0

    def _line(self, timeout_s: float) -> bytes | None:
        """The child's next line; b"" if it ended, None if the time is over."""
        stdout = self._child.stdout if self._child else None
        if stdout is None:
            return b""
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return None
                some = os.read(stdout.fileno(), 1 << 16)
                if not some:
                    return b""
                self._buffer += some
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def close(self) -> None:
        """End the session, and with it every process that its child has started."""
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin and child.stdout
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        try:
            child.wait(15.0)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)  # the group that only this child and its processes are in
        child.stdout.close()


class Several:
    """Some backends of one kind, for as many threads: each call uses one that is free."""

    def __init__(self, backends: list[Backend]) -> None:
        self.backends = backends
        self._free: queue.SimpleQueue[Backend] = queue.SimpleQueue()
        for backend in backends:
            self._free.put(backend)

    def answer(self, program: Program, again: bool = False) -> Answer:
        """As `Backend.answer`."""
        backend = self._free.get()
        try:
            return backend.answer(program, again)
        finally:
            self._free.put(backend)

    def close(self) -> None:
        """End the sessions, also under threads that wait for their answers: none of them starts another."""
        for backend in self.backends:
            backend.stopped = True
            backend.close()


def all_backends(
    python: str, ray_python: str, cache: pathlib.Path | None, sessions: int = 2, **more: Any
) -> dict[str, Several]:
    """Every backend by its name. Ray is asked politely, by so many sessions at once, gets more time, and its answers are
    kept."""
    ray: dict[str, Any] = {"python": ray_python, "timeout_s": 25.0, "nice": 5, "cache": cache, **more}
    return {
        "ray": Several([Backend("ray", **ray)]),
        "ray-forked": Several([Backend("ray-forked", **ray) for _ in range(sessions)]),
        "ray-dashboard": Several([Backend("ray-dashboard", **ray) for _ in range((sessions + 1) // 2)]),
        "threaded": Several([Backend("threaded", python) for _ in range(sessions)]),
        "local_mode": Several([Backend("local_mode", python) for _ in range(sessions)]),
    }
