"""What the threads and the child processes of a worker write is in its log and on the driver's screen, as in Ray."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker

import pytest

import miniray
from miniray.process import worker_output
from tests.observe.printed import captured, log, run

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # a fork beside threads


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One CPU, so that all plain tasks run in one worker. Afterwards no pipe and no descriptor is left."""
    monkeypatch.setenv("RAY_COLOR_PREFIX", "0")
    resource_tracker.ensure_running()  # "spawn" starts it, and it stays
    before = len(os.listdir("/dev/fd"))
    with miniray.init(num_cpus=1):
        yield
    assert not worker_output._open and len(os.listdir("/dev/fd")) == before


def lines(text: str) -> list[str]:
    """The lines of a log without its markers."""
    return [line for line in text.splitlines() if not line.startswith(":")]


def logs_of(function, **options) -> tuple[list[str], list[str]]:
    """The lines that a task writes to its two logs."""

    def task():
        function()
        return miniray.get_runtime_context().get_task_id()

    with captured(), contextlib.redirect_stderr(io.StringIO()):
        task_id = run(task, **options)
    return lines(log(task_id=task_id)), lines(log(task_id=task_id, suffix="err"))


def in_thread(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()


def in_fork(function, *args):
    process = multiprocessing.get_context("fork").Process(target=function, args=args)
    process.start()
    process.join()
    assert process.exitcode == 0


# ---------------------------------------------------------------- threads


def test_a_thread_of_a_task_prints_for_the_task(session, monkeypatch):
    """Also to stderr, by a logging handler, in a thread that such a thread starts, and the traceback of an error."""
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)  # pytest has its own

    def task():
        print("begin")
        in_thread(print, "thread")
        in_thread(in_thread, print, "nested")
        in_thread(lambda: print("err", file=sys.stderr))
        in_thread(logging.getLogger("test_worker_output").warning, "logged")
        in_thread(lambda: 1 / 0)
        print("end")

    handler = logging.StreamHandler()
    logger = logging.getLogger("test_worker_output")
    logger.addHandler(handler)
    try:
        out, err = logs_of(task)
    finally:
        logger.removeHandler(handler)
    assert out == ["begin", "thread", "nested", "end"]
    assert err[:2] == ["err", "logged"] and err[-1] == "ZeroDivisionError: division by zero"


def test_a_thread_sees_the_stream_that_its_task_has_set(session):
    """`redirect_stdout` in a task holds for the threads of its worker, not for the driver."""

    def task():
        with contextlib.redirect_stdout(io.StringIO()) as buffer:
            in_thread(print, "hidden")
        print("got", repr(buffer.getvalue()))

    assert logs_of(task)[0] == ["got 'hidden\\n'"]


def test_a_thread_that_outlives_its_task_prints_for_the_one_that_runs_then(session):
    """The line is in the worker's log in any case, behind the name of the last task."""

    class Gate:
        go, gone = threading.Event(), threading.Event()

    worker_output.gate_of_test = Gate
    try:

        def starts():
            from miniray.process import worker_output

            def late():
                worker_output.gate_of_test.go.wait()
                print("late")
                worker_output.gate_of_test.gone.set()

            print("first")
            threading.Thread(target=late).start()
            return miniray.get_runtime_context().get_task_id()

        def runs():
            from miniray.process import worker_output

            worker_output.gate_of_test.go.set()
            worker_output.gate_of_test.gone.wait()
            return miniray.get_runtime_context().get_task_id()

        with captured() as out:
            first = run(starts, name="starts")
            second = run(runs, name="runs")
            assert (lines(log(task_id=first)), lines(log(task_id=second))) == (["first"], ["late"])
            Gate.go.clear()
            Gate.gone.clear()
            run(starts, name="again")
            Gate.go.set()
            assert Gate.gone.wait(60)
        assert [line.split(" pid")[0] for line in out.getvalue().splitlines()] == [
            "(starts",
            "(runs",
            "(again",
            "(again",
        ]
    finally:
        del worker_output.gate_of_test


def test_threads_of_actors_print_for_the_actor(session):
    """Of one with a constructor's thread, and of an async one whose executor prints."""

    @miniray.remote(num_cpus=0)
    class Beats:
        def __init__(self):
            in_thread(print, "beat")

    @miniray.remote(num_cpus=0)
    class Loop:
        async def go(self):
            await asyncio.get_running_loop().run_in_executor(None, print, "executor")
            await asyncio.to_thread(print, "to_thread")

    with captured() as out:
        beats, loop = Beats.remote(), Loop.remote()
        miniray.get([beats.__ray_ready__.remote(), loop.go.remote()])
    assert lines(log(actor_id=beats._actor_id.hex())) == ["beat"]
    assert lines(log(actor_id=loop._actor_id.hex())) == ["executor", "to_thread"]
    assert sorted(line.split(" pid")[0] for line in out.getvalue().splitlines()) == ["(Beats", "(Loop", "(Loop"]


def test_a_stream_of_the_program_may_print_itself(session):
    """It runs for the driver, also on a thread that a task has started."""
    shown = []

    class Loud(io.StringIO):
        def write(self, text):
            shown.append(text)
            if len(shown) < 10:
                print("inner", end="")
            return len(text)

    with contextlib.redirect_stdout(Loud()):
        run(lambda: in_thread(print, "line"), name="task")
    assert shown[0].endswith("line\n") and set(shown[1:]) == {"inner", ""}


# ---------------------------------------------------------------- child processes


def subprocesses():
    subprocess.run(["echo", "inherited"])
    subprocess.run(["echo", "own"], stdout=sys.stdout)
    subprocess.run("echo to err >&2", shell=True, stderr=sys.stderr)
    subprocess.run("echo merged >&2", shell=True, stderr=subprocess.STDOUT)
    subprocess.run(["echo", "crossed"], stdout=sys.stderr)
    assert subprocess.check_output(["echo", "mine"]) == b"mine\n"


def shells():
    assert os.system("echo system; echo to err >&2; exit 3") == 3 << 8
    with os.popen("echo popen; echo too >&2") as file:
        print(file.read().strip())


def descriptors():
    os.write(1, b"a")
    print("b")
    os.write(2, "é\n".encode())
    os.write(sys.stdout.fileno(), b"c\n")


def spawned():
    process = multiprocessing.get_context("spawn").Process(target=os.write, args=(1, b"spawned\n"))
    process.start()
    process.join()


def forked():
    in_fork(print, "forked")
    in_fork(os.write, 2, b"to err\n")
    in_fork(in_thread, os.system, "echo grandchild")


def other_ways():
    os.waitpid(os.posix_spawn("/bin/echo", ["echo", "posix"], os.environ), 0)
    os.spawnv(os.P_WAIT, "/bin/echo", ["echo", "spawnv"])

    async def shell():
        process = await asyncio.create_subprocess_shell("echo async")
        await process.wait()

    asyncio.run(shell())


def half_lines():
    subprocess.run(["printf", "half a"])
    print(" line")
    subprocess.run(["printf", "no end"])


@pytest.mark.parametrize(
    ("ways", "out", "err"),
    [
        (subprocesses, ["inherited", "own", "merged"], ["to err", "crossed"]),
        (shells, ["system", "popen"], ["to err", "too"]),
        (descriptors, ["ab", "c"], ["é"]),
        (spawned, ["spawned"], []),
        (forked, ["forked", "grandchild"], ["to err"]),
        (other_ways, ["posix", "spawnv", "async"], []),
        (half_lines, ["half a line", "no end"], []),
    ],
)
def test_what_child_processes_write(session, ways, out, err):
    """All ways to start a process, in the order in which the lines were written, and complete before the result."""

    def task():
        print("begin")
        ways()
        sys.stderr.write("last\n")

    assert logs_of(task) == (["begin", *out], [*err, "last"])


def test_the_driver_s_own_children_write_to_its_descriptors(session, capfd):
    """As ever, also while a worker has pipes."""
    assert logs_of(lambda: os.system("echo task"))[0] == ["task"]
    subprocess.run(["echo", "driver"])
    os.write(1, b"itself\n")
    child = os.fork()
    if child == 0:
        os.write(1, b"fork\n")
        os._exit(len(worker_output._open))
    assert os.waitpid(child, 0)[1] == 0
    assert capfd.readouterr().out == "driver\nitself\nfork\n"


def test_lines_of_a_child_are_shown_while_it_runs(session):
    """The task only waits. The reader shows the line, which the driver waits for."""
    shown = threading.Event()

    class Screen(io.StringIO):
        def write(self, text):
            if "working" in text:
                shown.set()
            return super().write(text)

    @miniray.remote
    def task():
        subprocess.run("echo working; read line; echo $line", shell=True, stdin=reads)

    reads, writes = os.pipe()
    try:
        with contextlib.redirect_stdout(Screen()) as out:
            ref = task.remote()
            assert shown.wait(60)
            os.write(writes, b"done\n")
            miniray.get(ref)
        assert [line.partition(") ")[2] for line in out.getvalue().splitlines()] == ["working", "done"]
    finally:
        os.close(reads)
        os.close(writes)


def test_more_than_a_pipe_holds(session):
    """The child never waits for somebody to read, and no line is lost."""
    out, _ = logs_of(lambda: subprocess.run(["seq", "1", "20000"]))
    assert out == [str(number) for number in range(1, 20001)]


def test_a_child_that_writes_without_end_dies_with_its_worker():
    """The worker is killed in the middle of its output."""
    miniray.init(num_cpus=1)

    @miniray.remote(num_cpus=0)
    class Actor:
        def start(self):
            self.child = subprocess.Popen(["yes"])
            return self.child.pid

    with captured():
        actor = Actor.remote()
        child = miniray.get(actor.start.remote())
        miniray.kill(actor)
        miniray.shutdown()  # it waits for the worker's thread, which kills the child
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert not worker_output._open


def test_in_local_mode_children_write_where_the_driver_s_do(capfd):
    """As on Ray."""
    with miniray.init(num_cpus=1, local_mode=True):
        run(lambda: os.system("echo task"))
        run(lambda: in_thread(os.write, 1, b"thread\n"))
    assert capfd.readouterr().out == "task\nthread\n"
