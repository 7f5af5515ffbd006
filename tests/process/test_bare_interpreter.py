"""Programs without any setup for miniray: they end without shutdown, or run under unittest, -W error or
pytest-xdist."""

from __future__ import annotations

import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

import pytest

import miniray as ray

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENDS = """
    import asyncio, atexit, sys, threading, time
    import miniray as ray
    from miniray.util.metrics import Counter
    from miniray.util.queue import Queue

    @ray.remote
    def one():
        return 1

    @ray.remote(num_cpus=0)
    def endless():
        time.sleep(1000)

    @ray.remote
    class Actor:
        def get(self):
            return 1

        def endless(self):
            time.sleep(1000)

    @ray.remote
    class Async:
        async def get(self):
            return 1

        async def endless(self):
            await asyncio.sleep(1000)

    @ray.remote(num_cpus=0)
    def counts():
        for n in range(10**9):
            yield n

    ray.init(num_cpus=1, resources={"slot": 1}, object_store_memory=3 * 10**6)
    running = endless.options(resources={"slot": 1}).remote()
    queued = [one.options(resources={"slot": 1}).remote() for _ in range(3)]
    actors = [Actor.remote(), Async.remote(), Actor.options(name="named", lifetime="detached").remote()]
    print(ray.get([actor.get.remote() for actor in actors]))
    calls = [actor.endless.remote() for actor in actors]
    stream = counts.remote()
    print(ray.get(next(stream)))
    spilled = [ray.put(bytes(10**6)) for _ in range(8)]
    queue = Queue()
    queue.put(1)
    Counter("ends").inc()

    def asks():
        while True:
            ray.get(one.remote())

    def waits():
        ray.wait([running])

    def awaits():
        async def main():
            await asyncio.gather(running, *[again() for _ in range(3)])

        async def again():
            while True:
                await one.remote()
        asyncio.run(main())
    for target in asks, waits, awaits:
        threading.Thread(target=target, daemon=True).start()

    def goes_on():
        threading.main_thread().join()
        print("after the main thread:", ray.get(one.remote()))
    threading.Thread(target=goes_on).start()
    atexit.register(lambda: print("at exit:", ray.get(one.remote())))
    async def main():
        left = asyncio.create_task(wait())
        return await one.remote()

    async def wait():
        await running
    print("asyncio:", asyncio.run(main()))
    raise ValueError("the last line")
"""


def test_a_script_may_end_without_shutdown(tmp_path):
    """It leaves running and waiting tasks, living actors, streams, spilled values, its own daemon and other threads,
    and exit handlers. None of these prints anything, although warnings are errors; only the program's own exception is
    shown."""
    script = tmp_path / "ends.py"
    script.write_text(textwrap.dedent(ENDS))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    )
    assert done.stdout.splitlines() == ["[1, 1, 1]", "0", "asyncio: 1", "after the main thread: 1", "at exit: 1"]
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (1, ["ValueError: the last line"]), done.stderr
    assert done.stderr.count("Traceback") == 1
    assert list(tmp_path.iterdir()) == [script], "a file was left"


def test_under_unittest():
    """One session per class, one session per test, and coroutines as tests."""

    @ray.remote
    def one():
        return 1

    class ForAll(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            ray.init(num_cpus=1, log_to_driver=False)
            cls.addClassCleanup(ray.shutdown)

        def test_get(self):
            self.assertEqual(ray.get(one.remote()), 1)

        def test_error(self):
            with self.assertRaises(ZeroDivisionError):
                ray.get(ray.remote(lambda: 1 / 0).remote())

    class ForEach(unittest.IsolatedAsyncioTestCase):
        def setUp(self):
            self.enterContext = ray.init(num_cpus=1, log_to_driver=False)
            self.addCleanup(ray.shutdown)

        async def test_await(self):
            self.assertEqual(await one.remote(), 1)

        async def test_subtests(self):
            for n in range(3):
                with self.subTest(n=n):
                    self.assertEqual(await ray.remote(lambda n=n: n).remote(), n)

    tests = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in (ForAll, ForEach))
    said = io.StringIO()
    result = unittest.TextTestRunner(stream=said, warnings="error").run(tests)
    assert result.wasSuccessful() and result.testsRun == 4, said.getvalue()
    assert not ray.is_initialized()


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="pytest-xdist is not installed")
def test_under_pytest_xdist(tmp_path):
    """Each process has its own sessions. The alias and the fixtures work."""
    (tmp_path / "test_spread.py").write_text(
        textwrap.dedent("""
        import os
        import pytest, ray
        @ray.remote
        def pid():
            return os.getpid()
        @pytest.mark.parametrize("n", range(6))
        def test_it(n, miniray_cluster):
            assert ray.get([pid.remote() for _ in range(5)]) == [os.getpid()] * 5
            assert ray.get_runtime_context().get_job_id() == "01000000"
    """)
    )
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            "-p",
            "miniray.testing.plugin",
            "--miniray",
            "--miniray-strict",
            "-p",
            "no:cacheprovider",
            str(tmp_path),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0 and "6 passed" in done.stdout, done.stdout + done.stderr
