"""`python -m miniray demo` and `status`: what a stranger sees first."""

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
from tests.tidy.source import ROOT


@pytest.fixture
def sources(tmp_path):
    """A small tree of Python files, with things in it that are not to be read."""
    for number in range(60):
        text = f"class Shape:\n    def area(self):\n        pass\ndef only_{number}(): pass\n"
        (tmp_path / f"m{number}.py").write_text(text)
    (tmp_path / "notes.txt").write_text("def nothing(): pass")
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "other.py").write_text("def installed(): pass")
    return tmp_path


# ---------------------------------------------------------------- demo


def test_the_demo_ranks_the_names_that_are_defined(sources, capsys):
    """Every file is counted once, whatever batch it is in."""
    assert main(["demo", "--path", str(sources), "--num-cpus", "2"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  (Shape|area) +60$", out, re.M)
    assert "62 names, defined 180 times" in out
    assert "installed" not in out and "nothing" not in out


def test_the_demo_accounts_for_what_ran(sources, capsys):
    """Three batches, one of them tried twice; one actor; the objects that are still referenced; the time."""
    assert main(["demo", "--path", str(sources), "--num-cpus", "2"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  count_names +FAILED +1$", out, re.M)
    assert re.search(r"^  count_names +FINISHED +3$", out, re.M)
    assert re.search(r"^  Tally.add +FINISHED +3$", out, re.M)
    assert re.search(r"^  attempt 0 of count_names failed .*injected: the disk took a nap.* tried again$", out, re.M)
    assert re.search(r"^  Tally +ALIVE +0$", out, re.M)
    assert re.search(r"^  8 referenced, [\d.]+KiB in all; 0B of it in the object store of [\d.]+GiB", out, re.M)
    assert re.search(r"^  [\d.]+ s by the clock, [\d.]+ s of CPU", out, re.M)


def test_the_demo_of_an_empty_folder_says_so(tmp_path, capsys):
    """Nothing to read is an answer of its own: exit code 1, and no session was started."""
    assert main(["demo", "--path", str(tmp_path)]) == 1
    assert "no Python files below" in capsys.readouterr().err
    assert not miniray.is_initialized()


def test_giants_and_installed_packages_are_left_out(sources):
    """What pip installed is not the standard library's."""
    (sources / "giant.py").write_bytes(b"#" * 2_000_001)
    assert len(source_files(str(sources))) == 60


@pytest.mark.slow
def test_the_demo_runs_from_a_bare_clone(tmp_path):
    """Over the real standard library, with nothing installed: -S leaves every site-packages out."""
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
    """The layout of `ray status`."""
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
    """-v: what every node has in use, at the end."""
    assert main(["status", "--num-cpus", "8", "-v"]) == 0
    assert re.search(
        r"\n\nNode: [0-9a-f]{56} \(127\.0\.0\.1\)\n Usage:\n  0\.0/8\.0 CPU\n  0B/", capsys.readouterr().out
    )


def test_status_names_what_waits():
    """An infeasible task and a group that fits nowhere, in the words of `ray status`."""
    miniray.init(num_cpus=2)
    try:
        ref = miniray.remote(num_cpus=100)(int).remote()
        group = miniray.util.placement_group([{"CPU": 500}])
        text = status_text()
        assert " {'CPU': 100.0}: 1+ pending tasks/actors" in text
        assert " {'CPU': 500.0} * 1 (PACK): 1+ pending placement groups" in text
        del ref, group
    finally:
        miniray.shutdown()


def test_what_a_group_reserves_counts_as_used_only_when_it_is():
    """Four CPUs, a group holds one of them, and nothing of that is used."""
    assert usage({"CPU": 4.0}, {"CPU": 3.0}, {"CPU": 1.0}, {}) == [
        "0.0/4.0 CPU (0.0 used of 1.0 reserved in placement groups)"
    ]
    assert usage({"CPU": 4.0}, {"CPU": 2.0}, {"CPU": 1.0}, {"CPU": 1.0}) == [
        "2.0/4.0 CPU (1.0 used of 1.0 reserved in placement groups)"
    ]


# ---------------------------------------------------------------- the command line itself


def test_an_unknown_command_is_refused_with_the_usage(capsys):
    """Exit code 2, as of every command line."""
    with pytest.raises(SystemExit) as stopped:
        main(["dance"])
    assert stopped.value.code == 2
    assert "usage: miniray" in capsys.readouterr().err


def test_every_module_of_the_package_is_a_command(capsys):
    """The help lists them all; none needs to be registered."""
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    for file in (ROOT / "miniray/cli").glob("[!_]*.py"):
        assert re.search(rf"^    {file.stem.replace('_', '-')}\b", out, re.M)


def test_a_reader_that_has_seen_enough_is_no_error(sources):
    """`miniray demo | true`: the pipe is closed while there is all to say."""
    command = f"{sys.executable} -m miniray demo --path {sources} | true"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.stderr == ""


def test_commands_declare_themselves():
    """add_parser returns the parser that it made."""
    from miniray.cli import demo

    parser = demo.add_parser(argparse.ArgumentParser().add_subparsers())
    assert parser.parse_args(["--num-cpus", "3"]).num_cpus == 3


# ---------------------------------------------------------------- text


def test_sizes_are_given_in_the_largest_unit_that_fits():
    """As `ray status` gives them."""
    assert [size(0), size(1023), size(1536), size(15.25 * 2**30)] == ["0B", "1023B", "1.50KiB", "15.25GiB"]


def test_columns_are_aligned_numbers_to_the_right():
    """Text left, numbers right, two spaces between."""
    assert table(("name", "n"), [("a", 1_000), ("bcdefg", 2)], indent="") == [
        "name        n",
        "a       1,000",
        "bcdefg      2",
    ]
