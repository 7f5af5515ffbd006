"""`miniray stack PID` and `miniray profile PID`: a program that was started without preparation answers, and every
other process gives a clear reason."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import miniray as ray
from miniray._common.test_utils import wait_for_condition
from miniray.cli import main
from miniray.process import context, doorbell
from miniray.telemetry import stack_socket
from miniray.telemetry.stack_socket import NoAnswer, ask, folder, why_not_here

pytestmark = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here())
ROOT = Path(__file__).resolve().parents[2]
BEGIN = """
import os, sys, threading, time, _thread
import miniray as ray
from miniray.process import context
def tell(*words):
    print(os.getpid(), *words, flush=True)
"""
WAITS = """
from miniray import state
ray.init(num_cpus=2, log_to_driver=False)
@ray.remote
def spin():
    while True: pass
ref = spin.remote()
while not any(row["name"] == "spin" and row["stack"] for row in state.stacks()): pass
tell()
ray.get(ref)
"""
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


@contextmanager
def started(text: str):
    """A program that runs; its process id when it has printed it."""
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + text], env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            yield int(program.stdout.readline().split()[0]), program
        finally:
            program.kill()


def stack(pid: int, timeout_s: float = 20.0):
    """The answer of a process."""
    (part,) = ask(pid, {"kind": "stack"}, timeout_s)
    return part


def refused(pid: int, timeout_s: float = 20.0) -> str:
    """Why a process gives no answer."""
    with pytest.raises(NoAnswer) as why:
        stack(pid, timeout_s)
    return str(why.value)


def sockets() -> list[str]:
    """What is in the folder."""
    return os.listdir(folder(make=True))


# ---------------------------------------------------------------- a program that runs


def test_a_program_that_runs_is_asked_from_the_command_line(capsys):
    """The program goes on, and can be asked again. Nothing is left behind."""
    with started(WAITS) as (pid, program):
        assert main(["stack", str(pid)]) == 0
        text = capsys.readouterr().out
        assert "Worker 1 runs spin (task " in text
        assert "in spin" in text and "Thread MainThread" in text and "task spin is running" in text
        assert main(["stack", "--format", "json", str(pid)]) == 0
        data = json.loads(capsys.readouterr().out)
        assert [worker["tasks"][0]["name"] for worker in data["workers"]] == ["spin"] and data["note"] == ""
        assert program.poll() is None
        assert not any(name.startswith(f"{pid}-") for name in sockets())


def test_rows_are_those_of_state_stacks():
    """The socket gives them as data, too."""
    with started(WAITS) as (pid, _):
        (part,) = ask(pid, {"kind": "stack", "rows": True}, 20)
        assert {row["name"] for row in part["rows"]} == {"driver", "spin"}
        (part,) = ask(pid, {"kind": "stack", "rows": True, "all_frames": True}, 20)
        assert any(frame["function"] == "park" for row in part["rows"] for frame in row["stack"])


def test_many_ask_at_once():
    """Each gets an answer of its own."""
    with started(WAITS) as (pid, _):
        found: list[str] = []
        threads = [threading.Thread(target=lambda: found.append(stack(pid)["text"])) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 8 and all("Worker 1 runs spin" in text for text in found)


def test_a_driver_that_computes_is_asked_too():
    """The main thread runs code of the program, and no task."""
    with started("ray.init(num_cpus=1)\ndef churn():\n    tell()\n    while True: pass\nchurn()") as (pid, _):
        assert "in churn" in stack(pid)["text"]


def test_two_sessions_in_a_row():
    """The second answers as the first did; between them there is no session."""
    text = """
ray.init(num_cpus=1)
ray.shutdown()
ray.init(num_cpus=1)
tell()
sys.stdin.read()
"""
    with started(text) as (pid, _):
        assert "Thread MainThread" in stack(pid)["text"]


def test_a_deadlock_with_the_core_s_lock_held_is_shown():
    """The stacks take no lock. What is pending does, and is said to be missing, with the thread that holds the lock."""
    text = """
ray.init(num_cpus=1)
lock = _thread.allocate_lock()
lock.acquire()
def hold():
    with context.session.lock:
        tell()
        lock.acquire()
hold()
"""
    with started(text) as (pid, _):
        part = stack(pid)
    assert "in hold" in part["text"] and "Pending:\n  not known" in part["text"]
    assert part["report"]["pending"] is None
    assert part["note"].endswith("so what is pending is not known; it is held by: The driver")


def test_a_program_in_a_deadlock_of_its_own():
    """Two threads wait for each other's locks. The main thread waits for both."""
    text = """
ray.init(num_cpus=1)
a, b = threading.Lock(), threading.Lock()
both = threading.Barrier(2, action=tell)
def take(first, second):
    with first:
        both.wait()
        with second: pass
threads = [threading.Thread(target=take, args=pair, name=name) for pair, name in (((a, b), "one"), ((b, a), "two"))]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    with started(text) as (pid, _):
        text = stack(pid)["text"]
    assert "Thread one" in text and "Thread two" in text and text.count("in take") == 2


# ---------------------------------------------------------------- no answer


def test_a_main_thread_that_stays_in_c_code_is_said_to_be_silent():
    """It keeps the GIL, and no Python code can run. The answer comes when the time is up, and leaves no socket."""
    with started("ray.init(num_cpus=1)\ntell()\nsum(range(10**12))") as (pid, _):
        why = refused(pid, 0.3)
        assert not any(name.startswith(f"{pid}-") for name in sockets())
    assert why.startswith(f"process {pid} has not answered within 0.3 s; it is busy. Its main thread is in a function")


def test_a_process_that_is_no_program_of_ours():
    """A process without Python, one without miniray, one without a session, and one whose session has ended."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        assert "runs no miniray session that can be asked" in refused(other.pid)
        assert other.poll() is None
        other.kill()
    for text in ("tell()\nsys.stdin.read()", "ray.init()\nray.shutdown()\ntell()\nsys.stdin.read()"):
        with started(text) as (pid, program):
            assert f"process {pid} (python" in refused(pid)
            assert program.poll() is None


def test_ids_of_no_process():
    """One that has ended, one that cannot be, and a zombie."""
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert "has ended, and waits for its parent" in refused(ended.pid)
    ended.wait()
    assert refused(ended.pid) == f"there is no process {ended.pid}"
    assert refused(1 << 40).startswith("there is no process")
    with pytest.raises(ValueError, match="positive"):
        stack(0)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of another user")
def test_a_process_of_another_user():
    """It is not even told, although root could."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=65534) as other:
        assert refused(other.pid) == f"process {other.pid} belongs to another user (uid 65534)"
        other.kill()


def test_a_stopped_process():
    """It could answer only after it goes on."""
    with started(WAITS) as (pid, _):
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        assert refused(pid) == f"process {pid} is stopped; `kill -CONT {pid}` lets it go on"


def test_a_process_that_ends_before_it_answers():
    """A caller that waits for it is told at once."""
    with started("ray.init(num_cpus=1)\ntell()\nsum(range(10**12))") as (pid, program):
        ends = threading.Timer(0.1, program.kill)
        ends.start()
        assert refused(pid, 60) == f"process {pid} ended before it had answered"


def test_a_forked_child_has_no_session_of_its_own():
    """The parent answers as before."""
    text = """
ray.init(num_cpus=1)
read, write = os.pipe()
child = os.fork()
if not child:
    os.read(read, 1)
    os._exit(0)
tell(child)
sys.stdin.read()
os.write(write, b"x")
"""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", BEGIN + text], env=ENV, text=True, stdin=-1, stdout=-1
    ) as program:
        pid, child = map(int, program.stdout.readline().split())
        # Right after the fork, the child may still be removing the hooks of its parent's session.
        assert re.search("runs no miniray session|has no session at this moment", refused(child))
        assert "Thread MainThread" in stack(pid)["text"]
        program.communicate("")


def test_a_child_that_was_started_anew_is_not_disturbed():
    """It does not inherit the handler, and the signal does nothing to it."""
    with started(
        "ray.init(num_cpus=1)\nimport subprocess\nc = subprocess.Popen(['cat'], stdin=-1)\nprint(c.pid, flush=True)\nc.wait()"
    ) as (
        pid,
        _,
    ):
        os.kill(pid, doorbell.NUMBER)
        assert "runs no miniray session" in refused(pid)
        os.kill(pid, signal.SIGKILL)


def test_a_program_that_handles_the_signal_itself_keeps_its_handler():
    """Whether its handler came before the session or during it. Nobody can ask then; what it is told is not wrong."""
    for before, during in (("signal.signal(signal.SIGURG, note)", ""), ("", "signal.signal(signal.SIGURG, note)")):
        text = f"""
import signal
seen = []
def note(*args): print("noted", flush=True)
{before}
ray.init(num_cpus=1)
{during}
assert signal.getsignal(signal.SIGURG) is note
tell()
sys.stdin.read()
"""
        with started(text) as (pid, program):
            assert "has not answered within 0.2 s" in refused(pid, 0.2)
            assert program.stdout.readline() == "noted\n"


# ---------------------------------------------------------------- who may ask


def test_the_folder_is_closed_to_others():
    """One that another user could enter, or that is a link, is refused."""
    path = folder(make=True)
    assert os.lstat(path).st_mode & 0o777 == 0o700 and os.lstat(path).st_uid == os.getuid()


def test_an_unsafe_folder_is_refused(tmp_path, monkeypatch):
    """The text says what to do. Nothing is sent to the process."""
    monkeypatch.setattr(stack_socket, "PARENT", str(tmp_path))
    place = tmp_path / f"miniray-{os.getuid()}"
    place.mkdir()
    place.chmod(0o755)
    with started(WAITS) as (pid, _):
        assert "is not a folder that only this user can enter" in refused(pid)
        place.rmdir()
        place.symlink_to(tmp_path)
        assert "is not a folder that only this user can enter" in refused(pid)
        place.unlink()
        place.write_text("a file")
        assert "is not a folder that only this user can enter" in refused(pid)


def test_platforms_that_have_no_such_sockets(monkeypatch, tmp_path):
    """Each has its reason."""
    with monkeypatch.context() as patched:
        patched.setattr(stack_socket, "PARENT", str(tmp_path / "none"))
        assert "there is no folder" in refused(os.getpid())
    with monkeypatch.context() as patched:
        patched.setattr(doorbell, "NUMBER", 0)
        assert "has no signal SIGURG" in refused(os.getpid())
    with monkeypatch.context() as patched:
        patched.delattr(socket, "AF_UNIX")
        assert "has no Unix sockets" in refused(os.getpid())


def test_a_socket_whose_asker_has_died_is_removed():
    """The next answer clears it away, and is not kept from its own asker."""
    with started(WAITS) as (pid, _):
        path = os.path.join(folder(make=True), f"{pid}-stale.sock")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
        assert "Worker 1 runs spin" in stack(pid)["text"]
        assert "Worker 1 runs spin" in stack(pid)["text"]
        assert not os.path.exists(path)


def test_an_asker_that_says_nothing_does_not_block_the_others(monkeypatch):
    """It connects to each on a thread for each signal."""
    with started(WAITS) as (pid, _):
        path = os.path.join(folder(make=True), f"{pid}-0-mute.sock")
        with socket.socket(socket.AF_UNIX) as mute:
            mute.bind(path)
            mute.listen()
            try:
                assert "Worker 1 runs spin" in stack(pid)["text"]
            finally:
                os.unlink(path)


def test_a_process_that_was_not_asked_is_not_believed():
    """Another process of the same user that connects first is turned away."""
    with started(WAITS) as (pid, _):
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        path = os.path.join(folder(make=True), f"{pid}-test.sock")
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as stranger:
            listener.bind(path)
            listener.listen()
            stranger.connect(path)
            accepted, _ = listener.accept()
            with accepted:
                assert stack_socket.peer_of(accepted) == (os.getpid(), os.getuid())
            stranger2 = socket.socket(socket.AF_UNIX)
            stranger2.connect(path)
            os.kill(pid, signal.SIGCONT)
            with stranger2, stack_socket._connected(pid, listener, 20) as connection:
                assert stack_socket.peer_of(connection) == (pid, os.getuid())
        os.unlink(path)


def test_unknown_questions_are_refused():
    """The program goes on."""
    with started(WAITS) as (pid, program):
        with pytest.raises(NoAnswer, match="does not know the question 'dance': the two versions of miniray differ"):
            list(ask(pid, {"kind": "dance"}, 20))
        assert "Worker 1 runs spin" in stack(pid)["text"] and program.poll() is None


# ---------------------------------------------------------------- what it costs


def test_a_session_that_nobody_asks_has_no_thread_no_file_and_no_handler_that_can_be_seen():
    """Only the handler of one signal, which goes with the session."""
    before = doorbell._get_handler(doorbell.NUMBER)
    threads, descriptors, files = threading.active_count(), len(os.listdir("/proc/self/fd")), sockets()
    ray.init(num_cpus=1)
    try:
        assert doorbell._get_handler(doorbell.NUMBER) is doorbell.ring
        assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL
        assert (threading.active_count(), len(os.listdir("/proc/self/fd")), sockets()) == (threads, descriptors, files)
    finally:
        ray.shutdown()
    assert doorbell._get_handler(doorbell.NUMBER) == before == signal.SIG_DFL


def test_a_session_that_another_thread_starts_installs_nothing():
    """Only the main thread can."""
    seen = []

    def run():
        ray.init(num_cpus=1)
        seen.append(doorbell._get_handler(doorbell.NUMBER))
        ray.shutdown()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]


def test_the_signal_alone_does_nothing():
    """Nobody waits in the folder, so the thread ends at once. The program's waits are not disturbed."""
    ray.init(num_cpus=1)
    try:
        os.kill(os.getpid(), doorbell.NUMBER)
        assert ray.get(ray.put(1)) == 1 and context.session is not None
    finally:
        ray.shutdown()


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["stack", "x1"], "'x1' is not a process id"),
        (["stack", "-5"], "'-5' is not a process id"),
        (["stack", "program.py"], "put -- before the script: ... -- program.py"),
        (["stack", "0"], "'0' is not a process id"),
        (["stack", "12", "--", "program.py"], "give a process id, or a program after --, not both"),
        (["stack", "12", "--after", "3"], "give a process id, or a program after --, not both"),
        (["profile", "-o", "x.txt"], "give a process id, or a program after --"),
        (["profile", "-o", "x.pdf", "12"], "a profile is written as .html"),
        (["profile", "12"], "the following arguments are required: -o/--output"),
        (["profile", "-o", "x.txt", "--hz", "0", "12"], "'0' is not a number of samples a second"),
        (["profile", "-o", "x.txt", "--seconds", "0", "12"], "--seconds is above 0"),
        (
            ["profile", "-o", "x.txt", "--seconds", "3", "--", "program.py"],
            "--seconds is for a program that is running",
        ),
    ],
)
def test_words_that_make_no_sense(capsys, words, message):
    """The usage and the reason are on stderr; the exit code is 2."""
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2 and message in capsys.readouterr().err


def test_a_process_that_cannot_be_asked_gives_exit_code_1(capsys):
    """The reason is one line on stderr."""
    assert main(["stack", str(1 << 22)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err == f"Error: there is no process {1 << 22}\n"


def test_a_program_that_runs_is_profiled(tmp_path, capsys):
    """For so many seconds; it goes on afterwards."""
    path = tmp_path / "run.txt"
    with started(WAITS) as (pid, program):
        begun = time.monotonic()
        assert main(["profile", "-o", str(path), "--seconds", "0.3", str(pid)]) == 0
        assert time.monotonic() - begun >= 0.3 and program.poll() is None
    assert "spin;spin " in path.read_text()
    assert f"the profile is in {path}" in capsys.readouterr().err


def test_a_profile_that_nobody_waits_for_ends():
    """The one who asked has gone: the program does not sample for an hour for nobody."""
    with started(WAITS) as (pid, _):
        question = {"kind": "profile", "hz": 100, "seconds": 3600}
        code = f"from miniray.telemetry.stack_socket import ask; list(ask({pid}, {question}, 9, 3600))"
        with subprocess.Popen([sys.executable, "-c", code], env=ENV) as asker:
            wait_for_condition(lambda: samplers(pid) == 1, retry_interval_ms=1, timeout=30)
            asker.kill()
        wait_for_condition(lambda: samplers(pid) == 0, retry_interval_ms=1, timeout=30)


def samplers(pid: int) -> int:
    """How many threads of a process sample at this moment."""
    (part,) = ask(pid, {"kind": "stack", "rows": True, "all_frames": True}, 20)
    return sum(any(frame["file"].endswith("sampler.py") for frame in row["stack"]) for row in part["rows"])
