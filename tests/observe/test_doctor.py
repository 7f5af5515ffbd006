"""The doctor finds each symptom of the runbook in a session that has it, and in no other."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

import miniray as ray
from miniray import state
from miniray._common.test_utils import wait_for_condition
from miniray.cli import main
from miniray.exceptions import RayActorError
from miniray.observe import doctor
from miniray.observe.stacks.report import busy_workers
from miniray.process import context
from miniray.util.queue import Queue
from miniray.util.placement_group import placement_group
from tests.observe.timeline.timeline_sessions import Session

until = partial(wait_for_condition, retry_interval_ms=1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXERCISES = ROOT / "chapters/11_observability/exercises"


@pytest.fixture
def session():
    """A session with two CPUs and a small object store."""
    ray.init(num_cpus=2, object_store_memory=20_000_000, log_to_driver=False)
    yield
    ray.shutdown()


def found(symptom=None):
    """The findings of the running session; with a symptom, the only finding, which must have that symptom."""
    findings = doctor.findings(context.session)
    if symptom is None:
        return findings
    assert [finding.symptom for finding in findings] == [symptom], findings
    return findings[0]


@ray.remote
def double(n):
    """A task that returns at once."""
    return 2 * n


@ray.remote
class Keeper:
    """An actor that can crash."""

    def keep(self, n):
        """Return the argument."""
        return n

    def crash(self):
        """Kill the worker."""
        os._exit(3)


def test_a_healthy_session_has_no_findings(session):
    """It ran a task, stored a value, and killed its actor when that was done."""
    keeper = Keeper.remote()
    assert ray.get([double.remote(1), keeper.keep.remote(2), ray.put(3)]) == [2, 2, 3]
    ray.kill(keeper)
    assert found() == []


def test_a_task_that_nothing_can_run_is_explained(session):
    """Tasks with the same request share one finding, which says what the nearest node lacks."""
    refs = [double.options(num_gpus=1).remote(n) for n in range(7)]
    finding = found("PENDING")
    assert finding.sentence.startswith("7 tasks double are PENDING_NODE_ASSIGNMENT: task double needs 1 CPU and 1 GPU")
    assert len(finding.rows) == doctor.FEW and finding.rows[0]["required_resources"] == {"CPU": 1.0, "GPU": 1.0}
    assert finding.rows[0]["task_id"] == refs[0].task_id().hex()


def test_pending_actors_and_groups_are_found_too(session):
    """Each finding has rows of its own kind."""
    actor, group = Keeper.options(num_cpus=9).remote(), placement_group([{"CPU": 5}])
    assert [next(reversed(finding.rows[0])) for finding in found()] == ["actor_id", "placement_group_id"]
    assert all(finding.symptom == "PENDING" for finding in found())
    del actor, group


def test_a_dead_actor_has_its_cause_and_its_lost_calls(session):
    """It counts the call in which the actor died, and the later ones."""
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
        """Print to both streams, and kill the worker."""
        print("reading 12", flush=True)
        print("reading 13\n", flush=True)
        print("out of paper", file=sys.stderr, flush=True)
        os._exit(3)


def test_a_dead_actor_has_its_last_words(session, capsys):
    """The finding quotes the last line of its log. Its failed calls are counted here, and FAILED says so."""
    talker = Talker.remote()
    with pytest.raises(RayActorError):
        ray.get(talker.crash.remote())
    assert found("DEAD_ACTOR").sentence.endswith(
        "1 call failed because of it; it last printed: reading 13; the last line on its stderr: out of paper"
    )
    assert main(["doctor"]) == 0
    assert "FAILED (except as part of DEAD_ACTOR), RETRIES" in capsys.readouterr().out


def test_an_actor_that_is_called_after_it_was_killed(session):
    """The kill was intended, but the call was not."""
    keeper = Keeper.remote()
    ray.get(keeper.keep.remote(1))
    ray.kill(keeper)
    assert found() == []
    with pytest.raises(RayActorError):
        ray.get(keeper.keep.remote(2))
    assert "killed" in found("DEAD_ACTOR").sentence


def test_failures_are_grouped_by_the_error_s_class(session):
    """Their messages may differ."""

    @ray.remote
    def fail(n):
        raise KeyError(f"row {n}")

    refs = [fail.remote(n) for n in range(3)]
    ray.wait(refs, num_returns=3)
    finding = found("FAILED")
    assert finding.sentence == "3 tasks failed (3 fail) with KeyError: 'row 0' (2 more messages of this kind)"


def test_a_storm_of_retries_is_found_with_its_error(session):
    """Even if the task succeeds in the end. A single retry is not a storm."""

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
    assert finding.sentence.startswith("2 tasks flaky took 8 attempts; 6 of them ended with OSError: line is busy")
    assert finding.rows[0]["num_attempts"] == 6


def test_the_driver_s_growing_list_is_a_leak(session):
    """Each value was made after the one before it was ready. Once they are released, there is no leak."""
    kept = [ray.put(bytes(200_000)) for _ in range(20)]
    finding = found("LEAK")
    assert finding.sentence.startswith(
        "20 objects made by (put object) are still held, 3.8 MiB in all, 20% of the object stores"
    )
    kept.clear()
    assert found() == []


def test_values_in_files_are_found(session):
    """Values that do not fit are spilled; the finding's rows are the stores."""
    kept = [ray.put(bytes(7_000_000)) for _ in range(4)]
    finding = found("SPILLING")
    assert finding.rows[0]["capacity_bytes"] == 20_000_000 and finding.rows[0]["spilled"] >= 1
    assert finding.sentence.endswith(f"; in files now: {finding.rows[0]['spilled']} of (put object)")
    del kept


def test_many_tiny_tasks(session):
    """Five hundred of them are a finding."""
    ray.get([double.remote(n) for n in range(doctor.TINY_TASKS - 1)])
    assert "TINY" not in {finding.symptom for finding in found()}  # on a busy machine some of them are stragglers
    ray.get(double.remote(1))
    (finding,) = [finding for finding in found() if finding.symptom == "TINY"]
    assert finding.sentence.startswith("500 tasks double took a median of 0.")


def test_a_queue_at_one_actor_while_cpus_are_free(session):
    """At the moment, the calls queue behind a call that does not end."""

    @ray.remote
    class Slow:
        def work(self, refs):
            return ray.get(refs)

    never, slow = double.options(num_gpus=1).remote(1), Slow.remote()
    ray.get(slow.work.remote([]))
    calls = [slow.work.remote([never]) for _ in range(12)]
    finding = next(one for one in found() if one.symptom == "IDLE")
    assert finding.sentence.endswith("Slow runs its calls one at a time")
    assert finding.sentence.startswith("2 of 2 CPU are free")
    del calls


@pytest.mark.parametrize("kind", ["computes", "gets", "awaits"])
def test_a_queue_that_does_not_move_is_found_with_the_call_that_blocks_it(session, monkeypatch, kind):
    """The finding has the line in which the call stands, what it waits for, and its stack. The call is not told again
    as one that runs on, nor the actor as one that is busy."""
    monkeypatch.setattr(doctor, "RUNNING_FROM_S", 0.0)

    @ray.remote
    class Shop:
        def __init__(self, refs):
            self.refs = refs

        def serve(self):
            if kind == "gets":
                ray.get(self.refs[0])
            time.sleep(1000)

    @ray.remote
    class AsyncShop:
        def __init__(self, refs):
            self.refs = refs

        async def serve(self):
            await self.refs[0]

    never = double.options(num_gpus=1).remote(1)
    shop = AsyncShop.options(max_concurrency=1).remote([never]) if kind == "awaits" else Shop.remote([never])
    calls = [shop.serve.remote() for _ in range(12)]
    line = {"computes": "time.sleep(1000)", "gets": "ray.get(self.refs[0])", "awaits": "await self.refs[0]"}[kind]
    until(lambda: line in str([row["stack"] for row in state.stacks()]))
    until(lambda: any(finding.symptom == "QUEUE" for finding in found()))
    findings = {finding.symptom: finding for finding in found()}
    assert set(findings) == {"PENDING", "QUEUE"}
    finding = findings["QUEUE"]
    name = "AsyncShop" if kind == "awaits" else "Shop"
    assert f".{name} does not move: 11 calls wait behind {name}.serve" in finding.sentence
    assert "stands in serve, line " in finding.sentence and "of test_doctor.py" in finding.sentence
    waits = {
        "computes": "",
        "gets": "blocked in get() or wait()",
        "awaits": f"awaits ObjectRef({never.hex()}) of double",
    }
    assert waits[kind] in finding.sentence
    assert line in "".join(finding.stacks[f"{name}.serve, which blocks the queue"])
    assert finding.rows[0]["task_id"] == calls[0].task_id().hex()


def test_a_queue_that_moves_is_no_finding(session, monkeypatch):
    """One of two calls that run has just begun: it may let the next one in."""
    monkeypatch.setattr(doctor, "RUNNING_FROM_S", 0.2)

    @ray.remote
    class Shop:
        def serve(self, length):
            time.sleep(length)

    shop = Shop.options(max_concurrency=2).remote()
    calls = [shop.serve.remote(1000), *(shop.serve.remote(0.01) for _ in range(1000))]
    until(lambda: state.list_tasks(filters=[("state", "=", "RUNNING")])[0]["duration_ms"] > 250)
    assert "QUEUE" not in {finding.symptom for finding in found()}
    del calls


def test_dropped_records_are_a_finding(session):
    """All other answers then cover only the remaining records."""
    tables = doctor.Tables(context.session)
    tables.dropped = {"tasks": 7}
    (finding,) = doctor.dropped(tables)
    assert "7 tasks were dropped" in finding.sentence


def run_of(durations):
    """A run of finished tasks with these durations, in milliseconds, one after the other."""
    run, at = Session(), 0.0
    for ms in durations:
        end = at + ms / 1000
        run.task("part", at, at, at, at, end, end)
        at = end
    return run


def stragglers_of(run):
    """The doctor's findings about a prepared run."""
    tables = doctor.Tables(context.session)
    tables.recording = run.read()
    return list(doctor.stragglers(tables))


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
    """A short task may be late by chance, and two tasks have no meaningful median."""
    findings = stragglers_of(run_of(durations))
    assert len(findings) == bool(late)
    assert not late or findings[0].sentence.startswith(f"{late} of {len(durations)} tasks part ran for 400 ms")


def test_a_straggler_has_its_last_words(session):
    """Its output may show its arguments."""

    @ray.remote
    def part(n):
        print("part", n)
        return n

    refs = [part.remote(n) for n in range(5)]
    assert ray.get(refs) == [0, 1, 2, 3, 4]
    tables = doctor.Tables(context.session)
    for row in tables.recording.rows:
        row.finished = row.leased + (0.4 if row.hex == refs[3].task_id().hex() else 0.02)
    [finding] = doctor.stragglers(tables)
    assert finding.sentence.endswith("; it last printed: part 3")


def test_a_task_that_waits_for_its_children_is_not_a_straggler(session):
    """The time belongs to the children."""
    run = run_of([20, 20, 20, 20, 400])
    run.task("child", 0.1, 0.1, 0.1, 0.1, 0.2, 0.2, inside=list(run.cluster.tasks.values())[-1])
    assert not stragglers_of(run)


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
def test_the_doctor_finds_the_fault_of_each_broken_program_in_the_book(program, symptom):
    """The command line prints the findings as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "miniray", "doctor", "--format", "json", "--", str(EXERCISES / f"{program}.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert symptom in [finding["symptom"] for finding in json.loads(done.stdout)]


def test_a_program_that_hangs_is_examined_while_it_hangs(tmp_path):
    """After the given number of seconds; then the program is interrupted, and the exit code is 130."""
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
    """Every symptom has one question."""
    assert main(["doctor", "--questions"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(doctor.RUNBOOK) + 1 and all(line.endswith("?") for line in lines[1:])


def test_without_a_program_or_a_session_there_is_nothing_to_ask(capsys):
    """The error says what to type."""
    assert main(["doctor"]) == 1
    assert "python -m miniray doctor -- script.py" in capsys.readouterr().err


def test_an_actor_that_ends_itself_has_not_failed(session):
    """Ray's rows say FINISHED, and so does the book. The doctor used to crash on a failed row without an error."""

    @ray.remote
    class Leaver:
        def leave(self):
            ray.actor.exit_actor()

    queue, leaver = Queue(), Leaver.remote()
    with pytest.raises(RayActorError):
        ray.get(leaver.leave.remote())
    queue.put(1)
    queue.shutdown()
    terminated = Keeper.remote()
    ray.get(terminated.keep.remote(1))
    with pytest.raises(RayActorError):
        ray.get(terminated.__ray_terminate__.remote())
    assert found() == []
    assert {row["state"] for row in state.list_tasks()} == {"FINISHED"}


def test_a_question_that_fails_leaves_the_others_their_answers(session, monkeypatch):
    """The failure is a finding itself."""

    def broken(tables):
        """Does it break?"""
        yield tables.nothing

    kept = [ray.remote(lambda: 1 / 0).remote()]
    ray.wait(kept)
    monkeypatch.setitem(doctor.RUNBOOK, "TINY", broken)
    findings = {finding.symptom: finding for finding in found()}
    assert set(findings) == {"FAILED", "TINY"} and "AttributeError" in findings["TINY"].sentence


def test_calls_that_wait_for_each_other_are_one_finding(session):
    """The circle is told once, with the stack of each call, although every member of it waits."""

    @ray.remote
    class Half:
        def ask(self, me):
            return ray.get(me.answer.remote())

        def answer(self):
            return 1

    half = Half.remote()
    asked = half.ask.remote(half)
    until(lambda: any(row["name"] == "Half.answer" for row in state.list_tasks()))
    until(lambda: any(running.blocked for running in busy_workers(context.session)))
    finding = found("DEADLOCK")
    assert "behind call Half.ask, which is blocked in get() or wait() on call Half.answer" in finding.sentence
    assert "me.answer.remote()" in "".join(finding.stacks["worker 1, which runs Half.ask"])
    ray.kill(half)
    with pytest.raises(RayActorError):
        ray.get(asked)


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_task_that_runs_on_has_its_stack(session, monkeypatch, kind):
    """Also if it is a coroutine that is suspended. A task that waits for it has no finding of its own."""
    monkeypatch.setattr(doctor, "RUNNING_FROM_S", 0.0)

    @ray.remote
    class Endless:
        async def wait(self):
            await asyncio.Event().wait()

    @ray.remote
    def endless():
        time.sleep(1000)

    @ray.remote
    def waits(refs):
        return ray.get(refs)

    actor = Endless.remote()
    ref = actor.wait.remote() if kind == "coroutine" else endless.remote()
    waits.remote([ref])
    until(lambda: sum(row["state"] == "RUNNING" for row in state.list_tasks()) == 2)
    until(lambda: any(running.blocked for running in busy_workers(context.session)))
    line = "Event().wait()" if kind == "coroutine" else "time.sleep(1000)"
    until(lambda: line in "".join(next(iter(found("RUNNING").stacks.values()))))
    finding = found("RUNNING")
    assert ("Endless.wait" if kind == "coroutine" else "endless") in finding.sentence
    place = "it stands in wait, line " if kind == "coroutine" else "it stands in endless, line "
    assert place in finding.sentence
