"""`state.stacks()`: whose each stack is, in every runtime, and what a coroutine awaits."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

import miniray as ray
from miniray import state
from miniray._common.test_utils import wait_for_condition
from miniray.observe.stacks.frames import programs_part
from miniray.process import context
from miniray.util.queue import Queue

until = partial(wait_for_condition, retry_interval_ms=1)
ROOT = Path(__file__).resolve().parents[2]
COLUMNS = [
    "kind", "name", "type", "state", "task_id", "attempt_number", "actor_id", "node_id", "worker_id", "thread_id",
    "thread_name", "start_time_ms", "duration_ms", "awaits", "stack",
]  # fmt: skip


@pytest.fixture
def session():
    """A session with four CPUs."""
    ray.init(num_cpus=4, log_to_driver=False)
    yield
    ray.shutdown()


def rows(name: str | None = None, all_frames: bool = False):
    """The rows of this name."""
    return [row for row in state.stacks(all_frames) if name is None or row["name"].partition(" (")[0] == name]


def stands(name: str, text: str) -> bool:
    """Whether the stack of this name ends in this line of the program."""
    return any(text in row["stack"][-1]["code"] for row in rows(name) if row["stack"])


@ray.remote
def sleep_on():
    """A task that waits in a way that ends with the session."""
    time.sleep(1000)


# ---------------------------------------------------------------- rows


def test_the_driver_and_a_task_have_rows_with_every_column(session):
    """The rows say whose the stack is; the ids are those of the other tables."""
    ref = sleep_on.options(name="a nap").remote()
    until(lambda: stands("a nap", "time.sleep(1000)"))
    driver, task = state.stacks()
    assert list(driver) == COLUMNS and list(task) == COLUMNS
    assert driver["kind"] == driver["name"] == "driver" and driver["thread_id"] == threading.get_ident()
    assert driver["stack"][-1]["function"] == "test_the_driver_and_a_task_have_rows_with_every_column"
    assert [driver[key] for key in ("type", "task_id", "attempt_number", "actor_id", "start_time_ms")] == [None] * 5
    known = state.get_task(ref.task_id().hex())
    assert {key: task[key] for key in ("task_id", "name", "type", "node_id", "worker_id", "start_time_ms")} == {
        key: known[key] for key in ("task_id", "name", "type", "node_id", "worker_id", "start_time_ms")
    }
    assert (task["kind"], task["state"], task["attempt_number"], task["awaits"]) == ("task", "WAITING", 0, [])
    (frame,) = task["stack"]
    assert (frame["function"], frame["code"]) == ("sleep_on", "time.sleep(1000)") and frame["file"] == __file__


def test_a_session_is_needed():
    """The error is that of the other functions."""
    with pytest.raises(ConnectionError, match="Could not find any running Ray instance"):
        state.stacks()


def test_a_retry_has_its_attempt(session):
    """The number counts from 0, as in the other tables."""

    @ray.remote(max_retries=1, retry_exceptions=True)
    def second():
        if ray.get_runtime_context().get_task_id() and not hasattr(os, "_tried"):
            os._tried = True
            raise ValueError
        time.sleep(1000)

    second.remote()
    try:
        until(lambda: stands("second", "time.sleep(1000)"))
        assert [row["attempt_number"] for row in rows("second")] == [1]
    finally:
        del os._tried


def test_an_actor_s_method_and_constructor(session):
    """Each has the actor's id."""

    @ray.remote
    class Slow:
        def __init__(self, length):
            time.sleep(length)

        def work(self):
            time.sleep(1000)

    working, starting = Slow.remote(0), Slow.remote(1000)
    working.work.remote()
    until(lambda: stands("Slow.work", "time.sleep(1000)") and stands("Slow.__init__", "time.sleep(length)"))
    (method,), (constructor,) = rows("Slow.work"), rows("Slow.__init__")
    assert (method["type"], constructor["type"]) == ("ACTOR_TASK", "ACTOR_CREATION_TASK")
    assert method["actor_id"] == working._actor_id.hex() and constructor["actor_id"] == starting._actor_id.hex()


def test_threads_of_one_actor_each_have_their_call(session):
    """Calls of an actor with several threads are not mixed up."""

    @ray.remote(max_concurrency=3)
    class Pool:
        def first(self):
            time.sleep(1000)

        def second(self):
            time.sleep(1001)

    pool = Pool.remote()
    calls = {pool.first.remote().task_id().hex(): 1000, pool.second.remote().task_id().hex(): 1001}
    until(lambda: stands("Pool.first", "1000") and stands("Pool.second", "1001"))
    found = {row["task_id"]: row["stack"][-1]["code"] for row in state.stacks() if row["kind"] == "task"}
    assert found == {id: f"time.sleep({length})" for id, length in calls.items()}


def test_a_wait_in_get_is_waiting_and_other_calls_are_running(session):
    """What a call into C does is not known; a wait for objects is."""

    @ray.remote
    def waits(refs):
        ray.get(refs)

    @ray.remote(max_concurrency=2)
    class Holder:
        def __init__(self):
            self.event = threading.Event()

        def holds(self):
            self.event.wait()

        def end(self):
            self.event.set()

    waits.remote([sleep_on.remote()])
    holder = Holder.remote()
    held = holder.holds.remote()
    until(lambda: stands("waits", "ray.get(refs)"))
    until(lambda: rows("Holder.holds") and len(rows("Holder.holds")[0]["stack"]) == 3)
    assert (rows("waits")[0]["state"], rows("Holder.holds")[0]["state"]) == ("WAITING", "RUNNING")
    assert [frame["function"] for frame in rows("Holder.holds")[0]["stack"]] == ["holds", "wait", "wait"]
    ray.get([holder.end.remote(), held])


def test_a_driver_s_thread_that_waits_is_seen(session):
    """A thread of the driver has a row under its own name."""
    ref = sleep_on.remote()

    def wait():
        try:
            ray.get(ref)
        except Exception:
            return

    thread = threading.Thread(target=wait, name="reader")
    thread.start()
    until(lambda: stands("reader", "ray.get(ref)"))
    (row,) = rows("reader")
    assert (row["kind"], row["state"], row["task_id"], row["thread_name"]) == ("driver", "WAITING", None, "reader")
    ray.cancel(ref)
    thread.join()


def test_a_thread_that_a_task_has_started_belongs_to_it(session):
    """Also a thread that such a thread has started, and after the task has ended."""

    @ray.remote
    class Owner:
        def start(self):
            self.stop = threading.Event()

            def inner():
                self.stop.wait()

            def outer():
                threading.Thread(target=inner, name="inner").start()
                self.stop.wait()

            threading.Thread(target=outer, name="outer").start()

        def end(self):
            self.stop.set()

    owner = Owner.remote()
    started = owner.start.remote()
    ray.get(started)
    until(lambda: len(rows("outer")) == len(rows("inner")) == 1)
    for name in ("outer", "inner"):
        (row,) = rows(name)
        assert (row["kind"], row["task_id"], row["attempt_number"]) == ("thread", started.task_id().hex(), 0)
        assert row["actor_id"] == owner._actor_id.hex() and row["start_time_ms"] is None
    ray.get(owner.end.remote())


def test_all_frames_are_shown_on_demand(session):
    """By default the stacks begin and end in the program; idle workers and frames of this library are left out."""
    sleep_on.remote()
    until(lambda: stands("sleep_on", "time.sleep(1000)"))
    (short,), (long,) = rows("sleep_on"), rows("sleep_on", all_frames=True)
    assert len(short["stack"]) == 1 < len(long["stack"]) and long["stack"][-1]["function"] == "park"

    @ray.remote
    def quick():
        return 1

    ray.get([quick.remote() for _ in range(3)])
    until(lambda: any(row["kind"] == "idle" for row in rows(all_frames=True)))
    assert not any(row["kind"] == "idle" for row in rows())


def test_a_task_that_is_in_no_code_of_the_program_has_a_row_without_a_stack(session):
    """It is a part of the table all the same: an actor of this library that waits, for instance."""
    queue = Queue()
    queue.put(1)
    blocked = queue.actor.get.remote(), queue.actor.get.remote()
    until(lambda: any(row["name"].endswith(".get") and row["state"] == "WAITING" for row in state.stacks()))
    del blocked


# ---------------------------------------------------------------- other runtimes


def test_local_mode_tells_the_tasks_of_one_thread_apart():
    """One thread is inside of several tasks; each has the part of the stack that is its own."""
    ray.init(local_mode=True, num_cpus=4)
    try:

        @ray.remote
        def outer():
            return ray.get(inner.remote())

        @ray.remote
        def inner():
            return state.stacks()

        seen = [row for row in ray.get(outer.remote()) if not row["name"].startswith("thread ")]  # of earlier tests
    finally:
        ray.shutdown()
    assert [(row["kind"], row["name"], row["state"]) for row in seen] == [
        ("driver", "driver", "WAITING"),
        ("task", "outer", "WAITING"),
        ("task", "inner", "RUNNING"),
    ]
    assert [row["stack"][-1]["code"] for row in seen] == [
        'seen = [row for row in ray.get(outer.remote()) if not row["name"].startswith("thread ")]  # of earlier tests',
        "return ray.get(inner.remote())",
        "return state.stacks()",
    ]
    assert len({row["task_id"] for row in seen}) == 3 and len({row["thread_id"] for row in seen}) == 1


def test_local_mode_has_coroutines():
    """A call that was set aside is a row; the one that asks is on the thread."""
    ray.init(local_mode=True, num_cpus=4)
    try:

        @ray.remote
        class Actor:
            async def waits(self):
                await asyncio.sleep(1000)

            async def looks(self):
                return state.stacks()

        actor = Actor.remote()
        ref = actor.waits.remote()
        seen = ray.get(actor.looks.remote())
        ray.kill(actor)
        del ref
    finally:
        ray.shutdown()
    tasks = {row["name"]: row for row in seen if row["kind"] == "task"}
    assert (tasks["Actor.waits"]["state"], tasks["Actor.looks"]["state"]) == ("WAITING", "RUNNING")
    assert tasks["Actor.waits"]["stack"][0]["code"] == "await asyncio.sleep(1000)"


def test_the_simulated_runtime_has_stacks_and_the_same_run():
    """To look changes nothing: the clock and the order of the steps are those of a run without a look."""

    def run(looks):
        ray.init(runtime="simulated", seed=3, num_cpus=2, log_to_driver=False)
        try:
            baton = context.session.baton

            @ray.remote
            def work(n):
                time.sleep(0.1 * n)
                return n

            refs = [work.remote(n) for n in range(1, 5)]
            ray.wait(refs, timeout=0.05)
            found = state.stacks() if looks else []
            ray.get(refs)
            return found, baton.time, baton.steps, baton.digest
        finally:
            ray.shutdown()

    found, *with_a_look = run(True)
    assert with_a_look == list(run(False)[1:])
    assert [(row["name"], row["state"]) for row in found] == [
        ("driver", "RUNNING"),
        ("work", "WAITING"),
        ("work", "WAITING"),
    ]
    assert [row["stack"][-1]["code"] for row in found[1:]] == ["time.sleep(0.1 * n)"] * 2


# ---------------------------------------------------------------- no lock, no trace


def test_reading_takes_no_lock(session):
    """A thread that holds the core's lock does not keep anybody from reading the stacks."""
    sleep_on.remote()
    until(lambda: stands("sleep_on", "time.sleep(1000)"))
    seen = []
    with context.session.lock:
        thread = threading.Thread(target=lambda: seen.extend(state.stacks()), name="looks")
        thread.start()
        thread.join()
    assert {row["name"] for row in seen} == {"driver", "sleep_on", "looks"}


def test_reading_keeps_nothing_alive(session):
    """A frame that was looked at goes with its call, and its locals with it."""

    class Thing:
        gone = threading.Event()

        def __del__(self):
            self.gone.set()

    def call():
        thing = Thing()
        state.stacks()
        return bool(thing)

    assert call() and Thing.gone.is_set()


def test_what_this_library_calls_is_not_the_program_s(session):
    """A stack ends in the program's line, although this library has called the standard library from there."""

    def code(file):
        return compile("def f(): pass", file, "exec")

    library = os.path.dirname(os.__file__)
    ours = str(ROOT / "miniray/runtime/x.py")
    names = ["/home/me/program.py", f"{library}/json/encoder.py", "/home/me/program.py", ours, f"{library}/queue.py"]
    assert programs_part([code(name) for name in names]) == [0, 1, 2]
    assert programs_part([code(name) for name in [*names[:2], "<frozen importlib._bootstrap>"]]) == [0, 1]
    assert programs_part([code(name) for name in (ours, f"{library}/selectors.py")]) == []
    assert programs_part([code(name) for name in (f"{library}/threading.py", names[0])]) == [1]


# ---------------------------------------------------------------- py-spy


PROGRAM = """
import os, threading, time, sys
import miniray as ray

ray.init(num_cpus=4, log_to_driver=False)
hold = __file__ + ".hold"

def deeper():
    threading.Event().wait(1000)

@ray.remote
def waits():
    deeper()

@ray.remote
class Actor:
    def method(self):
        def helper():
            deeper()
        threading.Thread(target=helper, name="helper").start()
        deeper()

actor = Actor.remote()
refs = [waits.remote(), actor.method.remote()]
from miniray import state
def ready():
    return sum(len(row["stack"]) >= 4 for row in state.stacks()) == 3
while not ready():
    time.sleep(0.001)
print(os.getpid(), flush=True)
ray.get(refs)
"""


def py_spy() -> str | None:
    """The program, if it is installed here, or named by PY_SPY."""
    return os.environ.get("PY_SPY") or shutil.which("py-spy")


@pytest.mark.skipif(py_spy() is None, reason="py-spy is not installed")
@pytest.mark.slow
def test_py_spy_sees_the_same_stacks(tmp_path):
    """Frame by frame and line by line, for each thread that runs code of the program. Starts a program and py-spy."""
    import json

    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "program.py")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as program:
        try:
            pid = program.stdout.readline().strip()
            ours = ask_for_rows(int(pid), all_frames=True)
            dumped = subprocess.run(
                [py_spy(), "dump", "--json", "--pid", pid], capture_output=True, text=True, check=True
            )
        finally:
            program.kill()
    theirs = {
        thread["thread_id"]: [(frame["name"], frame["filename"], frame["line"]) for frame in thread["frames"][::-1]]
        for thread in json.loads(dumped.stdout)
    }
    compared = 0
    for row in ours:
        stack = [(frame["function"], frame["file"], frame["line"]) for frame in row["stack"]]
        if row["thread_id"] in theirs and row["kind"] in ("driver", "task", "thread"):
            assert [(name.rpartition(".")[2], file, line) for name, file, line in theirs[row["thread_id"]]] == [
                (name.rpartition(".")[2], file, line) for name, file, line in stack
            ]
            compared += 1
    assert compared == 4


def ask_for_rows(pid: int, all_frames: bool):
    """The rows of a program that is running."""
    from miniray.telemetry.stack_socket import ask

    (part,) = ask(pid, {"kind": "stack", "rows": True, "all_frames": all_frames}, 20)
    return part["rows"]
