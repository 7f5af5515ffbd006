"""The process that runs programs, one after the other, in one session of Ray or of miniray.

It reads a program per line of its stdin and writes an answer per line of its stdout: for each line that a program showed, the
index of its statement and the text. Before, it writes `@` with the index of each statement that it enters. SIGUSR1
from the runner makes a program that hangs give up where it is.

    python -m tests.differential.child BACKEND        ray, ray-forked, ray-dashboard, threaded, local_mode
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import linecache
import os
import re
import signal
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from tests.differential import ray_workers
from tests.differential.program import PRELUDE, Program

INIT = {"num_cpus": 4, "resources": {"chip": 20}, "include_dashboard": False, "log_to_driver": False}
SUBMODULES = ("dag", "types", "util.metrics", "util.multiprocessing", "util.queue", "util.state")
"""Programs use them as attributes of `ray`, which on Ray they are once they have been imported."""
MOST_LINES = 400


class Hung(BaseException):
    """Raised in the program that runs, when the runner has waited long enough."""


class State:
    """Which program runs. The signal may come a moment late, and must not hit what follows."""

    running = False


def give_up(signum: int, frame: Any) -> None:
    """The handler of SIGUSR1."""
    if State.running:
        State.running = False
        raise Hung


def package_of(backend: str) -> Any:
    """`ray`, or miniray under that name, so that programs say `import ray` on both. A session of it has been started."""
    init = {**INIT, "include_dashboard": backend == "ray-dashboard"}
    if backend == "ray-forked":
        ray_workers.install()
    if backend.startswith("ray"):
        import ray

        # Not whatever cluster somebody else has started on this machine.
        ray.init(address="local", **init)
        if backend == "ray-dashboard":
            wait_for_dashboard(ray)
        return ray
    os.environ["MINIRAY_STRICT_METRICS"] = "0"
    import miniray.testing

    miniray.testing.alias_ray()
    import ray

    ray.init(**init, local_mode=backend == "local_mode")
    return ray


def wait_for_dashboard(ray: Any) -> None:
    """Until the state API answers. Beside other sessions it must be told which one is meant."""
    os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    state = importlib.import_module("ray.util.state")
    for _ in range(100):
        with contextlib.suppress(Exception):
            state.list_nodes()
            return
        threading.Event().wait(1.0)


def run(program: Program, ray: Any, at: Callable[[int], None]) -> list[list[Any]]:
    """The lines of one program: [index of the statement, text]. `at` is told each statement before it runs."""
    lines: list[list[Any]] = []
    main = types.ModuleType("__main__")
    old_main, sys.modules["__main__"] = sys.modules["__main__"], main
    now = -1

    def emit(line: str) -> None:
        if len(lines) < MOST_LINES:
            lines.append([now, normal(line)])

    try:
        State.running = True
        execute(PRELUDE.read_text(encoding="utf-8"), f"<prelude of {program.name}>", main)
        vars(main).update(emit=emit, ray=ray)
        for now, statement in enumerate(program.statements):
            at(now)
            try:
                execute(statement.text, f"<{program.name} {now}>", main)
            except Hung:
                lines.append([now, "HUNG"])
                break
            except BaseException as error:
                emit(f"UNCAUGHT {vars(main)['error_text'](error)}")
            if not State.running:  # what waited has made another error of it: on Ray a KeyboardInterrupt
                lines.append([now, "HUNG"])
                break
    except Hung:
        lines.append([now, "HUNG"])
    finally:
        State.running = False
        tidy_up(ray, program, list(vars(main).values()))
        sys.modules["__main__"] = old_main
        vars(main).clear()
        gc.collect()
    return lines


def execute(text: str, file: str, module: types.ModuleType) -> None:
    """Run a piece of source in a module, where `inspect.getsource` finds it."""
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec", dont_inherit=True), vars(module))


def normal(line: str) -> str:
    """A line without what must differ: the package's name, addresses."""
    return re.sub(r"0x[0-9a-f]{6,}", "0x", str(line).replace("miniray", "ray"))[:600]


def tidy_up(ray: Any, program: Program, values: list[Any]) -> None:
    """End what outlives the names of a program, and would take CPUs from the next one: actors, and groups."""
    for value in values:
        if isinstance(value, ray.actor.ActorHandle):
            with contextlib.suppress(Exception):
                ray.kill(value)
    with contextlib.suppress(Exception):
        if "name" in program.text:
            for row in ray.util.list_named_actors(all_namespaces=True):
                with contextlib.suppress(Exception):
                    ray.kill(ray.get_actor(row["name"], row["namespace"]))
    if "placement_group" in program.text:
        groups = importlib.import_module("ray.util.placement_group")
        for row in ray.util.placement_group_table().values():
            if row["state"] != "REMOVED":
                ident = ray.PlacementGroupID.from_hex(row["placement_group_id"])
                ray.util.remove_placement_group(groups.PlacementGroup(ident))


def main() -> None:
    """Run what stdin asks for, until it ends."""
    # A shell starts what runs in the background with SIGINT ignored. Ray's workers would inherit that, and no task of
    # theirs could be cancelled.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    if not os.environ.get("DIFFERENTIAL_LOUD"):
        os.dup2(quiet, 2)
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    ray = package_of(sys.argv[1])
    for name in SUBMODULES:
        importlib.import_module(f"ray.{name}")
    signal.signal(signal.SIGUSR1, give_up)
    answers.write("ready\n")
    answers.flush()

    def at(index: int) -> None:
        answers.write(f"@{index}\n")
        answers.flush()

    for question in questions:
        program = Program.from_json(question)
        lines = run(program, ray, at)
        answers.write(json.dumps({"key": program.key, "lines": lines, "threads": threading.active_count()}) + "\n")
        answers.flush()
    with contextlib.suppress(Exception):
        ray.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
