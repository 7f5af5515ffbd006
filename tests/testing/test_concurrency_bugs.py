"""The programs in examples/bugs: `explore` finds each bug, and passes each fix."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys
from types import ModuleType

import pytest

from miniray.testing import ExplorationFailure, explore
from miniray.testing.exploring.simulation import Run

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUGS = sorted((ROOT / "examples" / "bugs").glob("*.py"))
SMALL = {
    "01_lost_update",
    "02_check_then_create",
    "03_wait_drops_references",
    "08_cache_stampede",
    "09_double_spend",
}
"""Programs of which `exhaustive` covers every schedule within a second or two."""


def loaded(path: pathlib.Path) -> ModuleType:
    """The module in this file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", BUGS, ids=[path.stem for path in BUGS])
@pytest.mark.parametrize("strategy", ["random", "pct"])
def test_explore_finds_the_bug(path, strategy):
    """Within 1000 seeds; most need fewer than 20."""
    module = loaded(path)
    with pytest.raises(ExplorationFailure) as caught:
        explore(module.buggy, strategy=strategy, faults=getattr(module, "FAULTS", None))
    assert f"buggy: {type(caught.value.__cause__).__name__}" in (module.__doc__ or "")


@pytest.mark.parametrize("path", BUGS, ids=[path.stem for path in BUGS])
def test_the_fix_passes(path):
    """Under 50 seeds; `make` targets that run for longer use more."""
    module = loaded(path)
    assert explore(module.fixed, range(50), faults=getattr(module, "FAULTS", None)).runs == 50


@pytest.mark.parametrize("path", [path for path in BUGS if path.stem in SMALL], ids=sorted(SMALL))
def test_exhaustive_proves_the_fix(path):
    """It sees every schedule that can make a difference."""
    assert explore(loaded(path).fixed, strategy="exhaustive").covered


def logs() -> str:
    """A digest of the event log of each program, buggy and fixed, under three seeds."""
    lines = []
    for path in BUGS:
        module = loaded(path)
        for program in module.buggy, module.fixed:
            for seed in range(3):
                run = Run(program, seed, faults=getattr(module, "FAULTS", None), keep_log=True).go()
                lines.append(f"{path.stem} {program.__name__} {seed} {hashlib.sha256(run.log.encode()).hexdigest()}")
    return "\n".join(lines) + "\n"


def test_the_same_seed_gives_the_same_logs_in_two_processes():
    """Byte for byte, under two hash seeds, with and without faults. Starts two programs."""
    code = "import sys, tests.testing.test_concurrency_bugs as t; sys.stdout.write(t.logs())"
    answers = []
    for hash_seed in "1", "2":
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        answers.append([line for line in done.stdout.splitlines() if line.startswith(tuple("01"))])
    assert answers[0] == answers[1]
    assert len(answers[0]) == 6 * len(BUGS)
