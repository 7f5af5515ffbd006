"""Every example runs as it is, and prints what its docstring states."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.ahead import ahead, programs as at_a_time
from tests.chapters.programs import EXAMPLES, ROOT, Program, programs

PROGRAMS = programs()
SHORTEST, LONGEST = 20, 60
"""Lines of a program without its docstring. The Ray programs, which are realistic, may be 20 lines longer."""


@dataclass
class Played:
    """The outcome of an example: its finished process, and the files that it left in its folder."""

    done: subprocess.CompletedProcess
    left: list[str]


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Program], Played]]:
    """A function that returns the outcome of an example, which runs in its own process and folder.

    A program that imports `ray` runs under the alias.
    """
    folders = {program: tmp_path_factory.mktemp(program.path.stem) for program in PROGRAMS}
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
    }  # copied now, because pytest changes it while the programs run

    def play(program: Program) -> Played:
        command = [sys.executable, *(["-m", "miniray", "run"] if program.says_import_ray else []), str(program.path)]
        done = subprocess.run(
            command, env=environment, cwd=folders[program], capture_output=True, text=True, timeout=50
        )
        return Played(done, os.listdir(folders[program]))

    with ahead(request.session, "test_an_example_prints_what_its_docstring_says", play, at_a_time()) as found:
        yield found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_an_example_prints_what_its_docstring_says(program: Program, played: Callable[[Program], Played]):
    """It prints no traceback and leaves no files."""
    done = played(program).done
    assert done.returncode == 0, done.stderr
    assert done.stdout == program.prints
    assert "Traceback" not in done.stderr, done.stderr
    assert played(program).left == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_an_example_is_one_idea_on_one_screen(program: Program):
    """It has twenty to sixty lines, and the first line of its docstring states the idea."""
    lines = len(program.text.splitlines()) - len(program.docstring.splitlines())
    assert lines <= LONGEST + 20 * program.says_import_ray
    assert len(program.text.splitlines()) >= SHORTEST
    assert program.idea, program.name


def test_the_folder_s_page_names_every_example():
    """README.md lists all examples, and no others."""
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    named = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert named == [program.name for program in PROGRAMS]


def test_every_example_has_been_compared_with_ray():
    """The record of `make ray-check` has the same output for each example that runs on Ray."""
    record = (EXAMPLES / "on_ray.txt").read_text(encoding="utf-8").splitlines()
    for program in PROGRAMS:
        wanted = (
            f"not run  {program.name}: {program.only_on_miniray}"
            if program.only_on_miniray
            else f"same     {program.name}"
        )
        assert wanted in record, f"run make ray-check: on_ray.txt does not have {program.name} in its present form"


def test_programs_for_ray_do_not_mention_miniray():
    """A Ray program imports only `ray`. Any other example becomes a Ray program when its imports change."""
    for program in PROGRAMS:
        if program.says_import_ray or not program.only_on_miniray:
            assert "import ray" in program.for_ray()
            assert "miniray" not in program.for_ray().replace(program.docstring, ""), program.name
