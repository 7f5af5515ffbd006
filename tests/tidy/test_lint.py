"""`make lint`, as a test, if ruff is installed."""

import importlib.util
import subprocess
import sys

import pytest

from tests.tidy.source import ROOT


@pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="ruff is not installed")
def test_ruff_finds_nothing():
    """It finds undefined and unused names and duplicate functions: the usual traces of two changes that were merged."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "miniray", "tests", "examples"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
