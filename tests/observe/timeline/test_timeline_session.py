"""The timeline and spans of a real session."""

from __future__ import annotations

import json

import miniray as ray
import pytest
from miniray import profile, timeline


@pytest.fixture
def session():
    """Two CPUs."""
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def spans(events: list[dict], cat: str) -> list[dict]:
    """Finished spans of a category that begins so."""
    return [event for event in events if event["ph"] == "X" and event["cat"].startswith(cat)]


@ray.remote
def work(n):
    """Returns what it gets."""
    return n


def test_every_task_is_there_as_soon_as_get_has_returned(session):
    """Nothing is flushed later: a record is complete when its value can be had."""
    ray.get([work.remote(number) for number in range(20)])
    events = timeline()
    for cat in ("task::work", "task:deserialize_arguments", "task:execute", "task:store_outputs"):
        assert len(spans(events, cat)) == 20


def test_without_a_session_there_is_an_error_and_no_file(tmp_path):
    """RuntimeError, as in Ray."""
    for path in ("t.json", "t.html"):
        with pytest.raises(RuntimeError, match="has not been started"):
            timeline(tmp_path / path)
    with pytest.raises(RuntimeError, match="has not been started"):
        timeline()
    assert list(tmp_path.iterdir()) == []


def test_arrows_stay_known_when_the_values_are_gone(session):
    """The consumer's record still says whose result it took."""
    assert ray.get(work.remote(work.remote(1))) == 1
    events = timeline()
    assert len([event for event in events if event["ph"] == "s" and event["cat"] == "dependency"]) == 1


def test_a_span_in_a_task_lies_in_its_execution(session):
    """On the worker's thread, with what was added."""

    @ray.remote
    def parse():
        with profile("parse", {"file": "a.csv"}):
            return 1

    ray.get(parse.remote())
    events = timeline()
    [span], [execution] = spans(events, "parse"), spans(events, "task:execute")
    assert span["args"] == {"file": "a.csv"} and span["tid"] == execution["tid"]
    assert execution["ts"] <= span["ts"] and span["ts"] + span["dur"] <= execution["ts"] + execution["dur"]


def test_a_span_in_a_coroutine_is_its_actors(session):
    """Each coroutine knows its own task."""

    @ray.remote
    class Fetcher:
        async def fetch(self):
            with profile("fetching"):
                return 1

    actor = Fetcher.remote()
    ray.get([actor.fetch.remote() for _ in range(3)])
    events = timeline()
    assert {span["tid"] for span in spans(events, "fetching")} == {spans(events, "task::Fetcher.fetch")[0]["tid"]}
    assert len(spans(events, "fetching")) == 3


def test_a_span_of_the_driver_alone_is_a_timeline(session):
    """No task is needed for it."""
    with profile("setup"):
        pass
    [span] = spans(timeline(), "setup")
    assert span["tid"].startswith("driver:")


def test_an_exception_passes_through_a_span_and_is_noted(session):
    """Its type and text, as Ray does."""
    with pytest.raises(ZeroDivisionError), profile("divide"):
        raise ZeroDivisionError("by zero")
    [span] = spans(timeline(), "divide")
    assert span["args"] == {"type": "<class 'ZeroDivisionError'>", "value": "by zero"}


def test_an_exception_without_a_text_passes_through_too(session):
    """Whatever its __str__ does."""

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    with pytest.raises(Mute), profile("p"):
        raise Mute
    assert "raised RuntimeError" in spans(timeline(), "p")[0]["args"]["value"]


def test_without_a_session_a_span_does_nothing():
    """Code that is measured runs anywhere."""
    with profile("nothing"):
        pass


def test_a_span_that_outlives_its_session_is_forgotten():
    """It belongs to the session in which it began."""
    ray.init(num_cpus=1)
    with profile("old"):
        ray.shutdown()
        ray.init(num_cpus=1)
    assert timeline() == []
    ray.shutdown()


def test_a_span_takes_a_text_and_a_dict():
    """Anything else is a mistake that shows at once."""
    with pytest.raises(TypeError, match="name of a span"):
        profile(3)
    with pytest.raises(TypeError, match="extra_data"):
        profile("p", ["a"])


def test_only_the_last_spans_are_kept_and_the_others_counted(session, monkeypatch):
    """The bound is the session's."""
    from collections import deque

    from miniray.process import context

    monkeypatch.setattr(context.session, "spans", deque(maxlen=10))
    for number in range(25):
        with profile(f"s{number}"):
            pass
    events = timeline()
    assert [span["cat"] for span in spans(events, "s")] == [f"s{number}" for number in range(15, 25)]
    [said] = [event for event in events if event["name"] == "recording"]
    assert said["args"]["dropped"]["spans"] == 15


def test_a_driver_that_waits_is_seen_to_wait(session):
    """Where it stood in get is a span, and what the critical path goes through."""
    release = ray.put(1)

    @ray.remote
    def slow(one):
        return sum(range(300_000)) + one

    ray.get(slow.remote(release))
    assert [span["tid"][:7] for span in spans(timeline(), "ray.get")][:1] == ["driver:"]


def test_tasks_that_run_on_the_callers_thread_have_lanes_too():
    """local_mode: a call runs inside the one that made it."""
    ray.init(local_mode=True)

    @ray.remote
    def outer():
        return ray.get(work.remote(1))

    assert ray.get(outer.remote()) == 1
    [inside], [around] = spans(timeline(), "task::work"), spans(timeline(), "task::outer")
    assert around["ts"] <= inside["ts"] and inside["ts"] + inside["dur"] <= around["ts"] + around["dur"]
    ray.shutdown()


def test_both_files_of_a_real_session(session, tmp_path):
    """Written, and readable."""
    ray.get([work.remote(number) for number in range(5)])
    timeline(tmp_path / "t.json", html=tmp_path / "t.html")
    assert len(json.loads((tmp_path / "t.json").read_text())) == len(timeline())
    assert "work" in (tmp_path / "t.html").read_text()
