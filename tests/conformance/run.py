#!/usr/bin/env python3
"""Run the conformance cases, and compare their answers with those recorded on real Ray.

    python tests/conformance/run.py [PATH...]                          compare miniray's; exit 1 if one differs
    python tests/conformance/run.py --through-alias [PATH...]          the same with `import ray` under the alias
    python tests/conformance/run.py --backend ray --record PATH...     record PATH/*.expected on real Ray

A case is a module with a one-line docstring, which states the behaviour, and a function `run(ctx)`. `INIT`, which is
optional, holds the arguments of `init` (default: `dict(num_cpus=4)`); with `INIT = None` the case calls `init` itself.

    ctx.ray                    the package under test, `ray` or `miniray`
    ctx.sub("util.queue")      a submodule of this package, imported
    ctx.show(*things)          record one line, as print would write it
    ctx.raises(call, *names)   record the error that `call()` raises: the first of the names that is one of the
                               error's classes, otherwise the name of its own class

The lines must be the same on every run: no ids, addresses or times, and no order that may vary. The answers in `cases/`
were recorded on real Ray. `wanted/` has answers that only miniray gives: there a debugger, a patch or a trace function
reaches into a task.

The cases run one after the other in a child process. If a case hangs or ends the process, only this case fails, and the
next child runs the rest. `faulthandler` detects a hang: its C thread needs no lock of Python's.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import faulthandler
import functools
import hashlib
import importlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Ray's metrics accept an undeclared tag and a second registration. By default miniray refuses both.
ENVIRONMENT = {"MINIRAY_STRICT_METRICS": "0"}
# Variables for single cases. By default an error loses its __cause__ and __traceback__ in transit, as in Ray.
ENVIRONMENT_OF = {"wanted/cause_chain_survives": {"MINIRAY_KEEP_TRACEBACKS": "1"}}


# ---------------------------------------------------------------- what a case sees


class Context:
    """The argument of a case's `run(ctx)`: the package under test, and the lines recorded so far."""

    def __init__(self, package: Any, name: str) -> None:
        self.ray, self._name = package, name
        self.lines: list[str] = []

    def sub(self, name: str) -> Any:
        """A submodule of the package under test: `ctx.sub("util.queue")`."""
        return importlib.import_module(f"{self._name}.{name}")

    def show(self, *things: object) -> None:
        """Record one line: the things as text, separated by spaces."""
        self.lines.append(" ".join(map(str, things)))

    def raises(self, call: Any, *names: str) -> BaseException | None:
        """Record the error that `call()` raises, under the first of the names that is one of its classes.

        Returns the error.
        """
        try:
            value = call()
        except BaseException as error:
            classes = [c.__name__ for c in type(error).__mro__]
            self.show("raises", next((n for n in names if n in classes), classes[0]))
            return error
        self.show("returned", repr(value))
        return None


# ---------------------------------------------------------------- one case


@dataclass
class Answer:
    """The outcome of one case. `end` is "answered", "hung" (with the stack of every thread in `trace`) or "died".

    log: a digest of the event log, if the case ran in a simulation.
    """

    path: str
    text: str = ""
    trace: str = ""
    seconds: float = 0.0
    end: str = "answered"
    log: str = ""

    @property
    def difference(self) -> str:
        """Why the case failed, as text for a person; empty if the answer is the recorded one."""
        if self.end != "answered":
            return f"{case_name(self.path)} {self.end} after {self.seconds:.1f} s\n{self.trace}"
        recorded = pathlib.Path(self.path).with_suffix(".expected")
        expected = recorded.read_text(encoding="utf-8") if recorded.exists() else ""
        if self.text == expected:
            return ""
        lines = difflib.unified_diff(expected.splitlines(True), self.text.splitlines(True), "expected", "answered")
        return f"{case_name(self.path)} answers differently\n{''.join(lines)}{self.trace}"


@dataclass
class Options:
    """How to run the cases. timeout_s: for each case. switch_interval_s: the argument of `sys.setswitchinterval`.

    through_alias: import the package as `ray`, under miniray's alias. init: further arguments of `init`. simulated: the
    seed of a simulation in which each case runs; None for none. hash_seed: PYTHONHASHSEED; None for a random one.
    """

    backend: str = "miniray"
    timeout_s: float = 60.0
    local_mode: bool = False
    switch_interval_s: float | None = None
    through_alias: bool = False
    simulated: int | None = None
    init: dict[str, Any] = field(default_factory=dict)
    hash_seed: int | None = None


def case_name(path: str | os.PathLike[str]) -> str:
    """The name of a case: its path inside `cases/`, or `wanted/` and its path there, without the suffix."""
    path = pathlib.Path(path).resolve().with_suffix("")
    for base in (HERE / "cases", HERE):
        if path.is_relative_to(base):
            return path.relative_to(base).as_posix()
    return path.as_posix()


def cases_in(paths: Iterable[pathlib.Path]) -> list[pathlib.Path]:
    """All cases in these files and folders, sorted by path."""
    return sorted(f for p in paths for f in ([p] if p.is_file() else p.rglob("*.py")) if not f.name.startswith("_"))


def package_under_test(options: Options) -> tuple[Any, str]:
    """The package under test, and the name under which its submodules are imported."""
    name = options.backend
    if options.through_alias:
        importlib.import_module("miniray.testing").alias_ray()
        name = "ray"
    return importlib.import_module(name), name


def run_simulated(path: pathlib.Path, package: Any, name: str, init: dict[str, Any], seed: int) -> Answer:
    """Run one case in a simulation."""
    simulation = importlib.import_module("miniray.testing.exploring.simulation")
    run = simulation.Run(lambda: run_case(path, package, name, init), seed, watchdog_s=0, keep_log=True).go()
    if run.error is not None:
        return Answer(str(path), f"THE SIMULATION ENDED BY {run.error!r}\n")
    answer: Answer = run.result
    return replace(answer, log=hashlib.sha256(run.log.encode()).hexdigest())


def run_case(path: pathlib.Path, package: Any, name: str, init: dict[str, Any]) -> Answer:
    """Run one case in this process. An error that the case does not catch becomes a line of its answer."""
    spec = importlib.util.spec_from_file_location("case_" + path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    own_init = getattr(module, "INIT", {"num_cpus": 4})
    ctx, trace, started = Context(package, name), "", time.perf_counter()
    if package.is_initialized():
        package.shutdown()
    if own_init is not None:
        package.init(**{**init, **own_init})
    try:
        module.run(ctx)
    except BaseException as error:
        ctx.show("UNCAUGHT", type(error).__name__, str(error).splitlines()[0] if str(error) else "")
        trace = traceback.format_exc()
    try:
        package.shutdown()
    except BaseException as error:
        ctx.show("SHUTDOWN FAILED", type(error).__name__)
        trace += traceback.format_exc()
    return Answer(str(path), "\n".join(ctx.lines) + "\n", trace, time.perf_counter() - started)


# ---------------------------------------------------------------- many cases, in child processes


class Runner:
    """Runs cases in child processes, one child at a time. `stop` may be called from any thread."""

    def __init__(self, options: Options) -> None:
        self.options = options
        # Copied now, because pytest sets and unsets a variable of its own while other threads start children.
        # The alias needs no ENVIRONMENT: it makes the metrics lenient itself.
        self.environment = {**os.environ, **({} if options.through_alias else ENVIRONMENT)}
        if options.hash_seed is not None:
            self.environment["PYTHONHASHSEED"] = str(options.hash_seed)
        self.child: subprocess.Popen[str] | None = None
        self.stopped = False

    def run(self, paths: list[pathlib.Path]) -> Iterator[Answer]:
        """Yield one answer per path, in order, each as soon as it is known.

        If a case hangs or ends the child process, its answer says so, and the next child goes on with the rest.
        """
        left = list(paths)
        while left and not self.stopped:
            with tempfile.NamedTemporaryFile("r", prefix="conformance-", suffix=".stacks") as stacks:
                started = time.perf_counter()
                for answer in self._run_in_child(left, stacks.name):
                    left.pop(0)
                    started = time.perf_counter()
                    yield answer
                if left and not self.stopped:
                    trace, code = stacks.read(), self.child.returncode if self.child else None
                    hung = "Timeout" in trace
                    yield Answer(
                        str(left.pop(0)),
                        trace=trace if hung else f"the process ended with exit code {code}",
                        seconds=time.perf_counter() - started,
                        end="hung" if hung else "died",
                    )

    def stop(self) -> None:
        """Kill the running child, and start no other."""
        self.stopped = True
        if self.child:
            self.child.kill()

    def _run_in_child(self, paths: list[pathlib.Path], stacks: str) -> Iterator[Answer]:
        ask = {"options": asdict(self.options), "stacks": stacks, "paths": [str(p) for p in paths]}
        environment = {
            **self.environment,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), self.environment.get("PYTHONPATH")])),
        }
        command = [sys.executable, str(HERE / "run.py"), "--child"]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            stderr=None if os.environ.get("CONFORMANCE_LOUD") else subprocess.DEVNULL,
        ) as self.child:
            if self.stopped:  # just before the child was known
                self.child.kill()
            assert self.child.stdin and self.child.stdout
            with contextlib.suppress(BrokenPipeError):
                self.child.stdin.write(json.dumps(ask))
                self.child.stdin.close()
            for line in self.child.stdout:
                yield Answer(**json.loads(line))


def child() -> None:
    """The child process: run the cases that stdin names, and write one line of JSON per case to the real stdout."""
    ask = json.load(sys.stdin)
    options = Options(**ask["options"])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the output of the cases must not mix with the answers
    package, name = package_under_test(options)
    if options.switch_interval_s is not None:
        sys.setswitchinterval(options.switch_interval_s)
    if options.local_mode:
        package.init = functools.partial(package.init, local_mode=True)  # also for the cases that call init themselves
    with open(ask["stacks"], "w", encoding="utf-8") as stacks:
        for path in map(pathlib.Path, ask["paths"]):
            extra = ENVIRONMENT_OF.get(case_name(path), {})
            os.environ.update(extra)
            faulthandler.dump_traceback_later(options.timeout_s, exit=True, file=stacks)
            if options.simulated is None:
                answer = run_case(path, package, name, options.init)
            else:
                answer = run_simulated(path, package, name, options.init, options.simulated)
            faulthandler.cancel_dump_traceback_later()
            for variable in extra:
                del os.environ[variable]
            answers.write(json.dumps(asdict(answer)) + "\n")
            answers.flush()
    os._exit(0)  # a thread that a case has left behind would keep the process alive


# ---------------------------------------------------------------- the command


def main() -> int:
    """Compare, or record. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Compare a package's answers with the recorded ones.")
    parser.add_argument("--backend", default="miniray", help="the package under test (default: miniray)")
    parser.add_argument("--record", action="store_true", help="write the answers to the .expected files")
    parser.add_argument("--timeout", type=float, help="seconds for one case (default: 60; on ray: 120)")
    parser.add_argument("--local-mode", action="store_true", help="run every case with init(local_mode=True)")
    parser.add_argument("--simulated", type=int, metavar="SEED", help="run each case in a simulation with this seed")
    parser.add_argument("--through-alias", action="store_true", help="import miniray as `ray`, under the alias")
    parser.add_argument("--switch-interval", type=float, help="the argument of sys.setswitchinterval, in seconds")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the difference of each case")
    parser.add_argument("--durations", action="store_true", help="show the duration of each case")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", type=pathlib.Path, default=[HERE / "cases", HERE / "wanted"])
    asked = parser.parse_args()
    if asked.child:
        child()
    on_ray = asked.backend == "ray"
    options = Options(
        asked.backend,
        asked.timeout or (120 if on_ray else 60),
        asked.local_mode,
        asked.switch_interval,
        asked.through_alias,
        asked.simulated,
        {"include_dashboard": False, "log_to_driver": False} if on_ray else {},
    )
    paths = cases_in(asked.paths)
    if importlib.util.find_spec("numpy") is None:
        with_numpy = [p for p in paths if "numpy" in p.parts]
        if with_numpy:
            print(f"numpy is not installed: {len(with_numpy)} cases skipped")
        paths = [p for p in paths if p not in with_numpy]
    failed = 0
    for answer in Runner(options).run(paths):
        if asked.record and answer.end == "answered":
            pathlib.Path(answer.path).with_suffix(".expected").write_text(answer.text, encoding="utf-8")
        difference = answer.difference
        failed += bool(difference)
        if asked.durations:
            print(f"{answer.seconds:6.2f} s  {case_name(answer.path)}")
        if difference:
            print(difference if asked.verbose else difference.splitlines()[0], flush=True)
    print(f"{len(paths) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
