"""Metrics: arguments that are refused, the owner of a record, sessions, histograms, timers and threads."""

import asyncio
import math
import pickle
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from miniray.observe.metrics import metrics, registry, series
from miniray.observe.metrics.registry import DRIVER_ID
from miniray.process import context
from miniray.process.context import current
from miniray.util.metrics import Counter, Gauge, Histogram, Metric, export_text, snapshot, unregister


@contextmanager
def worker(key):
    """Run the block as the worker with this key."""
    token = current.set(SimpleNamespace(worker=SimpleNamespace(key=key)))
    try:
        yield
    finally:
        current.reset(token)


def lines(text):
    """The samples of a Prometheus text, without the comments."""
    return [line for line in text.splitlines() if not line.startswith("#")]


# ------------------------------------------------------------------------------------------------ refused arguments


def test_a_counter_takes_positive_numbers_only():
    counter = Counter("jobs")
    for value in (0, -1, -0.0, False, float("-inf")):
        with pytest.raises(ValueError, match="value must be >0"):
            counter.inc(value)
    for value in ("1", None, [1], 1j):
        with pytest.raises(TypeError, match="value must be int or float"):
            counter.inc(value)
    assert counter.value() == 0.0


def test_a_number_that_would_spoil_the_sum_is_dropped():
    """NaN, infinity and negative observations leave no trace; their tags are checked all the same."""
    counter, histogram = Counter("c", tag_keys=("a",)), Histogram("h", boundaries=[1])
    for value in (math.nan, math.inf):
        counter.inc(value, {"a": "x"})
        histogram.observe(value)
        with pytest.raises(ValueError, match="Missing"):
            counter.inc(value)
    histogram.observe(-1)
    assert counter.value({"a": "x"}) == 0.0
    assert histogram.value()["count"] == 0


def test_a_gauge_ignores_none_and_keeps_any_number():
    gauge = Gauge("g")
    assert gauge.value() is None
    gauge.set(-2.5)
    gauge.set(None, {"whatever": 7})
    assert gauge.value() == -2.5
    gauge.set(math.inf)
    assert lines(export_text())[0].endswith(" +Inf")
    with pytest.raises(TypeError, match="int or float"):
        gauge.set("5")


def test_every_declared_tag_needs_a_text():
    counter = Counter("hits", tag_keys=("route", "code"))
    with pytest.raises(ValueError, match=r"Missing value for tag key\(s\): route,code\."):
        counter.inc()
    with pytest.raises(TypeError, match="Tag values must be str"):
        counter.inc(1, {"route": "/", "code": 200})
    with pytest.raises(TypeError, match="Tag values must be str"):
        counter.inc(1, {"route": "/", "code": ["unhashable"]})
    assert snapshot() == []


def test_an_undeclared_tag_is_refused_by_name():
    """Even if another tag is missing: a mistyped key is the more likely mistake."""
    counter = Counter("hits", tag_keys=("route",))
    with pytest.raises(ValueError, match=r"colour.*hits.*route"):
        counter.inc(1, {"route": "/", "colour": "red"})
    with pytest.raises(ValueError, match="rout,"):
        counter.inc(1, {"rout": "/", "x": ""})
    with pytest.raises(ValueError, match="colour"):
        counter.value({"route": "/", "colour": "red"})


@pytest.mark.parametrize("how", ["environment", "call"])
def test_in_lenient_mode_an_undeclared_tag_is_dropped(how, monkeypatch):
    if how == "environment":
        monkeypatch.setenv("MINIRAY_STRICT_METRICS", "0")
    else:
        metrics.set_lenient(True)
    counter = Counter("hits", tag_keys=("route",)).set_default_tags({"route": "/"})
    counter.inc(1, {"colour": "red"})
    counter.inc(1, {"route": "/", "colour": "blue"})
    with pytest.raises(AttributeError):
        counter.inc(1, {1: "a key that is not text"})
    assert counter.value() == 2.0
    assert counter._attachment.known == {}, "`known` would grow with each value of an undeclared tag"


def test_the_driver_registers_a_name_once():
    """The class does not matter. The error names two ways out, and the second of them works."""
    first = Counter("jobs")
    for make in (Counter, Gauge, lambda name: Histogram(name, boundaries=[1])):
        with pytest.raises(ValueError, match=r"'jobs'.*[Kk]eep the first.*unregister"):
            make("jobs")
    first.inc()
    assert unregister("jobs") is True
    assert Gauge("jobs").value() is None
    assert unregister("never made") is False


def test_a_failed_constructor_does_not_take_the_name():
    for wrong in ({"boundaries": []}, {"boundaries": [1], "tag_keys": ["a"]}, {"boundaries": ["1"]}):
        with pytest.raises((ValueError, TypeError)):
            Histogram("h", **wrong)
    with pytest.raises(AttributeError):
        Histogram("h", None, [1])
    Histogram("h", boundaries=[1])


def test_in_lenient_mode_two_metrics_share_a_name():
    metrics.set_lenient(True)
    Counter("jobs").inc()
    again = Counter("jobs")
    again.inc(2)
    assert again.value() == 3.0


def test_an_unusable_name_warns_and_records_nothing():
    for name in ("two words", "1st", "größe", "a\n"):
        with pytest.warns(UserWarning, match="Invalid metric name") as seen:
            counter = Counter(name, tag_keys=("a",))
        assert seen[0].filename == __file__
        counter.inc()
        with pytest.raises(TypeError):
            counter.inc("1")
        assert counter.value() == 0.0
    with pytest.warns(UserWarning):
        assert math.isnan(Histogram("a b", boundaries=[1]).quantile(0.5))
    with pytest.raises(ValueError, match="Empty name"):
        Counter("")
    assert snapshot() == [] and export_text() == ""


def test_default_tags_are_replaced_as_a_whole_and_checked():
    counter = Counter("hits", tag_keys=("route", "code"))
    given = {"route": "/", "code": "200"}
    assert counter.set_default_tags(given) is counter
    given["route"] = "changed later"
    counter.inc()
    counter.inc(1, {"code": "500"})
    for wrong, error in (({"x": "y"}, ValueError), ({"route": 5}, TypeError), (None, AttributeError)):
        with pytest.raises(error):
            counter.set_default_tags(wrong)
    assert counter.value() == 1.0
    assert counter.value({"route": "/", "code": "500"}) == 1.0
    counter.set_default_tags({"code": "200"})
    with pytest.raises(ValueError, match="route"):
        counter.inc()


def test_a_bare_metric_describes_itself_and_records_nothing():
    metric = Metric("m", "what", ("a",))
    assert metric.info == {"name": "m", "description": "what", "tag_keys": ("a",), "default_tags": {}}
    assert metric.snapshot() == []
    assert unregister(metric) is False
    Counter("m")


# ------------------------------------------------------------------------------------------------ owners


def test_each_worker_has_its_own_series():
    """As if it were a process: a name in an actor neither clashes with the same name in the driver nor adds to it."""
    mine = Counter("jobs")
    mine.inc()
    for key, amount in (("w1", 10), ("w2", 100)):
        with worker(key):
            theirs = Counter("jobs")
            theirs.inc(amount)
            assert Counter("jobs").value() == amount, "two metrics of one worker share the series"
    theirs.inc(100)  # the driver records it, but the metric is the worker's
    assert mine.value() == 1.0
    assert theirs.value() == 200.0
    assert mine.value(all_workers=True) == 211.0
    assert [(row["worker_id"], row["value"]) for row in mine.snapshot()] == [("driver", 1.0)]
    assert [(row["worker_id"], row["value"]) for row in snapshot()] == [("driver", 1.0), ("w1", 10.0), ("w2", 200.0)]
    assert lines(export_text()) == [
        'ray_jobs_total{Component="core_worker",WorkerId="' + DRIVER_ID + '"} 1.0',
        'ray_jobs_total{Component="core_worker",WorkerId="w1"} 10.0',
        'ray_jobs_total{Component="core_worker",WorkerId="w2"} 200.0',
    ]


def test_a_pickled_metric_belongs_to_the_worker_that_unpickles_it():
    """It loses its default tags, as in Ray. At the driver, it does not count as a second registration."""
    counter = Counter("c", "count", ("t",)).set_default_tags({"t": "x"})
    stream = pickle.dumps(counter)
    with worker("w"):
        copy = pickle.loads(stream)
    copy.inc(1, {"t": "x"})
    assert copy.info == {"name": "c", "description": "count", "tag_keys": ("t",), "default_tags": {}}
    assert counter.value() == 0.0 and copy.value({"t": "x"}) == 1.0
    counter.inc()
    assert pickle.loads(stream).value({"t": "x"}) == 1.0
    histogram = pickle.loads(pickle.dumps(Histogram("h", boundaries=(1, 2))))
    assert histogram.boundaries == (1, 2)


def test_tags_are_the_same_in_any_order():
    counter = Counter("c", tag_keys=("a", "b"))
    counter.inc(1, {"a": "1", "b": "2"})
    counter.inc(1, {"b": "2", "a": "1"})
    assert counter.value({"b": "2", "a": "1"}) == 2.0
    assert counter.snapshot() == [
        {
            "name": "c",
            "type": "counter",
            "description": "",
            "worker_id": "driver",
            "tags": {"a": "1", "b": "2"},
            "value": 2.0,
        }
    ]


def test_a_subclass_of_str_or_float_leaves_nothing_of_itself():
    class Loud(str):
        def __str__(self):
            raise AssertionError("called while a page was written")

        __format__ = __repr__ = __str__

    class Odd(float):
        def __radd__(self, other):
            raise AssertionError("called while a sum was made")

    counter = Counter("c", tag_keys=("a",))
    counter.inc(Odd(2), {"a": Loud("x")})
    counter.inc(True, {"a": "x"})
    assert lines(export_text()) == ['ray_c_total{Component="core_worker",WorkerId="' + DRIVER_ID + '",a="x"} 3.0']


# ------------------------------------------------------------------------------------------------ sessions


def test_a_new_session_starts_from_zero():
    counter = Counter("c", tag_keys=("a",)).set_default_tags({"a": "x"})
    counter.inc(5)
    registry.session_labels["SessionName"] = "first"
    registry.reset()
    assert counter.value() == 0.0
    assert snapshot() == [] and export_text() == ""
    counter.inc()
    assert counter.value() == 1.0
    assert lines(export_text()) == ['ray_c_total{Component="core_worker",WorkerId="' + DRIVER_ID + '",a="x"} 1.0']


def test_a_new_session_may_register_a_name_again_beside_an_old_object():
    """The old object records first and is attached again, which does not register the name."""
    old = Counter("c")
    registry.reset()
    old.inc()
    new = Counter("c")
    new.inc()
    assert old.value() == new.value() == 2.0
    with pytest.raises(ValueError):
        Counter("c")


def test_an_unregistered_metric_continues_to_count_unseen():
    """Not even a new session brings it back: its name may belong to another metric now."""
    old = Counter("c")
    old.inc()
    assert unregister(old) is True
    old.inc()
    assert old.value() == 2.0
    new = Counter("c")
    assert new.value() == 0.0
    registry.reset()
    old.inc()
    assert old.value() == 1.0 and export_text() == ""
    assert unregister(old) is False


def test_an_object_of_an_old_session_does_not_unregister_a_new_one():
    old = Counter("c")
    registry.reset()
    Counter("c").inc()
    assert unregister(old) is False
    assert len(snapshot()) == 1


# ------------------------------------------------------------------------------------------------ histograms


def test_a_boundary_belongs_to_the_bucket_below_it():
    histogram = Histogram("h", boundaries=[1, 10])
    for value in (0, 1, 1.5, 10, 99):
        histogram.observe(value)
    assert histogram.value() == {"count": 5, "sum": 111.5, "buckets": {1.0: 2, 10.0: 4, math.inf: 5}}


def test_boundaries_are_sorted_and_duplicates_and_infinities_dropped():
    boundaries = [3, 1, 1, math.inf, math.nan, 2]
    histogram = Histogram("h", boundaries=boundaries)
    assert histogram.boundaries is boundaries
    assert list(histogram.value()["buckets"]) == [1.0, 2.0, 3.0, math.inf]


def test_a_quantile_is_interpolated_within_its_bucket():
    histogram = Histogram("h", boundaries=[10, 20, 40])
    for value in (5, 11, 12, 13, 14, 30, 31, 32, 33, 34):
        histogram.observe(value)
    assert histogram.quantile(0.1) == 10.0
    assert histogram.quantile(0.3) == 15.0
    assert histogram.quantile(0.5) == 20.0
    assert histogram.quantile(0.75) == 30.0
    assert histogram.quantile(1) == 40.0


def test_the_edges_of_a_quantile():
    histogram = Histogram("h", boundaries=[10, 20], tag_keys=("a",))
    tags = {"a": "x"}
    assert math.isnan(histogram.quantile(0.5, tags)), "there is no observation"
    histogram.observe(1, tags)
    assert histogram.quantile(0.5, tags) == 5.0, "the first bucket begins at 0"
    assert histogram.quantile(0, tags) == 0.0
    histogram.observe(1000, tags)
    assert histogram.quantile(0.99, tags) == 20.0, "nothing is known above the last boundary"
    histogram.observe(15, {"a": "y"})
    assert histogram.quantile(0, {"a": "y"}) == 10.0, "the lower edge of the first bucket in use"
    unbounded = Histogram("unbounded", boundaries=[math.inf])
    unbounded.observe(1)
    assert math.isnan(unbounded.quantile(0.5))
    for q in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            histogram.quantile(q, tags)
    with pytest.raises(TypeError):
        histogram.quantile("0.5", tags)
    with pytest.raises(ValueError, match="Missing"):
        histogram.quantile(0.5)


def test_histograms_of_all_workers_are_added():
    """If their boundaries differ, the common ones remain, with exact counts."""
    mine = Histogram("h", boundaries=[1, 10])
    mine.observe(0.5)
    with worker("w"):
        Histogram("h", boundaries=[10, 100]).observe(50)
    assert mine.value(all_workers=True) == {"count": 2, "sum": 50.5, "buckets": {10.0: 1, math.inf: 2}}
    assert mine.quantile(0.5, all_workers=True) == 10.0


# ------------------------------------------------------------------------------------------------ timers


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves on, by adding seconds to `s`."""
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(metrics, "time", SimpleNamespace(perf_counter=lambda: now.s))
    return now


def test_a_timer_observes_milliseconds_also_when_the_body_raises(clock):
    histogram = Histogram("latency", boundaries=[100, 1000], tag_keys=("route",))
    with histogram.timer({"route": "/"}):
        clock.s += 0.05
    with pytest.raises(KeyError), histogram.timer(tags={"route": "/"}):
        clock.s += 0.5
        raise KeyError
    assert histogram.value({"route": "/"})["buckets"] == {100.0: 1, 1000.0: 2, math.inf: 2}
    assert histogram.value({"route": "/"})["sum"] == pytest.approx(550.0)


def test_wrong_tags_stop_a_timer_before_the_body():
    histogram = Histogram("latency", boundaries=[1], tag_keys=("route",))
    with pytest.raises(ValueError, match="route"), histogram.timer():
        raise AssertionError("the body ran")


def test_a_timer_decorates_functions_coroutines_and_generators(clock):
    histogram = Histogram("latency", boundaries=[1])

    @histogram.timer()
    def countdown(n):
        """Counts."""
        clock.s += 1
        return countdown(n - 1) if n else "done"

    @histogram.timer()
    async def coroutine():
        await asyncio.sleep(0)
        clock.s += 10

    @histogram.timer()
    def generator():
        clock.s += 100
        yield 1
        return 2

    assert countdown(1) == "done" and countdown.__doc__ == "Counts."
    assert histogram.value()["sum"] == 3000.0  # the inner call's second is in both
    asyncio.run(coroutine())
    assert list(generator()) == [1]
    assert histogram.value()["sum"] == 113_000.0 and histogram.value()["count"] == 4
    with pytest.raises(TypeError, match="async generator"):

        @histogram.timer()
        async def both():
            yield


def test_one_timer_times_one_block_at_a_time(clock):
    histogram = Histogram("latency", boundaries=[1])
    timer = histogram.timer()
    with timer, pytest.raises(RuntimeError, match="again"), timer:
        pass
    with timer:
        pass
    assert histogram.value()["count"] == 2


# ------------------------------------------------------------------------------------------------ threads


def test_many_threads_lose_no_record():
    """Another thread reads all the time, and the interpreter switches threads as often as it can."""
    counter, histogram = Counter("c", tag_keys=("a",)), Histogram("h", boundaries=[1, 2])
    start, done = threading.Barrier(5), threading.Event()

    def record(value):
        start.wait()
        for _ in range(1500):
            counter.inc(1, {"a": str(value % 2)})
            histogram.observe(value)

    def read():
        start.wait()
        while not done.is_set():
            assert counter.value({"a": "0"}) <= 3000
            histogram.value()

    threads = [threading.Thread(target=record, args=(n,)) for n in range(4)]
    reader = threading.Thread(target=read)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in (*threads, reader):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        reader.join()
    finally:
        sys.setswitchinterval(interval)
    assert counter.value({"a": "0"}) == counter.value({"a": "1"}) == 3000.0
    assert histogram.value() == {"count": 6000, "sum": 9000.0, "buckets": {1.0: 3000, 2.0: 4500, math.inf: 6000}}


def test_a_series_made_by_many_threads_at_once_is_one():
    counter = Counter("c", tag_keys=("a",))
    start = threading.Barrier(4)

    def record():
        for n in range(50):
            start.wait()
            counter.inc(1, {"a": str(n)})

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row["value"] for row in counter.snapshot()] == [4.0] * 50


def test_a_handler_may_record_and_read_in_the_middle_of_a_fold(monkeypatch):
    """A signal handler or finaliser runs on the folding thread: it neither waits for the fold nor counts twice."""
    histogram, bisect, seen = Histogram("h", boundaries=[1]), series.bisect_left, []

    def interrupted(*arguments):
        if not seen:
            seen.append("entered")
            for _ in range(series.BATCH):
                histogram.observe(2)
            seen.append(histogram.value()["count"])
        return bisect(*arguments)

    monkeypatch.setattr(series, "bisect_left", interrupted)
    histogram.observe(0.5)
    histogram.observe(0.5)
    assert histogram.value()["count"] == 2, "records made during the fold wait for the next reader"
    assert seen == ["entered", 0]
    assert histogram.value()["count"] == 2 + series.BATCH


def test_an_interrupted_fold_loses_nothing(monkeypatch):
    histogram, bisect = Histogram("h", boundaries=[1]), series.bisect_left

    def interrupted(*arguments):
        raise KeyboardInterrupt

    for value in (0.5, 2):
        histogram.observe(value)
    monkeypatch.setattr(series, "bisect_left", interrupted)
    with pytest.raises(KeyboardInterrupt):
        histogram.value()
    monkeypatch.setattr(series, "bisect_left", bisect)
    assert histogram.value() == {"count": 2, "sum": 2.5, "buckets": {1.0: 1, math.inf: 2}}


# ------------------------------------------------------------------------------------------------ curves


@pytest.fixture
def session_clock(monkeypatch):
    """A session that only tells the time: its attribute `at`."""
    fake = SimpleNamespace(at=0.0)
    fake.now = lambda: fake.at
    monkeypatch.setattr(context, "session", fake)
    return fake


def test_a_curve_has_the_value_at_each_time(session_clock):
    """The sum of a counter, the value of a gauge, and each observation of a histogram; the last point is the present."""
    counter, gauge, histogram = Counter("jobs"), Gauge("queue"), Histogram("ms", boundaries=[1])
    for session_clock.at in (1.0, 2.0, 3.0):
        counter.inc(5)
        gauge.set(10 - session_clock.at)
        histogram.observe(session_clock.at)
    jobs, ms, queue = registry.curves(4.0)
    assert jobs.samples == [(1.0, 5.0), (2.0, 10.0), (3.0, 15.0), (4.0, 15.0)]
    assert queue.samples == [(1.0, 9.0), (2.0, 8.0), (3.0, 7.0), (4.0, 7.0)]
    assert (ms.samples, ms.number) == ([(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)], 3)


def test_a_curve_adds_the_workers_and_keeps_the_tags_apart(session_clock):
    """A worker holds its value until its next record."""
    for key in ("a", "b"):
        with worker(key):
            session_clock.at += 1
            Counter("jobs", tag_keys=("kind",)).inc(2, {"kind": "x"})
            Counter("jobs", tag_keys=("kind",)).inc(1, {"kind": key})
    curves = {curve.tags["kind"]: curve.samples for curve in registry.curves(9.0)}
    assert curves["x"] == [(1.0, 2.0), (2.0, 4.0), (9.0, 4.0), (9.0, 4.0)]
    assert curves["b"] == [(2.0, 1.0), (9.0, 1.0)]


def test_a_curve_is_bounded_and_covers_the_whole_session(session_clock):
    """Of a hundred thousand records, some are samples; their distances are about equal."""
    gauge = Gauge("queue")
    for step in range(100_000):
        session_clock.at = step / 1000
        gauge.set(step)
    (curve,) = registry.curves(session_clock.at)
    assert series.MOST_SAMPLES / 4 < len(curve.samples) <= series.MOST_SAMPLES
    assert curve.samples[0] == (0.0, 0.0) and curve.samples[-1] == (session_clock.at, 99_999)
    pauses = [later[0] - earlier[0] for earlier, later in zip(curve.samples, curve.samples[1:])]
    assert max(pauses) < 2.1


def test_without_a_session_there_is_no_curve():
    """There is no clock; the values are counted as ever."""
    counter = Counter("jobs")
    counter.inc()
    assert registry.curves(1.0)[0].samples == [(1.0, 1.0)]
