"""Modules of the standard library that the program imports while a session runs."""

import pathlib
import subprocess
import sys

import pytest

from miniray.process import late_imports

HERE = pathlib.Path(__file__).resolve().parents[2]
# What the first task needs of the standard library must stay short: it is most of the time that a program takes.
NOT_NEEDED = """
_posixsubprocess argparse ast asyncio copy dataclasses dis inspect logging pickle random re resource sqlite3 traceback
typing zlib
"""


def run(program: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", program], cwd=HERE, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_task_needs_little_of_the_standard_library():
    """`import miniray`, `init`, one task and the end import none of the modules that take long to import."""
    program = f"""
import sys
before = set(sys.modules)
import miniray
miniray.init(num_cpus=1)
assert miniray.get(miniray.remote(lambda x: x).remote(1)) == 1
miniray.shutdown()
print(*sorted({set(NOT_NEEDED.split())} & (set(sys.modules) - before)))
"""
    assert run(program).split() == []


def test_a_module_that_is_imported_late_behaves_as_one_that_was_there():
    """`random` in a task draws from the worker's own generator, and a handler of `logging` writes to the worker's log,
    even if the program imports these modules only after the session has started. Afterwards nothing has changed."""
    program = """
import sys
import miniray
assert "random" not in sys.modules and "logging" not in sys.modules
miniray.init(num_cpus=1, log_to_driver=True)
import logging, random
assert random.__loader__ is random.__spec__.loader and type(random.__loader__).__module__ != "miniray.process.late_imports"
logging.basicConfig(format="%(message)s", stream=sys.stdout)

@miniray.remote
def log_and_draw():
    random.seed(7)
    logging.getLogger().warning("from a task")
    return random.random()

random.seed(1)
expected = random.random()
random.seed(1)
drawn = miniray.get(log_and_draw.remote())
assert drawn == random.Random(7).random() and random.random() == expected
miniray.shutdown()
assert not hasattr(random.random, "__wrapped__") and "stream" not in vars(logging.StreamHandler)
assert not any("late_imports" in repr(finder) for finder in sys.meta_path)
"""
    assert "(log_and_draw pid=" in run(program)


def test_subprocess_that_is_imported_late_writes_to_the_log_of_the_task():
    """A process that a task starts writes to the log of its worker. Afterwards `subprocess` has its own function again,
    also under the name by which some versions of Python keep it."""
    program = """
import sys
import miniray
miniray.init(num_cpus=1)
assert "_posixsubprocess" not in sys.modules

@miniray.remote
def start():
    import subprocess
    subprocess.run([sys.executable, "-c", "print('from a process')"], check=True)

miniray.get(start.remote())
miniray.shutdown()
import _posixsubprocess, subprocess
assert not hasattr(_posixsubprocess.fork_exec, "__wrapped__")
assert getattr(subprocess, "_fork_exec", _posixsubprocess.fork_exec) is _posixsubprocess.fork_exec
"""
    assert "(start pid=" in run(program)


def test_tools_find_the_code_of_a_module_that_a_session_waits_for():
    """`runpy` runs a module without importing it. It asks the loader in the module's spec for its code."""
    program = """
import importlib.util, runpy, sys
import miniray
miniray.init(num_cpus=1)
spec = importlib.util.find_spec("random")
assert "random" not in sys.modules
assert "class SystemRandom" in spec.loader.get_source("random") and spec.loader.path == spec.origin
print("SystemRandom" in runpy.run_module("random"))
miniray.shutdown()
"""
    assert run(program) == "True\n"


def test_a_session_ends_while_another_thread_imports_logging():
    """The module is there by then, and has none of its classes yet."""
    program = """
import sys, types
import miniray
miniray.init(num_cpus=1)
assert "logging" not in sys.modules
sys.modules["logging"] = types.ModuleType("logging")
miniray.shutdown()
print("ended")
"""
    assert run(program) == "ended\n"


def test_a_module_whose_import_fails_raises_its_own_error():
    """The function that waits for a module is not called if the import fails, and the error is Python's own."""
    told = []
    late_imports.when_imported("no_such_module_anywhere", told.append)
    try:
        with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module_anywhere'"):
            __import__("no_such_module_anywhere")
        assert told == []
    finally:
        assert late_imports.no_longer("no_such_module_anywhere") is None
    assert late_imports._Finder not in sys.meta_path


def test_an_imported_module_is_given_at_once():
    """If the module is there already, the function is called at once."""
    told = []
    late_imports.when_imported("sys", told.append)
    assert late_imports.no_longer("sys") is sys
    assert told == [sys]
