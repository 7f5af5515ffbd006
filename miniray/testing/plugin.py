"""The pytest plugin: sessions as fixtures, `--miniray` for programs that import Ray, and a time limit that explains
hangs.

pytest loads the plugin once miniray is installed. It does nothing until a test or an option uses it:

    def test_it(miniray_cluster): ...           a session for this test; the argument is the module `miniray`
    def test_it(miniray_cluster_module): ...    one session for all tests of the file
    def test_it(miniray_cluster_nodes): ...     a cluster_utils.Cluster of several nodes, with the driver connected

    @pytest.mark.miniray(num_cpus=4, resources={"disk": 1}, nodes=3, timeout=10, strict=True)

    --miniray                   `import ray` imports miniray, in conftest files too
    --miniray-timeout=S         a test that takes longer fails, and explains what is pending, with all stacks
    --miniray-strict            a test that leaves something behind fails; without the option it gives a warning
    --miniray-timeline=DIR      writes a timeline of every failed test to this folder
    --miniray-record=DIR        keeps a recording of every failed test's session in this folder

    @pytest.mark.simulate(seeds=200, strategy="random", faults=FaultPlan(crash=0.1))
    --simulate-seed=N           a test with this marker runs once, with this seed, under the debugger if you like

A test with the marker `simulate` is run by `miniray.testing.explore`: again and again, each time in a simulation of its
own, with the same fixtures. The marker takes all arguments of `explore`; `seeds` may also come first, without its name.
The test may be a coroutine function. Of a `unittest.TestCase`, the test's method runs again and again, and `setUp` and
`tearDown` run once, outside of the simulations. A test with this marker that cannot be run in this way fails.

The sessions have on_deadlock="raise". A test leaves something behind if, at its end, the session still has unfinished
tasks, actors, placement groups or referenced objects that the test created, if a new thread still runs, or if a session
runs that the test started with `init`. Such a session is ended, so that the next test can start its own.

A report shows the test's lines and the error, without the frames of miniray (`--full-trace` shows them), and `--pdb`
stops in the frame of the task that failed. `mock.patch` and `monkeypatch` reach what tasks call (see `patches`).
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any

import pytest

DEFAULT_NODES = 3
OWN = ("timeout", "strict", "nodes")  # the marker's arguments that are not arguments of `init`
NO_RAY = "No module named 'ray'"
USE_MINIRAY = (
    "Ray is not installed. To run the tests on miniray, pass --miniray, or set `addopts = --miniray` in the "
    "configuration of pytest."
)
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # the package


class LeftBehindWarning(UserWarning):
    """A test left something behind in its session, or a thread."""


# ------------------------------------------------------------ options


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the command-line options and the settings of a configuration file."""
    group = parser.getgroup("miniray")
    group.addoption("--miniray", action="store_true", help="make `import ray` import miniray")
    group.addoption(
        "--miniray-timeout",
        type=float,
        metavar="SECONDS",
        help="fail a test that takes longer, and explain what is pending (overrides miniray_timeout)",
    )
    group.addoption("--miniray-strict", action="store_true", help="fail a test that leaves something behind")
    group.addoption("--miniray-timeline", metavar="DIR", help="write a timeline of each failed test to this folder")
    group.addoption("--miniray-record", metavar="DIR", help="keep a recording of each failed test in this folder")
    group.addoption("--simulate-seed", type=int, metavar="N", help="run each simulated test once, with this seed")
    parser.addini(
        "miniray_timeout", "fail a test that takes longer than this many seconds, and explain what is pending"
    )
    parser.addini("miniray_strict", "fail a test that leaves something behind", type="bool", default=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """With --miniray, activate the alias before any conftest file is read. Without it, propose it if Ray is missing."""
    if early_config.known_args_namespace.miniray:
        from .alias import alias_ray, unalias_ray

        alias_ray()
        early_config.add_cleanup(unalias_ray)
    try:
        return (yield)
    except Exception as problem:
        if NO_RAY in str(problem) and not early_config.known_args_namespace.miniray:
            print(USE_MINIRAY, file=sys.stderr)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """If a file cannot be imported because Ray is missing, propose --miniray."""
    report = yield
    if report.failed and NO_RAY in str(report.longrepr) and not collector.config.getoption("miniray"):
        report.sections.append(("miniray", USE_MINIRAY))
        report.longrepr = f"{report.longrepr}\n{USE_MINIRAY}"
    return report


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and begin to record sessions if --miniray-record says so."""
    folder = config.getoption("miniray_record", None)
    if folder:
        from .recordings import Recordings

        config.pluginmanager.register(Recordings(folder), "miniray-recordings")
    config.addinivalue_line(
        "markers",
        "simulate(seeds=1000, strategy='random', faults=None, ...): run the test once for each seed, each time in a "
        "simulation of its own; takes all arguments of miniray.testing.explore, but for replay and globals_",
    )
    config.addinivalue_line(
        "markers",
        "miniray(nodes=..., timeout=..., strict=..., **init_arguments): the session that a miniray fixture starts, the "
        "test's time limit in seconds, and whether a test that leaves something behind fails",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Announce the alias in the header of the test run."""
    if config.getoption("miniray"):
        from .alias import OWN_VERSION

        return f"miniray: `import ray` imports miniray {OWN_VERSION}"
    return None


# ------------------------------------------------------------ the marker `simulate`


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test with the marker `simulate` under many schedules."""
    if pyfuncitem.get_closest_marker("simulate") is None:
        return None
    from . import simulate_marker

    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    simulate_marker.explore_test(pyfuncitem, pyfuncitem.obj, arguments)
    return True


def _exploring(item: pytest.Item) -> AbstractContextManager[None]:
    """A block that runs a test; see `simulate_marker` for a test that has this marker."""
    if item.get_closest_marker("simulate") is None:
        return nullcontext()
    from . import simulate_marker

    return simulate_marker.exploring(item)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the test run if it was to replay a run of a function that no test has explored."""
    exploration = sys.modules.get("miniray.testing.exploring.exploration")
    if exploration is not None and exploration.not_replayed() and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


# ------------------------------------------------------------ fixtures


def _marker_arguments(node: Any) -> dict[str, Any]:
    """The arguments of all miniray markers of a test or module; the nearest marker wins."""
    arguments: dict[str, Any] = {}
    for marker in node.iter_markers("miniray"):
        arguments = {**marker.kwargs, **arguments}
    return arguments


def _init_arguments(node: Any) -> dict[str, Any]:
    arguments = _marker_arguments(node)
    for name in OWN:
        arguments.pop(name, None)
    return {"on_deadlock": "raise", **arguments}


@contextmanager
def _session(node: Any) -> Iterator[Any]:
    """A session for the duration of the block. Fails the test if a session is running already."""
    import miniray

    if miniray.is_initialized():
        leaker = next((nodeid for runtime, nodeid in _leaks if runtime is _runtime()), None)
        if leaker is None:
            pytest.fail(
                "a session is already running: a wider fixture, a module or the program itself started it",
                pytrace=False,
            )
        warnings.warn(f"the session that {leaker} left behind was ended", LeftBehindWarning, stacklevel=1)
        miniray.shutdown()
        _leaks.clear()
    miniray.init(**_init_arguments(node))
    try:
        yield miniray
    finally:
        miniray.shutdown()


@pytest.fixture
def miniray_cluster(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The module `miniray`, with a session for this test. The marker `miniray` gives the arguments of `init`."""
    with _session(request.node) as miniray:
        yield miniray


@pytest.fixture(scope="module")
def miniray_cluster_module(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The module `miniray`, with one session for all tests of the file. `pytestmark` gives the arguments of `init`."""
    with _session(request.node) as miniray:
        yield miniray


@pytest.fixture
def miniray_cluster_nodes(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A Cluster of several nodes with the driver connected. The marker's `nodes` gives their number (default: 3).

    The marker's num_cpus, resources and similar arguments apply to each node.
    """
    from miniray.cluster_utils import Cluster

    init_arguments = _init_arguments(request.node)
    per_node = ("num_cpus", "num_gpus", "resources", "labels", "object_store_memory")
    node_arguments: dict[str, Any] = {name: init_arguments.pop(name) for name in per_node if name in init_arguments}
    cluster = Cluster(initialize_head=True, head_node_args=node_arguments)
    try:
        for _ in range(_marker_arguments(request.node).get("nodes", DEFAULT_NODES) - 1):
            cluster.add_node(**node_arguments)
        import miniray

        miniray.init(address=cluster.address, **init_arguments)
        yield cluster
    finally:
        cluster.shutdown()
        sys.modules["miniray"].shutdown()


# ------------------------------------------------------------ around each test


def _runtime() -> Any:
    """The running session's runtime, or None. Imports nothing: a session exists only if miniray is imported already."""
    api = sys.modules.get("miniray.api")
    return api.session if api is not None else None


def _uses_miniray(item: pytest.Item) -> bool:
    """Whether the plugin watches a test: with --miniray, a marker `miniray`, or a fixture of this plugin."""
    return (
        bool(item.config.getoption("miniray"))
        or item.get_closest_marker("miniray") is not None
        or any(name.startswith("miniray_cluster") for name in getattr(item, "fixturenames", ()))
    )


_before = pytest.StashKey[tuple[Any, int, list[threading.Thread]]]()  # after setup: runtime, last number, threads
_failed = pytest.StashKey[bool]()
_at_setup = pytest.StashKey[tuple[Any, Any]]()  # the runtime before and after setup
_leaks: list[tuple[Any, str]] = []  # the runtime that a test started and did not end, while it runs; and the test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Set up the test under its time limit, since a fixture may hang too, and note what exists before the test runs."""
    if "miniray.api" in sys.modules:
        from . import patches

        patches.install()
        if item.config.getoption("usepdb", False):
            from ..values import errors

            errors.keep_frames = True
    earlier = _runtime()
    _check_marker(item)
    watched = _uses_miniray(item)
    threads = threading.enumerate()
    try:
        with _limit(item) if watched else nullcontext():
            result = yield
    finally:
        runtime = _runtime()
        item.stash[_at_setup] = earlier, runtime
    if not watched:
        return result
    if runtime is not None:
        from .inspection import last_number

        item.stash[_before] = runtime, last_number(runtime), threads
    else:
        item.stash[_before] = None, 0, threads
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run the test under its time limit. SIGTERM, which raises SystemExit while a session runs, ends the test run."""
    try:
        with _limit(item) if _uses_miniray(item) else nullcontext(), _exploring(item):
            return (yield)
    except SystemExit as error:
        if _by_sigterm(error):
            pytest.exit(f"SIGTERM in {item.nodeid}", returncode=128 + signal.SIGTERM)
        raise


def _by_sigterm(error: SystemExit) -> bool:
    handlers = sys.modules.get("miniray.process.signal_handlers")
    return handlers is not None and any(
        frame.f_code is handlers.EXIT for frame, _ in traceback.walk_tb(error.__traceback__)
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Report what the test left behind: in its session before the fixtures end, and threads after they have ended."""
    if not _uses_miniray(item) or _before not in item.stash:
        result = yield
        _note_leak(item)
        return result
    from .inspection import left_behind, threads_left

    earlier, since, threads = item.stash[_before]
    runtime = _runtime()
    left = []
    if runtime is not None and not item.stash.get(_failed, False):  # a failed test's traceback holds references
        left = left_behind(runtime, since if runtime is earlier else 0)
    result = yield
    if _note_leak(item):
        left.append("the session that it started, which was ended now")
        sys.modules["miniray"].shutdown()
        _leaks.clear()
    left += threads_left(runtime if runtime is not _runtime() else None, threads)
    if left:
        text = "left behind: " + "; ".join(left)
        item.add_report_section("teardown", "miniray", text)
        if _is_strict(item):
            pytest.fail(f"the test {text}", pytrace=False)
        warnings.warn(f"{item.nodeid} {text}", LeftBehindWarning, stacklevel=1)
    return result


def _note_leak(item: pytest.Item) -> bool:
    """Whether the test started a session that still runs after its fixtures have ended. If so, remember it.

    A session that began during the setup belongs to a fixture, and may be meant for later tests if the fixture's scope
    is wider than the test.
    """
    runtime = _runtime()
    before, after_setup = item.stash.get(_at_setup, (None, None))
    if runtime is None or runtime is before or runtime is after_setup and _has_wide_fixture(item):
        return False
    _leaks[:] = [(runtime, item.nodeid)]
    return True


def _has_wide_fixture(item: pytest.Item) -> bool:
    """Whether a fixture of the test that is not one of pytest's own lives longer than the test. The functions
    setup_module and setUpClass are such fixtures."""
    definitions = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return any(
        found[-1].scope != "function"
        for name, found in definitions.items()
        if found and (name.startswith("_") or not found[-1].func.__module__.startswith("_pytest."))
    )


def _check_marker(item: pytest.Item) -> None:
    """Warn of a marker whose arguments have no effect, because the test starts no session through a fixture."""
    given = [
        name for marker in item.own_markers if marker.name == "miniray" for name in marker.kwargs if name not in OWN
    ]
    if given and not any(name.startswith("miniray_cluster") for name in getattr(item, "fixturenames", ())):
        warnings.warn(
            f"{item.nodeid}: the marker's {given[0]}= has no effect, because the test uses none of the fixtures "
            "miniray_cluster, miniray_cluster_module and miniray_cluster_nodes",
            pytest.PytestWarning,
            stacklevel=1,
        )


def _is_strict(item: pytest.Item) -> bool:
    marked = _marker_arguments(item).get("strict")
    if marked is not None:
        return bool(marked)
    return bool(item.config.getoption("miniray_strict") or item.config.getini("miniray_strict"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Take miniray's frames out of the report, and write the timeline while the session is still running."""
    if call.excinfo is not None and not item.config.getoption("fulltrace", False):
        error = call.excinfo.value
        trace = _with_task(error, _without_ours(error))
        call.excinfo._excinfo = (type(error), BaseException.with_traceback(error, trace), trace or call.excinfo.tb)
        call.excinfo.traceback = type(call.excinfo.traceback)(trace or call.excinfo.tb)
    report = yield
    if report.failed:
        item.stash[_failed] = True
    folder = item.config.getoption("miniray_timeline")
    if folder and report.failed and _runtime() is not None:
        report.sections.append(("miniray timeline", _keep_timeline(folder, item.nodeid)))
    return report


def _without_ours(error: BaseException, seen: frozenset[int] = frozenset()) -> TracebackType | None:
    """The traceback of an error without miniray's frames, if any frame remains. The errors that it came from lose
    these frames at once."""
    for earlier in (error.__cause__, error.__context__):
        if earlier is not None and id(earlier) not in seen:
            BaseException.with_traceback(earlier, _without_ours(earlier, seen | {id(error)}))  # a frozen one, too
    kept = _entries(error.__traceback__)
    return _chained(kept) if kept else error.__traceback__


def _with_task(error: BaseException, trace: TracebackType | None) -> TracebackType | None:
    """The traceback, continued by the frames of the task that failed, in which a debugger then stops (--pdb)."""
    from .exploring.error_text import attribute_of

    frames = attribute_of(error, "task_frames", ())
    return _chained([entry for part in (trace, *frames) for entry in _entries(part)]) if frames else trace


def _entries(trace: TracebackType | None) -> list[TracebackType]:
    """The entries of a traceback that are not miniray's."""
    found = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(HERE):
            found.append(trace)
        trace = trace.tb_next
    return found


def _chained(entries: list[TracebackType]) -> TracebackType | None:
    trace = None
    for entry in reversed(entries):
        trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return trace


def _keep_timeline(folder: str, nodeid: str) -> str:
    """Write a test's timeline as a page and as a trace. Returns their paths, or the reason why this failed."""
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
    """Fail the test, with a report of what is pending, if the block exceeds the test's time limit.

    In the main thread a signal interrupts the block. In another thread, and on a system without such signals, the
    report goes to stderr and the session is shut down, which ends every wait in it.
    """
    seconds = _marker_arguments(item).get(
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
        from ..observe.stacks.report import pending_report

        text += "\n" + pending_report(runtime)
    return text


def _end_session(seconds: float, nodeid: str) -> None:
    print(_report(seconds, nodeid), file=sys.__stderr__, flush=True)
    miniray = sys.modules.get("miniray")
    if miniray is not None:
        miniray.shutdown()
