"""A process forks while a session runs: the child is a plain program without a session, and the parent goes on
undisturbed."""

from __future__ import annotations

import importlib
import importlib.machinery
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import traceback
import warnings
from contextlib import contextmanager, suppress

import pytest

import miniray as ray
from miniray.process import imports

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    # Python 3.12 warns about a fork while other threads run. These tests are about just that.
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


def forked(run):
    """The text of run()'s result in a forked child, or of its error. The child ends afterwards."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = str(run())
        except BaseException:
            answer = traceback.format_exc()
        os.write(write_end, answer.encode())
        os._exit(7)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as answers:
        answer = answers.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, answer
    return answer


@ray.remote
def add(a, b=1):
    return a + b


@pytest.fixture(params=["threaded", "local_mode"])
def session(request):
    """A session of each kind, with a task that has run and an actor that lives."""
    with ray.init(num_cpus=2, local_mode=request.param == "local_mode", log_to_driver=False):
        assert ray.get(add.remote(1)) == 2
        yield


def test_the_child_has_no_session_and_may_start_its_own(session):
    """It may use functions that the parent has used: they are not bound to the parent's workers. Both sessions run at
    the same time."""

    def in_child():
        assert not ray.is_initialized()
        with ray.init(num_cpus=1, log_to_driver=False):
            return ray.get([add.remote(n) for n in range(5)])

    assert forked(in_child) == "[1, 2, 3, 4, 5]"
    assert ray.get([add.remote(n) for n in range(5)]) == [1, 2, 3, 4, 5]


def test_the_first_use_in_the_child_starts_a_session(session):
    """Like in any program."""
    assert forked(lambda: ray.get(add.remote(1))) == "2"


def test_in_the_child_the_parent_s_references_belong_to_an_ended_session(session):
    """Also a reference without a value, which would never get one there."""
    there, never = ray.put(1), add.options(num_cpus=9).remote(1)

    def in_child():
        for ref in there, never:
            with pytest.raises(ValueError, match="shut down"):
                ray.get(ref)
        return "told"

    assert forked(in_child) == "told"
    assert ray.get(there) == 1


def test_nothing_of_the_session_is_in_place_in_the_child(session):
    """Neither the guards that keep a task from ending the process, nor the replacement of sys.stdout."""

    def in_child():
        assert not hasattr(os._exit, "__wrapped__") and not hasattr(time.sleep, "__wrapped__")
        return type(sys).__name__, sys.__class__.__dict__.get("stdout")

    assert forked(in_child) == "('module', None)"
    assert hasattr(os._exit, "__wrapped__")


def test_a_task_that_forks(session):
    """The child ends when it calls os._exit, has the task's environment (in C as well), and may start a session as a
    driver."""

    @ray.remote(runtime_env={"env_vars": {"MR_A": "a"}})
    def forks(forked):
        os.environ["MR_B"] = "b"

        def in_child():
            assert not ray.is_initialized()
            seen = subprocess.check_output(["sh", "-c", "echo $MR_A$MR_B"], text=True).strip()
            return seen, ray.get(add.remote(2))

        return forked(in_child)

    assert ray.get(forks.remote(forked)) == "('ab', 3)"
    assert ray.get(add.remote(1)) == 2 and "MR_A" not in os.environ


def test_a_child_that_returns_from_its_task_takes_no_other():
    """It reaches the end of a worker of the parent: its thread ends, and with it the child process."""
    with ray.init(num_cpus=1, log_to_driver=False):

        @ray.remote
        def splits():
            return os.fork()

        child = ray.get(splits.remote())
        more = [add.remote(n) for n in range(20)]
        assert ray.get(more) == list(range(1, 21))
        assert child and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_multiprocessing_with_fork(session):
    """A process and a pool, in the driver and in a task."""
    context = multiprocessing.get_context("fork")

    def in_process():
        answers = context.SimpleQueue()
        process = context.Process(target=lambda: answers.put(ray.is_initialized()))
        process.start()
        answer = answers.get()
        process.join()
        return answer, process.exitcode

    def in_pool():
        with context.Pool(2) as pool:
            return pool.map(abs, [-1, -2, 3])

    for use, answer in (in_process, (False, 0)), (in_pool, [1, 2, 3]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            assert use() == answer
            assert ray.get(ray.remote(use).remote()) == answer


class Slow:
    """Finds a module of miniray that does not exist, and takes as long for it as it is told."""

    name = "miniray.process.not_there"

    def __init__(self):
        self.begun, self.may_end = threading.Event(), threading.Event()

    def find_spec(self, name, path=None, target=None):
        if name == self.name:
            self.begun.set()
            assert self.may_end.wait(60)


@contextmanager
def another_thread_imports(finder):
    """Within the block, another thread is importing the module of this finder, which waits for `may_end`."""

    def attempt():
        with suppress(ImportError):
            importlib.import_module(finder.name)

    thread = threading.Thread(target=attempt)
    sys.meta_path.insert(0, finder)
    try:
        thread.start()
        assert finder.begun.wait(60)
        yield
    finally:
        finder.may_end.set()
        thread.join(60)
        sys.meta_path.remove(finder)


def test_a_fork_waits_for_an_import_of_another_thread():
    """The child would inherit the lock of the module, and wait forever when it needs the module, too."""
    finder = Slow()
    with another_thread_imports(finder):
        threading.Timer(0.2, finder.may_end.set).start()
        assert forked(lambda: imports.unfinished()) == "[]"
        assert finder.may_end.is_set()


def test_a_fork_closes_a_gate_that_the_import_it_waits_for_has_added(monkeypatch):
    """Hooks of `os.register_at_fork` that are added meanwhile are not called. Here the fork was in time to wait for
    the import of a module that calls SQLite, and too early to keep its thread out of SQLite."""
    monkeypatch.setattr(imports, "gates", [])
    calls = []

    class Adds(Slow):
        def find_spec(self, name, path=None, target=None):
            super().find_spec(name)
            if name == self.name and not imports.gates:
                imports.gates.append((lambda: calls.append("closed"), lambda: calls.append("opened")))

    finder = Adds()
    with another_thread_imports(finder):
        threading.Timer(0.2, finder.may_end.set).start()
        assert forked(lambda: calls) == "['closed']"


class SlowInTheParent:
    """Finds a module whose code takes long, but not in a child."""

    name = "miniray.process.not_there"

    def __init__(self):
        self.begun, self.may_end, self.parent = threading.Event(), threading.Event(), os.getpid()

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == self.name else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if os.getpid() == self.parent:
            self.begun.set()
            assert self.may_end.wait(60)
        module.whole = True


def test_a_child_begins_an_import_again_that_began_just_before_the_fork(monkeypatch):
    monkeypatch.setattr(imports, "unfinished", list)  # it began after the last look
    finder = SlowInTheParent()
    try:
        with another_thread_imports(finder):
            assert forked(lambda: importlib.import_module(finder.name).whole) == "True"
    finally:
        sys.modules.pop(finder.name, None)
        vars(sys.modules["miniray.process"]).pop("not_there", None)
