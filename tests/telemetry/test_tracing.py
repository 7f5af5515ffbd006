"""Tracing: the spans of a session, their parents, and the context that travels beside the arguments."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import threading

import pytest

import miniray as ray
from miniray._common.test_utils import SignalActor
from miniray.process import context
from miniray.process.trace_context import CALL, span_id_of, trace_id_of
from miniray.telemetry.tracing import own_spans
from miniray.telemetry.tracing.headers import read as read_headers
from miniray.telemetry.tracing.spans import CONSUMER, ERROR, INTERNAL, PRODUCER, Span
from miniray.util import tracing

OF_CLIENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def tree(found: list[Span], parent: int | None = None) -> list:
    """The spans below one, as nested lists: names without the module, and without Ray's words."""
    made = []
    for span in found:
        if span.parent_id == parent:
            name = span.name.replace(f"{__name__}.", "").replace(" ray.remote_worker", " runs")
            made.append([name.replace(" ray.remote", ""), *tree(found, span.span_id)])
    return made


def ran(name: str, *below: list) -> list:
    """The tree of a call with one attempt, and what the attempt did."""
    return [name, [f"{name} runs", *below]]


@ray.remote
def leaf(x=1):
    return x


@ray.remote
def parent():
    return ray.get(leaf.remote(2))


@ray.remote
def waits(started, go_on):
    ray.get(started.send.remote())
    ray.get(go_on.wait.remote())


@ray.remote
def with_span():
    with tracing.start_span("inner", size=3):
        return ray.get(leaf.remote())


@ray.remote
class Actor:
    def m(self):
        return ray.get(leaf.remote())

    def spanned(self):
        with tracing.start_span("in method"):
            return ray.get(leaf.remote())

    def leaves_open(self):
        tracing.start_span("left open").__enter__()

    def stream(self):
        yield ray.get(leaf.remote())
        with tracing.start_span("between items"):
            yield ray.get(leaf.remote())

    @staticmethod
    def static():
        return ray.get(leaf.remote())


@ray.remote
class AsyncActor:
    async def m(self, name):
        with tracing.start_span(name):
            await asyncio.sleep(0.001)
            await leaf.remote()
        await leaf.remote()

    async def stream(self):
        yield await leaf.remote()


# ------------------------------------------------------------ calls and attempts


def test_a_call_is_a_producer_and_its_attempt_a_consumer(each_session):
    ray.get(leaf.remote())
    call, attempt = tracing.spans()
    assert (call.name, call.kind) == (f"{__name__}.leaf ray.remote", PRODUCER)
    assert (attempt.name, attempt.kind) == (f"{__name__}.leaf ray.remote_worker", CONSUMER)
    assert call.parent_id is None and attempt.parent_id == call.span_id and attempt.trace_id == call.trace_id
    assert call.start_ns <= attempt.start_ns <= attempt.end_ns


def test_nested_calls_are_children_of_the_attempt_that_made_them(each_session):
    ray.get(parent.remote())
    ray.get(leaf.remote())
    found = tracing.spans()
    assert tree(found) == [ran("parent", ran("leaf")), ran("leaf")]
    assert len({span.trace_id for span in found}) == 2


def test_the_calls_of_methods_and_constructors(each_session):
    actor = Actor.options(name="a").remote()
    ray.get(actor.m.remote())
    ray.get(ray.get_actor("a").static.remote())
    assert tree(tracing.spans()) == [
        ran("Actor.__init__"),
        ran("Actor.m", ran("leaf")),
        ran("Actor.static", ran("leaf")),
    ]


def test_every_attempt_is_a_child_of_the_one_call_and_has_its_own_calls(each_session):
    @ray.remote(max_retries=2, retry_exceptions=True)
    def flaky(count):
        ray.get(leaf.remote())
        if ray.get(count.add.remote()) < 2:
            raise ValueError("once")

    @ray.remote
    class Count:
        def __init__(self):
            self.n = 0

        def add(self):
            self.n += 1
            return self.n

    ray.get(flaky.remote(Count.remote()))
    found = tracing.spans()
    call = next(span for span in found if span.name.endswith("flaky ray.remote"))
    tries = [span for span in found if span.parent_id == call.span_id]
    assert [(span.attempt, span.status.code) for span in tries] == [(0, ERROR), (1, "UNSET")]
    for one in tries:
        calls = [span.name.removesuffix(" ray.remote") for span in found if span.parent_id == one.span_id]
        assert [name.rpartition(".")[2] for name in calls] == ["leaf", "add"]


def test_an_exception_is_the_status_and_an_event(each_session):
    @ray.remote
    def fails():
        raise ValueError("boom")

    with pytest.raises(ValueError):
        ray.get(fails.remote())
    call, attempt = tracing.spans()
    assert call.status == ("UNSET", "") and attempt.status == ("ERROR", "ValueError: boom")
    (event,) = attempt.events
    noted = event.attributes
    assert event.name == "exception" and event.time_ns == attempt.end_ns
    assert (noted["exception.type"], noted["exception.message"]) == ("ValueError", "boom")
    assert noted["exception.stacktrace"].rstrip().endswith("ValueError: boom") and noted["exception.escaped"] == "False"


def test_what_never_ran_has_only_its_call(session):
    """A call whose argument failed, one that was cancelled in its queue, and one of an actor that could not start."""

    @ray.remote
    def fails():
        raise ValueError

    @ray.remote
    class Bad:
        def __init__(self):
            raise KeyError("no")

        def m(self):
            return 1

    queued = leaf.options(resources={"nothing has": 1}).remote()
    ray.cancel(queued)
    refs = [queued, leaf.remote(fails.remote()), Bad.remote().m.remote()]
    for ref in refs:
        with pytest.raises(ray.exceptions.RayError):
            ray.get(ref)
    found = tracing.spans()
    # A call names its class with the function around it, as in Ray.
    bad = "test_what_never_ran_has_only_its_call.<locals>.Bad"
    assert [name for name, *below in tree(found) if not below] == ["leaf", "leaf", f"{bad}.m"]
    (init,) = [span for span in found if span.name == "Bad.__init__ ray.remote_worker"]
    assert init.status.code == ERROR and init.events[0].attributes["exception.type"] == "KeyError"


def test_an_attempt_that_was_lost_with_its_worker_is_an_error(session):
    @ray.remote(max_retries=0)
    def crashes():
        os._exit(1)

    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(crashes.remote())
    attempt = tracing.spans()[1]
    assert attempt.status.code == ERROR and attempt.status.description.startswith("WORKER_DIED") and attempt.end_ns


def test_a_span_that_runs_has_no_end(session):
    started, go_on = SignalActor.remote(), SignalActor.remote()
    ref = waits.remote(started, go_on)
    ray.get(started.wait.remote())
    running = [span.name for span in tracing.spans() if span.end_ns is None]
    assert running[0] == f"{__name__}.waits ray.remote_worker"
    ray.get([go_on.send.remote(), ref])
    assert all(span.end_ns for span in tracing.spans() if "waits" in span.name)


def test_the_ids_of_spans_follow_from_the_ids_of_tasks(each_session):
    ray.get(parent.remote())
    seed = context.session.trace_seed
    first = tracing.spans()[0].span_id
    for span in tracing.spans():
        number = int(span.task_id[:16], 16)
        assert span.span_id == span_id_of(seed, number, CALL if span.attempt is None else span.attempt + 1)
        assert span.trace_id == trace_id_of(seed, first)
    everything = {span_id_of(seed, n, part) for n in (*range(1, 300), 1 << 40, (1 << 44) - 1) for part in range(50)}
    assert len(everything) == 301 * 50 and max(everything) < 1 << 64


def test_a_simulated_run_has_the_same_ids_each_time():
    runs = []
    for _ in range(2):
        ray.init(num_cpus=2, runtime="simulated", seed=7)
        with tracing.start_span("outer"):
            ray.get(parent.remote())
        runs.append([(span.name, span.trace_id, span.span_id, span.start_ns) for span in tracing.spans()])
        ray.shutdown()
    assert runs[0] == runs[1]


def test_a_span_keeps_its_trace_when_the_record_of_its_parent_is_gone():
    ray.init(num_cpus=2, _system_config=None)
    context.session.cluster.history.limit = 3

    @ray.remote
    def chain(n):
        return chain.remote(n - 1) if n else None

    ref = chain.remote(20)
    while ref is not None:
        ref = ray.get(ref)
    found = tracing.spans()
    assert 4 <= len(found) <= 10 and len({span.trace_id for span in found}) == 1
    assert None not in {span.parent_id for span in found} and tracing.dropped()["tasks"] >= 16
    ray.shutdown()


def test_functions_and_arguments_are_untouched(each_session):
    @ray.remote
    def takes(*args, **kwargs):
        return args, kwargs, str(inspect.signature(takes_plain))

    def takes_plain(a, *, b=1):
        return a, b

    with tracing.start_span("outer"):
        assert ray.get(takes.remote(1, x=2)) == ((1,), {"x": 2}, "(a, *, b=1)")
        assert ray.get(takes.remote(_ray_trace_ctx=3)) == ((), {"_ray_trace_ctx": 3}, "(a, *, b=1)")
    assert str(inspect.signature(parent._function)) == "()"


# ------------------------------------------------------------ spans of the program


def test_a_span_of_the_driver_is_the_parent_of_its_calls(each_session):
    with tracing.start_span("outer", rows=3) as span:
        ray.get(leaf.remote())
        assert tracing.current_traceparent() == span.traceparent
    assert tracing.current_traceparent() is None
    found = tracing.spans()
    assert tree(found) == [["outer", ran("leaf")]]
    (own,) = [one for one in found if one.kind == INTERNAL]
    assert own.attributes == {"rows": "3"} and own.task_id is None and own.traceparent == span.traceparent


def test_a_span_in_a_task_is_between_the_attempt_and_its_calls(each_session):
    ray.get(with_span.remote())
    found = tracing.spans()
    assert tree(found) == [ran("with_span", ["inner", ran("leaf")])]
    attempt, own = found[1], found[-1]
    assert (own.task_id, own.attempt) == (attempt.task_id, 0)


def test_spans_nest_and_end_with_their_block(each_session):
    with tracing.start_span("a"):
        with tracing.start_span("b"):
            ray.get(leaf.remote())
        ray.get(leaf.remote())
    ray.get(leaf.remote())
    assert tree(tracing.spans()) == [ran("leaf"), ["a", ran("leaf"), ["b", ran("leaf")]]]


def test_spans_in_methods_and_what_one_call_leaves_open(each_session):
    """A method that leaves a span open does not pass it on to the next call of its actor."""
    actor = Actor.remote()
    ray.get(actor.spanned.remote())
    ray.get(actor.leaves_open.remote())
    ray.get(actor.m.remote())
    assert tree(tracing.spans())[1:] == [
        ran("Actor.spanned", ["in method", ran("leaf")]),
        ran("Actor.leaves_open", ["left open"]),
        ran("Actor.m", ran("leaf")),
    ]


def test_each_call_of_an_async_actor_has_its_own_spans(each_session):
    actor = AsyncActor.remote()
    ray.get([actor.m.remote(f"call {n}") for n in range(5)])
    assert tree(tracing.spans())[1:] == [ran("AsyncActor.m", ran("leaf"), [f"call {n}", ran("leaf")]) for n in range(5)]


def test_what_a_generator_calls_between_its_items_belongs_to_its_task(each_session):
    actor, other = Actor.remote(), AsyncActor.remote()
    assert [ray.get(item) for item in actor.stream.options(num_returns="streaming").remote()] == [1, 1]
    assert [ray.get(item) for item in other.stream.options(num_returns="streaming").remote()] == [1]
    assert tree(tracing.spans())[2:] == [
        ran("Actor.stream", ran("leaf"), ["between items", ran("leaf")]),
        ran("AsyncActor.stream", ran("leaf")),
    ]


def test_a_thread_with_a_copy_of_the_context_is_in_the_same_span(session):
    def call():
        ray.get(leaf.remote())

    @ray.remote
    def starts(copied):
        with tracing.start_span("around"):
            copy = contextvars.copy_context() if copied else contextvars.Context()
            thread = threading.Thread(target=copy.run, args=(call,))
            thread.start()
            thread.join()

    ray.get(starts.remote(True))
    ray.get(starts.remote(False))
    assert tree(tracing.spans()) == [
        ran("starts", ["around", ran("leaf")]),
        ran("starts", ["around"]),
        ran("leaf"),
    ]


def test_a_thread_of_a_task_has_spans_of_its_own(session):
    """Without a copy of the task's context. As in Ray, what it does begins a trace."""

    @ray.remote
    def starts():
        def run():
            seen.append(tracing.current_traceparent())
            with tracing.start_span("in thread") as span:
                seen.append(tracing.current_traceparent() == span.traceparent)
                ray.get(leaf.remote())
            ray.get(leaf.remote())

        seen: list = []
        thread = threading.Thread(target=contextvars.Context().run, args=(run,))
        thread.start()
        thread.join()
        return seen

    assert ray.get(starts.remote()) == [None, True]
    assert tree(tracing.spans()) == [ran("starts"), ran("leaf"), ["in thread", ran("leaf")]]
    assert tracing.spans()[-1].task_id is None


def test_a_span_that_is_open_is_shown_without_an_end(each_session):
    with tracing.start_span("outer", n=1) as span:
        ray.get(leaf.remote())
        span.set_attribute("n", 2)
        (own,) = [one for one in tracing.spans() if one.kind == INTERNAL]
        assert own.end_ns is None and own.attributes == {"n": "2"}
        assert tree(tracing.spans()) == [["outer", ran("leaf")]]
        assert ray.sql("select end_ns from spans where name = 'outer'").rows == [{"end_ns": None}]
    assert tree(tracing.spans()) == [["outer", ran("leaf")]] and tracing.spans()[-1].end_ns
    assert ray.sql("select end_ns > start_ns - 1 as over from spans where name = 'outer'").rows == [{"over": 1}]


def test_an_exception_that_leaves_a_span_is_noted_and_goes_on(each_session):
    with pytest.raises(KeyError), tracing.start_span("fails") as span:
        span.set_attribute("n", 1)
        raise KeyError("k")
    (own,) = tracing.spans()
    assert own.status == ("ERROR", "KeyError: 'k'") and own.attributes == {"n": "1"}
    assert own.events[0].attributes["exception.type"] == "KeyError"
    assert own.events[0].attributes["exception.stacktrace"].startswith("Traceback")


def test_a_span_needs_no_session():
    with tracing.start_span("outer") as outer:
        assert tracing.current_traceparent() == outer.traceparent
        with tracing.start_span("inner") as inner:
            assert inner.traceparent[:36] == outer.traceparent[:36]
        ray.init(num_cpus=1)
        ray.get(leaf.remote())
    assert tree(tracing.spans()) == [["outer", ran("leaf")]]
    ray.shutdown()
    with pytest.raises(RuntimeError):
        tracing.spans()


def test_the_number_of_spans_that_are_kept_is_limited_and_the_rest_is_counted(session, monkeypatch):
    monkeypatch.setattr(own_spans, "KEPT", 3)
    kept = own_spans.OwnSpans()
    own_spans.tracing_of(context.session).own_spans = kept
    for n in range(5):
        with tracing.start_span(f"span {n}"):
            pass
    assert [span.name for span in tracing.spans()] == ["span 2", "span 3", "span 4"]
    assert tracing.dropped() == {"tasks": 0, "spans": 2}
    assert (kept.dropped, kept.added) == (2, 5) and [span.name for span in kept.kept(4)] == ["span 4"]


@pytest.mark.parametrize("name", [None, 3, b"x"])
def test_the_name_of_a_span_is_a_text(name):
    with pytest.raises(TypeError, match="is a str"):
        tracing.start_span(name)


# ------------------------------------------------------------ headers


def test_a_context_comes_from_one_request_and_goes_into_another(each_session):
    @ray.remote
    def calls_a_server():
        with tracing.start_span("request"):
            return dict(tracing.inject({}))

    @ray.remote
    def calls_a_task():
        return ray.get(calls_a_server.remote())

    request = {"Traceparent": OF_CLIENT, "TraceState": "a=1,b=2", "baggage": "user=ann", "accept": "*/*"}
    with tracing.extract(request) as found:
        assert found.traceparent == tracing.current_traceparent() == OF_CLIENT
        sent = ray.get(calls_a_task.remote())
    assert tracing.inject({}) == {}
    assert sent["traceparent"][:36] == OF_CLIENT[:36] and sent["traceparent"][-3:] == "-01"
    assert (sent["tracestate"], sent["baggage"]) == ("a=1,b=2", "user=ann")
    spans = tracing.spans()
    assert {span.trace_id for span in spans} == {int(OF_CLIENT.split("-")[1], 16)}
    assert {span.state for span in spans} == {"a=1,b=2"}
    assert spans[0].parent_id == int(OF_CLIENT.split("-")[2], 16)
    (own,) = [span for span in spans if span.kind == INTERNAL]
    assert f"{own.span_id:016x}" == sent["traceparent"].split("-")[2]


def test_flags_are_passed_on(each_session):
    with tracing.extract({"traceparent": OF_CLIENT[:-2] + "00"}):
        assert ray.get(ray.remote(lambda: tracing.current_traceparent()).remote()).endswith("-00")


def test_baggage_travels_without_a_span(each_session):
    with tracing.extract({"baggage": "k=v"}) as found:
        assert found.traceparent is None and tracing.current_traceparent() is None
        assert tracing.inject({}) == {"baggage": "k=v"}
        inside = ray.get(ray.remote(lambda: dict(tracing.inject({}))).remote())
    attempt = tracing.spans()[1]
    assert inside == {"traceparent": attempt.traceparent, "baggage": "k=v"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        OF_CLIENT.upper(),
        OF_CLIENT[:-1],
        OF_CLIENT + "-more",
        OF_CLIENT.replace("00-", "ff-", 1),
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        OF_CLIENT.replace("4", "٤"),
        OF_CLIENT.replace("-", "_"),
    ],
)
def test_a_header_that_is_not_valid_changes_nothing(text):
    with tracing.start_span("before") as span, tracing.extract({"traceparent": text}) as found:
        assert found.traceparent is None and tracing.current_traceparent() == span.traceparent


def test_what_headers_may_contain():
    later = read_headers({"traceparent": "01" + OF_CLIENT[2:] + "-more"})
    assert later is not None and later.traceparent == OF_CLIENT
    assert read_headers([("traceparent", OF_CLIENT), ("traceparent", OF_CLIENT)]) is None  # twice
    pairs = read_headers([("traceparent", f" {OF_CLIENT} "), ("tracestate", "a=1"), ("TRACESTATE", "b=2"), (b"x", 1)])
    assert pairs is not None and pairs.state == "a=1,b=2"
    many = read_headers({"traceparent": OF_CLIENT, "tracestate": ",".join(f"k{n}=1" for n in range(33))})
    assert many is not None and many.state == ""
    evil = read_headers({"traceparent": OF_CLIENT, "tracestate": "a=1\r\nSet-Cookie: x", "baggage": "k=v\nx"})
    assert evil is not None and (evil.state, evil.baggage) == ("", "")
    assert read_headers({"baggage": "k=" + "v" * 9000}) is None and read_headers({}) is None
