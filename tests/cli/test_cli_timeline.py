"""`miniray timeline` runs a program and writes its timeline."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """import miniray as ray
@ray.remote
def work(n):
    return n
ray.init(num_cpus=2)
print(ray.get([work.remote(n) for n in range(3)]))
"""


def miniray(*words, folder):
    """Run a miniray command in its own process."""
    return subprocess.run(
        [sys.executable, "-m", "miniray", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=50,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )


def test_a_trace_and_a_page_are_written_to_the_named_files(tmp_path):
    """The ending of the name decides which it is; the program's own output goes to stderr."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = miniray("timeline", "-o", "t.json", "-o", "t.html", "--", "script.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" written to ") == 2 and "[0, 1, 2]" in done.stderr
    events = json.loads((tmp_path / "t.json").read_text())
    assert sum(event["cat"].startswith("task::work") for event in events if event["ph"] == "X") == 3
    assert (tmp_path / "t.html").read_text().lower().startswith("<!doctype html>")


def test_without_a_program_the_error_shows_the_command_to_type(tmp_path):
    """There is no server to ask, so the command needs a program."""
    done = miniray("timeline", folder=tmp_path)
    assert done.returncode == 1 and "python -m miniray timeline -- script.py" in done.stderr


def test_a_file_that_cannot_be_written_is_an_error_of_one_line(tmp_path):
    """The exit code is 2, and no file is left."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = miniray("timeline", "-o", "nowhere/t.json", "--", "script.py", folder=tmp_path)
    assert done.returncode == 2 and "nowhere/t.json cannot be written" in done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "script.py"]
