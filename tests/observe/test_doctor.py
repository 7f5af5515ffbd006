"""The doctor walks the runbook: each symptom is found in a session that has it, and in no other."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import miniray as ray
from miniray.cli import main
from miniray.exceptions import RayActorError
from miniray.observe import doctor
from miniray.process import context
from miniray.util.placement_group import placement_group

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXERCISES = ROOT / "chapters/11_observability/exercises"


@pytest.fixture
def session():
    """Two CPUs, a small store."""
    ray.init(num_cpus=2, object_store_memory=20_000_000, log_to_driver=False)
    yield
    ray.shutdown()


def found(symptom=None):
    """The findings of the running session; with a symptom the only one, which must have it."""
    findings = doctor.findings(context.session)
    if symptom is None:
        return findings
    assert [finding.symptom for finding in findings] == [symptom], findings
    return findings[0]


@ray.remote
def double(n):
    """A task."""
    return 2 * n


@ray.remote
class Keeper:
    """An actor."""

    def keep(self, n):
        """One call."""
        return n

    def crash(self):
        """Its last."""
        os._exit(3)


def test_a_healthy_session_has_no_findings(session):
    """Tasks, an actor, a value, and an actor that was killed when it was done."""
    keeper = Keeper.remote()
    assert ray.get([double.remote(1), keeper.keep.remote(2), ray.put(3)]) == [2, 2, 3]
    ray.kill(keeper)
    assert found() == []


def test_a_task_that_nothing_can_run_is_explained(session):
    """Once for all of the same request, with what the nearest node has."""
    refs = [double.options(num_gpus=1).remote(n) for n in range(7)]
    finding = found("PENDING")
    assert finding.sentence.startswith("7 tasks double are PENDING_NODE_ASSIGNMENT: task double needs 1 CPU and 1 GPU")
    assert len(finding.rows) == doctor.FEW and finding.rows[0]["required_resources"] == {"CPU": 1.0, "GPU": 1.0}
    assert finding.rows[0]["task_id"] == refs[0].task_id().hex()


def test_actors_and_groups_wait_too(session):
    """Each by its own kind of row."""
    actor, group = Keeper.options(num_cpus=9).remote(), placement_group([{"CPU": 5}])
    assert [next(reversed(finding.rows[0])) for finding in found()] == ["actor_id", "placement_group_id"]
    assert all(finding.symptom == "PENDING" for finding in found())
    del actor, group


def test_a_dead_actor_has_its_cause_and_its_lost_calls(session):
    """The call that it died in, and those that came after."""
    keeper = Keeper.remote()
    for call in (lambda: keeper.crash.remote(), lambda: keeper.keep.remote(1)):
        with pytest.raises(RayActorError):
            ray.get(call())
    finding = found("DEAD_ACTOR")
    assert (
        finding.sentence == "1 actor Keeper died after 0 tasks, in Keeper.crash: SYSTEM_ERROR: it called os._exit(3); "
        "2 calls failed because of it"
    )


@ray.remote
class Talker:
    """An actor that prints."""

    def crash(self):
        """Its last words, and those on stderr."""
        print("reading 12", flush=True)
        print("reading 13\n", flush=True)
        print("out of paper", file=sys.stderr, flush=True)
        os._exit(3)


def test_a_dead_actor_has_its_last_words(session, capsys):
    """Its log's last line, without a question more; and that its calls failed is told once, not denied under FAILED."""
    talker = Talker.remote()
    with pytest.raises(RayActorError):
        ray.get(talker.crash.remote())
    assert found("DEAD_ACTOR").sentence.endswith(
        "1 call failed because of it; it last printed: reading 13; the last line on its stderr: out of paper"
    )
    assert main(["doctor"]) == 0
    assert "FAILED (except as part of DEAD_ACTOR), RETRIES" in capsys.readouterr().out


def test_an_actor_that_is_called_after_it_was_killed(session):
    """To kill it was meant; to call it was not."""
    keeper = Keeper.remote()
    ray.get(keeper.keep.remote(1))
    ray.kill(keeper)
    assert found() == []
    with pytest.raises(RayActorError):
        ray.get(keeper.keep.remote(2))
    assert "killed" in found("DEAD_ACTOR").sentence


def test_failures_are_put_together_by_the_error_s_class(session):
    """Their messages differ in what they are about."""

    @ray.remote
    def fail(n):
        raise KeyError(f"row {n}")

    refs = [fail.remote(n) for n in range(3)]
    ray.wait(refs, num_returns=3)
    finding = found("FAILED")
    assert finding.sentence == "3 tasks failed (3 fail) with KeyError: 'row 0' (2 more messages of this kind)"


def test_a_storm_of_retries_is_told_by_attempts_and_their_error(session):
    """Also when it ended well. A single retry is none."""

    @ray.remote
    class Times:
        def __init__(self):
            self.n = 0

        def next(self):
            self.n += 1
            return self.n

    @ray.remote(max_retries=9, retry_exceptions=True)
    def flaky(times, good):
        if ray.get(times.next.remote()) < good:
            raise OSError("line is busy")

    ray.get(flaky.remote(Times.remote(), 2))
    assert found() == []
    ray.get(flaky.remote(Times.remote(), 6))
    finding = found("RETRIES")
    assert finding.sentence == "2 tasks flaky took 8 attempts; 6 of them ended with OSError: line is busy"
    assert finding.rows[0]["num_attempts"] == 6


def test_the_driver_s_growing_list_is_a_leak(session):
    """Each was made when the one before it was there. Let go of, they are none."""
    kept = [ray.put(bytes(200_000)) for _ in range(20)]
    finding = found("LEAK")
    assert finding.sentence.startswith(
        "20 objects made by (put object) are held still, 3.8 MiB in all, 20% of the object stores"
    )
    kept.clear()
    assert found() == []


def test_values_in_files_are_found(session):
    """What does not fit is written out; the rows are the stores'."""
    kept = [ray.put(bytes(7_000_000)) for _ in range(4)]
    finding = found("SPILLING")
    assert finding.rows[0]["capacity_bytes"] == 20_000_000 and finding.rows[0]["spilled"] >= 1
    assert finding.sentence.endswith(f"; in files now: {finding.rows[0]['spilled']} of (put object)")
    del kept


def test_many_tiny_tasks(session):
    """From five hundred on."""
    ray.get([double.remote(n) for n in range(doctor.TINY_TASKS - 1)])
    assert found() == []
    ray.get(double.remote(1))
    assert found("TINY").sentence.startswith("500 tasks double with a median of 0.0")


def test_a_queue_at_one_actor_while_cpus_are_free(session):
    """As it is now: calls that stand behind one that does not end."""

    @ray.remote
    class Slow:
        def work(self, refs):
            return ray.get(refs)

    never, slow = double.options(num_gpus=1).remote(1), Slow.remote()
    ray.get(slow.work.remote([]))
    calls = [slow.work.remote([never]) for _ in range(12)]
    finding = next(one for one in found() if one.symptom == "IDLE")
    assert finding.sentence.endswith("Slow runs one at a time what is asked of it")
    assert finding.sentence.startswith("2 of 2 CPU are free")
    del calls


def test_dropped_records_are_said(session):
    """All other answers are about what is left then."""
    tables = doctor.Tables(context.session)
    tables.dropped = {"tasks": 7}
    (finding,) = doctor.dropped(tables)
    assert "let go of 7 tasks" in finding.sentence


def rows_of(durations):
    """Tables with finished tasks of these durations, in milliseconds."""
    tables = doctor.Tables(context.session)
    rows = [
        {
            "name": "part",
            "state": "FINISHED",
            "task_id": str(n),
            "parent_task_id": "driver",
            "node_id": "n",
            "start_time_ms": 1.0,
            "end_time_ms": 1.0 + ms,
            "duration_ms": ms,
        }
        for n, ms in enumerate(durations)
    ]
    tables.tasks, tables.by_name = rows, {"part": rows}
    return tables


@pytest.mark.parametrize(
    "durations, late",
    [
        ([20, 21, 19, 22, 400], 1),
        ([20, 21, 19, 22, 60], 0),
        ([1, 1, 1, 1, 30], 0),
        ([20, 400], 0),
        ([20, 20, 20, 20, 20, 300, 400], 2),
    ],
)
def test_a_straggler_is_late_by_the_median_of_its_name(session, durations, late):
    """What is short may be late by chance, and of two nobody can say which is usual."""
    findings = list(doctor.stragglers(rows_of(durations)))
    assert len(findings) == bool(late)
    assert not late or findings[0].sentence.startswith(f"{late} of {len(durations)} tasks part ran for 400 ms")


def test_a_straggler_has_its_last_words(session):
    """What it printed may say what it was given."""

    @ray.remote
    def part(n):
        print("part", n)
        return n

    refs = [part.remote(n) for n in range(5)]
    assert ray.get(refs) == [0, 1, 2, 3, 4]
    tables = doctor.Tables(context.session)
    for row in tables.tasks:
        row["duration_ms"] = 400.0 if row["task_id"] == refs[3].task_id().hex() else 20.0
    [finding] = doctor.stragglers(tables)
    assert finding.sentence.endswith("; it last printed: part 3")


def test_a_task_that_waits_for_its_own_tasks_is_no_straggler(session):
    """Its time is theirs."""
    tables = rows_of([20, 20, 20, 20, 400])
    tables.tasks.append({**tables.tasks[0], "name": "child", "parent_task_id": "4"})
    assert not list(doctor.stragglers(tables))


@pytest.mark.parametrize(
    "program, symptom",
    [
        ("stuck", "PENDING"),
        ("leak", "LEAK"),
        ("straggler", "STRAGGLER"),
        ("retry_storm", "RETRIES"),
        ("dead_actor", "DEAD_ACTOR"),
    ],
)
def test_the_broken_programs_of_the_book_are_seen_through(program, symptom):
    """From the command line, as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "miniray", "doctor", "--format", "json", "--", str(EXERCISES / f"{program}.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert symptom in [finding["symptom"] for finding in json.loads(done.stdout)]


def test_a_program_that_hangs_is_looked_into_where_it_hangs(tmp_path):
    """After so many seconds; then it is interrupted, and 130 is the exit code."""
    program = tmp_path / "hangs.py"
    program.write_text(
        "import miniray as ray\nray.init(num_cpus=1)\n"
        "ray.get(ray.remote(lambda: 1).options(name='\\x1b[2J', num_cpus=2).remote())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "miniray", "doctor", "--after", "0.5", "--", str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 128 + signal.SIGINT
    assert "1. PENDING: 1 task \\x1b[2J is PENDING_NODE_ASSIGNMENT" in done.stdout and "\x1b" not in done.stdout


def test_the_questions_can_be_read_without_a_program(capsys):
    """Every symptom has one sentence."""
    assert main(["doctor", "--questions"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(doctor.RUNBOOK) + 1 and all(line.endswith("?") for line in lines[1:])


def test_without_a_program_or_a_session_there_is_nothing_to_ask(capsys):
    """One line that says what to type."""
    assert main(["doctor"]) == 1
    assert "python -m miniray doctor -- script.py" in capsys.readouterr().err
