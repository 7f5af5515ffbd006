"""For every test: a watchdog, and a clean end. What hangs fails with all stacks; what leaves a session open fails."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

WATCHDOG_S = 60
"""Seconds after which a test counts as hung. `@pytest.mark.watchdog(seconds)` sets another bound; 0 is none."""

stderr_fd = -1


class Hung(Exception):
    """Raised in a test that ran longer than its watchdog allows."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The switches that single folders of tests read."""
    parser.addoption(
        "--switch-interval",
        type=float,
        default=None,
        metavar="SECONDS",
        help="how often Python offers to change the thread: sys.setswitchinterval, here and in the conformance cases",
    )
    parser.addoption(
        "--through-alias",
        action="store_true",
        help="run every conformance case with miniray as `import ray` gives it under the alias",
    )
    parser.addoption("--seeds", type=int, default=20, metavar="N", help="how many seeds a searching test tries")
    parser.addoption("--seed", type=int, default=None, metavar="SEED", help="the one seed that the searching tests try")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and keep the real stderr: during a test pytest puts its own in place."""
    global stderr_fd
    config.addinivalue_line("markers", f"watchdog(seconds): when it counts as hung, instead of {WATCHDOG_S}; 0: never")
    config.addinivalue_line("markers", "seeds: searches over --seeds N or --seed SEED; set by an argument `seed`")
    stderr_fd = os.dup(2)
    interval_s = config.getoption("--switch-interval")
    if interval_s is not None:
        sys.setswitchinterval(interval_s)


def pytest_unconfigure() -> None:
    """Give the descriptor back."""
    os.close(stderr_fd)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes an argument `seed` searches: it is run once per seed, and carries the marker `seeds`."""
    if "seed" in metafunc.fixturenames and not any(
        "seed" in marker.args[0] for marker in metafunc.definition.iter_markers("parametrize")
    ):
        only = metafunc.config.getoption("--seed")
        seeds = range(metafunc.config.getoption("--seeds")) if only is None else [only]
        metafunc.parametrize("seed", [pytest.param(seed, marks=pytest.mark.seeds) for seed in seeds])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Say how to replay a seed that failed."""
    report = yield
    if report.failed and item.get_closest_marker("seeds"):
        seed = item.callspec.params["seed"]
        report.sections.append(("replay", f"python -m pytest '{item.nodeid}' --seed {seed}"))
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Interrupt a hung test with an error in its main thread; should even that not end it, end the process."""
    marker = item.get_closest_marker("watchdog")
    limit = marker.args[0] if marker else WATCHDOG_S
    if not limit or threading.current_thread() is not threading.main_thread():
        return (yield)

    def interrupt(*ignored: object) -> None:
        os.write(stderr_fd, f"\n{item.nodeid} ran longer than {limit} s; every thread's stack:\n".encode())
        faulthandler.dump_traceback(stderr_fd)
        raise Hung(f"longer than {limit} s; the stacks of all threads are on stderr")

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
    """Whether this process has an open session; without importing anything."""
    miniray = sys.modules.get("miniray")
    return miniray is not None and getattr(miniray, "is_initialized", bool)()


@pytest.fixture(autouse=True)
def no_session_is_left() -> Iterator[None]:
    """A session that a test leaves open would answer the next test's questions: it is shut down, and the test fails."""
    was_open = a_session_is_open()  # by a fixture that several tests share
    yield
    if a_session_is_open() and not was_open:
        sys.modules["miniray"].shutdown()
        pytest.fail("the test left its miniray session open")
