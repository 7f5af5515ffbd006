"""The timeline as Chrome trace events: Ray's spans, and the events that miniray adds."""

from __future__ import annotations

import json
import math
import logging
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from miniray.observe.timeline import chrome as module
from miniray.observe.timeline.chrome import json_text
from miniray.process import context

from tests.observe.timeline.timeline_sessions import CANCELLED, EPOCH, Session, pipeline, raised

KEYS = {"cat", "name", "pid", "tid", "ts", "dur", "ph", "cname", "args"}
PHASES = ["task:deserialize_arguments", "task:execute", "task:store_outputs"]


def events_of(session: Session, **options: Any) -> list[dict[str, Any]]:
    """The events of a session, as a file would hold them."""
    return json.loads("".join(json_text(session.read(), **options)))


def kind(events: list[dict[str, Any]], ph: str, cat: str = "") -> list[dict[str, Any]]:
    """The events with this phase letter, whose category begins with `cat`."""
    return [event for event in events if event["ph"] == ph and event["cat"].startswith(cat)]


def end(event: dict[str, Any]) -> float:
    """The end of a span."""
    return event["ts"] + event["dur"]


def one_task(**more: Any) -> Session:
    """A task that took 10 ms: 1 waiting for a worker, 1 fetching, 7 running, 1 storing."""
    session = Session()
    session.task("square", 1.0, 1.0, 1.001, 1.002, 1.009, 1.010, **more)
    return session


def test_a_finished_task_is_one_span_around_its_three_phases():
    """The phases fill the span exactly, to the last bit of a float."""
    events = events_of(one_task())
    [span] = kind(events, "X", "task::")
    fetching, running, storing = (kind(events, "X", phase)[0] for phase in PHASES)
    assert span["ts"] == fetching["ts"]
    assert end(fetching) == running["ts"]
    assert end(running) == storing["ts"]
    assert end(storing) == end(span)
    assert span["ts"] == pytest.approx((EPOCH + 1.001) * 1e6, abs=0.5)
    assert span["dur"] == pytest.approx(9_000, abs=0.5)


def test_spans_have_the_names_and_colours_of_ray():
    """cat has the name of the call, name that of the function; methods of actors have their bare names."""
    session = Session()
    actor = session.actor("Counter", name="bob")
    session.task("__init__", 0, 0, 1, 2, 3, 4, actor=actor, constructs=True, name="bob:Counter.__init__")
    session.task("add", 0, 0, 4, 5, 6, 7, actor=actor)
    session.task("square", 0, 0, 1, 2, 3, 4, name="special")
    events = events_of(session)
    spans = kind(events, "X", "task::")
    assert [(span["cat"], span["name"]) for span in spans] == [
        ("task::bob:Counter.__init__", "__init__"),
        ("task::Counter.add", "add"),
        ("task::special", "work.square"),
    ]
    assert [span["args"] for span in spans] == [
        {"name": span["name"], "task_id": task.hex} for span, task in zip(spans, session.cluster.tasks.values())
    ]
    assert {span["cname"] for span in spans} == {"generic_work"}
    assert [kind(events, "X", phase)[0]["cname"] for phase in PHASES] == ["rail_load", "rail_animation", "rail_idle"]
    assert {span["tid"] for span in spans[:2]} == {f"worker:{actor.worker.hex}"}
    assert {span["pid"] for span in spans} == {"127.0.0.1"}


def test_every_event_has_the_nine_keys_of_ray():
    """A program that reads Ray's list must be able to read the events that Ray does not have."""
    session = pipeline(60)
    session.span("mine", 0.0, 0.1)
    session.wait(None, 0.0, 0.2)
    session.cluster.dropped["tasks"] = 7
    events = events_of(session)
    assert {event["ph"] for event in events} >= set("XMsfbei")
    assert all(KEYS <= set(event) for event in events)
    assert all(event["ts"] > 0 and event["dur"] >= 0 and isinstance(event["args"], dict) for event in events)


def test_a_failed_task_has_the_error_on_its_execution_and_stores_nothing():
    """The args are type, value and traceback, as in Ray."""
    session = one_task(failure=raised(ZeroDivisionError("division by zero"), "divide"))
    events = events_of(session)
    [execution] = kind(events, "X", "task:execute")
    assert sorted(execution["args"]) == ["traceback", "type", "value"]
    assert execution["args"]["type"] == "<class 'ZeroDivisionError'>"
    assert execution["args"]["value"] == "division by zero"
    assert "ZeroDivisionError: division by zero" in execution["args"]["traceback"]
    assert not kind(events, "X", "task:store_outputs")
    assert len(kind(events, "X", "task::")) == 1


def test_a_failure_without_an_exception_has_its_error_type():
    """A cancelled task has no exception of the user."""
    [execution] = kind(events_of(one_task(failure=CANCELLED)), "X", "task:execute")
    assert execution["args"] == {"type": "TASK_CANCELLED", "value": "it was cancelled", "traceback": "it was cancelled"}


def test_each_attempt_has_its_own_spans():
    """An attempt keeps its error when another one follows."""
    session = one_task()
    [task] = session.cluster.tasks.values()
    session.again(task, raised(OSError("away")), 1.01, 1.01, 1.02, 1.03, 1.04, 1.05)
    events = events_of(session)
    assert [span["args"]["task_id"] for span in kind(events, "X", "task::")] == [task.hex, task.hex]
    assert [execution["args"].get("value") for execution in kind(events, "X", "task:execute")] == ["away", None]


@pytest.mark.parametrize("quarters", range(4))
def test_a_task_that_takes_no_time_is_not_inside_the_one_before_it(quarters):
    """chrome://tracing compares ends in whole microseconds. It put a task of 0.75 microseconds into the task before it,
    and complained about the arrow that ended there."""
    session = Session()
    end = 1 + quarters * 0.25e-6
    session.task("long", 0, 0, 0.5, 0.6, 0.7, end)
    session.task("short", 0, 0, end, end, end, end)
    long, short = kind(events_of(session, integer_ids=True), "X", "task::")
    rounded = [math.floor(span["ts"] + span["dur"] + 0.5) for span in (long, short)]
    assert long["ts"] + long["dur"] <= short["ts"] and rounded[0] < rounded[1]


def test_a_running_task_extends_to_the_present():
    """Every span that begins also ends, since viewers complain about the others. `unfinished` in the args tells."""
    session = Session()
    session.task("runs", 1.0, 1.0, 1.1, 1.2)
    session.task("waits", 1.3)
    session.task("stands_in_line", 1.4, 1.5)
    session.clock = 2.0
    for options in ({}, {"integer_ids": True}):
        events = events_of(session, **options)
        assert not kind(events, "B")
        span, execution = kind(events, "X", "task::runs") + kind(events, "X", "task:execute")
        assert span["args"]["unfinished"] and execution["args"]["unfinished"]
        assert end(span) == end(execution) and span["dur"] == 900_000 and execution["dur"] == 800_000
        unfinished = {event["name"] for event in kind(events, "b") if event["args"].get("unfinished")}
        assert unfinished == {"waits: waiting for arguments", "stands_in_line: queued"}
        assert len(kind(events, "b")) == len(kind(events, "e"))


def test_waiting_and_queued_come_before_the_worker():
    """They overlap, so they are asynchronous events with ids of their node, under the name of the task."""
    session = Session()
    session.task("load", 1.0, 1.0, 1.0, 1.1, 1.4, 1.5)
    session.task("clean", 1.0, 1.5, 1.75, 1.8, 1.9, 2.0, after=(session.cluster.tasks[1],))
    events = events_of(session)
    length = {
        name: [
            e["ts"] - b["ts"]
            for b in kind(events, "b")
            for e in kind(events, "e")
            if b["id2"] == e["id2"] and b["name"] == name
        ]
        for name in ("clean: waiting for arguments", "clean: queued")
    }
    assert length == {"clean: waiting for arguments": [500_000], "clean: queued": [250_000]}
    assert all("id" not in event and set(event["id2"]) == {"local"} for event in kind(events, "b"))


def test_arrows_lead_from_submission_to_execution_and_from_producer_to_consumer():
    """Both ends lie within a span of their thread; viewers do not draw other arrows."""
    session = Session()
    first, second = session.worker(), session.worker()
    load = session.task("load", 1.0, 1.0, 1.0, 1.1, 1.4, 1.5, worker=first)
    session.task("clean", 1.0, 1.5, 1.6, 1.7, 1.8, 1.9, worker=second, after=(load,))
    events = events_of(session)
    spans = kind(events, "X")
    arrows = {}
    for start in kind(events, "s"):
        [arrival] = [event for event in kind(events, "f") if event["id"] == start["id"]]
        assert arrival["bp"] == "e"
        for point in (start, arrival):
            assert any(span["tid"] == point["tid"] and span["ts"] <= point["ts"] <= end(span) for span in spans)
        arrows.setdefault(start["cat"], []).append(
            (start["tid"].split(":")[0], start["ts"], arrival["tid"], arrival["ts"])
        )
    base = EPOCH * 1e6
    assert arrows["submission"] == [
        ("driver", base + 1.0e6, f"worker:{first.hex}", base + 1.1e6),
        ("driver", base + 1.0e6, f"worker:{second.hex}", base + 1.7e6),
    ]
    assert arrows["dependency"] == [("worker", base + 1.4e6, f"worker:{second.hex}", base + 1.6e6)]


def test_a_task_of_a_task_is_submitted_from_its_parents_worker():
    """The arrow begins at the parent's worker."""
    session = Session()
    parent = session.task("parent", 1.0, 1.0, 1.0, 1.1, 1.8, 1.9, worker=session.worker())
    session.task("child", 1.2, 1.2, 1.3, 1.4, 1.5, 1.6, worker=session.worker(), inside=parent)
    starts = kind(events_of(session), "s", "submission")
    assert [start["tid"] for start in starts] == ["driver:01000000" + "f" * 48, f"worker:{parent.worker.hex}"]


def test_metadata_names_nodes_and_workers_and_comes_last_in_time():
    """Perfetto takes the last name of a thread, and every event whose tid is a text renames it."""
    session = pipeline(40)
    events = events_of(session)
    names = {event["args"]["name"] for event in kind(events, "M") if event["name"] in ("process_name", "thread_name")}
    assert {
        "Node 127.0.0.1 (00000001, head)",
        "Node 127.0.0.2 (00000002)",
        "driver",
        "worker 1",
        "worker 9 tally:Counter",
    } <= names
    assert min(event["ts"] for event in kind(events, "M")) >= max(end(event) for event in kind(events, "X"))
    named = {(event["pid"], event["tid"]) for event in kind(events, "M") if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in events} <= named


def exact_ns(us: float | int) -> int:
    """A time of the file in nanoseconds, as a viewer computes it. It must be a whole number."""
    exact, product = Fraction(us) * 1000, us * 1000
    assert exact.denominator == 1 and product == exact, us
    return int(product)


def check_nesting(events: list[dict[str, Any]]) -> int:
    """Check in whole nanoseconds that the spans of a thread are nested or apart; returns how many there are."""
    by_thread: dict[tuple[Any, Any], list[tuple[int, int]]] = {}
    for span in kind(events, "X"):
        begin = exact_ns(span["ts"])
        by_thread.setdefault((span["pid"], span["tid"]), []).append((begin, begin + exact_ns(span["dur"])))
    for spans in by_thread.values():
        open_until: list[int] = []
        for begin, over in sorted(
            spans, key=lambda one: one[0]
        ):  # Perfetto keeps the order of the file for equal times
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or over <= open_until[-1]
            open_until.append(over)
    return sum(map(len, by_thread.values()))


def crowded(seed: int) -> Session:
    """Everything that can overlap: coroutines, spans and waits of several threads, an empty task, a dead worker."""
    chance = random.Random(seed)
    session = pipeline(60, seed=seed)
    fetcher = session.actor("Fetcher", is_async=True)
    tasks = list(session.cluster.tasks.values())
    for _ in range(40):
        begin = chance.random() * session.clock
        until = begin + chance.random() * 0.1
        call = session.task("get", begin, begin, begin, begin, until, until, actor=fetcher)
        session.span("part", begin, (begin + until) / 2, fetcher.worker, call.number)
        session.span("rest", begin, until + chance.choice((0.0, 0.01)), fetcher.worker, call.number)
    worker = session.worker()
    at = session.clock
    for _ in range(5):  # a clock that stands still, as in the simulated runtime
        session.task("instant", at, at, at, at, at, at, worker=worker)
    session.task("long", at - 1, at - 1, at - 1, at - 1, at + 1, at + 1, worker=worker)
    for _ in range(60):
        begin = chance.random() * at
        session.span("mine", begin, begin + chance.choice((0.0, 1e-7, 0.01, 0.2)))
        session.wait(chance.choice((None, *tasks)), begin, begin + chance.choice((0.0, 1e-7, 0.05)))
    session.task("running", at - 0.1, at - 0.1, at - 0.05, at - 0.04, worker=session.worker())
    return session


@pytest.mark.parametrize("seed", range(20))
def test_spans_of_one_row_are_nested_or_apart(seed):
    """Exactly, in whole nanoseconds: viewers drop a span that begins inside another one and ends outside it."""
    session = crowded(seed)
    recording = session.read()
    events = events_of(session, integer_ids=True)
    on_workers = sum(1 for row in recording.rows if row.leased)
    assert check_nesting(events) > 3 * on_workers
    assert len(kind(events, "X", "task::")) == on_workers
    assert min(span["dur"] for span in kind(events, "X")) > 0  # speedscope cannot place an empty span
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for span in kind(events, "X"):
        spans.setdefault((span["pid"], span["tid"]), []).append((exact_ns(span["ts"]), exact_ns(end(span))))
    for point in kind(events, "s") + kind(events, "f"):
        at = exact_ns(point["ts"])
        assert any(begin <= at <= over for begin, over in spans[point["pid"], point["tid"]])
    named = {(event["pid"], event["tid"]) for event in kind(events, "M") if event["name"] == "thread_name"}
    assert set(spans) <= named


@pytest.mark.parametrize("short", [False, True])
def test_times_stay_exact_in_every_form(monkeypatch, short):
    """Whole microseconds since the epoch in Ray's form; quarters since the beginning in a file. A viewer multiplies
    both by 1000 without rounding."""
    if short:
        monkeypatch.setattr(module, "DETAILED_ATTEMPTS", 100)
    session = pipeline(400)
    check_nesting(events_of(session))
    events = events_of(session, integer_ids=True)
    check_nesting(events)
    assert min(event["ts"] for event in events) == 0
    assert all(type(event["ts"]) is int for event in events_of(session))


def test_every_phase_has_a_length():
    """An empty span confuses speedscope; a constructor, for example, stores nothing and takes no time for it."""
    session = Session()
    session.task("quick", 1.0, 1.0, 1.0, 1.0, 1.00001, 1.00001)
    assert min(span["dur"] for span in kind(events_of(session), "X")) > 0


def coroutines() -> Session:
    """Three calls of an async actor; each overlaps the next one."""
    session = Session()
    actor = session.actor("Fetcher", is_async=True)
    for begin, until in ((1.0, 1.4), (1.2, 1.6), (1.5, 1.9)):
        session.task("get", begin, begin, begin, begin + 0.01, until - 0.01, until, actor=actor)
    return session


def test_coroutines_share_a_thread_as_in_ray_and_can_be_distinguished():
    """Their spans overlap, so each gets a phase "running" beside the thread."""
    events = events_of(coroutines())
    assert len({span["tid"] for span in kind(events, "X", "task::")}) == 1
    assert [event["args"]["task"] for event in kind(events, "b", "task:running")] == ["Fetcher.get"] * 3


def test_with_integer_ids_coroutines_have_rows_of_their_own():
    """Every pid and tid is a number above zero, and each row has a name."""
    events = events_of(coroutines(), integer_ids=True)
    assert [span["tid"] for span in kind(events, "X", "task::")] == [2, 3, 2]
    assert all(type(event["pid"]) is int and type(event["tid"]) is int for event in events)
    names = {event["tid"]: event["args"]["name"] for event in kind(events, "M") if event["name"] == "thread_name"}
    assert names == {1: "driver", 2: "worker 1 Fetcher", 3: "worker 1 Fetcher (2)"}


def test_a_span_of_user_code_is_a_separate_event():
    """Its category is its name. As in Ray, "name" and "cname" in the extra data change how it is shown."""
    session = one_task()
    [task] = session.cluster.tasks.values()
    session.span("parse", 1.003, 1.004, task.worker, task.number, file="a.csv")
    session.span("all", 1.0, 1.02, name="the lot", cname="good")
    [parse], [everything] = kind(events_of(session), "X", "parse"), kind(events_of(session), "X", "all")
    assert (parse["name"], parse["tid"], parse["args"]) == ("parse", f"worker:{task.worker.hex}", {"file": "a.csv"})
    assert (everything["name"], everything["cname"], everything["tid"][:7]) == ("the lot", "good", "driver:")


def test_waits_are_spans_named_as_in_ray():
    """They show when the driver or a task waited in get or wait."""
    session = one_task()
    session.wait(None, 1.0, 1.01)
    [wait] = kind(events_of(session), "X", "ray.get")
    assert (wait["name"], wait["cname"], wait["tid"][:7]) == ("ray.get", "good", "driver:")


def test_a_timeline_of_very_many_attempts_is_written_in_short_form(monkeypatch):
    """An attempt has its span, with the waiting times in the args, and its execution. The metadata says so."""
    monkeypatch.setattr(module, "DETAILED_ATTEMPTS", 100)
    session = pipeline(140)
    events = events_of(session)
    rows = session.read().rows
    assert Counter(event["cat"] for event in kind(events, "X"))["task:execute"] == len(rows)
    assert len(kind(events, "X", "task::")) == len(rows)
    assert not kind(events, "b") and not kind(events, "s", "submission")
    assert kind(events, "s", "dependency")
    assert {"queued_us"} <= set(kind(events, "X", "task::load")[0]["args"])
    assert kind(events, "X", "task::clean")[0]["args"]["waiting_us"] > 0
    [recording] = kind(events, "i", "recording")
    assert recording["args"]["short_form"] and "short form" in recording["args"]["notes"][-1]


def test_a_plain_task_of_many_takes_at_most_550_bytes(monkeypatch):
    """A trace of 100,000 tasks takes less than 55 MB."""
    monkeypatch.setattr(module, "DETAILED_ATTEMPTS", 100)
    session = Session()
    for number in range(1000):
        at = 100.0 + number * 1e-4
        session.task("identity", at, at, at + 2.0, at + 2.00001, at + 2.00002, at + 2.00003)
    assert len("".join(json_text(session.read(), integer_ids=True))) / 1000 < 550


def test_dropped_tasks_are_reported():
    """A note has their number, and an instant event shows it in the viewer."""
    session = one_task()
    session.cluster.dropped["tasks"] = 1234
    events = events_of(session)
    [recording] = kind(events, "i", "recording")
    assert recording["args"]["dropped"]["tasks"] == 1234
    [instant] = kind(events, "i", "dropped")
    assert "1,234 older tasks are missing" in instant["name"] and instant["s"] == "t"


HOSTILE = [
    "</script><script>alert(1)</script>",
    "\"'\\",
    "\x00\x1b[31m\x07\x9b",
    "x" * 10_000,
    "\u05e9\u05dc\u05d5\u05dd",
    "\u202egnp.exe",
    "lone \ud800",
    "\u2028",
    "\U0001f600",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_hostile_names_survive_and_the_file_prints(text):
    """A viewer gets the exact text. Letters stay letters, since Perfetto does not decode them; nothing in the text ends
    a string or steers a terminal."""
    session = Session()
    session.task(text, 1, 1, 2, 3, 4, 5, failure=raised(ValueError(text)), name=text)
    session.span(text, 1, 2, **{"key": text})
    whole = "".join(json_text(session.read()))
    assert whole.replace("\n", "").isprintable() and whole.encode("utf-8")
    events = json.loads(whole)
    assert kind(events, "X", "task::")[0]["cat"] == "task::" + text
    assert kind(events, "X", "task:execute")[0]["args"]["value"] == text
    assert [event["args"] for event in kind(events, "X") if event["cat"] == text] == [{"key": text}]


def test_an_empty_timeline_is_an_empty_list():
    """It has no metadata either."""
    assert events_of(Session()) == []


def test_an_empty_timeline_says_why(caplog, monkeypatch):
    """The warning says that nothing was submitted, or that all records were dropped."""
    session = Session(record_limit=10)
    monkeypatch.setattr(context, "session", session)
    with caplog.at_level(logging.WARNING):
        assert module.timeline() == []
        session.cluster.dropped["tasks"] = 12
        assert module.timeline() == []
    assert "has run no task yet" in caplog.messages[0]
    assert "All 12 tasks" in caplog.messages[1] and "last 10 finished tasks" in caplog.messages[1]
