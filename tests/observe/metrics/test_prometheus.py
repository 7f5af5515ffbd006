"""The Prometheus text: Ray's names and labels, and hostile texts."""

import math
import os
import shutil
import subprocess

import pytest

from miniray.observe.metrics import registry
from miniray.observe.metrics.registry import DRIVER_ID
from miniray.util.metrics import CONTENT_TYPES, Counter, Gauge, Histogram, export_page, export_text
from tests.observe.metrics.test_metrics import lines, worker


def test_the_text_has_rays_names_and_labels():
    registry.session_labels["SessionName"] = "s"
    Counter("app_c", "count of things", ("route",)).inc(2, {"route": "/"})
    Counter("app_total").inc()
    Gauge("app_g").set(1)
    Histogram("app_h", boundaries=[0.1, 1]).observe(0.5)
    Counter("never_recorded")
    ours = f'Component="core_worker",SessionName="s",WorkerId="{DRIVER_ID}"'
    assert export_text() == (
        "# HELP ray_app_c_total count of things\n"
        "# TYPE ray_app_c_total counter\n"
        f'ray_app_c_total{{{ours},route="/"}} 2.0\n'
        "# HELP ray_app_g (no description)\n"
        "# TYPE ray_app_g gauge\n"
        f"ray_app_g{{{ours}}} 1.0\n"
        "# HELP ray_app_h (no description)\n"
        "# TYPE ray_app_h histogram\n"
        f'ray_app_h_bucket{{{ours},le="0.1"}} 0.0\n'
        f'ray_app_h_bucket{{{ours},le="1.0"}} 1.0\n'
        f'ray_app_h_bucket{{{ours},le="+Inf"}} 1.0\n'
        f"ray_app_h_sum{{{ours}}} 0.5\n"
        f"ray_app_h_count{{{ours}}} 1.0\n"
        "# HELP ray_app_total (no description)\n"
        "# TYPE ray_app_total counter\n"
        f"ray_app_total{{{ours}}} 1.0\n"
    )


def test_metrics_of_one_name_form_one_family_with_the_union_of_their_tags():
    Counter("c", tag_keys=("a",)).inc(1, {"a": "x"})
    with worker("w"):
        Counter("c", "described second", ("b",)).inc(1, {"b": "y"})
    assert export_text() == (
        "# HELP ray_c_total described second\n"
        "# TYPE ray_c_total counter\n"
        f'ray_c_total{{Component="core_worker",WorkerId="{DRIVER_ID}",a="x",b=""}} 1.0\n'
        'ray_c_total{Component="core_worker",WorkerId="w",a="",b="y"} 1.0\n'
    )


def test_no_sample_occurs_twice():
    """Names that Ray would write alike are numbered. The runtime's own metrics come first and keep their names."""
    registry.system_metrics_provider = lambda runtime: [("ray_tasks", "gauge", "Tasks", [({"State": "RUNNING"}, 3)])]
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
        ("</script>", "</script>"),
        ('"} 1\nevil{a="', r"\"} 1\nevil{a=\""),
    ],
)
def test_hostile_text_is_harmless(value, written):
    Counter("c", value, ("tag",)).inc(1, {"tag": value})
    help_line, type_line, sample = export_text().splitlines()
    assert help_line == "# HELP ray_c_total " + written.replace(r"\"", '"')
    assert sample == f'ray_c_total{{Component="core_worker",WorkerId="{DRIVER_ID}",tag="{written}"}} 1.0'
    export_text().encode("utf-8")


@pytest.mark.parametrize("value, written", [("\ud800\u2028\u202e", r"\\ud800\\u2028\\u202e"), ("größe ☃", "größe ☃")])
def test_hostile_text_of_the_system_is_harmless(value, written):
    """A metric takes ASCII only; the runtime's own metrics have tags with the names of tasks, which may be any text."""
    registry.system_metrics_provider = lambda runtime: [("ray_tasks", "gauge", value, [({"Name": value}, 3)])]
    help_line, type_line, sample = export_text().splitlines()
    assert help_line == f"# HELP ray_tasks {written}"
    assert f'Name="{written}"' in sample
    export_text().encode("utf-8")


def test_tag_names_are_corrected_and_do_not_clash_with_the_system_s():
    keys = ("a-b", "a_b", "1st", "", "_", "WorkerId", "le", "quantile", "__name__", "%+")
    Histogram("h", boundaries=[1], tag_keys=keys).observe(5, dict.fromkeys(keys, "x"))
    labels = sorted(part.split("=")[0] for part in lines(export_text())[-1].split("{")[1].split("}")[0].split(","))
    assert labels == sorted(
        [
            "Component",
            "WorkerId",
            "a_b",
            "a_b_2",
            "_1st",
            "_",
            "_2",
            "exported_WorkerId",
            "exported_le",
            "exported_quantile",
        ]
        + ["exported___name__", "exported___"]
    )


def test_series_that_look_the_same_on_the_page_are_added():
    """An ESC and the text `\\x1b` are written alike, and a page may contain a series only once."""
    counter, gauge = Counter("c", tag_keys=("a",)), Gauge("g", tag_keys=("a",))
    for value in ("\x1b", r"\x1b"):
        counter.inc(1, {"a": value})
        gauge.set(7, {"a": value})
    assert [line.split()[-1] for line in lines(export_text())] == ["2.0", "7.0"]


def test_the_runtimes_own_metrics_come_from_the_provider():
    families = [("ray_tasks", "gauge", "Tasks by state", [({"Name": "</script>\n", "State": "RUNNING"}, 3)])]
    registry.system_metrics_provider = lambda runtime: families
    registry.session_labels["SessionName"] = "s"
    assert export_text() == (
        "# HELP ray_tasks Tasks by state\n"
        "# TYPE ray_tasks gauge\n"
        'ray_tasks{Name="</script>\\n",SessionName="s",State="RUNNING"} 3.0\n'
    )
    assert export_text(include_system=False) == ""


# ------------------------------------------------------------------------------------------------ OpenMetrics


def test_openmetrics_calls_a_counter_by_its_stem_and_ends_the_page():
    registry.session_labels["SessionName"] = "s"
    Counter("app_c", 'say "hi"').inc(2)
    Gauge("app_g").set(1)
    ours = f'Component="core_worker",SessionName="s",WorkerId="{DRIVER_ID}"'
    assert export_text(format="openmetrics") == (
        '# HELP ray_app_c say \\"hi\\"\n'
        "# TYPE ray_app_c counter\n"
        f"ray_app_c_total{{{ours}}} 2.0\n"
        "# HELP ray_app_g (no description)\n"
        "# TYPE ray_app_g gauge\n"
        f"ray_app_g{{{ours}}} 1.0\n"
        "# EOF\n"
    )
    with pytest.raises(ValueError, match="prometheus, openmetrics"):
        export_text(format="json")


def test_a_gauge_does_not_get_the_name_that_openmetrics_gives_a_counter():
    """Both formats have the same names, whatever the scraper asks for."""
    Counter("jobs").inc()
    with worker("w"):
        Gauge("jobs").set(1)
    for format in CONTENT_TYPES:
        assert [line.split("{")[0] for line in lines(export_text(format=format))] == ["ray_jobs_total", "ray_jobs_2"]


@pytest.mark.parametrize(
    "accept, format",
    [
        (None, "prometheus"),
        ("", "prometheus"),
        ("*/*", "prometheus"),
        ("text/plain", "prometheus"),
        ("application/openmetrics-text", "openmetrics"),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", "openmetrics"),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "openmetrics",
        ),
        ("application/openmetrics-text;q=0.3,text/plain;q=0.9", "prometheus"),
        ("application/openmetrics-text;version=2.0.0", "prometheus"),
        ("application/openmetrics-text;q=nonsense", "prometheus"),
        ("application/openmetrics-text;q=0", "prometheus"),
    ],
)
def test_the_scraper_chooses_the_format(accept, format):
    Counter("c").inc()
    content_type, text = export_page(accept)
    assert (
        content_type
        == {
            "prometheus": "text/plain; version=0.0.4; charset=utf-8",
            "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }[format]
    )
    assert text == export_text(format=format)


# ------------------------------------------------------------------------------------------------ too many series


@pytest.fixture
def few_series(monkeypatch):
    monkeypatch.setenv("MINIRAY_METRICS_MAX_SERIES", "3")
    registry.reset()


def test_what_is_too_much_is_counted_together(few_series):
    """The last series stands for all further ones. One warning says so, and no record is lost."""
    counter = Counter("c", tag_keys=("user",))
    for user in ("a", "b"):
        counter.inc(1, {"user": user})
    with pytest.warns(RuntimeWarning, match=r"The metric c has more than 3 series.*MINIRAY_METRICS_MAX_SERIES") as seen:
        for user in ("c", "d", "e", "a"):
            counter.inc(10, {"user": user})
    assert len(seen) == 1 and seen[0].filename == __file__, "the warning names the program's line"
    assert counter._attachment.known.keys() == {(("user", "a"),), (("user", "b"),)}
    ours = f'Component="core_worker",WorkerId="{DRIVER_ID}"'
    assert sorted(lines(export_text())) == [
        f'ray_c_total{{{ours},otel_metric_overflow="true",user=""}} 30.0',  # c, d and e
        f'ray_c_total{{{ours},user="a"}} 11.0',
        f'ray_c_total{{{ours},user="b"}} 1.0',
    ]
    assert counter.value({"user": "a"}) == 11.0


def test_a_family_of_many_workers_is_capped_on_the_page(few_series):
    for key in ("w1", "w2", "w3", "w4"):
        with worker(key):
            Histogram("h", boundaries=[1]).observe(0.5)
            Gauge("g").set(2)
    with pytest.warns(RuntimeWarning) as seen:
        text = export_text()
        export_text()
    assert all(one.filename == __file__ for one in seen)
    assert len(seen) == 2, "one for each metric, and none the second time"
    assert [line.split()[-1] for line in lines(text) if line.startswith("ray_g")] == ["4.0", "2.0", "2.0"]
    counts = [line for line in lines(text) if line.startswith("ray_h_count")]
    assert len(counts) == 3 and 'WorkerId=""' in counts[0]
    assert sum(float(line.split()[-1]) for line in counts) == 4.0


def test_a_system_metric_is_capped_too(few_series):
    samples = [({"Name": f"t{n}", "State": "RUNNING"}, n) for n in range(10)]
    registry.system_metrics_provider = lambda runtime: [("ray_tasks", "gauge", "Tasks", samples)]
    with pytest.warns(RuntimeWarning, match="ray_tasks"):
        text = export_text()
    assert 'ray_tasks{Name="",State="RUNNING",otel_metric_overflow="true"} 44.0' in lines(text)
    assert len(lines(text)) == 3


def test_ten_thousand_series_are_a_page():
    counter = Counter("c", tag_keys=("n",))
    for n in range(registry.MOST_SERIES - 1):
        counter.inc(1, {"n": f'"{n}\\'})
    assert len(lines(export_text())) == registry.MOST_SERIES - 1


@pytest.mark.parametrize("format", ["prometheus", "openmetrics"])
def test_promtool_and_the_python_client_accept_a_hostile_page(format, tmp_path):
    """Checkers of other people, where they are installed. promtool complains of Ray's own labels, which are in camel
    case; apart from that a program's metrics have no complaint."""
    promtool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if format == "prometheus" and promtool is None:
        pytest.skip("promtool (of Debian's package prometheus) is not installed; PROMTOOL names it")
    if format == "openmetrics":
        parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    hostile = ('"} 1\nevil{a="', "\\", "\n", "\x00\x1b[31m", "</script>", "# EOF", "{}", "'")
    keys = ("a-b", "a_b", "1st", "", "WorkerId", "le", "__name__", "quantile")
    for number, text in enumerate(hostile):
        Counter(f"c{number}", text, keys).inc(1, dict.fromkeys(keys, text))
        Histogram(f"h{number}", text, [0.1, 1], keys).observe(1, dict.fromkeys(keys, text))
        Gauge(f"g{number}", text, keys[:-1]).set(math.nan, dict.fromkeys(keys[:-1], text))
    Counter("jobs").inc()
    Counter("jobs_total").inc()
    page = export_text(format=format)
    if format == "openmetrics":
        assert len(list(parser.text_string_to_metric_families(page))) == 3 * len(hostile) + 2
        return
    checked = subprocess.run([promtool, "check", "metrics"], input=page.encode(), capture_output=True)
    said = (checked.stdout + checked.stderr).decode().splitlines()
    assert [line for line in said if "camelCase" not in line] == []
