"""`miniray run` runs a program that imports Ray, as the main program of its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = """
import atexit, sys
import ray
from beside import ONE
class Local: pass
@ray.remote
def kind(thing, n): return type(thing).__name__, n + ONE
print(ray.__name__, ray.get(kind.remote(Local(), 1)), __name__, sys.argv)
atexit.register(lambda: print("at exit", ONE))
if "fail" in sys.argv: raise ValueError("boo")
if "exit" in sys.argv: sys.exit(5)
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a program and a module that the program imports."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("ONE = 1\n")
    return tmp_path


def run(folder, *words, **options):
    """Run `python -m miniray run ...`, by default from another folder than the program's."""
    return subprocess.run(
        [sys.executable, "-m", "miniray", "run", *words],
        cwd=options.pop("cwd", ROOT),
        text=True,
        capture_output=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **options,
    )


def test_a_script_runs_with_its_arguments_and_its_neighbours(folder):
    """The script gets all words after its name, even those that are options of `miniray run`."""
    script = str(folder / "program.py")
    done = run(folder, "--engine", "miniray", script, "-m", "--engine", "ray")
    assert done.stdout == (f"miniray ('Local', 2) __main__ {[script, '-m', '--engine', 'ray']}\nat exit 1\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_runs_from_the_current_folder(folder):
    """It runs as with `python -m program`, and its exit code is the command's."""
    done = run(folder, "-m", "program", "exit", cwd=folder)
    assert "['" + str(folder / "program.py") + "', 'exit']" in done.stdout
    assert done.returncode == 5


def test_an_exception_is_shown_without_frames_of_miniray(folder):
    """The program's atexit handlers still run."""
    done = run(folder, str(folder / "program.py"), "fail")
    assert done.returncode == 1 and done.stdout.endswith("at exit 1\n")
    assert done.stderr.splitlines()[1].startswith(f'  File "{folder / "program.py"}", line ')
    assert done.stderr.endswith("ValueError: boo\n")


def test_a_syntax_error_is_shown_as_python_shows_it(folder):
    """The report ends with Python's message and has no frame of miniray."""
    (folder / "program.py").write_text("import ray\nx = = 1\n")
    done = run(folder, str(folder / "program.py"))
    assert done.returncode == 1 and done.stderr.endswith("SyntaxError: invalid syntax\n")
    assert "miniray" not in done.stderr


def test_pytest_runs_under_the_alias(folder):
    """`python -m miniray run -m pytest ...` works: the tests import `ray` and get miniray."""
    (folder / "test_it.py").write_text("import ray\ndef test_it():\n    assert ray.__name__ == 'miniray'\n")
    done = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert done.returncode == 0 and "1 passed" in done.stdout


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "name a script, or a module with -m"),
        (["no_such.py"], "No such file"),
        (["-m", "no_such"], "No module named no_such"),
        (["--address", "x", "a.py"], "--address needs --engine ray"),
    ],
)
def test_a_program_that_cannot_be_loaded_gives_exit_code_2(folder, words, message):
    """The reason is a sentence on stderr, not a traceback."""
    done = run(folder, *words)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
