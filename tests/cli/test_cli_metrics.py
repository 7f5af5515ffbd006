"""`miniray metrics`: the page of a program that has ended, on stdout or in a file."""

import subprocess
import sys

PROGRAM = """
import miniray as ray
from miniray.util.metrics import Counter

with ray.init(num_cpus=1):
    Counter("orders", "orders taken", ("city",)).inc(2, {"city": "paris"})

    @ray.remote
    def work():
        print("the program's own output")

    ray.get(work.remote())
"""


def miniray(*words):
    return subprocess.run([sys.executable, "-m", "miniray", *words], capture_output=True, text=True, timeout=60)


def test_a_program_s_metrics_are_printed_when_it_ends(tmp_path):
    (tmp_path / "prog.py").write_text(PROGRAM)
    done = miniray("metrics", "--", str(tmp_path / "prog.py"))
    assert done.returncode == 0 and "the program's own output" in done.stderr
    assert done.stdout.startswith("# HELP ray_tasks ")
    assert 'Name="work",' in done.stdout and done.stdout.rstrip().endswith('city="paris"} 2.0')


def test_the_page_is_written_to_a_file(tmp_path):
    (tmp_path / "prog.py").write_text(PROGRAM + PROGRAM)
    page = tmp_path / "page.prom"
    done = miniray(
        "metrics", "--format", "openmetrics", "--user-only", "-o", str(page), "--", str(tmp_path / "prog.py")
    )
    assert done.returncode == 0 and f"Metrics written to {page}" in done.stdout
    text = page.read_text()
    assert text.startswith("# HELP ray_orders orders taken\n# TYPE ray_orders counter\nray_orders_total{")
    assert text.endswith("# EOF\n") and "ray_tasks" not in text
    second = (tmp_path / "page-2.prom").read_text()
    assert second.endswith("# EOF\n"), "each session has its own file"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page-2.prom", "page.prom", "prog.py"]


def test_a_page_that_cannot_be_written_is_said_before_the_program_runs(tmp_path):
    (tmp_path / "prog.py").write_text("raise SystemExit('it ran')")
    done = miniray("metrics", "-o", str(tmp_path / "no" / "page"), "--", str(tmp_path / "prog.py"))
    assert done.returncode == 2 and "there is no folder" in done.stderr and "it ran" not in done.stderr


NOT_A_NUMBER = """
import miniray as ray
from miniray.util.metrics import Gauge

with ray.init(num_cpus=1):
    Gauge("loss").set(float("nan"))
"""


def test_a_recorded_value_may_be_no_number(tmp_path):
    (tmp_path / "prog.py").write_text(NOT_A_NUMBER)
    recording = str(tmp_path / "run.db")
    done = miniray("record", "-o", recording, "--", str(tmp_path / "prog.py"))
    assert done.returncode == 0, done.stderr
    done = miniray("metrics", "--user-only", "--from", recording)
    assert done.returncode == 0 and "ray_loss" in done.stdout and "} NaN" in done.stdout, done.stderr
    done = miniray("timeline", "--from", recording, "-o", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    done = miniray("list", "tasks", "--from", recording)
    assert done.returncode == 0, done.stderr
