"""The bottleneck of a run: twelve prepared runs whose cause is known. The page, `explain` and the doctor agree on each."""

from __future__ import annotations

from collections import Counter
from html import escape

import pytest

import miniray as ray
from miniray import state
from miniray.observe.explain.bottleneck import WORTH_NAMING, bottlenecks, explain_run
from miniray.observe.explain.evidence import kind_of_error, typical
from miniray.observe.timeline.page import page
from miniray.observe.timeline.recording import Recording
from miniray.observe.timeline.utilisation import utilisation
from tests.judges import record
from tests.observe.explain.slow_runs import RUNS, full_store
from tests.observe.timeline.timeline_sessions import Session, pipeline


def read(session: Session, reasons: dict[int, str] | None = None) -> Recording:
    """The recording of a session, with the reasons of what waits."""
    recording = session.read()
    recording.reasons.update(reasons or {})
    return recording


each_run = pytest.mark.parametrize("run, kind, symptom, words", RUNS, ids=[run.__name__ for run, *_ in RUNS])


@each_run
def test_the_bottleneck_is_the_real_one(run, kind, symptom, words):
    """It takes the largest part of the time, and its sentence gives the evidence."""
    first = bottlenecks(run().read())[0]
    assert first.kind == kind
    assert words in first.sentence
    assert first.share > 0.5


@each_run
def test_more_cpus_are_advised_only_where_they_would_help(run, kind, symptom, words):
    """A page that asks for more CPUs while most are idle sends people the wrong way."""
    session = run()
    used = utilisation(session.read())
    advises_cpus = "More CPUs, or" in bottlenecks(session.read())[0].advice
    assert advises_cpus == (kind == "cpus") and (not advises_cpus or used.share(used.busy) > 0.8)


@each_run
def test_the_page_explain_and_the_doctor_give_the_same_evidence(run, kind, symptom, words):
    """The page's first card and `explain` have the engine's sentence. The doctor names the symptom with the same
    numbers; it has none for runs that are as fast as their CPUs and dependencies allow."""
    session = run()
    first = bottlenecks(session.read())[0]
    assert escape(first.sentence) in "".join(page(session.read())).partition("</section>")[0]
    assert explain_run(session).chain[0]["text"] == first.sentence
    found = record.findings(session)
    assert [finding.symptom for finding in found] == ([symptom] if symptom else [])
    assert not symptom or words in found[0].sentence


@each_run
def test_the_reports_are_as_recorded(run, kind, symptom, words):
    """A reviewer can read them in tests/judges/recorded. After a change, `python -m tests.judges.record` writes them."""
    recorded = (record.RECORDED / f"{run.__name__}.txt").read_text()
    assert record.text_of(run.__doc__, run()) == recorded


def test_nothing_runs_and_something_waits():
    """The reason is that of `explain`."""
    session = Session()
    session.task("f", 0, 0, 0, 0, 1, 1)
    waiting = session.task("train", 0, 0)
    session.clock = 10
    reason = "task train needs 1 GPU, which no node has"
    first = bottlenecks(read(session, {waiting.number: reason}))[0]
    assert (first.kind, first.share) == ("pending", 0.9)
    assert first.sentence == "Nothing runs. Task train needs 1 GPU, which no node has."


def test_several_tasks_that_wait_are_counted():
    """One is named, with its reason."""
    session = Session()
    waiting = [session.task("train", 0, 0) for _ in range(3)]
    session.clock = 10
    [first] = bottlenecks(read(session, {waiting[0].number: "task train needs 1 GPU, which no node has"}))
    assert first.sentence == "Nothing runs. Task train needs 1 GPU, which no node has, and so do 2 more."


@pytest.mark.parametrize(
    "message, kind",
    [
        ("ValueError: no", "ValueError"),
        ("my_errors.Broken: no", "my_errors.Broken"),
        ("json.decoder.JSONDecodeError: no", "json.decoder.JSONDecodeError"),
        ("it went wrong", "TASK_EXECUTION_EXCEPTION"),
    ],
)
def test_errors_are_grouped_by_the_class_of_the_exception(message, kind):
    """With its module; or by Ray's name for the error, if the message begins with no class."""
    assert kind_of_error("TASK_EXECUTION_EXCEPTION", message) == kind
    assert kind_of_error("WORKER_DIED", message) == "WORKER_DIED"


def test_the_most_frequent_message_of_an_error_stands_for_all():
    """The other messages are counted."""
    assert typical("ValueError", Counter({"ValueError: b": 1, "ValueError: a": 5})) == (
        "ValueError: a (1 more message of this kind)"
    )
    assert typical("WORKER_DIED", Counter({"it crashed": 2})) == "WORKER_DIED: it crashed"


@pytest.mark.parametrize("seed", range(5))
def test_causes_are_in_order_and_share_the_time(seed):
    """They are disjoint parts of the time of the run; small ones are left out."""
    causes = bottlenecks(pipeline(300, seed=seed).read())
    assert [one.seconds for one in causes] == sorted((one.seconds for one in causes), reverse=True)
    assert sum(one.share for one in causes) <= 1.001
    assert all(one.share >= WORTH_NAMING for one in causes[1:])


def test_only_the_time_for_values_is_charged_to_a_full_store():
    """Nine tenths of each task in a run that spills; nothing in a run that does not, however long its tasks fetch."""
    first = bottlenecks(full_store().read())[0]
    assert (first.kind, round(first.share, 2)) == ("memory", 0.9)
    session = Session(cpus=2)
    session.task("fetch", 0, 0, 0, 5, 6, 6)
    assert "memory" not in [cause.kind for cause in bottlenecks(session.read())]


def test_an_empty_run_has_no_bottleneck():
    """There is nothing to explain."""
    assert bottlenecks(Session().read()) == []


def test_explain_without_a_thing_explains_the_run():
    """The same engine as the page and the doctor, on a real session."""
    ray.init(num_cpus=2)

    @ray.remote
    def step(number):
        return number

    for number in range(5):
        ray.get(step.remote(number))
    found = state.explain()
    assert found.kind == "run" and found.reason == found.chain[0]["reason"]
    assert found.name == found.chain[0]["name"] != ""
    assert str(found).startswith(found.chain[0]["text"])
    assert sum(cause["details"]["share"] for cause in found.chain) <= 1.001
    ray.shutdown()
