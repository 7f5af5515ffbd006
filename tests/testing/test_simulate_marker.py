"""The marker `simulate`: which tests it runs, and what it refuses."""

from __future__ import annotations

import pathlib
import shlex
import subprocess
import sys

import pytest

pytest_plugins = "pytester"
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def tests(pytester, monkeypatch):
    """Run a file of tests in a pytest of its own, and return its result.

    With these two variables, pytest repeats the whole text of an error in its summary; the tests here count texts.
    """
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)

    def run(text: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile("import asyncio, time, unittest\nimport pytest\nimport miniray as ray\n" + text)
        return pytester.runpytest_subprocess("-p", "miniray.testing.plugin", "-p", "no:cacheprovider", *options)

    return run


ASYNC = """
pytestmark = pytest.mark.simulate(seeds=3)

async def test_passes(tmp_path):
    began = time.time()
    await asyncio.sleep(1000)
    assert time.time() == began + 1000
    assert await ray.put(3) == 3

async def test_fails():
    await asyncio.sleep(1000)
    assert not "run"

def test_returns_a_coroutine():
    async def fails():
        assert not "run"
    return fails()

class TestClass:
    async def test_fails(self):
        assert not "run"

    @staticmethod
    def test_passes():
        assert time.time() == 1767225600.0
"""


def test_a_coroutine_function_is_run(tests):
    """It used to pass without a step. So did a test that returns a coroutine."""
    result = tests(ASYNC)
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(["*replay: *MINIRAY_REPLAY=test_fails:0: *::test_fails"])


GENERATORS = """
@pytest.mark.simulate(seeds=3)
async def test_async_generator():
    yield 1

class Case(unittest.TestCase):
    @pytest.mark.simulate(seeds=3)
    def test_generator(self):
        yield 1
"""


def test_a_generator_is_refused(tests):
    """Nothing of it would run."""
    result = tests(GENERATORS)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*returned a generator*"] * 2)


CASES = """
@pytest.mark.simulate(seeds=3)
class Case(unittest.TestCase):
    def setUp(self):
        assert time.time() != 1767225600.0
        self.runs = 0

    def test_passes(self):
        assert time.time() == 1767225600.0
        self.runs += 1

    def tearDown(self):
        print("runs", self.runs)

    def test_fails(self):
        assert ray.get(ray.put(1)) == 2

    def test_skips(self):
        self.skipTest("no")

    def test_part_fails(self):
        for number in range(2):
            with self.subTest(number=number):
                self.assertEqual(number, 0)

    @unittest.expectedFailure
    def test_fails_as_expected(self):
        assert not "run"

@pytest.mark.simulate(seeds=3)
class AsyncCase(unittest.IsolatedAsyncioTestCase):
    async def test_passes(self):
        began = time.time()
        await asyncio.sleep(1000)
        assert time.time() == began + 1000

    async def test_fails(self):
        await asyncio.sleep(1000)
        assert not "run"

class NoSetUp(unittest.TestCase):
    def setUp(self):
        raise OSError("no")

    @pytest.mark.simulate(seeds=3)
    def test_is_not_reached(self):
        assert not "run"
"""


def test_the_methods_of_a_test_case_are_simulated(tests):
    """The marker used to have no effect on them. `setUp` and `tearDown` run once."""
    result = tests(CASES, "-s")
    result.assert_outcomes(passed=2, failed=4, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(["*runs 3*"])
    assert result.stdout.str().count("found by run 1 with seed 0") == 3
    result.stdout.no_fnmatch_line("*had no effect*")


ARGUMENTS = """
@pytest.mark.simulate(seeds=0)
def test_no_seed(): pass
@pytest.mark.simulate(seeds=-4)
def test_negative(): pass
@pytest.mark.simulate(seeds="x")
def test_text(): pass
@pytest.mark.simulate(seeds=True)
def test_bool(): pass
@pytest.mark.simulate(sedes=3)
def test_unknown(): pass
@pytest.mark.simulate(3, "pct")
def test_two(): pass
@pytest.mark.simulate(3, seeds=3)
def test_twice(): pass
@pytest.mark.simulate(globals_={})
def test_not_for_a_test(): pass
@pytest.mark.simulate(strategy="guess")
def test_strategy(): pass
@pytest.mark.simulate(3)
def test_passes(): pass
"""


def test_wrong_arguments_fail_the_test(tests):
    """Also with --simulate-seed. Some of them used to count as success."""
    for options in [], ["--simulate-seed", "1"]:
        result = tests(ARGUMENTS, *options)
        result.assert_outcomes(passed=1, failed=9)
        assert result.stdout.str().count("E   ") == 0
        result.stdout.fnmatch_lines(["*the marker simulate of *test_no_seed is wrong: seeds must be at least 1, not 0"])


def test_a_test_that_another_plugin_runs_fails(tests, pytester):
    """The marker would have no effect."""
    pytester.makeconftest(
        """
        import pytest

        class Item(pytest.Item):
            def runtest(self):
                pass

        class File(pytest.File):
            def collect(self):
                item = Item.from_parent(self, name="item")
                item.add_marker(pytest.mark.simulate(seeds=3))
                yield item

        def pytest_collect_file(file_path, parent):
            if file_path.suffix == ".txt":
                return File.from_parent(parent, path=file_path)
        """
    )
    pytester.maketxtfile("")
    result = tests("def test_passes(): pass\n")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*the marker simulate had no effect on *item*"])


OUTCOMES = """
pytestmark = pytest.mark.simulate(seeds=3)

def test_skips():
    pytest.skip("no")

def test_skips_an_import():
    pytest.importorskip("no_such_module")

def test_expects_a_failure():
    pytest.xfail("no")

@pytest.mark.xfail(strict=True)
def test_fails_as_expected():
    assert not "run"

def test_fails():
    pytest.fail("no")

def test_does_not_raise():
    with pytest.raises(ValueError):
        pass

def test_exits():
    raise SystemExit(0)
"""


def test_what_pytest_raises_keeps_its_meaning(tests):
    """A test that skips itself is skipped. `pytest.fail`, and `pytest.raises` without an error, fail a run like any
    other error. They used to escape without the seed."""
    result = tests(OUTCOMES)
    result.assert_outcomes(skipped=2, xfailed=2, failed=3)
    assert result.stdout.str().count("found by run 1 with seed 0") == 3
    result.stdout.fnmatch_lines(["*ExplorationFailure: Failed: DID NOT RAISE*"])


HANGS = """
@pytest.mark.miniray(timeout=0.3)
@pytest.mark.simulate(seeds=3)
def test_hangs():
    while True:
        pass
"""


def test_a_time_limit_ends_the_exploration(tests):
    """It is not taken for a failure of the program, which would then be run again and again."""
    result = tests(HANGS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_hangs took longer than 0.3 s."])
    result.stdout.no_fnmatch_line("*ExplorationFailure*")


SIGTERM = """
import os, signal

def test_ends():
    ray.init()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)

@pytest.mark.simulate(seeds=3)
def test_simulated():
    test_ends()

def test_is_not_reached():
    pass
"""


@pytest.mark.parametrize("name", ["test_ends", "test_simulated"])
def test_sigterm_ends_the_test_run(tests, name):
    """Its SystemExit used to fail the test, or to be explored, and the next test ran."""
    result = tests(SIGTERM, "-k", f"{name} or not_reached")
    result.assert_outcomes()
    assert result.ret == 143
    result.stdout.fnmatch_lines([f"*SIGTERM in *{name}*"])


OPTIONS = """
import pytest, sys
import ray                                       # needs --miniray

class TestOne:
    @pytest.mark.parametrize("text", ["a::b", "two words"])
    @pytest.mark.simulate(seeds=3, strategy="pct")
    def test_fails(self, text, request):
        assert request.config.getoption("keyword") != "test_fails", (text, sys.flags.optimize, ray.put(1) and "ran")

def test_fails():
    explore = pytest.importorskip("miniray.testing").explore
    explore(lambda: 1 / 0, 2)

def test_fails_in_no_simulation():
    raise ValueError("this test is not to be replayed")
"""


@pytest.mark.parametrize(
    "words", [["deep", "deep/test_it.py"], [".", "-x"], ["deep/test_it.py::TestOne"], ["@tests.txt"]]
)
def test_the_replay_command_repeats_the_options_from_this_folder(pytester, monkeypatch, words):
    """It used to drop --miniray, -p, -c and others, and its path began at the root of the project. Starts programs."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = pytester.mkdir("tests")
    (folder / "deep").mkdir()
    (folder / "deep" / "test_it.py").write_text(OPTIONS)
    (folder / "tests.txt").write_text("deep\ndeep/test_it.py")
    pytester.makefile(".ini", other="[pytest]\naddopts = -k test_fails")
    options = "-p miniray.testing.plugin -p no:cacheprovider --miniray -c ../other.ini -k test_fails --tb=short".split()
    monkeypatch.chdir(folder)

    def run(command: str) -> str:
        command = command.replace("python ", f"{shlex.quote(sys.executable)} ", 1)
        return subprocess.run(command, shell=True, capture_output=True, text=True).stdout

    output = run(f"python -W ignore::FutureWarning -m pytest {shlex.join([*options, *words])}")
    commands = [line.partition("replay: ")[2] for line in output.splitlines() if "replay: " in line]
    assert commands, output
    for command in commands:
        assert f"python -W ignore::FutureWarning -m pytest {shlex.join(options)}" in command
        assert "this test is not to be replayed" not in (replayed := run(command))
        assert "1 failed" in replayed and ("'ran'" in replayed or "ZeroDivisionError" in replayed), replayed
        assert "ExplorationFailure" not in replayed


def test_a_replay_of_a_test_that_is_not_there_fails_the_test_run(tests, monkeypatch):
    """The other tests run as always."""
    monkeypatch.setenv("MINIRAY_REPLAY", "test_renamed:1:0,1")
    result = tests("@pytest.mark.simulate(seeds=3)\ndef test_passes(): pass\n")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stderr.fnmatch_lines(["*MINIRAY_REPLAY names 'test_renamed'*"])


def test_the_marker_warns_of_conditions_that_no_run_met(tests):
    result = tests(
        """
        from miniray.testing import sometimes

        @pytest.mark.simulate(3)
        def test_it():
            sometimes(False, "rare")
            sometimes(True, "often")
    """.replace("\n        ", "\n")
    )
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*NeverMetWarning: *::test_it: none of 3 runs met 'rare'"])


def test_the_marker_names_a_fixture_that_starts_a_session(tests):
    """It used to say only that a session is running."""
    result = tests(
        """
        @pytest.mark.simulate(3)
        def test_it(miniray_cluster):
            pass
    """.replace("\n        ", "\n")
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*has the marker simulate and the fixture miniray_cluster, which starts a session*"])


REPORTS = """
pytestmark = pytest.mark.simulate(seeds=3)

@ray.remote(max_retries=0)
def fails():
    raise KeyError("of a task")

def test_function():
    assert ray.get(ray.put(1)) == 2

async def test_coroutine():
    await asyncio.sleep(1)
    assert 1 == 2

def test_of_a_task():
    ray.get(fails.remote())

def test_limit():
    time.sleep(1e6)

def test_cause():
    try:
        1 / 0
    except ZeroDivisionError as error:
        raise ValueError from error

class TestCase(unittest.TestCase):
    def test_method(self):
        self.assertEqual(1, 2)

    def test_part(self):
        with self.subTest("part"):
            self.assertEqual(1, 2)
"""


def test_a_report_shows_the_line_of_the_test_and_how_to_replay_it(tests):
    """Between the two used to be 70 lines about frames of pytest and of miniray."""
    result = tests(REPORTS)
    result.assert_outcomes(failed=7)
    text = result.stdout.str()
    for foreign in ("pluggy/", "_pytest/", "simulate_marker.py:", "exploration.py:", "def check("):
        assert foreign not in text
    result.stdout.fnmatch_lines(
        [
            ">       assert ray.get(ray.put(1)) == 2",
            "E       *ExplorationFailure: AssertionError: assert 1 == 2",
            "E       *",
            "E       found by run 1 with seed 0*",
            "E       replay: *::test_function",
        ]
    )
    result.stdout.fnmatch_lines([">           1 / 0", "E           ZeroDivisionError: *", "E *Failure: ValueError*"])
