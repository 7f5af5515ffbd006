"""`miniray demo` and `miniray status`, and the command line itself: the first things that a new user sees."""

import argparse
import os
import re
import subprocess
import sys

import pytest

import miniray
from miniray.cli import main
from miniray.cli._text import size, table
from miniray.cli.demo import source_files
from miniray.cli.status import status_text, usage
from miniray.process import context
from tests.tidy.source import ROOT


@pytest.fixture
def sources(tmp_path):
    """A folder of sixty Python files, with a text file and an installed package that the demo must not read."""
    for number in range(60):
        text = f"class Shape:\n    def area(self):\n        pass\ndef only_{number}(): pass\n"
        (tmp_path / f"m{number}.py").write_text(text)
    (tmp_path / "notes.txt").write_text("def nothing(): pass")
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "other.py").write_text("def installed(): pass")
    return tmp_path


# ---------------------------------------------------------------- demo


def test_the_demo_ranks_the_names_that_are_defined(sources, capsys):
    """Every file is counted once, whichever batch it is in."""
    assert main(["demo", "--path", str(sources), "--num-cpus", "2"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  (Shape|area) +60$", out, re.M)
    assert "62 names, defined 180 times" in out
    assert "installed" not in out and "nothing" not in out


def test_the_demo_accounts_for_what_ran(sources, capsys):
    """The report shows three batches, one of them retried, the actor, the objects still referenced, and the times."""
    assert main(["demo", "--path", str(sources), "--num-cpus", "2"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  count_names +FAILED +1$", out, re.M)
    assert re.search(r"^  count_names +FINISHED +3$", out, re.M)
    assert re.search(r"^  Tally.add +FINISHED +3$", out, re.M)
    assert re.search(r"^  attempt 0 of count_names failed .*: the disk took a nap\) and was retried$", out, re.M)
    assert re.search(r"^  Tally +ALIVE +0$", out, re.M)
    assert re.search(
        r"^  8 referenced, [\d.]+KiB in total; 0B of that in the object store, which holds [\d.]+GiB", out, re.M
    )
    assert re.search(r"^  [\d.]+ s elapsed, [\d.]+ s of CPU time: [\d.]+ cores on average$", out, re.M)


def test_the_demo_of_an_empty_folder_says_so(tmp_path, capsys):
    """The exit code is 1, and no session is started."""
    assert main(["demo", "--path", str(tmp_path)]) == 1
    assert "no Python files below" in capsys.readouterr().err
    assert not miniray.is_initialized()


def test_very_large_files_and_installed_packages_are_left_out(sources):
    """The demo reads the sixty small files only, and none in site-packages."""
    (sources / "giant.py").write_bytes(b"#" * 2_000_001)
    assert len(source_files(str(sources))) == 60


@pytest.mark.slow
def test_the_demo_runs_from_a_bare_clone(tmp_path):
    """It reads the real standard library, with nothing installed: -S leaves out every site-packages.

    Slow: 1,600 files.
    """
    done = subprocess.run(
        [sys.executable, "-S", "-m", "miniray", "demo"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  __init__ +[\d,]+$", done.stdout, re.M)


# ---------------------------------------------------------------- status


def test_status_shows_nodes_resources_and_demands(capsys):
    """The layout is that of `ray status`."""
    assert main(["status", "--num-cpus", "8", "--resources", '{"disk": 2}']) == 0
    out = capsys.readouterr().out
    assert re.match(
        r"======== Autoscaler status: [-\d]+ [\d:.]+ ========\nNode status\n-+\n"
        r"Active:\n 1 node_[0-9a-f]{56}\nPending:\n \(no pending nodes\)\n"
        r"Recent failures:\n \(no failures\)\n\nResources\n-+\nTotal Usage:\n",
        out,
    )
    assert "\n 0.0/8.0 CPU\n 0.0/2.0 disk\n 0B/" in out
    assert out.endswith("\nFrom request_resources:\n (none)\nPending Demands:\n (no resource demands)\n")


def test_status_shows_each_node_when_asked(capsys):
    """With -v the usage of every node follows at the end."""
    assert main(["status", "--num-cpus", "8", "-v"]) == 0
    assert re.search(
        r"\n\nNode: [0-9a-f]{56} \(127\.0\.0\.1\)\n Usage:\n  0\.0/8\.0 CPU\n  0B/", capsys.readouterr().out
    )


def test_status_names_what_waits():
    """An infeasible task and a placement group that fits nowhere appear in the words of `ray status`."""
    miniray.init(num_cpus=2)
    try:
        ref = miniray.remote(num_cpus=100)(int).remote()
        group = miniray.util.placement_group([{"CPU": 500}])
        text = status_text(context.session)
        assert " {'CPU': 100.0}: 1+ pending tasks/actors" in text
        assert " {'CPU': 500.0} * 1 (PACK): 1+ pending placement groups" in text
        del ref, group
    finally:
        miniray.shutdown()


def test_a_reserved_resource_counts_as_used_only_while_a_task_uses_it():
    """A placement group reserves one of four CPUs: first nothing uses it, then a task does."""
    assert usage({"CPU": 4.0}, {"CPU": 3.0}, {"CPU": 1.0}, {}) == [
        "0.0/4.0 CPU (0.0 used of 1.0 reserved in placement groups)"
    ]
    assert usage({"CPU": 4.0}, {"CPU": 2.0}, {"CPU": 1.0}, {"CPU": 1.0}) == [
        "2.0/4.0 CPU (1.0 used of 1.0 reserved in placement groups)"
    ]


# ---------------------------------------------------------------- the command line itself


def test_an_unknown_command_is_refused_with_the_usage(capsys):
    """The exit code is 2, and the usage goes to stderr."""
    with pytest.raises(SystemExit) as stopped:
        main(["dance"])
    assert stopped.value.code == 2
    assert "usage: miniray" in capsys.readouterr().err


def test_every_module_of_the_package_is_a_command(capsys):
    """The help lists all of them; none needs to be registered."""
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    for file in (ROOT / "miniray/cli").glob("[!_]*.py"):
        assert re.search(rf"^    {file.stem.replace('_', '-')}\b", out, re.M)


def test_a_closed_pipe_is_no_error(sources):
    """`miniray demo | true`: the reader closes the pipe before the demo has printed anything."""
    command = f"{sys.executable} -m miniray demo --path {sources} | true"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.stderr == ""


def test_commands_declare_themselves():
    """`add_parser` returns the parser that it created."""
    from miniray.cli import demo

    parser = demo.add_parser(argparse.ArgumentParser().add_subparsers())
    assert parser.parse_args(["--num-cpus", "3"]).num_cpus == 3


# ---------------------------------------------------------------- text


def test_sizes_are_given_in_the_largest_unit_that_fits():
    """The units are those of `ray status`."""
    assert [size(0), size(1023), size(1536), size(15.25 * 2**30)] == ["0B", "1023B", "1.50KiB", "15.25GiB"]


def test_columns_are_aligned():
    """Text is aligned left and numbers right, with two spaces between columns."""
    assert table(("name", "n"), [("a", 1_000), ("bcdefg", 2)], indent="") == [
        "name        n",
        "a       1,000",
        "bcdefg      2",
    ]
