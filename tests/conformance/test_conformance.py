"""miniray gives the answers that were recorded on real Ray, and those in `wanted/`: one test per case.

The cases of one area run in one child process (see run.py), several areas at a time, beside the other tests of the session
(see beside.py). A test only waits for its answer, so a case that hangs is one failed test, with the stacks of all threads.

Every eighth case also runs with `import ray` under the alias; with --through-alias, all cases run under it.

In a simulation, a case runs twice under each seed, in two processes with two hash seeds: both must have the same event
log. With --simulated-seeds N there are N seeds.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.beside import AGAIN, Answers, seed_of
from tests.conformance.not_run import (
    NOT_IN_LOCAL_MODE,
    NOT_READY,
    NOT_SIMULATED,
    SINCE_PYTHON,
    UNTIL_PYTHON,
    UNREPEATED,
)
from tests.conformance.run import HERE, case_name, cases_in

CASES = cases_in([HERE / "cases", HERE / "wanted"])
LEFT_OUT_OF_LOCAL_MODE = {case: reason for reason, cases in NOT_IN_LOCAL_MODE.items() for case in cases}
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
LEFT_OUT_OF_SIMULATION = {case: reason for reason, cases in NOT_SIMULATED.items() for case in cases}
OTHER_LOG = {case for cases in UNREPEATED.values() for case in cases}
MODES = ("threaded", "local_mode", "alias")
ALIAS_SAMPLE = 8  # one of this many cases also runs under the alias, which does the same in all of them


def marks(mode: str, path: Path) -> list[pytest.MarkDecorator]:
    """A skip marker with its reason if the case cannot run here."""
    name = case_name(path)
    area = name.split("/")[0]
    if not HAS_NUMPY and "numpy" in path.parts:
        return [pytest.mark.skip(reason="numpy is not installed")]
    for key in (area, name):
        if key in NOT_READY:
            return [pytest.mark.skip(reason=f"not ready: {NOT_READY[key]}")]
    for version, cases in SINCE_PYTHON.items():
        if name in cases and sys.version_info < version:
            return [pytest.mark.skip(reason="its program needs Python {}.{}".format(*version))]
    for version, cases in UNTIL_PYTHON.items():
        if name in cases and sys.version_info >= version:
            return [pytest.mark.skip(reason="Python {}.{} has another answer".format(*version))]
    return []


def params(seeds: int) -> list[Any]:
    """The cases, mode by mode. A case that a mode cannot answer by its nature is not a test of this mode."""
    simulations = ["simulated", *(f"simulated-{seed}" for seed in range(2, seeds + 1))]
    return [
        pytest.param(mode, path, id=f"{mode}-{case_name(path)}", marks=marks(mode, path))
        for mode in (*MODES, *simulations)
        for index, path in enumerate(CASES)
        if not (mode == "local_mode" and case_name(path) in LEFT_OUT_OF_LOCAL_MODE)
        and not (
            mode in simulations and (case_name(path) in LEFT_OUT_OF_SIMULATION or path.is_relative_to(HERE / "wanted"))
        )
        and not (mode == "alias" and index % ALIAS_SAMPLE)
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each case and each mode."""
    if "mode" in metafunc.fixturenames:
        metafunc.parametrize(("mode", "path"), params(metafunc.config.getoption("--simulated-seeds")))


@pytest.mark.watchdog(0)  # each case has its own watchdog, in the child process
def test_the_answer_is_the_recorded_one(answers: Answers, mode: str, path: Path):
    """The program shows the lines of its .expected file. In a simulation, the same seed gives the same event log."""
    answer = answers.of(mode, path)
    assert not answer.difference, answer.difference
    if seed_of(mode) is not None:
        again = answers.of(mode + AGAIN, path)
        assert not again.difference, again.difference
        assert again.log == answer.log or case_name(path) in OTHER_LOG, "the same seed gave another event log"


def test_every_case_that_is_skipped_exists():
    """The lists in not_run.py name only existing cases and areas."""
    names = {case_name(path) for path in CASES}
    known = names | {name.split("/")[0] for name in names}
    assert [name for name in NOT_READY if name not in known] == []
    assert [name for name in [*LEFT_OUT_OF_SIMULATION, *OTHER_LOG] if name not in names] == []
    assert [name for name in LEFT_OUT_OF_LOCAL_MODE if name not in names] == []
    for by_version in SINCE_PYTHON, UNTIL_PYTHON:
        assert [name for cases in by_version.values() for name in cases if name not in names] == []
