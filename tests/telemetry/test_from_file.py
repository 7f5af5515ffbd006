"""A recording answers every question as the session did at its end."""

from __future__ import annotations

import difflib
import json
import pathlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap

import pytest

import miniray as ray
from miniray import cli, state
from miniray.observe.metrics import registry
from miniray.observe.explain.explanation import explain, find_deadlock
from miniray.observe.timeline.recording import read as read_recording
from miniray.telemetry.recording import recorder
from miniray.telemetry.recording.restore import restored
from miniray.util.metrics import Counter as Counts, Gauge, Histogram
from miniray.util.placement_group import placement_group
from tests.telemetry.answers import answers, differences
from tests.telemetry.test_recorder import ENVIRONMENT, rows, run, wait_for_rows

ROOT = pathlib.Path(__file__).resolve().parents[2]


pytest_plugins = "pytester"


class Compared:
    """A session that is recorded. At the end of the block its answers are compared with those of the file."""

    def __init__(self, path: str, **settings: object):
        self.path, self.settings = path, settings

    def __enter__(self):
        ray.init(telemetry=self.path, **{"num_cpus": 2, **self.settings})
        return self

    def __exit__(self, kind, *error):
        try:
            if kind is None:
                runtime = ray.api.session
                runtime.drain()
                for one in runtime.recorders:
                    one.finish()  # from here on, nothing happens that is not in the file
                ended = int(dict(rows(self.path, "SELECT name, value FROM session"))["ended_us"]) / 1e6
                runtime.now = lambda: ended - runtime.epoch
                live, epoch = answers(runtime), runtime.epoch
        finally:
            ray.shutdown()
        if kind is None:
            with restored(self.path) as runtime:
                assert runtime.gaps == []
                found = list(differences(live, answers(runtime), epoch))
            assert not found, "\n".join(found[:20])


@ray.remote
def double(n):
    print("doubles", n)
    return 2 * n


@ray.remote
def fail():
    raise ValueError("of no use")


@ray.remote
class Counter:
    """An actor with a repr of its own."""

    def __init__(self, start=0):
        self.n = start

    def __repr__(self):
        return "Counter()"

    def add(self, n):
        print("adds", n, file=sys.stderr)
        self.n += n
        return self.n

    def crash(self):
        os._exit(1)


# ------------------------------------------------------------ every reader


def test_tasks_errors_and_logs(path):
    """Values that depend on each other, a failure that is passed on, retries, a span of the program, logs."""

    @ray.remote(max_retries=2, retry_exceptions=True)
    def unlucky(file):
        with open(file, "a") as out:
            out.write("x")
        if os.path.getsize(file) < 3:
            raise OSError("not yet")
        return "there"

    with Compared(path):
        with ray.profile("prepare", {"step": "one"}):
            refs = [double.remote(n) for n in range(10)]
        assert ray.get([double.remote(ref) for ref in refs])[-1] == 36
        assert ray.get(unlucky.remote(f"{path}.txt")) == "there"
        failed = fail.remote()
        passed_on = double.options(name="passed on").remote(failed)
        for ref in failed, passed_on:
            with pytest.raises(ray.exceptions.RayTaskError):
                ray.get(ref)


def test_actors(path):
    """A restart, a death, calls of a named actor, concurrency groups, an actor that was never placed."""

    @ray.remote(concurrency_groups={"io": 2})
    class Grouped:
        @ray.method(concurrency_group="io")
        def read(self):
            return 1

    with Compared(path):
        counter = Counter.options(name="count", max_restarts=1).remote(3)
        assert ray.get(counter.add.remote(1)) == 4
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(counter.crash.remote())
        assert ray.get(counter.add.remote(1)) == 4
        dead = Counter.remote()
        ray.get(dead.add.remote(1))
        ray.kill(dead)
        with pytest.raises(ray.exceptions.RayActorError):
            ray.get(dead.add.remote(1))
        grouped = Grouped.remote()
        assert ray.get([grouped.read.remote() for _ in range(3)]) == [1, 1, 1]
        never = Counter.options(num_cpus=64).remote()
        waiting = never.add.remote(1)
        assert ray.wait([waiting], timeout=0)[0] == []


@ray.remote
def hold(begun, go):
    """Write to one pipe, and wait until the other one is closed."""
    os.write(begun, b"x")
    os.read(go, 1)


def test_what_waits(path):
    """Tasks without a node, behind others and for an argument; placement groups; a queue in front of an actor."""
    (begun, begins), (go, goes) = os.pipe(), os.pipe()
    with Compared(path):
        running = hold.remote(begins, go)
        os.read(begun, 1)
        actor = Counter.remote()
        ray.get(actor.add.remote(1))
        needs_both = hold.options(num_cpus=2)
        large = [needs_both.remote(begins, go) for _ in range(3)]
        gpu = double.options(num_gpus=1).remote(1)
        behind = double.remote(gpu)
        queued = actor.add.remote(running)
        groups = placement_group([{"CPU": 64}]), placement_group([{"CPU": 1}])
        assert groups[1].wait(10)
        said = explain(ray.api.session, behind).sentence
        assert "waits for its argument from task double, which needs 1 CPU and 1 GPU" in said
        kept = [running, large, gpu, queued]
    with restored(path) as runtime:
        assert explain(runtime, behind.hex()).sentence == said
        assert explain(runtime, large[2].hex()).details["ahead_in_queue"] == 2
    for end in begun, begins, go, goes:
        os.close(end)
    del kept


def test_large_values(path):
    """Copies on nodes, values in files, a node that dies, a value that is rebuilt."""
    with Compared(path, num_nodes=2, object_store_memory=3_000_000):
        kept = [ray.put(bytes(1_000_000)) for _ in range(5)]
        made = ray.remote(lambda: bytes(200_000)).options(max_retries=3).remote()
        ray.get([kept[0], made])
        second = list(ray.api.session.cluster.nodes.values())[1]
        ray.api.session.remove_node(second, "for the test")


@pytest.mark.parametrize("settings", [{"local_mode": True}, {"runtime": "simulated", "num_cpus": 2}])
def test_other_runtimes(path, settings):
    """local_mode, and a simulated session, whose times are virtual."""
    with Compared(path, **settings):
        assert ray.get([double.remote(n) for n in range(4)]) == [0, 2, 4, 6]
        counter = Counter.remote()
        assert ray.get(counter.add.remote(1)) == 1


def test_a_stream_and_an_async_actor(path):
    """Items of a stream that were taken and that were not; calls of an event loop."""

    @ray.remote
    class Loop:
        async def one(self):
            return 1

    @ray.remote(num_returns="streaming")
    def items():
        yield from range(5)

    with Compared(path):
        stream = items.remote()
        assert ray.get(next(stream)) == 0
        loop = Loop.remote()
        assert ray.get([loop.one.remote() for _ in range(4)]) == [1] * 4
        ray.get(stream.completed())


KILLED = """
import sqlite3
while not sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM nodes").fetchone()[0]:
    time.sleep(0.05)
os._exit(0)
"""


@pytest.mark.parametrize(
    ("end", "code", "status"),
    [("", 0, "UNKNOWN"), ("ray.shutdown()", 0, "SUCCEEDED"), ("1 / 0", 1, "FAILED"), (KILLED, 0, "RUNNING")],
)
def test_the_status_of_a_job(path, capsys, end, code, status):
    """It is the same for every command, and it does not run any longer once its recording has ended."""
    done = run(f"import os, sys, time, miniray as ray\nray.init(num_cpus=1, telemetry=sys.argv[1])\n{end}", path)
    assert done.returncode == code
    assert rows(path, "SELECT status FROM jobs") == [(status,)]
    assert cli.main(["list", "jobs", "--detail", "--format", "json", "--from", path]) == 0
    (job,) = json.loads(capsys.readouterr().out)
    assert job["status"] == status and bool(job["end_time"]) == (status != "RUNNING")
    for filters, number in ((f"status={status}", 1), (f"status!={status}", 0)):
        assert cli.main(["list", "jobs", "--filter", filters, "--from", path]) == 0
        assert ("01000000" in capsys.readouterr().out) == bool(number)


def test_metrics(path):
    """The timeline of a file has the program's metrics, with the values that they had at the end."""
    with ray.init(num_cpus=1, telemetry=path):
        loads = Counts("loads", tag_keys=("kind",))
        level, sizes = Gauge("level"), Histogram("sizes", boundaries=[1, 10])
        loads.inc(2, {"kind": "slow"})
        level.set(7)
        sizes.observe(3)
        sizes.observe(5)
    with restored(path) as runtime:
        curves = {curve.name: curve for curve in read_recording(runtime).metrics}
    assert {name: curve.samples[-1][1] for name, curve in curves.items()} == {"loads": 2, "level": 7, "sizes": 4}
    assert curves["loads"].tags == {"kind": "slow"} and curves["sizes"].number == 2


def test_the_page_of_a_recording_is_the_page_of_its_session(path):
    """With every kind of metric, in the driver and in a task, with too many series, and with what belongs to no record:
    a worker that crashed, and the sizes of values. Only the machine's own metrics are missing, and the job has ended."""

    @ray.remote(max_retries=0)
    def work(n):
        Counts("done").inc()
        if n == 1:
            raise ValueError("of no use")
        if n == 2:
            os._exit(1)
        return bytes(200_000)

    ray.init(num_cpus=1, telemetry=path, log_to_driver=False)
    registry.current.most_series = 3
    loads = Counts("loads", tag_keys=("kind",))
    with pytest.warns(RuntimeWarning, match="more than 3 series"):
        for number in range(5):
            loads.inc(2, {"kind": str(number)})
    registry.current.most_series = 10_000
    Gauge("level", description="of the sea").set(7)
    sizes = Histogram("sizes", boundaries=[1, 10])
    for size in (0.5, 5, 50):
        sizes.observe(size)
    counter = Counter.remote()
    refs = [work.remote(n) for n in range(4)] + [counter.add.remote(1)]
    stuck = work.options(num_gpus=1).remote(5)
    assert len(ray.wait(refs, num_returns=5)[0]) == 5
    runtime = ray.api.session
    runtime.drain()
    for one in runtime.recorders:
        one.finish()
    ended = int(dict(rows(path, "SELECT name, value FROM session"))["ended_us"]) / 1e6
    runtime.now = lambda: ended - runtime.epoch
    live = [line for line in page(runtime) if not re.search("ray_(node_(?!manager)|component_)", line)]
    del refs, stuck, counter
    ray.shutdown()
    for job, before, after in ("ray_running_jobs", 1, 0), ("ray_finished_jobs_total", 0, 1):
        (at,) = [number for number, line in enumerate(live) if line.startswith(job + "{")]
        assert live[at].endswith(f" {before}.0")
        live[at] = live[at][:-3] + f"{after}.0"
    with restored(path) as runtime:
        assert list(difflib.ndiff(live, page(runtime))) == [f"  {line}" for line in live]
    assert any(line.startswith("ray_loads_total{") and 'otel_metric_overflow="true"' in line for line in live)


def page(runtime):
    """The lines of the metrics' page. Long fractions are cut off: a recording has times in microseconds."""
    return [re.sub(r"\.[0-9]{4,}$", "", line) for line in registry.export_text(runtime=runtime).splitlines()]


# ------------------------------------------------------------ a program that hangs, and is killed

DEADLOCK = """
import sys, miniray as ray

@ray.remote
class Peer:
    def meet(self, other):
        return ray.get(other.answer.remote(self_handle(self))) if other else 1
    def answer(self, other):
        return ray.get(other.meet.remote(None))
    def be(self, handle):
        self.handle = handle

def self_handle(peer):
    return peer.handle

ray.init(num_cpus=2, telemetry=sys.argv[1])
one, two = Peer.options(name="one").remote(), Peer.options(name="two").remote()
ray.get([one.be.remote(one), two.be.remote(two)])
print("ready", flush=True)
ray.get(one.meet.remote(two))
"""


def test_a_deadlock_is_explained_after_the_program_was_killed(path):
    """The waits are in the file: the doctor names the circle, and so does `find_deadlock`."""
    with subprocess.Popen(
        [sys.executable, "-c", DEADLOCK, path], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as program:
        assert program.stdout is not None and program.stdout.readline() == "ready\n"
        wait_for_rows(
            path,
            "SELECT 1 FROM session WHERE name = 'waits_json' AND json_array_length(value, '$.workers') = 2",
        )
        program.send_signal(signal.SIGKILL)
    with restored(path) as runtime:
        (waits,) = runtime.driver_waiters.values()
        why = find_deadlock(runtime, waits)
        assert why is not None and why.reason == "deadlock"
        assert "killed" in runtime.gaps[0]
    done = run("from miniray import cli; import sys; sys.exit(cli.main(sys.argv[1:]))", "doctor", "--from", path)
    assert "DEADLOCK: call Peer.meet" in done.stdout, done.stderr
    assert f"python -m miniray explain --from {path}" in done.stdout
    assert "was killed before its session had ended" in done.stderr


# ------------------------------------------------------------ the command line


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A recording with a bit of everything."""
    path = str(tmp_path_factory.mktemp("recorded") / "run.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "_begun", {})
        with ray.init(num_cpus=2, telemetry=path):
            counter = Counter.options(name="count").remote()
            ray.get([counter.add.remote(1), *[double.remote(n) for n in range(3)]])
            kept = [fail.remote(), double.options(num_gpus=1, name="stuck").remote(1), ray.put(bytes(300_000))]
            with pytest.raises(ValueError, match="of no use"):
                ray.get(kept[0])
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("list tasks --format json", '"name": "stuck"'),
        ("get tasks fail", "ValueError: of no use"),
        ("get actors count", "class_name: Counter"),
        ("summary tasks", "PENDING_NODE_ASSIGNMENT: 1"),
        ("memory", "Aggregate object store stats"),
        ("memory --stats-only", "1 objects"),
        ("doctor", "1 task failed (1 fail) with ValueError: of no use"),
        ("explain stuck", "task stuck needs 1 CPU and 1 GPU, and no node has that much"),
        ("explain", "Nothing runs."),
        ("explain stuck --format json", '"reason": "infeasible"'),
        ("logs actor --id count --err", "adds 1"),
        ("logs", "raylet.out"),
        ("metrics", 'Name="stuck"'),
        ("metrics --format openmetrics", "# EOF"),
        ("status", "{'CPU': 1.0, 'GPU': 1.0}: 1+ pending tasks/actors"),
    ],
)
def test_a_command_reads_a_file(file, capsys, words, expected):
    """Each prints what it prints for a program."""
    assert cli.main([*words.split(), "--from", file]) == 0
    assert expected in capsys.readouterr().out


def test_a_timeline_of_a_file(file, capsys, tmp_path):
    """The page and the trace have the tasks of the recorded program."""
    page, trace = tmp_path / "run.html", tmp_path / "run.json"
    assert cli.main(["timeline", "-o", str(page), "-o", str(trace), "--from", file]) == 0
    assert "stuck" in page.read_text()
    names = {event.get("name") for event in json.loads(trace.read_text())}
    assert any("double" in str(name) for name in names)


def test_names_of_logs_have_the_pid_of_the_recorded_program(path):
    """And rows do."""
    done = run(
        "import os, sys, miniray as ray\n"
        "ray.init(telemetry=sys.argv[1]); ray.get(ray.remote(lambda: print('x')).remote()); print(os.getpid())",
        path,
    )
    pid = done.stdout.split()[-1]
    with restored(path) as runtime:
        told = answers(runtime)
    assert all(name.endswith((f"-{pid}.out", "raylet.out")) for name in told["logs"]["names"]["worker_out"])
    assert told["state.list_jobs"][0]["pid"] == int(pid)
    assert "import os, sys" in told["state.list_jobs"][0]["entrypoint"]
    assert {row["worker_pid"] for row in told["state.list_tasks"]} == {int(pid)}


def test_words_that_make_no_sense(file, capsys, tmp_path):
    """A file that is missing, another file, a file and a program."""
    other = tmp_path / "other.db"
    other.write_text("precious")
    for words, problem in (
        (["list", "tasks", "--from", "missing.db"], "there is no file missing.db"),
        (["list", "tasks", "--from", str(other)], "other.db cannot be read"),
        (["list", "tasks", "--from", file, "--", "program.py"], "not both"),
    ):
        assert cli.main(words) == 2
        assert problem in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["logs", "--follow", "--from", file])


def test_an_empty_file_is_an_empty_recording(path, capsys):
    """A recorder that was killed before its first transaction leaves one. A command says so."""
    open(path, "w").close()
    with restored(path) as runtime:
        assert "ended before the first row" in runtime.gaps[0]
        assert not runtime.cluster.nodes
    for words in ("list workers", "memory", "logs", "doctor"):
        assert cli.main([*words.split(), "--from", path]) == 1
        assert "has no rows" in capsys.readouterr().err


def test_tasks_without_a_node_are_rows(file, tmp_path, capsys):
    """A recording that lacks one table answers with the others, and every command says what it lacks."""
    partial = str(tmp_path / "partial.db")
    shutil.copyfile(file, partial)
    connection = sqlite3.connect(partial)
    connection.execute("DELETE FROM nodes")
    connection.commit()
    connection.close()
    assert cli.main(["list", "tasks", "--from", partial]) == 0
    assert "stuck" in capsys.readouterr().out
    for words in "doctor", "list workers", "list nodes", "memory", "logs", "status", "explain stuck", "summary objects":
        assert cli.main([*words.split(), "--from", partial]) == 0, words
        assert "has no rows of nodes" in capsys.readouterr().err


# ------------------------------------------------------------ record


def test_the_command_record(tmp_path):
    """The program's streams and exit code are its own; the name of the file goes to stderr."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, miniray as ray
            print(sys.argv[1:], ray.get(ray.remote(lambda: 7).remote()))
            ray.shutdown()
            ray.init(num_cpus=1)
            sys.exit(3)  # while the second session runs
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "miniray", "record", "-o", "own.db", "--", "script.py", "a", "-b"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        env=ENVIRONMENT,
    )
    assert done.returncode == 3
    assert done.stdout == "['a', '-b'] 7\n"
    told = [dict(rows(str(tmp_path / name), "SELECT * FROM session")) for name in ("own.db", "own-2.db")]
    assert [(one["how_it_ended"], one["status"]) for one in told] == [
        ("shutdown", "SUCCEEDED"),
        ("exit code 3", "FAILED"),
    ]
    first, second = done.stderr.splitlines()
    assert first.startswith("Recorded in own.db: 1 task, ") and second.startswith("Recorded in own-2.db: 0 tasks, ")


def test_record_without_a_session(tmp_path):
    """A program that starts none: exit code 1, and a line that says so."""
    script = tmp_path / "script.py"
    script.write_text("print(1)")
    done = run("from miniray import cli; import sys; sys.exit(cli.main(sys.argv[1:]))", "record", "--", str(script))
    assert done.returncode == 1 and "started no session" in done.stderr


# ------------------------------------------------------------ pytest


def test_the_pytest_option_keeps_recordings_of_failed_tests(pytester, monkeypatch):
    """A test that passes leaves nothing. A session of several tests is kept if one of them failed."""
    pytester.makepyfile(
        test_it="""
        import miniray as ray, pytest

        def test_passes(miniray_cluster):
            assert ray.get(ray.remote(lambda: 1).remote()) == 1

        def test_fails(miniray_cluster):
            assert ray.get(ray.remote(lambda: 1).remote()) == 2

        @pytest.fixture(scope="module")
        def wide():
            ray.init(num_cpus=1)
            yield
            ray.shutdown()

        def test_first_of_the_module(wide):
            pass

        def test_second_of_the_module(wide):
            assert 0

        def test_last_of_the_module(wide):
            pass
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = pytester.runpytest_subprocess("-p", "miniray.testing.plugin", "--miniray-record", "kept")
    done.assert_outcomes(passed=3, failed=2)
    kept = pytester.path / "kept"
    assert sorted(file.name for file in kept.iterdir()) == [
        "test_it.py-test_fails.db",
        "test_it.py-test_first_of_the_module.db",
    ]
    done.stdout.fnmatch_lines(["*kept/test_it.py-test_fails.db"])
    with restored(str(kept / "test_it.py-test_fails.db")) as runtime:
        assert len(runtime.cluster.tasks) == 1


def test_a_recording_is_read_beside_a_running_session(file):
    """Other threads, and the session itself, are not confused by it."""
    with ray.init(num_cpus=1, log_to_driver=False):
        with restored(file) as runtime:
            assert len(runtime.cluster.tasks) == 7
            assert ray.get(ray.remote(lambda: os.getpid()).remote()) == os.getpid()
            names = ray.remote(lambda: [*state.list_logs(node_ip="127.0.0.1")["worker_out"]]).remote()
            assert len(ray.get(names)) == 1 < len(state.list_logs(node_ip="127.0.0.1")["worker_out"])
        (own,) = state.list_logs(node_ip="127.0.0.1")["worker_out"]
        assert own.endswith(f"-{os.getpid()}.out")
