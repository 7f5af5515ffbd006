"""For every test: a watchdog, and a check at the end. A test fails if it hangs, or if it leaves a session open."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

WATCHDOG_S = 60
"""Seconds after which a test counts as hung. `@pytest.mark.watchdog(seconds)` sets another limit; 0 means none. If more
processes want to run than there are CPUs when the test begins, the limit is as many times longer."""

stderr_fd = -1


class Hung(Exception):
    """Raised in a test that takes longer than its watchdog allows."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the conformance tests and of the tests that search seeds."""
    parser.addoption(
        "--switch-interval",
        type=float,
        default=None,
        metavar="SECONDS",
        help="the argument of sys.setswitchinterval, in this process and in the conformance cases",
    )
    parser.addoption(
        "--through-alias",
        action="store_true",
        help="run every conformance case with `import ray` under the alias",
    )
    parser.addoption("--seeds", type=int, default=20, metavar="N", help="try N seeds in each test that searches seeds")
    parser.addoption(
        "--foreign-rounds",
        type=int,
        default=20,
        metavar="N",
        help="for how many rounds code of the program runs at every possible moment (tests/runtime/foreign_code.py)",
    )
    parser.addoption("--seed", type=int, default=None, metavar="SEED", help="try only this seed in these tests")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and keep a copy of the real stderr, since pytest replaces stderr during a test."""
    global stderr_fd
    config.addinivalue_line(
        "markers", f"watchdog(seconds): the time after which the test counts as hung (default: {WATCHDOG_S}; 0: never)"
    )
    config.addinivalue_line("markers", "seeds: runs once per seed; set on every test that has an argument `seed`")
    stderr_fd = os.dup(2)
    interval_s = config.getoption("--switch-interval")
    if interval_s is not None:
        sys.setswitchinterval(interval_s)


def pytest_unconfigure() -> None:
    """Close the copy of stderr."""
    os.close(stderr_fd)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with an argument `seed` once per seed, and set the marker `seeds` on it."""
    if "seed" in metafunc.fixturenames and not any(
        "seed" in marker.args[0] for marker in metafunc.definition.iter_markers("parametrize")
    ):
        only = metafunc.config.getoption("--seed")
        seeds = range(metafunc.config.getoption("--seeds")) if only is None else [only]
        metafunc.parametrize("seed", [pytest.param(seed, marks=pytest.mark.seeds) for seed in seeds])


def times_slower() -> float:
    """How many times longer a test may take than on an idle machine: processes that want to run, per CPU."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max(1.0, load / (os.cpu_count() or 1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add the command that replays a failed seed to the report."""
    report = yield
    if report.failed and item.get_closest_marker("seeds"):
        seed = item.callspec.params["seed"]
        report.sections.append(("replay", f"python -m pytest '{item.nodeid}' --seed {seed}"))
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Interrupt a hung test with an error in its main thread. If the test still does not end, end the process."""
    marker = item.get_closest_marker("watchdog")
    limit = (marker.args[0] if marker else WATCHDOG_S) * times_slower()
    if not limit or threading.current_thread() is not threading.main_thread():
        return (yield)

    def interrupt(*ignored: object) -> None:
        os.write(stderr_fd, f"\n{item.nodeid} took longer than {limit:.0f} s; the stacks of all threads:\n".encode())
        faulthandler.dump_traceback(stderr_fd)
        raise Hung(f"the test took longer than {limit:.0f} s; the stacks of all threads are on stderr")

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, limit)
    faulthandler.dump_traceback_later(2 * limit, exit=True, file=stderr_fd)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def a_session_is_open() -> bool:
    """Whether this process has an open session. Does not import miniray."""
    miniray = sys.modules.get("miniray")
    return miniray is not None and getattr(miniray, "is_initialized", bool)()


@pytest.fixture(autouse=True)
def no_session_is_left() -> Iterator[None]:
    """Fail a test that leaves a session open, and shut the session down: the next test would use it."""
    was_open = a_session_is_open()  # a fixture that several tests share may have opened it
    yield
    assert gc.isenabled(), "the cyclic collector is off"
    if a_session_is_open() and not was_open:
        sys.modules["miniray"].shutdown()
        pytest.fail("the test left its miniray session open")
