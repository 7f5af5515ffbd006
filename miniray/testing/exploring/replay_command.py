"""The shell command that repeats a failed run: this process's own command, with a variable that `explore` reads.

Under pytest it is the command that runs the failing test alone, from the folder where the user is. It repeats all
options of the command line, since they decide how the test runs (--miniray, -p, -c, --rootdir, -W), and leaves out the
other tests that the command line names.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from .fault_plan import FaultPlan

REPLAY, FAULTS = "MINIRAY_REPLAY", "MINIRAY_REPLAY_FAULTS"


def replay_command(fn: Any, seed: int, choices: Sequence[int], faults: FaultPlan | None = None) -> str:
    """The command that repeats a run of `fn`."""
    hash_seed = os.environ.get("PYTHONHASHSEED")
    variables = [f"PYTHONHASHSEED={hash_seed}"] if hash_seed else []
    if faults is not None and faults.only is not None:
        variables.append(f"{FAULTS}={shlex.quote('|'.join(sorted(faults.only)))}")
    value = f"{name_of(fn)}:{seed}:{','.join(map(str, choices))}"
    words = [python(), *(_pytest_arguments() or _own_arguments())]
    return " ".join([*variables, f"{REPLAY}={shlex.quote(value)}", *map(shlex.quote, words)])


def python() -> str:
    """The word for this interpreter in a command: its name if the shell finds it under that, otherwise its path."""
    path = sys.executable or "python"
    name = os.path.basename(path)
    found = shutil.which(name)
    return name if found is not None and os.path.abspath(found) == os.path.abspath(path) else path


def name_of(fn: Any) -> str:
    """A function's name in a replay command. Functions that have no name of their own are told apart by their line."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = str(getattr(fn, "__qualname__", type(fn).__name__))
    code = getattr(fn, "__code__", None)
    return f"{name}@{code.co_firstlineno}" if name.endswith("<lambda>") and code is not None else name


def _own_arguments() -> list[str]:
    """What follows `python` in the command that has started this process: its options, the script or module, and the
    arguments. An interpreter that another program has embedded has no such command."""
    return sys.orig_argv[1:] or list(sys.argv)


# ------------------------------------------------------------ pytest


def _pytest_arguments() -> list[str]:
    """What follows `python` in the command that runs this test alone; [] outside of pytest."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    item = _running_test()
    if not test or item is None and "pytest" not in sys.modules:
        return []
    if item is None:  # the test calls `explore` in another thread
        return ["-m", "pytest", test]
    config = item.config
    command = [*_interpreter_options(list(config.invocation_params.args)), "-m", "pytest"]
    folder = config.invocation_params.dir
    place = [os.path.relpath(item.path, folder)] if getattr(item, "path", None) is not None else []
    name = "::".join([*place, *item.nodeid.split("::")[1:]]) if place else item.nodeid
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist; a debugger needs the test in the main process
        return [*command, *_without_tests(config, config.workerinput["mainargv"][1:]), "-n0", name]
    return [*command, *_without_tests(config, list(config.invocation_params.args)), name]


def _interpreter_options(arguments: list[str]) -> list[str]:
    """The options of Python itself, such as -O and -W, if these arguments of pytest come from the command line."""
    words = sys.orig_argv[1:]
    first = len(words) - len(arguments)
    if first < 1 or words[first:] != arguments:
        return []
    return words[: first - 2] if words[first - 2 : first] == ["-m", "pytest"] else words[: first - 1]


def _running_test() -> Any:
    """pytest's item of the test that the calling thread runs: a variable of pytest's own functions."""
    pytest = sys.modules.get("pytest")
    frame: Any = sys._getframe(1)
    while pytest is not None and frame is not None:
        if frame.f_globals.get("__name__") == "_pytest.runner":
            item = frame.f_locals.get("item")
            if isinstance(item, pytest.Item):
                return item
        frame = frame.f_back
    return None


def _without_tests(config: Any, words: list[str]) -> list[str]:
    """The words of pytest's command line without the files, folders and tests that it names. pytest's own parser says
    which ones these are: a word may also be the value of an option."""
    parse = getattr(getattr(config, "_parser", None), "parse_known_args", None)

    def parsed(words: list[str]) -> tuple[dict[str, Any], list[str]] | None:
        if parse is None:  # another pytest
            return None
        try:
            found = dict(vars(parse(words)))
        except BaseException:  # an option without its value: UsageError, or SystemExit
            return None
        return found, found.pop("file_or_dir", None) or []

    named = set(config.option.file_or_dir or ())
    at = 0
    while at < len(words):
        word, fewer = words[at], words[:at] + words[at + 1 :]
        if word in named or word.startswith("@"):  # a file of words
            before, after = parsed(words), parsed(fewer)
            if before is None or after is not None and after[0] == before[0] and after[1] != before[1]:
                words = fewer
                continue
        at += 1
    return words
