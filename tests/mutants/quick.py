"""The quick part of mutation testing: one process collects the tests, and for each mutant a copy of it runs some of them.

Starting Python and collecting the tests takes longer than most mutants need to be noticed. Here this is done once.
First every test runs with a tracer that notes which lines of the mutated modules the test reaches. Then each mutant
gets a forked process, in which the mutant's code takes the place of the original's in the function that differs. Of the
tests, only those run that reach the changed statement: first those that have noticed other mutants, then the shortest.
The first failure ends the process.

A mutant outside every function (a table, a default) and a test that starts programs of its own are beyond this part:
for these, see run.py.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import os
import pickle
import resource
import select
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from tests.mutants.mutate import Mutant

ROOT = Path(__file__).resolve().parent.parent.parent
CERTAIN = ("tests/core/", "tests/observe/explain/", "tests/tidy/")  # no clock and no other program: a failure is one
AT_A_TIME = 4  # processes: some of them only wait for a test that hangs
MEASURED_S = 60  # a test that takes longer under the tracer is left out
PATIENCE = 3  # a test may take so many times as long as under the tracer, and
PATIENCE_S = 15  # so many seconds more, or
PATIENCE_CPU_S = 4  # so many seconds of computing more
MEMORY = 12_000_000_000  # bytes: a mutant that appends without end is stopped here
IS_FUNCTION = 1  # CO_OPTIMIZED: the code is a function's, not a class's or a module's


@dataclass
class Reach:
    """What a test reached without a mutant. seconds, cpu_s: how long it took, with the tracer. lines: by module; None if
    it may reach all.
    """

    seconds: float
    cpu_s: float
    lines: dict[str, set[int]] | None

    def any_of(self, path: str, lines: set[int]) -> bool:
        """Whether the test reached one of these lines."""
        return self.lines is None or not lines.isdisjoint(self.lines.get(path, ()))


@dataclass
class Fate:
    """What became of a mutant. word: killed, timed out, survived, or beyond if this part cannot run it; by: which test."""

    word: str
    by: str = ""
    seconds: float = 0.0
    tests: int = 0


@dataclass
class Job:
    """A forked process that runs tests. mutant: its number, or -1 for the measurement."""

    mutant: int
    items: list[int]
    seconds: float = 0.0
    confirms: int = -1  # the test whose failure this job repeats
    pid: int = 0
    pipe: int = -1
    running: int = -1  # the test that it runs
    began: float = 0.0
    deadline: float = 0.0
    text: bytes = b""
    failed: str = ""
    ended: bool = False  # all of its tests have run
    rest: list[int] = field(default_factory=list)  # what is run if the failure does not repeat


class Quick:
    """A plugin of pytest: instead of all tests, it runs for every mutant the tests that reach it."""

    def __init__(self, chosen: list[tuple[int, Mutant]], known: Path | None, say: Callable[[str], None]) -> None:
        self.mutants = dict(chosen)
        self.known = known
        self.version = [path.read_bytes() for path in traced_files()]
        self.say = say
        self.fates: dict[int, Fate] = {}
        self.reach: dict[str, Reach | None] = {}  # None: left out, since it failed or hung under the tracer
        self.kills: Counter[str] = Counter()
        self.failed = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure, then try each mutant."""
        self.items = session.items
        self.names = {item.nodeid: at for at, item in enumerate(self.items)}
        for plugin in session.config.pluginmanager.get_plugins():
            if hasattr(plugin, "WATCHDOG_S"):
                plugin.WATCHDOG_S = 0  # here a hung test is ended from outside
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all copies of this process
        self.measure()
        jobs = []
        for path in {mutant.path for mutant in self.mutants.values()}:  # otherwise a test may be the first to do so
            importlib.import_module(path.removesuffix(".py").replace("/", "."))
        for number, mutant in self.mutants.items():
            if exchange(mutant) is None:
                self.fates[number] = Fate("beyond")
            else:
                jobs.append(Job(number, []))
        self.run(jobs)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed:
            self.failed = self.failed or report.nodeid

    # ------------------------------------------------------------ without a mutant

    def measure(self) -> None:
        """Which lines each test reaches, from an earlier measurement or from one that is made now."""
        if self.known is not None and self.known.exists():
            version, reach = pickle.loads(self.known.read_bytes())
            self.reach = reach if version == self.version else {}  # other lines: what was reached says nothing
        unknown = [at for at, item in enumerate(self.items) if item.nodeid not in self.reach]
        began = time.monotonic()
        if unknown:
            shares = [unknown[at::AT_A_TIME] if len(unknown) > 50 else unknown for at in range(AT_A_TIME)]
            shares = shares if len(unknown) > 50 else shares[:1]
            self.run([Job(-1, share) for share in shares if share])
        self.keep()
        left_out = [item.nodeid for item in self.items if self.reach.get(item.nodeid) is None]
        self.say(
            f"without a mutant: {len(self.items)} tests, {time.monotonic() - began:.0f} s; "
            f"left out, since they failed or hung: {left_out}"
        )

    def keep(self) -> None:
        """Write down what has been measured."""
        if self.known is not None:
            self.known.write_bytes(pickle.dumps((self.version, self.reach)))

    def order(self, mutant: Mutant) -> list[int]:
        """The tests that reach the changed statement: those with the most kills first, then the shortest."""
        lines = set(range(statement(mutant), last_line(mutant) + 1))
        found = [
            (-self.kills[item.nodeid], reach.cpu_s, at)
            for at, item in enumerate(self.items)
            if (reach := self.reach.get(item.nodeid)) is not None and reach.any_of(mutant.path, lines)
        ]
        return [at for *_, at in sorted(found)]

    # ------------------------------------------------------------ the processes

    def run(self, jobs: list[Job]) -> None:
        """Run all jobs, a few at a time, and what follows from them."""
        waiting, running = list(jobs), []
        while waiting or running:
            while waiting and len(running) < AT_A_TIME:
                job = waiting.pop(0)
                if job.mutant >= 0 and not job.items:
                    job.items = self.order(self.mutants[job.mutant])
                    if not job.items:
                        self.end(job, "survived", "")
                        continue
                self.start(job)
                running.append(job)
            soonest = min(job.deadline for job in running) if running else 0
            ready, _, _ = select.select([job.pipe for job in running], [], [], max(0, soonest - time.monotonic()))
            for job in list(running):
                data = os.read(job.pipe, 1 << 20) if job.pipe in ready else None
                if data:
                    self.read(job, data)
                elif data == b"" or time.monotonic() > job.deadline:
                    running.remove(job)
                    self.stop(job)
                    waiting[:0] = self.over(job, hung=data is None)

    def start(self, job: Job) -> None:
        """Fork."""
        source, target = os.pipe()
        job.began = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        job.pid = os.fork()
        if not job.pid:
            os.close(source)
            try:
                self.child(job, target)
            finally:
                os._exit(0)
        os.close(target)
        job.pipe, job.deadline = source, job.began + 60

    def child(self, job: Job, pipe: int) -> None:
        """In the forked process: put the mutant in its place and run the tests up to the first failure."""
        os.setsid()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.environ["PYTEST_XDIST_WORKER"] = "mutant"  # a search of seeds then starts no process
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        if job.mutant >= 0:
            change = exchange(self.mutants[job.mutant])
            assert change is not None
            change()
        for at, following in zip(job.items, [*job.items[1:], None], strict=True):
            item = self.items[at]
            reach = self.reach.get(item.nodeid)
            os.write(pipe, b"%d\n" % at)
            limit = PATIENCE * reach.cpu_s + PATIENCE_CPU_S if reach is not None else MEASURED_S
            signal.setitimer(signal.ITIMER_PROF, limit)
            began, cpu = time.monotonic(), time.process_time()
            searches = (
                item.get_closest_marker("seeds") is not None
            )  # it reaches everything, and takes long under a tracer
            with traced() if job.mutant < 0 and not searches else contextlib.nullcontext() as lines:
                item.config.hook.pytest_runtest_protocol(
                    item=item, nextitem=None if following is None else self.items[following]
                )
            if job.mutant < 0:
                if not self.failed:
                    found = Reach(time.monotonic() - began, time.process_time() - cpu, lines)
                    os.write(pipe, b"=" + pickle.dumps(found).hex().encode() + b"\n")
                self.failed = ""
            elif self.failed:
                os.write(pipe, b"!" + item.nodeid.encode() + b"\n")
                return
        os.write(pipe, b".\n")

    def read(self, job: Job, data: bytes) -> None:
        """What a process says: the number of the test that it starts, the reach of this test, a failure, or the end."""
        *lines, job.text = (job.text + data).split(b"\n")
        for line in lines:
            if line[:1] == b"=":
                self.reach[self.items[job.running].nodeid] = pickle.loads(bytes.fromhex(line[1:].decode()))
                if len(self.reach) % 200 == 0:
                    self.keep()
                    self.say(f"measured: {len(self.reach)} of {len(self.items)} tests")
            elif line[:1] == b"!":
                job.failed = line[1:].decode()
            elif line == b".":
                job.running, job.ended = -1, True
            else:
                job.running = int(line)
                reach = self.reach.get(self.items[job.running].nodeid)
                limit = PATIENCE * reach.seconds + PATIENCE_S if reach is not None else MEASURED_S
                if self.items[job.running].nodeid.startswith(CERTAIN):
                    limit *= 10  # it only computes, and ends itself when that takes too long; the machine may be busy
                job.deadline = time.monotonic() + limit

    def stop(self, job: Job) -> None:
        """End the process and what its tests started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        os.waitpid(job.pid, 0)
        os.close(job.pipe)

    def over(self, job: Job, hung: bool) -> list[Job]:
        """Judge a process that has ended, and return the jobs that follow."""
        job.seconds += time.monotonic() - job.began
        rest = job.items[job.items.index(job.running) + 1 :] if job.running >= 0 else []
        if job.mutant < 0:  # the measurement goes on behind the test that has ended it
            for at in job.items[: len(job.items) - len(rest)]:
                self.reach.setdefault(self.items[at].nodeid, None)
            return [Job(-1, rest)] if rest else []
        name = job.failed or (self.items[job.running].nodeid if job.running >= 0 else "")
        if not name:
            if not job.ended:
                raise RuntimeError(f"the process for mutant {job.mutant} ended before its first test")
            if job.rest:  # the failure did not repeat itself
                return [Job(job.mutant, job.rest, job.seconds)]
            self.end(job, "survived", "")
        elif job.confirms >= 0 or job.failed and name.startswith(CERTAIN):
            self.end(job, "killed" if job.failed else "timed out", name)
        else:
            return [Job(job.mutant, [self.names[name]], job.seconds, self.names[name], rest=rest)]
        return []

    def end(self, job: Job, word: str, by: str) -> None:
        """Note the fate of a mutant."""
        if by:
            self.kills[by] += 1
        fate = self.fates[job.mutant] = Fate(word, by, job.seconds, len(job.items))
        one = self.mutants[job.mutant]
        self.say(
            f"[{len(self.fates):3}/{len(self.mutants)}] {word:10} {fate.seconds:5.1f} s  "
            f"#{job.mutant} {one.path}:{one.line} {one.where} ({one.kind})  {by or f'{fate.tests} tests reach it'}"
        )


# ------------------------------------------------------------ what a mutant changes


def exchange(mutant: Mutant) -> Callable[[], None] | None:
    """A function that puts the mutant's code into the running process; None if the mutant is not inside a function."""
    file = str(ROOT / mutant.path)
    before, after = (compile(text, file, "exec", dont_inherit=True) for text in (mutant.original, mutant.source))
    pairs = [(old, new) for old, new in functions(before, after) if same(old) != same(new)]
    if len(pairs) != 1 or pairs[0][0].co_freevars != pairs[0][1].co_freevars:
        return None
    [(old, new)] = pairs
    place = (file, old.co_qualname, old.co_firstlineno)
    if same_outside(before) != same_outside(after):
        return None

    def change() -> None:
        found = 0
        for one in gc.get_objects():
            if type(one) is FunctionType:
                code = one.__code__
                if (code.co_filename, code.co_qualname, code.co_firstlineno) == place:
                    one.__code__ = new
                    found += 1
        assert found, f"{place} is not a function of this process"

    return change


def functions(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The outermost functions of two versions of a module, in pairs."""
    pairs = zip(codes(before), codes(after), strict=False)
    for old, new in pairs:
        if old.co_flags & IS_FUNCTION:
            yield old, new
        else:
            yield from functions(old, new)


def codes(code: CodeType) -> list[CodeType]:
    """The functions and classes that stand in a piece of code."""
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def same(code: CodeType) -> Any:
    """What two functions that do the same have in common."""
    constants = [same(one) if isinstance(one, CodeType) else (type(one), repr(one)) for one in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_qualname, constants


def same_outside(code: CodeType) -> Any:
    """The same of a module or class without its functions."""
    constants: list[Any] = []
    for one in code.co_consts:
        if not isinstance(one, CodeType):
            constants.append((type(one), repr(one)))
        elif not one.co_flags & IS_FUNCTION:
            constants.append(same_outside(one))
    return code.co_code, code.co_names, constants


def statement(mutant: Mutant) -> int:
    """The line on which the changed statement begins."""
    around = [
        node.lineno
        for node in ast.walk(ast.parse(mutant.original))
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or 0)
    ]
    return max(around, default=mutant.line)


def last_line(mutant: Mutant) -> int:
    """The last line that the mutant changes, or the line of the mutant."""
    old, new = mutant.original.splitlines(), mutant.source.splitlines()
    if len(old) != len(new):
        return mutant.line
    return max((at for at, (a, b) in enumerate(zip(old, new, strict=True), 1) if a != b), default=mutant.line)


def traced_files() -> list[Path]:
    """The modules whose lines are noted."""
    folders = (ROOT / "miniray" / name for name in ("core", "runtime", "observe/explain"))
    return sorted(path for folder in folders for path in folder.glob("*.py"))


@contextlib.contextmanager
def traced() -> Iterator[dict[str, set[int]]]:
    """Note the lines of miniray that run, on every thread that starts meanwhile."""
    files = {str(path): str(path.relative_to(ROOT)) for path in traced_files()}
    unseen: dict[CodeType, set[int]] = {}  # a code all of whose lines have run is no longer traced

    def called(frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        left = unseen.get(code)
        if left is None:
            if code.co_filename not in files:
                return None
            left = unseen[code] = lines_of(code)
        left.discard(frame.f_lineno)
        if not left:
            return None

        def line(frame: FrameType, event: str, argument: object) -> Any:
            left.discard(frame.f_lineno)
            return line

        return line

    lines: dict[str, set[int]] = {}
    threading.settrace(called)
    sys.settrace(called)
    try:
        yield lines
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        for code, left in list(unseen.items()):
            lines.setdefault(files[code.co_filename], set()).update(lines_of(code) - left)


def lines_of(code: CodeType) -> set[int]:
    """The lines of a function, without those of the functions in it."""
    return {line for _, _, line in code.co_lines() if line is not None}
