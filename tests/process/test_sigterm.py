"""SIGTERM ends a program in order while a session runs, as under Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import miniray as ray

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is no way to send SIGTERM")

PROGRAM = """
import atexit, os, signal, sys, threading, time
import miniray as ray

case = sys.argv[1]
atexit.register(print, "atexit")
came = threading.Event()

def own(number, frame):
    print("own")
    came.set()

if case == "own handler before":
    signal.signal(signal.SIGTERM, own)
if case == "ignored before":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

def start():
    ray.init(num_cpus=1, log_to_driver=False, object_store_memory=2_000_000, local_mode=case == "local_mode")

if case == "other thread":
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
else:
    start()
if case == "own handler":
    signal.signal(signal.SIGTERM, own)
if case == "after the session":
    ray.shutdown()

@ray.remote
def sleeps():
    time.sleep(20)

try:
    if case == "spilled":
        refs = [ray.put(b"x" * 900_000) for _ in range(5)]
        print(len(os.listdir(os.environ["TMPDIR"])))
    print("ready", flush=True)
    if case in ("get", "local_mode"):
        ray.get(sleeps.remote())
    elif case == "inside calls":
        while True:
            ray.put(1)
    elif case == "own handler":
        came.wait(20)
    else:
        time.sleep(20)
    print("went on")
except BaseException as error:
    print(type(error).__name__, *error.args)
    raise
finally:
    print("finally")
"""
ORDERLY = ["SystemExit 15", "finally", "atexit"]


@pytest.mark.parametrize(
    ("case", "printed", "code"),
    [
        ("sleep", ORDERLY, 15),
        ("get", ORDERLY, 15),
        ("inside calls", ORDERLY, 15),
        ("own handler before", ORDERLY, 15),
        ("ignored before", ORDERLY, 15),
        ("own handler", ["own", "went on", "finally", "atexit"], 0),
        ("other thread", [], -signal.SIGTERM),
        ("after the session", [], -signal.SIGTERM),
    ],
)
def test_what_a_program_still_does(tmp_path, case, printed, code):
    """Its `finally` blocks and exit handlers run, and the exit code is 15."""
    assert ended_by_sigterm(tmp_path, case) == (printed, code)


def ended_by_sigterm(tmp_path, case):
    """The lines that the program printed after the signal, and its exit code."""
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(tmp_path)}
    run = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py"), case],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    assert run.stdout is not None
    before = []
    while not before or before[-1] != "ready":
        before.append(run.stdout.readline().strip())
        assert before[-1], run.communicate()
    run.send_signal(signal.SIGTERM)
    output, errors = run.communicate(timeout=30)
    assert not errors, errors
    return output.split("\n")[:-1], run.returncode


def test_spilled_values_leave_no_file(tmp_path):
    """The folder used to stay behind, with all values in it."""
    assert ended_by_sigterm(tmp_path, "spilled") == (ORDERLY, 15)
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


def test_it_ends_a_task_of_local_mode_and_the_program(tmp_path):
    """The task runs on the main thread. Both are ended."""
    printed, code = ended_by_sigterm(tmp_path, "local_mode")
    assert (printed, code) == (ORDERLY, 15)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_ends_by_it_however_early_it_comes():
    """Python used to forget the signal while the child was still removing the session's hooks."""
    with ray.init(num_cpus=1, log_to_driver=False):
        for _ in range(40):
            child = os.fork()
            if child == 0:
                time.sleep(10)
                os._exit(1)
            os.kill(child, signal.SIGTERM)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
