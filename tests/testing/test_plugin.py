"""The pytest plugin, as its users' tests see it: fixtures, the alias, the time limit, leftovers, timelines."""

from __future__ import annotations

import pathlib

import pytest

import miniray
from miniray.testing import plugin

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytest_plugins = "pytester"


@pytest.fixture
def tests(pytester, monkeypatch):
    """A function that writes a test file and runs it with the plugin: `tests(source, *options)`."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("RAY_COLOR_PREFIX", "0")

    def run(source, *options):
        pytester.makepyfile(source)
        return pytester.runpytest_inprocess(
            "-p",
            "miniray.testing.plugin",
            "-p",
            "no:cacheprovider",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            *options,
        )

    return run


def test_the_unused_plugin_imports_nothing(pytester, monkeypatch):
    """Every run of pytest loads the plugin if miniray is installed, so the plugin must not import the rest of it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(
        test_nothing="def test_it(): pass",
        start="""
        import pdb, sys, pytest  # pytest imports pdb, which imports asyncio since Python 3.14
        before = set(sys.modules)
        code = pytest.main(["-q", "-p", "miniray.testing.plugin", "-p", "no:cacheprovider", "test_nothing.py"])
        found = set(sys.modules) - before
        print(int(code), sorted(name for name in found if name.split(".")[0] in ("miniray", "ray", "asyncio")))
    """,
    )
    printed = pytester.runpython("start.py").stdout.lines[-1]
    assert printed == "0 ['miniray', 'miniray._version', 'miniray.testing', 'miniray.testing.plugin']"


# ---------------------------------------------------------------- fixtures


def test_each_test_has_a_new_session_with_the_marker_s_arguments(tests):
    """The nearest marker wins, and deadlocks raise an error."""
    result = tests(
        """
        import pytest, miniray
        from miniray import api
        pytestmark = pytest.mark.miniray(num_cpus=3)
        seen = []
        def test_one(miniray_cluster):
            assert miniray_cluster is miniray and miniray.cluster_resources()["CPU"] == 3
            assert api.session.options["on_deadlock"] == "raise"
            seen.append(api.session)
        @pytest.mark.miniray(num_cpus=1, resources={"disk": 2})
        def test_other(miniray_cluster):
            resources = miniray.cluster_resources()
            assert (resources["CPU"], resources["disk"]) == (1, 2)
            assert api.session not in seen
        def test_without():
            assert not miniray.is_initialized()
    """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=3)


def test_a_file_may_share_one_session(tests):
    """The session ends with the last test of the file."""
    result = tests("""
        import miniray
        held = []
        def test_put(miniray_cluster_module):
            held.append(miniray.put(7))
        def test_get(miniray_cluster_module):
            assert miniray.get(held) == [7]
    """)
    result.assert_outcomes(passed=2, warnings=1)
    assert not miniray.is_initialized()


def test_several_nodes(tests):
    """The cluster has three nodes, unless the marker sets another number. Nodes can be removed."""
    result = tests("""
        import pytest, miniray
        def alive():
            return [node["Resources"]["CPU"] for node in miniray.nodes() if node["Alive"]]
        def test_three(miniray_cluster_nodes):
            assert alive() == [1, 1, 1]
            miniray_cluster_nodes.remove_node(miniray_cluster_nodes.list_all_nodes()[-1])
            assert alive() == [1, 1]
        @pytest.mark.miniray(nodes=2, num_cpus=4)
        def test_two(miniray_cluster_nodes):
            assert alive() == [4, 4]
    """)
    result.assert_outcomes(passed=2)
    assert not miniray.is_initialized()


def test_two_sessions_at_once_are_refused(tests):
    """A test cannot have its own session while the session of its file runs."""
    result = tests("""
        def test_one(miniray_cluster_module): pass
        def test_two(miniray_cluster): pass
    """)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*a session is already running*"])


# ---------------------------------------------------------------- the alias


def test_with_the_option_every_import_of_ray_imports_miniray(tests, pytester):
    """This holds in conftest files too, and the header of the test run says so."""
    pytester.makeconftest("import ray\nassert ray.__name__ == 'miniray'")
    result = tests(
        """
        import ray
        def test_it():
            ray.init(num_cpus=1)
            assert ray.get(ray.put(1)) == 1
            ray.shutdown()
    """,
        "--miniray",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"miniray: `import ray` imports miniray {miniray.__version__}"])


def test_without_the_option_ray_is_not_miniray(tests):
    """`import ray` fails, or imports the real one."""
    tests("""
        def test_it():
            try:
                import ray
            except ModuleNotFoundError:
                return
            assert ray.__name__ == "ray"
    """).assert_outcomes(passed=1)


# ---------------------------------------------------------------- the time limit


HANGS = """
    import threading
    import pytest
    {more}
    def test_hangs(miniray_cluster):
        ray = miniray_cluster
        @ray.remote(num_cpus=100)
        def too_large():
            pass
        @ray.remote
        def sits():
            ray.get(too_large.remote())
        ray.get(sits.remote())
"""


@pytest.mark.parametrize(
    "more, options",
    [
        ("", ["--miniray-timeout=0.2"]),
        ("", ["-o", "miniray_timeout=0.2"]),
        ("pytestmark = pytest.mark.miniray(timeout=0.2)", []),
    ],
)
def test_a_test_that_takes_too_long_fails_with_reasons_and_stacks(tests, more, options):
    """The report says what each pending task waits for, and has a stack for each busy worker and each thread."""
    result = tests(HANGS.format(more=more), *options)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*test_hangs took longer than 0.2 s.",
            "Pending:",
            "  task sits *",
            "  task too_large needs 100 CPU*",
            "Worker 1 runs sits (task *",
            "    ray.get(too_large.remote())",
            "Thread MainThread",
            "    ray.get(sits.remote())",
        ]
    )
    result.stdout.no_fnmatch_line("*pluggy/*")


def test_without_an_alarm_the_session_is_shut_down(tests, monkeypatch):
    """On a system without setitimer, the shutdown ends every wait, so the test fails. The report goes to stderr."""
    monkeypatch.delattr(plugin.signal, "setitimer")
    result = tests(HANGS.format(more=""), "--miniray-timeout=0.2")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Captured stderr call*", "*test_hangs took longer than 0.2 s.", "Pending:"])
    assert not miniray.is_initialized()


def test_a_quick_test_is_not_disturbed(tests):
    """Neither is an alarm that the program itself has set."""
    result = tests(
        """
        import signal
        def ring(*ignored): pass
        signal.signal(signal.SIGALRM, ring)
        def test_it(miniray_cluster):
            assert signal.getsignal(signal.SIGALRM) is not ring
        def test_after():
            assert signal.getsignal(signal.SIGALRM) is ring
    """,
        "--miniray-timeout=20",
    )
    result.assert_outcomes(passed=2)


# ---------------------------------------------------------------- leftovers


LEAVES = """
    import threading
    held = []
    def test_leaves(miniray_cluster):
        ray = miniray_cluster
        class Actor: pass
        @ray.remote(num_cpus=100)
        def never(): pass
        held.append(ray.remote(Actor).options(name="bob").remote())
        held.append(ray.put(1))
        held.append(ray.util.placement_group([{"CPU": 1}], name="group"))
        held.append(never.remote())
        held.append(threading.Event())
        threading.Thread(target=held[-1].wait, name="idler", daemon=True).start()
    def test_next():
        held.pop().set()
    def test_tidy(miniray_cluster):
        ray = miniray_cluster
        actor = ray.remote(type("A", (), {"go": lambda self: 1})).remote()
        assert ray.get(actor.go.remote()) == 1
        group = ray.util.placement_group([{"CPU": 1}])
        ray.get(group.ready())
        ray.util.remove_placement_group(group)
"""


def test_a_test_that_leaves_something_behind_gets_a_warning(tests):
    """The warning names each leftover. A test that leaves nothing gets none."""
    result = tests(LEAVES)
    result.assert_outcomes(passed=3, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "*LeftBehindWarning: *test_leaves left behind: task never (PENDING_NODE_ASSIGNMENT); "
            "actor *Actor 'bob' (*); object *, put; object *, of task never; "
            "placement group group (*); thread idler"
        ]
    )


@pytest.mark.parametrize(
    "options",
    [["--miniray-strict"], ["-o", "miniray_strict=true"], ["-W", "error::miniray.testing.plugin.LeftBehindWarning"]],
)
def test_on_request_a_leftover_is_a_failure(tests, options):
    """The next test passes."""
    tests(LEAVES, *options).assert_outcomes(passed=3, errors=1)


def test_the_marker_overrides_the_command_line(tests):
    """With strict=False in the marker, a leftover is a warning even under --miniray-strict."""
    result = tests(
        """
        import pytest
        held = []
        @pytest.mark.miniray(strict=False)
        def test_leaves(miniray_cluster):
            held.append(miniray_cluster.put(1))
    """,
        "--miniray-strict",
    )
    result.assert_outcomes(passed=1, warnings=1)


def test_in_a_shared_session_each_test_answers_for_its_own_leftovers(tests):
    """The leftovers of an earlier test, or of the file's fixture, are not reported again."""
    result = tests("""
        import pytest
        held = []
        @pytest.fixture(scope="module", autouse=True)
        def setting(miniray_cluster_module):
            held.append(miniray_cluster_module.put(0))
        def test_leaves(miniray_cluster_module):
            held.append(miniray_cluster_module.put(1))
        def test_tidy(miniray_cluster_module):
            miniray_cluster_module.put(2)
    """)
    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(["*test_leaves left behind: object *"])


def test_a_failed_test_is_not_blamed_for_references_in_its_traceback(tests):
    """Under --miniray-strict it gives one failure and no error at teardown."""
    result = tests(
        """
        def test_fails(miniray_cluster):
            ref = miniray_cluster.put(1)
            assert not ref
    """,
        "--miniray-strict",
    )
    result.assert_outcomes(failed=1)


# ---------------------------------------------------------------- timelines


def test_a_failed_test_s_timeline_is_kept(tests, pytester):
    """The files are a page and a trace, named after the test. A test that passes gets none."""
    result = tests(
        """
        import pytest
        def work(ray):
            assert ray.get(ray.remote(lambda: 1).remote()) == 1
        def test_passes(miniray_cluster):
            work(miniray_cluster)
        @pytest.mark.parametrize("path", ["../x"])
        def test_fails(miniray_cluster, path):
            work(miniray_cluster)
            assert False
    """,
        "--miniray-timeline=kept",
    )
    result.assert_outcomes(passed=1, failed=1)
    names = sorted(path.name for path in (pytester.path / "kept").iterdir())
    assert [name.rpartition(".")[2] for name in names] == ["html", "json"]
    assert all(name.endswith(f"test_fails-..-x.{kind}") for name, kind in zip(names, ("html", "json")))
    result.stdout.fnmatch_lines(["*kept/*.html"])


def test_a_folder_that_cannot_be_created_is_reported(tests, pytester):
    """The test still fails for its own reason."""
    (pytester.path / "taken").write_text("")
    result = tests("def test_fails(miniray_cluster): assert False", "--miniray-timeline=taken")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["could not be written: *"])


# ---------------------------------------------------------------- without a fixture


def test_a_test_that_does_not_use_miniray_is_not_watched(tests):
    """It has no session, and may leave a thread behind."""
    result = tests(
        """
        import threading
        import sys
        def test_it():
            threading.Thread(target=threading.Event().wait, args=(0.2,), daemon=True).start()
            assert sys.modules["miniray.api"].session is None
    """,
        "--miniray-strict",
        "--miniray-timeout=5",
    )
    result.assert_outcomes(passed=1)
