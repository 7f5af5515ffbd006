"""What `make lint` asks, where ruff is at hand."""

import importlib.util
import subprocess
import sys

import pytest

from tests.tidy.source import ROOT


@pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="ruff is not installed")
def test_ruff_has_nothing_to_say():
    """Names that are not there or not used, a function that stands twice: what two changes that meet leave behind."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "miniray", "tests", "examples"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
