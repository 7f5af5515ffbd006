"""`--engine ray`: a program with `import miniray` runs on Ray.

The tests use a fake Ray with the real names and rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from miniray.observe.timeline.page import page
from miniray.observe.timeline.recording import FAILED, FINISHED, RETRIED, RUNNING, WAITING
from miniray.engine.views import recording_of

ROOT = Path(__file__).resolve().parent.parent.parent
FAKE_RAY = {
    "__init__.py": """
        from . import cloudpickle, util
        def init(address=None, **given):
            print("init", address, sorted(given), given["runtime_env"].get("env_vars"))
            given["runtime_env"]["worker_process_setup_hook"]()
        def timeline(filename=None):
            return "ray's timeline", filename
        def nodes():
            return [{"NodeID": "aa", "Alive": True, "Resources": {"CPU": 2.0}}]
        def available_resources():
            return {"CPU": 1.0}
        class _Context:
            gcs_address = "somewhere:1"
        def get_runtime_context():
            return _Context()
    """,
    "cloudpickle.py": """
        import sys
        by_value = []
        def register_pickle_by_value(module):
            if module.__name__ not in sys.modules:  # the real function refuses this too
                raise ValueError(module)
            by_value.append(module.__name__)
    """,
    "exceptions.py": "class RayError(Exception): pass",
    "util/__init__.py": "",
    "util/queue.py": "class Queue: pass",
    "util/metrics.py": """
        class Metric: pass
        class Histogram(Metric):
            seen = []
            def observe(self, value, tags=None):
                self.seen.append((value, tags))
    """,
    "util/state.py": """
        ROWS = []
        class Row(dict):
            asdict = lambda self: dict(self)
        def _list(address, filters=None, limit=None, detail=False, raise_on_missing_output=True):
            assert address == "somewhere:1" and detail
            return [Row(row) for row in ROWS if all(str(row[key]) == value for key, _, value in filters or [])]
        list_tasks = list_actors = list_objects = list_nodes = list_workers = list_placement_groups = list_jobs = _list
        list_runtime_envs = list_cluster_events = _list
        def _get(id, address=None):
            return [Row(row) for row in ROWS if row["task_id"] == id]
        get_task = get_actor = get_objects = get_node = get_worker = get_placement_group = get_job = _get
        def summarize_tasks(address=None): return {"cluster": {"total_tasks": len(ROWS)}}
        summarize_actors = summarize_objects = summarize_tasks
        def list_logs(): pass
        def get_log(): pass
    """,
}


@pytest.fixture
def program(tmp_path):
    """A function that runs a program with `miniray run --engine ray` on the fake, and returns its lines of output."""
    for name, text in FAKE_RAY.items():
        path = tmp_path / "ray" / name
        path.parent.mkdir(exist_ok=True)
        lines = text.split("\n")
        indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        path.write_text("\n".join(line[indent:] for line in lines))

    def run(text, *options):
        (tmp_path / "program.py").write_text("import miniray as ray\n" + text)
        done = subprocess.run(
            [sys.executable, "-m", "miniray", "run", "--engine", "ray", *options, "program.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_miniray_is_ray(program):
    """The modules of miniray are Ray's own. Those that need no session stay miniray's."""
    assert program("""
from miniray.util.queue import Queue
import miniray.exceptions, miniray.core.cluster
from miniray.testing.finder import Alias
print(ray.__name__, Queue.__module__, miniray.exceptions.RayError.__module__, Alias.__module__)
""") == ["ray ray.util.queue ray.exceptions miniray.testing.finder"]


def test_a_feature_that_ray_does_not_have_is_an_error_that_names_the_engine(program):
    """Modules, arguments, and functions that read a metric."""
    lines = program("""
from miniray.util import metrics
def tell(call):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, "engine ray" in str(error))
tell(lambda: exec("import miniray.nonsense"))
tell(lambda: exec("import miniray.util.nonsense"))
tell(lambda: exec("from miniray.testing import faults"))
tell(lambda: ray.init(num_nodes=3))
tell(lambda: ray.init(on_deadlock="raise"))
tell(lambda: metrics.Histogram().quantile(0.5))
tell(lambda: metrics.export_text())
tell(lambda: ray.timeline(integer_ids=True))
tell(lambda: ray.sql("SELECT 1"))
""")
    assert lines == ["ModuleNotFoundError True"] * 3 + ["ValueError True"] * 2 + ["NotImplementedError True"] * 4


def test_init_prepares_workers_and_drops_the_arguments_that_the_cluster_decides(program):
    """Workers get the finder by value; the program's own hook and environment variables stay."""
    assert program(
        """
environment = {"env_vars": {"A": "b"}, "worker_process_setup_hook": lambda: print("own")}
ray.init(num_cpus=4, namespace="n", runtime_env=environment)
print(ray.cloudpickle.by_value)
""",
        "--address",
        "there:2",
    ) == [
        "init there:2 ['namespace', 'runtime_env'] {'A': 'b'}",
        "own",
        "['miniray.testing.finder', 'miniray.engine.worker']",
    ]


def test_without_an_address_init_starts_ray_on_this_machine(program):
    """It keeps all arguments of the program."""
    assert program("ray.init(num_cpus=4)") == ["init None ['num_cpus', 'runtime_env'] None"]
    assert program("ray.init(num_cpus=4)", "--address", "local") == ["init local ['num_cpus', 'runtime_env'] None"]


def test_histograms_have_a_timer(program):
    """It measures milliseconds, for a block and for a function."""
    assert program("""
from miniray.util.metrics import Histogram
h = Histogram()
with h.timer({"a": "b"}):
    pass
@h.timer()
def five():
    return 5
print(five(), [(0 <= value < 10_000, tags) for value, tags in h.seen])
""") == ["5 [(True, {'a': 'b'}), (True, None)]"]


def test_state_has_plain_dicts_with_one_row_per_task_and_explain(program):
    """The rows come from Ray's rows of attempts, in the cluster that the program is connected to."""
    assert program("""
from miniray import state
from ray.util import state as rays
def task(id, attempt, status, need):
    return {"task_id": id, "attempt_number": attempt, "name": "f", "state": status, "start_time_ms": 1000,
            "end_time_ms": 1500, "required_resources": need, "error_type": None, "error_message": None,
            "worker_id": "w"}
rays.ROWS += [task("a" * 48, 0, "FAILED", {}), task("a" * 48, 1, "FINISHED", {}),
              task("b" * 48, 0, "PENDING_NODE_ASSIGNMENT", {"CPU": 9.0}),
              task("c" * 48, 0, "PENDING_NODE_ASSIGNMENT", {"CPU": 2.0})]
print([(row["task_id"][0], row["num_attempts"], row["duration_ms"]) for row in state.list_tasks()])
print(state.get_task("a" * 48)["num_attempts"], state.summarize_tasks())
for letter in "abc":
    found = state.explain(letter * 48)
    print(found, "|", found.reason)
try:
    state.explain("d" * 48)
except ValueError as error:
    print(error)
""") == [
        "[('a', 2, 500), ('b', 1, 500), ('c', 1, 500)]",
        "2 {'total_tasks': 4}",
        "task f has finished | finished",
        "task f needs {'CPU': 9.0}, which no node of the cluster has | infeasible",
        "task f needs {'CPU': 2.0}, and the cluster has only {'CPU': 1.0} free | resources_busy",
        f"Ray's tables have no task, actor or placement group with the id '{'d' * 48}'; a task appears in them about a "
        "second after its call",
    ]


def test_without_ray_the_command_says_how_to_install_it(tmp_path):
    """The exit code is 2."""
    (tmp_path / "program.py").write_text("")
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text("raise ImportError('not for this machine')")
    done = subprocess.run(
        [sys.executable, "-m", "miniray", "run", "--engine", "ray", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 2 and "--engine ray needs Ray itself" in done.stderr and "pip install" in done.stderr


# ---------------------------------------------------------------- the timeline's page


def row(task_id, state, *times, attempt=0, node="aa", worker="w1", actor=None, kind="NORMAL_TASK", name="f"):
    """A row in the form of Ray's list_tasks(detail=True). times: of the task's states, in order, in ms."""
    steps = ["PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER", "RUNNING", state]
    return {
        "task_id": task_id,
        "attempt_number": attempt,
        "name": name,
        "func_or_class_name": name,
        "state": state,
        "type": kind,
        "actor_id": actor,
        "node_id": node,
        "worker_id": worker,
        "parent_task_id": "ff",
        "required_resources": {"CPU": 1.0},
        "error_type": "TASK_EXECUTION_EXCEPTION" if state == "FAILED" else None,
        "error_message": None,
        "creation_time_ms": times[0],
        "events": [{"state": step, "created_ms": time} for step, time in zip(steps, times)],
    }


def test_ray_s_rows_make_a_recording_and_a_page():
    """Each attempt is in its worker's lane, and times from clocks that differ are put in order."""
    rows = [
        row("t4", "FINISHED", 1004, 1004, 1004, 1005, 1006, actor="a1", kind="ACTOR_TASK", name="A.go", worker="w3"),
        row("t1", "FINISHED", 1000, 1001, 1002, 1003, 1010, attempt=1),
        row("t1", "FAILED", 900, 901, 902, 903, 950),
        row("t2", "RUNNING", 1001, 1002, 999, 1004, worker="w2"),
        row("t3", "PENDING_NODE_ASSIGNMENT", 1002, 1003, node=None, worker=None),
    ]
    nodes = [{"NodeID": "aa", "Alive": True, "Resources": {"CPU": 2.0}}]
    recording = recording_of(rows, nodes, now=2.0)
    assert [(made.number, made.attempt, made.outcome) for made in recording.rows] == [
        (1, 0, RETRIED),
        (1, 1, FINISHED),
        (2, 0, RUNNING),
        (3, 0, WAITING),
        (4, 0, FINISHED),
    ]
    assert len(recording.lanes) == 3 and recording.rows[4].worker.actor.class_name == "A"
    late = recording.rows[2]
    assert late.created <= late.ready <= late.leased <= late.started
    assert "A.go" in "".join(page(recording))


def test_a_failed_last_attempt_is_a_failure():
    """Only an earlier failed attempt counts as retried."""
    recording = recording_of(
        [row("t1", "FAILED", 900, 901, 902, 903, 950)], [{"NodeID": "aa", "Resources": {"CPU": 2.0}}], now=2.0
    )
    assert recording.rows[0].outcome == FAILED and recording.rows[0].failure.error_type == "TASK_EXECUTION_EXCEPTION"
