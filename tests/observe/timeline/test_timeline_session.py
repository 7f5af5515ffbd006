"""The timeline and spans of a real session."""

from __future__ import annotations

import json
import sys

import miniray as ray
import pytest
from miniray import profile, timeline
from miniray.observe.timeline.recording import read
from miniray.process import context
from miniray.util.metrics import Counter


@pytest.fixture
def session():
    """A session with two CPUs."""
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def spans(events: list[dict], cat: str) -> list[dict]:
    """The finished spans whose category begins with `cat`."""
    return [event for event in events if event["ph"] == "X" and event["cat"].startswith(cat)]


@ray.remote
def work(n):
    """Return the argument."""
    return n


def test_every_task_is_recorded_when_get_returns(session):
    """Nothing is flushed later: a record is complete when its value is available."""
    ray.get([work.remote(number) for number in range(20)])
    events = timeline()
    for cat in ("task::work", "task:deserialize_arguments", "task:execute", "task:store_outputs"):
        assert len(spans(events, cat)) == 20


def test_without_a_session_there_is_an_error_and_no_file(tmp_path):
    """It is a RuntimeError, as in Ray."""
    for path in ("t.json", "t.html"):
        with pytest.raises(RuntimeError, match="has not been started"):
            timeline(tmp_path / path)
    with pytest.raises(RuntimeError, match="has not been started"):
        timeline()
    assert list(tmp_path.iterdir()) == []


def test_arrows_outlive_the_values(session):
    """The consumer's record still names the producer."""
    assert ray.get(work.remote(work.remote(1))) == 1
    events = timeline()
    assert len([event for event in events if event["ph"] == "s" and event["cat"] == "dependency"]) == 1


def test_a_span_in_a_task_lies_in_its_execution(session):
    """It is on the worker's thread, and carries the extra data."""

    @ray.remote
    def parse():
        with profile("parse", {"file": "a.csv"}):
            return 1

    ray.get(parse.remote())
    events = timeline()
    [span], [execution] = spans(events, "parse"), spans(events, "task:execute")
    assert span["args"] == {"file": "a.csv"} and span["tid"] == execution["tid"]
    assert execution["ts"] <= span["ts"] and span["ts"] + span["dur"] <= execution["ts"] + execution["dur"]


def test_a_span_in_a_coroutine_belongs_to_its_actor(session):
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
    """It needs no task."""
    with profile("setup"):
        pass
    [span] = spans(timeline(), "setup")
    assert span["tid"].startswith("driver:")


def test_an_exception_passes_through_a_span_and_is_noted(session):
    """The span has its type and text, as in Ray."""
    with pytest.raises(ZeroDivisionError), profile("divide"):
        raise ZeroDivisionError("by zero")
    [span] = spans(timeline(), "divide")
    assert span["args"] == {"type": "<class 'ZeroDivisionError'>", "value": "by zero"}


def test_an_exception_whose_text_raises_passes_through_too(session):
    """The span notes the type of the error that __str__ raised."""

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    with pytest.raises(Mute), profile("p"):
        raise Mute
    assert "raised RuntimeError" in spans(timeline(), "p")[0]["args"]["value"]


def test_without_a_session_a_span_records_nothing():
    """The block runs all the same, and a later session does not know of it."""
    with profile("nothing"):
        pass
    ray.init(num_cpus=1)
    assert timeline() == []
    ray.shutdown()


def test_a_span_that_outlives_its_session_is_forgotten():
    """It belongs to the session in which it began."""
    ray.init(num_cpus=1)
    with profile("old"):
        ray.shutdown()
        ray.init(num_cpus=1)
    assert timeline() == []
    ray.shutdown()


def test_a_span_takes_a_text_and_a_dict():
    """Other types raise TypeError at once."""
    with pytest.raises(TypeError, match="name of a span"):
        profile(3)
    with pytest.raises(TypeError, match="extra_data"):
        profile("p", ["a"])


def test_only_the_last_spans_are_kept_and_the_others_are_counted(session, monkeypatch):
    """The session bounds their number."""
    from collections import deque

    from miniray.process import context

    monkeypatch.setattr(context.session, "spans", deque(maxlen=10))
    for number in range(25):
        with profile(f"s{number}"):
            pass
    events = timeline()
    assert [span["cat"] for span in spans(events, "s")] == [f"s{number}" for number in range(15, 25)]
    [recording] = [event for event in events if event["name"] == "recording"]
    assert recording["args"]["dropped"]["spans"] == 15


def test_a_wait_of_the_driver_is_a_span(session):
    """The critical path uses it."""
    release = ray.put(1)

    @ray.remote
    def slow(one):
        return sum(range(300_000)) + one

    ray.get(slow.remote(release))
    assert [span["tid"][:7] for span in spans(timeline(), "ray.get")][:1] == ["driver:"]


def test_tasks_that_run_on_the_callers_thread_have_lanes_too():
    """In local_mode, a call runs inside its caller."""
    ray.init(local_mode=True)

    @ray.remote
    def outer():
        return ray.get(work.remote(1))

    assert ray.get(outer.remote()) == 1
    [inside], [around] = spans(timeline(), "task::work"), spans(timeline(), "task::outer")
    assert around["ts"] <= inside["ts"] and inside["ts"] + inside["dur"] <= around["ts"] + around["dur"]
    ray.shutdown()


def test_a_real_session_can_be_written_to_both_kinds_of_file(session, tmp_path):
    """Both files can be read back."""
    ray.get([work.remote(number) for number in range(5)])
    timeline(tmp_path / "t.json", html=tmp_path / "t.html")
    assert len(json.loads((tmp_path / "t.json").read_text())) == len(timeline())
    assert "work" in (tmp_path / "t.html").read_text()


def test_the_page_has_the_curves_of_metrics(session, tmp_path):
    """Below the lanes, and the numbers in a table. A page without metrics has neither."""

    @ray.remote
    def count(n):
        Counter("rows_read", "Rows that were read").inc(n)

    ray.get(work.remote(1))
    timeline(html=tmp_path / "without.html")
    ray.get([count.remote(5) for _ in range(3)])
    timeline(html=tmp_path / "with.html")
    assert '"metrics":[]' in (tmp_path / "without.html").read_text()
    text = (tmp_path / "with.html").read_text()
    assert '"metrics":[{"title":"rows_read","kind":"counter"' in text
    assert "Rows that were read" in text and 'data-by="15"' in text


def test_the_page_has_the_lines_of_an_actors_call(session):
    """Those that this call wrote, not those of the actor's other calls; `get_log` has them only all together."""

    @ray.remote
    class Talker:
        def say(self, word):
            print("say", word)
            print("loud", word, file=sys.stderr)

        def keep_silent(self):
            return None

    talker = Talker.remote()
    first, second, silent = talker.say.remote("one"), talker.say.remote("two"), talker.keep_silent.remote()
    ray.get([first, second, silent])
    recording = read(context.session)
    texts, otherwise = recording.logs
    lines = {row.hex: texts.get((row.number, row.attempt)) for row in recording.rows}
    assert lines[first.task_id().hex()] == "say one\nloud one\n"
    assert lines[second.task_id().hex()] == "say two\nloud two\n"
    assert lines[silent.task_id().hex()] is None and otherwise == "It has printed nothing."
