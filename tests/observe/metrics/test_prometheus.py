"""The Prometheus text: Ray's names and labels, and hostile texts."""

import pytest

from miniray.observe.metrics import registry
from miniray.util.metrics import Counter, Gauge, Histogram, export_text
from tests.observe.metrics.test_metrics import lines, worker


def test_the_text_has_rays_names_and_labels():
    registry.session_labels["SessionName"] = "s"
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
        Counter("c", "described second", ("b",)).inc(1, {"b": "y"})
    assert export_text() == (
        "# HELP ray_c_total described second\n"
        "# TYPE ray_c_total counter\n"
        'ray_c_total{Component="core_worker",WorkerId="driver",a="x",b=""} 1.0\n'
        'ray_c_total{Component="core_worker",WorkerId="w",a="",b="y"} 1.0\n'
    )


def test_no_sample_occurs_twice():
    """Names that Ray would write alike are numbered. The runtime's own metrics come first and keep their names."""
    registry.system_metrics_provider = lambda: [("ray_tasks", "gauge", "Tasks", [({"State": "RUNNING"}, 3)])]
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
    assert sample == f'ray_c_total{{Component="core_worker",WorkerId="driver",tag="{written}"}} 1.0'
    export_text().encode("utf-8")


@pytest.mark.parametrize("value, written", [("\ud800\u2028\u202e", r"\\ud800\\u2028\\u202e"), ("größe ☃", "größe ☃")])
def test_hostile_text_of_the_system_is_harmless(value, written):
    """A metric takes ASCII only; the runtime's own metrics have tags with the names of tasks, which may be any text."""
    registry.system_metrics_provider = lambda: [("ray_tasks", "gauge", value, [({"Name": value}, 3)])]
    help_line, type_line, sample = export_text().splitlines()
    assert help_line == f"# HELP ray_tasks {written}"
    assert f'Name="{written}"' in sample
    export_text().encode("utf-8")


def test_tag_names_are_corrected_and_do_not_clash_with_the_system_s():
    keys = ("a-b", "a_b", "1st", "", "_", "WorkerId", "le", "__name__", "%+")
    Histogram("h", boundaries=[1], tag_keys=keys).observe(5, dict.fromkeys(keys, "x"))
    labels = sorted(part.split("=")[0] for part in lines(export_text())[-1].split("{")[1].split("}")[0].split(","))
    assert labels == sorted(
        ["Component", "WorkerId", "a_b", "a_b_2", "_1st", "_", "_2", "exported_WorkerId", "exported_le"]
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
    registry.system_metrics_provider = lambda: families
    registry.session_labels["SessionName"] = "s"
    assert export_text() == (
        "# HELP ray_tasks Tasks by state\n"
        "# TYPE ray_tasks gauge\n"
        'ray_tasks{Name="</script>\\n",SessionName="s",State="RUNNING"} 3.0\n'
    )
    assert export_text(include_system=False) == ""
