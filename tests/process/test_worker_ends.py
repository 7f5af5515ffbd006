"""What a worker leaves behind when it ends: exit functions that run then, and processes that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import miniray as ray
from miniray.process import context


@pytest.fixture
def session() -> Iterator[None]:
    """Two CPUs, threads."""
    with ray.init(num_cpus=2, log_to_driver=False):
        yield


def run_program(program: str) -> str:
    """What a program prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_exit_functions_of_the_driver_and_of_imported_modules_run_at_the_end_of_the_program(tmp_path: Any):
    """A module that a task imports is everybody's. At the end of the session no function of a worker runs, as on Ray."""
    (tmp_path / "registers.py").write_text("import atexit; atexit.register(print, 'module')")
    program = f"""if True:
        import atexit, sys
        sys.path.insert(0, {str(tmp_path)!r})
        import miniray as ray
        atexit.register(print, "driver")
        ray.init(num_cpus=1, log_to_driver=False)

        @ray.remote
        class Actor:
            def load(self):
                import registers
                atexit.register(print, "actor")

        actor = Actor.remote()
        ray.get(actor.load.remote())
        ray.shutdown()
        print("shut down")
    """
    assert run_program(program) == "shut down\nmodule\ndriver\n"


def test_an_exit_function_that_fails_does_not_stop_the_others(session: None, caplog: pytest.LogCaptureFixture):
    """Its error is logged."""
    ran: list[str] = []
    context.running().exit_test = ran  # the driver's list, not a copy

    @ray.remote
    class Actor:
        def __init__(self) -> None:
            import atexit

            from miniray.process import context

            atexit.register(context.running().exit_test.append, "first")
            atexit.register(lambda: 1 / 0)

    actor = Actor.remote()
    ray.get(actor.__ray_ready__.remote())
    done = next(handle.done for handle in context.running().threads if handle.record.actor is not None)
    actor.__ray_terminate__.remote()
    assert done.acquire(timeout=60)
    assert ran == ["first"] and "ZeroDivisionError" in caplog.text


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="there is no waitid here")
@pytest.mark.parametrize("kill", [True, False])
def test_a_setting_lets_children_outlive_their_worker(kill: bool):
    """Ray has this setting; children are killed unless it is off."""
    config = {} if kill else {"kill_child_processes_on_worker_exit": False}
    with ray.init(num_cpus=1, log_to_driver=False, _system_config=config):

        @ray.remote
        class Starts:
            def start(self) -> int:
                self.child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
                return self.child.pid

        actor = Starts.remote()
        number = ray.get(actor.start.remote())
        done = next(handle.done for handle in context.running().threads if handle.record.actor is not None)
        ray.kill(actor)
        assert done.acquire(timeout=60)
    if kill:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
    else:
        os.kill(number, 0)
        os.kill(number, 9)
        os.waitpid(number, 0)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="there is no waitid here")
def test_processes_of_the_driver_live_on(session: None):
    """Only a worker's own processes end with it."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    @ray.remote
    def crash() -> None:
        os._exit(1)

    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(crash.options(max_retries=0).remote())
    ray.shutdown()
    assert child.poll() is None
    child.communicate(b"\n")
