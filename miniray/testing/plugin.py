"""The pytest plugin: sessions as fixtures, `--miniray` for programs that import Ray, a limit that explains what hangs.

pytest finds it by itself once miniray is installed; it does nothing until it is asked to:

    def test_it(miniray_cluster): ...           a session of its own; miniray_cluster is the module `miniray`
    def test_it(miniray_cluster_module): ...    one session for all tests of the file
    def test_it(miniray_cluster_nodes): ...     a cluster_utils.Cluster of several nodes, connected

    @pytest.mark.miniray(num_cpus=4, resources={"disk": 1}, nodes=3, timeout=10, strict=True)

    --miniray                   `import ray` is miniray, in conftest files too
    --miniray-timeout=S         a test that takes longer fails, with the reason for everything pending and all stacks
    --miniray-strict            a test that leaves something behind fails; otherwise it is a warning
    --miniray-timeline=DIR      keeps a timeline of every failed test there

These sessions have on_deadlock="raise". Left behind is what the test made in a session and was still there at its end:
tasks not done, actors, objects, placement groups; and threads.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

DEFAULT_NODES = 3


class LeftBehindWarning(UserWarning):
    """A test left something of its session behind, or a thread."""


# ------------------------------------------------------------ options


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the switches, and what a configuration file may set."""
    group = parser.getgroup("miniray")
    group.addoption("--miniray", action="store_true", help="let `import ray` be miniray")
    group.addoption("--miniray-timeout", type=float, metavar="SECONDS", help="limit of each test; see miniray_timeout")
    group.addoption("--miniray-strict", action="store_true", help="fail tests that leave something behind")
    group.addoption("--miniray-timeline", metavar="DIR", help="keep a timeline of each failed test in this folder")
    parser.addini("miniray_timeout", "seconds that a test may take before it fails and what is pending is explained")
    parser.addini("miniray_strict", "fail tests that leave something behind", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """With --miniray the alias is there before any conftest file is read."""
    if early_config.known_args_namespace.miniray:
        from .alias import alias_ray, unalias_ray

        alias_ray()
        early_config.add_cleanup(unalias_ray)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "miniray(nodes=..., timeout=..., strict=..., **arguments of init): the session "
        "that a miniray fixture starts, the limit of the test, and what it may leave",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say so when `ray` is not Ray."""
    if config.getoption("miniray"):
        from .alias import OWN_VERSION

        return f"miniray: `import ray` is miniray {OWN_VERSION}"
    return None


# ------------------------------------------------------------ fixtures


def _arguments(node: Any) -> dict[str, Any]:
    """What the markers of a test, or of a module, say; the nearest wins."""
    said: dict[str, Any] = {}
    for marker in node.iter_markers("miniray"):
        said = {**marker.kwargs, **said}
    return said


def _init_arguments(node: Any) -> dict[str, Any]:
    said = _arguments(node)
    for name in ("timeout", "strict", "nodes"):
        said.pop(name, None)
    return {"on_deadlock": "raise", **said}


@contextmanager
def _session(node: Any) -> Iterator[Any]:
    """A session for as long as the block lasts."""
    import miniray

    if miniray.is_initialized():
        pytest.fail("a session is running already: that of a wider fixture, or one that the program itself started")
    miniray.init(**_init_arguments(node))
    try:
        yield miniray
    finally:
        miniray.shutdown()


@pytest.fixture
def miniray_cluster(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The module `miniray` with a fresh session; the marker says with what."""
    with _session(request.node) as miniray:
        yield miniray


@pytest.fixture(scope="module")
def miniray_cluster_module(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The module `miniray` with one session for the tests of a file; `pytestmark` says with what."""
    with _session(request.node) as miniray:
        yield miniray


@pytest.fixture
def miniray_cluster_nodes(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A Cluster of several nodes, three if the marker does not say `nodes=`, with the driver connected. num_cpus,
    resources and the like are each node's.
    """
    from miniray.cluster_utils import Cluster

    given = _init_arguments(request.node)
    each = ("num_cpus", "num_gpus", "resources", "labels", "object_store_memory")
    own: dict[str, Any] = {name: given.pop(name) for name in each if name in given}
    cluster = Cluster(initialize_head=True, head_node_args=own)
    try:
        for _ in range(_arguments(request.node).get("nodes", DEFAULT_NODES) - 1):
            cluster.add_node(**own)
        import miniray

        miniray.init(address=cluster.address, **given)
        yield cluster
    finally:
        cluster.shutdown()
        sys.modules["miniray"].shutdown()


# ------------------------------------------------------------ around each test


def _runtime() -> Any:
    """The running session, without importing anything."""
    api = sys.modules.get("miniray.api")
    return api.session if api is not None else None


def _is_ours(item: pytest.Item) -> bool:
    """Whether this plugin was asked to look after a test."""
    return (
        bool(item.config.getoption("miniray"))
        or item.get_closest_marker("miniray") is not None
        or any(name.startswith("miniray_cluster") for name in getattr(item, "fixturenames", ()))
    )


_before = pytest.StashKey[tuple[Any, int, list]]()
_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """The limit holds here too: a fixture may hang as well."""
    if not _is_ours(item):
        return (yield)
    threads = threading.enumerate()
    with _limit(item):
        result = yield
    runtime = _runtime()
    if runtime is not None:
        from .inspection import last_number

        item.stash[_before] = runtime, last_number(runtime), threads
    else:
        item.stash[_before] = None, 0, threads
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run the test under its limit."""
    if not _is_ours(item):
        return (yield)
    with _limit(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Before the fixtures end: what did the test leave in its session? After: which threads are left?"""
    if not _is_ours(item) or _before not in item.stash:
        return (yield)
    from .inspection import left_behind, threads_left

    earlier, since, threads = item.stash[_before]
    runtime = _runtime()
    left = []
    if runtime is not None and not item.stash.get(_failed, False):  # a traceback holds what its frames refer to
        left = left_behind(runtime, since if runtime is earlier else 0)
    result = yield
    left += threads_left(runtime if runtime is not _runtime() else None, threads)
    if left:
        text = "left behind: " + "; ".join(left)
        item.add_report_section("teardown", "miniray", text)
        if _is_strict(item):
            pytest.fail(f"the test {text}", pytrace=False)
        warnings.warn(f"{item.nodeid} {text}", LeftBehindWarning, stacklevel=1)
    return result


def _is_strict(item: pytest.Item) -> bool:
    own = _arguments(item).get("strict")
    if own is not None:
        return bool(own)
    return bool(item.config.getoption("miniray_strict") or item.config.getini("miniray_strict"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the timeline of a test that failed, while its session is there."""
    report = yield
    if report.failed:
        item.stash[_failed] = True
    folder = item.config.getoption("miniray_timeline")
    if folder and report.failed and _runtime() is not None:
        report.sections.append(("miniray timeline", _keep_timeline(folder, item.nodeid)))
    return report


def _keep_timeline(folder: str, nodeid: str) -> str:
    """Write the page and the trace. Returns where they are, or why they could not be written."""
    import miniray

    path = os.path.join(folder, re.sub(r"[^\w.-]+", "-", nodeid).strip("-.")[-150:])
    try:
        os.makedirs(folder, exist_ok=True)
        miniray.timeline(f"{path}.json", html=f"{path}.html")
    except OSError as problem:
        return f"could not be written: {problem}"
    return f"{path}.html\n{path}.json"


# ------------------------------------------------------------ the limit


@contextmanager
def _limit(item: pytest.Item) -> Iterator[None]:
    """Fail when the block takes longer than the test may, with a report of what is pending.

    In the main thread a signal interrupts it, wherever it waits. Elsewhere, and where there are no such signals, the
    report goes to stderr and the session is ended, which ends every wait in it.
    """
    seconds = _arguments(item).get(
        "timeout", item.config.getoption("miniray_timeout") or item.config.getini("miniray_timeout")
    )
    if not seconds:
        yield
    elif hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        with _alarm(float(seconds), item.nodeid):
            yield
    else:
        timer = threading.Timer(float(seconds), _end_session, (float(seconds), item.nodeid))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


@contextmanager
def _alarm(seconds: float, nodeid: str) -> Iterator[None]:
    def ring(*ignored: object) -> None:
        pytest.fail(_report(seconds, nodeid), pytrace=False)

    handler = signal.signal(signal.SIGALRM, ring)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, max(left - seconds, 0.001) if left else 0.0)


def _report(seconds: float, nodeid: str) -> str:
    runtime = _runtime()
    text = f"{nodeid} took longer than {seconds:g} s."
    if runtime is not None:
        from .inspection import pending_report

        text += "\n" + pending_report(runtime)
    return text


def _end_session(seconds: float, nodeid: str) -> None:
    print(_report(seconds, nodeid), file=sys.__stderr__, flush=True)
    miniray = sys.modules.get("miniray")
    if miniray is not None:
        miniray.shutdown()
