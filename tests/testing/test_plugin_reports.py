"""The pytest plugin: what reports show, the debugger, leaked sessions, patches, and hints."""

from __future__ import annotations

import pathlib
from unittest import mock

import pytest

import miniray
from miniray.testing import faults, patches

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytest_plugins = "pytester"


@pytest.fixture
def tests(pytester, monkeypatch):
    """A function that writes a test file and runs it with the plugin: `tests(source, *options)`."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(source, *options, process=False):
        pytester.makepyfile(source)
        run = pytester.runpytest_subprocess if process else pytester.runpytest_inprocess
        return run("-p", "miniray.testing.plugin", "-p", "no:cacheprovider", *options)

    return run


# ---------------------------------------------------------------- reports


FAILURES = """
    import pytest
    def test_task(miniray_cluster):
        ray = miniray_cluster
        def divide(n):
            return 1 / n
        ray.get(ray.remote(divide).remote(0))
    def test_init(miniray_cluster):
        miniray_cluster.init()
    def test_deadlock(miniray_cluster):
        ray = miniray_cluster
        ray.get(ray.remote(num_cpus=1000)(lambda: 1).remote())
"""


def test_a_report_shows_the_test_s_line_and_the_error(tests):
    """None of miniray's own lines is in it, unless --full-trace asks for them."""
    result = tests(FAILURES)
    result.assert_outcomes(failed=3)
    result.stdout.no_re_match_line(r"(?!.*site-packages).*miniray/.*\.py:\d")  # a clone may be called miniray
    result.stdout.fnmatch_lines(["*ray.get(ray.remote(divide).remote(0))", "E*ZeroDivisionError: division by zero"])
    result.stdout.fnmatch_lines([">*miniray_cluster.init()", "E*RuntimeError: Maybe you called ray.init twice*"])
    result.stdout.fnmatch_lines(["E*DeadlockError:*1000 CPU*"])
    tests(FAILURES, "--full-trace").stdout.fnmatch_lines(["*miniray/runtime/*.py:*"])


def test_the_debugger_stops_in_the_task_s_frame(tests, pytester):
    """`p n` prints a local variable of the task that failed, also if another task waited for it; `up` leads to the
    test."""
    source = """
        import miniray as ray
        @ray.remote
        def divide(n):
            return 1 / n
        @ray.remote
        def outer(secret):
            return ray.get(divide.remote(secret - 7))
        def test_task(miniray_cluster):
            here = "in the test"
            ray.get(outer.remote(7))
    """
    pytester.makepyfile(
        test_it=source,
        answers="""
        import io, sys, pytest
        sys.stdin = io.StringIO("p n\\nup\\np secret\\nup\\np here\\nq\\n")
        pytest.main(["-p", "miniray.testing.plugin", "-p", "no:cacheprovider", "-s", "--pdb", "test_it.py"])
    """,
    )
    out = pytester.runpython("answers.py").stdout
    out.fnmatch_lines(
        ["*divide()", "-> return 1 / n", "(Pdb) 0", "(Pdb) *outer()", "*", "(Pdb) 7", "(Pdb) *test_task()"]
    )
    out.fnmatch_lines(["(Pdb) 'in the test'"])


# ---------------------------------------------------------------- sessions that a test starts itself


LEAKS = """
    import miniray as ray
    import pytest
    def test_leaks():
        ray.init(num_cpus=1)
    def test_next():
        assert not ray.is_initialized()
    def test_fixture(miniray_cluster):
        pass
"""


def test_a_session_that_a_test_started_is_ended_and_reported(tests):
    """The next test can start its own. --miniray-strict makes it an error of the test that leaked."""
    result = tests(LEAKS, "--miniray", process=True)
    result.assert_outcomes(passed=3, warnings=1)
    result.stdout.fnmatch_lines(["*test_leaks left behind: the session that it started, which was ended now*"])
    result = tests(LEAKS, "--miniray", "--miniray-strict", process=True)
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["ERROR*test_leaks*"])


def test_a_test_that_does_not_use_the_plugin_keeps_its_session_until_another_needs_one(tests):
    """A later fixture ends it, and says whose it was."""
    result = tests(LEAKS.replace("assert not ray", "assert ray"), process=True)
    result.assert_outcomes(passed=3, warnings=1)
    result.stdout.fnmatch_lines(["*the session that *::test_leaks left behind was ended*"])


@pytest.mark.parametrize(
    "fixture",
    [
        "@pytest.fixture(scope='module', autouse=True)\n    def session():\n"
        "        ray.init(num_cpus=1)\n        yield\n        ray.shutdown()",
        "def setup_module():\n        ray.init(num_cpus=1)\n    def teardown_module():\n        ray.shutdown()",
    ],
)
def test_a_session_of_a_wider_fixture_is_left_alone(tests, fixture):
    """It belongs to all tests of the file."""
    result = tests(
        f"""
    import miniray as ray
    import pytest
    {fixture}
    def test_one():
        assert ray.is_initialized()
    def test_two():
        assert ray.is_initialized()
    """,
        "--miniray",
        "--miniray-strict",
        process=True,
    )
    result.assert_outcomes(passed=2)


# ---------------------------------------------------------------- patches


APP = """
import ray

def read(path):
    return "from the disk"

@ray.remote
def load(path):
    return read(path).upper()

@ray.remote
class Loader:
    def load(self, path):
        return read(path).upper()
"""


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [(mock, "_patch", "unittest.mock._patch"), (pytest.MonkeyPatch, "setattr", "pytest.MonkeyPatch._setattr")],
)
def test_a_python_or_pytest_without_the_names_that_patches_need_is_refused(owner, name, said):
    """A patch that silently reaches no task would make a test pass for the wrong reason."""
    patches.uninstall()
    without = {"_patch": object(), "setattr": lambda self, *args: None}[name]
    original = getattr(owner, name)
    setattr(owner, name, without)
    try:
        with pytest.raises(RuntimeError, match=said):
            patches.install()
    finally:
        setattr(owner, name, original)
    patches.install()


def test_patches_reach_what_tasks_call(tests, pytester):
    """Before the first call and after it, for functions and actors; afterwards the original is back. The mock counts."""
    pytester.makepyfile(app=APP)
    result = tests(
        """
        from unittest import mock
        import pytest, ray, app

        @pytest.fixture(params=[False, True])
        def calls(request, miniray_cluster):
            loader = app.Loader.remote()
            def both():
                return ray.get([app.load.remote("p"), loader.load.remote("p")])
            if request.param:       # whether the functions were sent before the patch
                assert both() == ["FROM THE DISK"] * 2
            return both

        def test_mock(calls):
            with mock.patch("app.read", return_value="fake") as read:
                assert calls() == ["FAKE"] * 2
            assert read.call_count == 2 and read.call_args == mock.call("p")
            assert calls() == ["FROM THE DISK"] * 2

        @mock.patch.object(app, "read", return_value="fake")
        def test_decorator(read, calls):
            assert calls() == ["FAKE"] * 2 and read.call_count == 2

        def test_monkeypatch(calls, monkeypatch):
            seen = []
            monkeypatch.setattr("app.read", lambda path: seen.append(path) or "fake")
            assert calls() == ["FAKE"] * 2 and seen == ["p", "p"]
            monkeypatch.undo()
            assert calls() == ["FROM THE DISK"] * 2

        def test_side_effects(calls):
            with mock.patch("app.read", side_effect=["one", "two"]) as read:
                assert sorted(calls()) == ["ONE", "TWO"]
    """,
        "--miniray",
        process=True,
    )
    result.assert_outcomes(passed=8)


# ---------------------------------------------------------------- faults


def test_a_fault_that_never_strikes_is_reported():
    """The warning says which tasks there are. A block that ends with an error gives none."""
    with miniray.init(num_cpus=1, log_to_driver=False):

        def train():
            return 1

        with pytest.warns(faults.FaultNeverStruckWarning, match="has not struck: .* no task 'trian'; it has train"):
            with faults.crash_worker("trian"):
                miniray.get(miniray.remote(train).remote())
        with pytest.warns(faults.FaultNeverStruckWarning, match="no attempt 3 of train began in its block"):
            with faults.crash_worker("train", attempt=3):
                miniray.get(miniray.remote(train).remote())
        with pytest.raises(ZeroDivisionError):
            with faults.crash_worker("trian"):
                raise ZeroDivisionError


# ---------------------------------------------------------------- hints


def test_a_marker_without_a_fixture_gets_a_warning(tests):
    """It would have no effect. A marker for the whole file is meant for the tests that have a fixture."""
    result = tests(
        """
        import pytest
        pytestmark = pytest.mark.miniray(num_cpus=2)
        @pytest.mark.miniray(num_cpus=4)
        def test_one(): pass
        @pytest.mark.miniray(timeout=4)
        def test_two(): pass
        def test_three(): pass
    """,
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    )
    result.assert_outcomes(passed=3, warnings=1)
    result.stdout.fnmatch_lines(["*test_one: the marker's num_cpus= has no effect*"])


@pytest.mark.parametrize("where", ["test file", "conftest"])
def test_without_ray_the_option_is_proposed(tests, pytester, where):
    """In the report of the file that says `import ray`."""
    if where == "conftest":
        pytester.makeconftest("import ray")
    pytester.makepyfile(without_ray="import sys\nsys.modules['ray'] = None\n")
    result = tests("import ray" if where == "test file" else "def test_it(): pass", process=True)
    assert "To run the tests on miniray, pass --miniray" in result.stdout.str() + result.stderr.str()
