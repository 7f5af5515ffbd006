"""Metrics: what is refused, who a record belongs to, what is read back, and the Prometheus text."""

import asyncio
import math
import pickle
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from miniray.observe.metrics import metrics, series
from miniray.process.context import current
from miniray.util.metrics import Counter, Gauge, Histogram, Metric, export_text, snapshot, unregister


@pytest.fixture(autouse=True)
def fresh_registry(monkeypatch):
    monkeypatch.delenv("MINIRAY_STRICT_METRICS", raising=False)
    monkeypatch.setattr(metrics, "system_metrics_provider", None)
    monkeypatch.setattr(metrics, "_lenient", False)
    metrics.reset()
    yield
    metrics.reset()


@contextmanager
def worker(key):
    """Run the block as code of the worker with this key."""
    token = current.set(SimpleNamespace(worker=SimpleNamespace(key=key)))
    try:
        yield
    finally:
        current.reset(token)


def lines(text):
    return [line for line in text.splitlines() if not line.startswith("#")]


# ------------------------------------------------------------------------------------------------ what is refused


def test_a_counter_takes_positive_numbers_only():
    counter = Counter("jobs")
    for value in (0, -1, -0.0, False, float("-inf")):
        with pytest.raises(ValueError, match="value must be >0"):
            counter.inc(value)
    for value in ("1", None, [1], 1j):
        with pytest.raises(TypeError, match="value must be int or float"):
            counter.inc(value)
    assert counter.value() == 0.0


def test_what_would_spoil_a_sum_for_good_is_dropped():
    """NaN and infinity, and a negative observation, leave no trace; their tags are checked all the same."""
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
    """Also where another tag is missing: a key that was mistyped is what the reader looks for."""
    counter = Counter("hits", tag_keys=("route",))
    with pytest.raises(ValueError, match=r"colour.*hits.*route"):
        counter.inc(1, {"route": "/", "colour": "red"})
    with pytest.raises(ValueError, match="rout,"):
        counter.inc(1, {"rout": "/", "x": ""})
    with pytest.raises(ValueError, match="colour"):
        counter.value({"route": "/", "colour": "red"})


@pytest.mark.parametrize("how", ["environment", "call"])
def test_the_lenient_drop_an_undeclared_tag(how, monkeypatch):
    if how == "environment":
        monkeypatch.setenv("MINIRAY_STRICT_METRICS", "0")
    else:
        metrics.set_lenient(True)
    counter = Counter("hits", tag_keys=("route",)).set_default_tags({"route": "/"})
    counter.inc(1, {"colour": "red"})
    counter.inc(1, {"route": "/", "colour": "blue"})
    counter.inc(1, {1: "a key of any kind"})
    assert counter.value() == 3.0
    assert counter._attachment.known == {}, "each new value of an undeclared tag would be kept"


def test_the_driver_registers_a_name_once():
    """Whatever the class. The error tells the two ways out, and the second of them works."""
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


def test_the_lenient_share_a_name():
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


# ------------------------------------------------------------------------------------------------ who records


def test_each_worker_has_its_own_series():
    """As processes would: the same name in an actor neither clashes with the driver's nor adds to it."""
    mine = Counter("jobs")
    mine.inc()
    for key, amount in (("w1", 10), ("w2", 100)):
        with worker(key):
            theirs = Counter("jobs")
            theirs.inc(amount)
            assert Counter("jobs").value() == amount, "made twice by one worker: the same series"
    theirs.inc(100)  # recorded by the driver, but it is the worker's metric
    assert mine.value() == 1.0
    assert theirs.value() == 200.0
    assert mine.value(all_workers=True) == 211.0
    assert [(row["worker_id"], row["value"]) for row in mine.snapshot()] == [("driver", 1.0)]
    assert [(row["worker_id"], row["value"]) for row in snapshot()] == [("driver", 1.0), ("w1", 10.0), ("w2", 200.0)]
    assert lines(export_text()) == [
        'ray_jobs_total{Component="core_worker",WorkerId="driver"} 1.0',
        'ray_jobs_total{Component="core_worker",WorkerId="w1"} 10.0',
        'ray_jobs_total{Component="core_worker",WorkerId="w2"} 200.0',
    ]


def test_a_pickled_metric_is_made_anew_where_it_arrives():
    """Without default tags, as in Ray; and at the driver that is no second registration."""
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
    assert lines(export_text()) == ['ray_c_total{Component="core_worker",WorkerId="driver",a="x"} 3.0']


# ------------------------------------------------------------------------------------------------ sessions


def test_a_new_session_starts_from_zero():
    counter = Counter("c", tag_keys=("a",)).set_default_tags({"a": "x"})
    counter.inc(5)
    metrics.session_labels["SessionName"] = "first"
    metrics.reset()
    assert counter.value() == 0.0
    assert snapshot() == [] and export_text() == ""
    counter.inc()
    assert counter.value() == 1.0
    assert lines(export_text()) == ['ray_c_total{Component="core_worker",WorkerId="driver",a="x"} 1.0']


def test_a_new_session_may_register_a_name_again_beside_an_old_object():
    """The old object records first: it is attached again, and that is not a registration."""
    old = Counter("c")
    metrics.reset()
    old.inc()
    new = Counter("c")
    new.inc()
    assert old.value() == new.value() == 2.0
    with pytest.raises(ValueError):
        Counter("c")


def test_an_unregistered_metric_counts_on_unseen():
    """Not even a new session brings it back, or it would take part under a name that was given away."""
    old = Counter("c")
    old.inc()
    assert unregister(old) is True
    old.inc()
    assert old.value() == 2.0
    new = Counter("c")
    assert new.value() == 0.0
    metrics.reset()
    old.inc()
    assert old.value() == 1.0 and export_text() == ""
    assert unregister(old) is False


def test_an_object_of_an_old_session_does_not_unregister_a_new_one():
    old = Counter("c")
    metrics.reset()
    Counter("c").inc()
    assert unregister(old) is False
    assert len(snapshot()) == 1


# ------------------------------------------------------------------------------------------------ histograms


def test_a_boundary_belongs_to_the_bucket_below_it():
    histogram = Histogram("h", boundaries=[1, 10])
    for value in (0, 1, 1.5, 10, 99):
        histogram.observe(value)
    assert histogram.value() == {"count": 5, "sum": 111.5, "buckets": {1.0: 2, 10.0: 4, math.inf: 5}}


def test_boundaries_are_sorted_and_freed_of_what_bounds_nothing():
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
    assert math.isnan(histogram.quantile(0.5, tags)), "nothing was observed"
    histogram.observe(1, tags)
    assert histogram.quantile(0.5, tags) == 5.0, "the first bucket begins at 0"
    assert histogram.quantile(0, tags) == 0.0
    histogram.observe(1000, tags)
    assert histogram.quantile(0.99, tags) == 20.0, "above the last boundary nothing is known"
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
    """Where their boundaries differ, the common ones remain, and they are exact."""
    mine = Histogram("h", boundaries=[1, 10])
    mine.observe(0.5)
    with worker("w"):
        Histogram("h", boundaries=[10, 100]).observe(50)
    assert mine.value(all_workers=True) == {"count": 2, "sum": 50.5, "buckets": {10.0: 1, math.inf: 2}}
    assert mine.quantile(0.5, all_workers=True) == 10.0


# ------------------------------------------------------------------------------------------------ timers


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still; what the test adds to it, in seconds, has passed."""
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
    """While another thread reads all the time, and threads change places as often as they can."""
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
    """A signal handler or finaliser runs on the thread that adds up: it neither waits for that nor counts twice."""
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
    assert histogram.value()["count"] == 2, "what came in meanwhile waits for the next reader"
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


# ------------------------------------------------------------------------------------------------ the Prometheus text


def test_the_text_has_rays_names_and_labels():
    metrics.session_labels["SessionName"] = "s"
    Counter("app_c", "count of things", ("route",)).inc(2, {"route": "/"})
    Counter("app_total").inc()
    Gauge("app_g").set(1)
    Histogram("app_h", boundaries=[0.1, 1]).observe(0.5)
    Counter("never_recorded")
    ours = 'Component="core_worker",SessionName="s",WorkerId="driver"'
    assert export_text() == (
        "# HELP ray_app_c_total count of things\n"
        "# TYPE ray_app_c_total counter\n"
        f'ray_app_c_total{{{ours},route="/"}} 2.0\n'
        "# TYPE ray_app_g gauge\n"
        f"ray_app_g{{{ours}}} 1.0\n"
        "# TYPE ray_app_h histogram\n"
        f'ray_app_h_bucket{{{ours},le="0.1"}} 0.0\n'
        f'ray_app_h_bucket{{{ours},le="1.0"}} 1.0\n'
        f'ray_app_h_bucket{{{ours},le="+Inf"}} 1.0\n'
        f"ray_app_h_sum{{{ours}}} 0.5\n"
        f"ray_app_h_count{{{ours}}} 1.0\n"
        "# TYPE ray_app_total counter\n"
        f"ray_app_total{{{ours}}} 1.0\n"
    )


def test_metrics_of_one_name_form_one_family_with_the_union_of_their_tags():
    Counter("c", tag_keys=("a",)).inc(1, {"a": "x"})
    with worker("w"):
        Counter("c", "said second", ("b",)).inc(1, {"b": "y"})
    assert export_text() == (
        "# HELP ray_c_total said second\n"
        "# TYPE ray_c_total counter\n"
        'ray_c_total{Component="core_worker",WorkerId="driver",a="x",b=""} 1.0\n'
        'ray_c_total{Component="core_worker",WorkerId="w",a="",b="y"} 1.0\n'
    )


def test_no_sample_occurs_twice():
    """Names that Ray would write as one are numbered; the runtime's own come first and keep theirs."""
    metrics.system_metrics_provider = lambda: [("ray_tasks", "gauge", "Tasks", [({"State": "RUNNING"}, 3)])]
    Gauge("tasks").set(1)
    Counter("jobs").inc()
    Counter("jobs_total").inc(2)
    Gauge("h_count").set(4)
    Histogram("h", boundaries=[1]).observe(1)
    names = [line.split("{")[0] for line in lines(export_text())]
    assert names == [
        "ray_tasks",
        *["ray_h_bucket"] * 2,
        "ray_h_sum",
        "ray_h_count",
        "ray_h_count_2",
        "ray_jobs_total",
        "ray_jobs_2_total",
        "ray_tasks_2",
    ]
    assert "ray_tasks_2" not in export_text(include_system=False)


@pytest.mark.parametrize(
    "value, written",
    [
        ('say "hi"', r"say \"hi\""),
        ("back\\slash", r"back\\slash"),
        ("two\nlines", r"two\nlines"),
        ("\x1b[31m\x00\r\t", r"\\x1b[31m\\x00\\r\\t"),
        ("\ud800\u2028\u202e", r"\\ud800\\u2028\\u202e"),
        ("</script>", "</script>"),
        ('"} 1\nevil{a="', r"\"} 1\nevil{a=\""),
        ("größe ☃", "größe ☃"),
    ],
)
def test_hostile_text_is_harmless(value, written):
    Counter("c", value, ("tag",)).inc(1, {"tag": value})
    help_line, type_line, sample = export_text().splitlines()
    assert help_line == "# HELP ray_c_total " + written.replace(r"\"", '"')
    assert sample == f'ray_c_total{{Component="core_worker",WorkerId="driver",tag="{written}"}} 1.0'
    export_text().encode("utf-8")


def test_tag_names_are_mended_and_kept_apart_from_ours():
    keys = ("a-b", "a_b", "1st", "", "_", "WorkerId", "le", "__name__", "ö\ud800")
    Histogram("h", boundaries=[1], tag_keys=keys).observe(5, dict.fromkeys(keys, "x"))
    labels = sorted(part.split("=")[0] for part in lines(export_text())[-1].split("{")[1].split("}")[0].split(","))
    assert labels == sorted(
        ["Component", "WorkerId", "a_b", "a_b_2", "_1st", "_", "_2", "exported_WorkerId", "exported_le"]
        + ["exported___name__", "exported___"]
    )


def test_series_that_are_written_alike_are_added():
    """An ESC and the text that shows it look the same on the page, where one series may occur only once."""
    counter, gauge = Counter("c", tag_keys=("a",)), Gauge("g", tag_keys=("a",))
    for value in ("\x1b", r"\x1b"):
        counter.inc(1, {"a": value})
        gauge.set(7, {"a": value})
    assert [line.split()[-1] for line in lines(export_text())] == ["2.0", "7.0"]


def test_the_runtimes_own_metrics_come_from_the_provider():
    families = [("ray_tasks", "gauge", "Tasks by state", [({"Name": "</script>\n", "State": "RUNNING"}, 3)])]
    metrics.system_metrics_provider = lambda: families
    metrics.session_labels["SessionName"] = "s"
    assert export_text() == (
        "# HELP ray_tasks Tasks by state\n"
        "# TYPE ray_tasks gauge\n"
        'ray_tasks{Name="</script>\\n",SessionName="s",State="RUNNING"} 3.0\n'
    )
    assert export_text(include_system=False) == ""
