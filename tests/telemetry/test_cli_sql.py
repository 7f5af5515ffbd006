"""`miniray sql`: a program, a recording, formats, and what is said about wrong words."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import miniray as ray

@ray.remote
def f(x):
    if x == 2:
        raise ValueError("\x1b[2J, <b>")
    return x

for i in range(4):
    try:
        ray.get(f.remote(i))
    except ValueError:
        print("caught")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def miniray(*words, stdin=None):
    run = subprocess.run([sys.executable, "-m", "miniray", *words], capture_output=True, text=True, input=stdin)
    return run.returncode, run.stdout, run.stderr


COUNT = "SELECT state, count(*) AS n FROM tasks GROUP BY state"


def test_the_command_asks_a_program_when_it_ends(script):
    code, out, err = miniray("sql", COUNT, "--", script)
    assert (code, err) == (0, "caught\n")
    assert out.splitlines() == [
        "    state       n",
        "--  --------  ---",
        " 0  FAILED      1",
        " 1  FINISHED    3",
    ]


@pytest.mark.parametrize(
    "how, said",
    [
        ("csv", "state,n\nFAILED,1\nFINISHED,3\n"),
        ("jsonl", '{"state": "FAILED", "n": 1}\n{"state": "FINISHED", "n": 3}\n'),
        ("json", json.dumps([{"state": "FAILED", "n": 1}, {"state": "FINISHED", "n": 3}], indent=2) + "\n"),
    ],
)
def test_the_command_has_formats_for_programs(script, how, said):
    assert miniray("sql", COUNT, "--format", how, "--", script)[1] == said


def test_a_wrong_statement_is_said_before_the_program_runs(script):
    code, out, err = miniray("sql", "SELECT stat FROM tasks", "--", script)
    assert (code, out) == (2, "") and err == "Error: There is no column stat. The closest names: state, started_us.\n"


def test_formats_hold_every_value():
    """Bytes and infinity have no form in JSON. A terminal is protected from what a CSV file has as it is."""
    from miniray.cli.sql import formatted

    columns, rows = ["a", "b", "c"], [{"a": b"\x00\xff", "b": float("inf"), "c": "x\x1b[2J,\ny"}]
    assert json.loads(formatted(columns, rows, "json", False)) == [{"a": "00ff", "b": "inf", "c": "x\x1b[2J,\ny"}]
    assert formatted(columns, rows, "csv", False) == 'a,b,c\n00ff,inf,"x\x1b[2J,\ny"'
    assert formatted(columns, rows, "csv", True) == 'a,b,c\n00ff,inf,"x\\x1b[2J,\ny"'
    assert "\x1b" not in formatted(columns, rows, "table", False)


def test_the_command_sees_the_end_of_a_session(tmp_path):
    """Metrics, lines and profiles, too: the statement runs just before the session ends."""
    path = tmp_path / "program.py"
    path.write_text("""
import time
import miniray as ray
from miniray.telemetry import profile
from miniray.util.metrics import Counter

count = Counter("calls")

@ray.remote
def work():
    count.inc()
    print("a line")
    time.sleep(0.1)

with profile():
    ray.get(work.remote())
""")
    statement = (
        "SELECT (SELECT sum(value) FROM metric_points) AS calls, (SELECT group_concat(line) FROM log_lines) AS lines, "
        "(SELECT count(*) > 0 FROM stack_samples) AS profiled"
    )
    out = miniray("sql", statement, "--format", "jsonl", "--", str(path))[1]
    assert json.loads(out) == {"calls": 1.0, "lines": "a line", "profiled": 1}


def test_the_command_asks_a_file_and_reads_stdin(script, tmp_path):
    path = str(tmp_path / "run.db")
    assert miniray("record", "-o", path, "--", script)[0] == 0
    assert miniray("sql", COUNT, path)[1].count("FINISHED") == 1
    assert miniray("sql", "-", "--from", path, "--format", "csv", stdin=COUNT)[1] == "state,n\nFAILED,1\nFINISHED,3\n"
    assert miniray("sql", COUNT, "--format", "csv", path)[1] == "state,n\nFAILED,1\nFINISHED,3\n"
    code, out, err = miniray("sql", COUNT, "--format", "csv", path, "more")
    assert (code, out) == (2, "") and "too many words: more" in err
    code, out, err = miniray("sql", "SELECT stat FROM tasks", path)
    assert (code, out) == (2, "") and "The closest names: state" in err
    code, out, err = miniray("sql", "SELECT error_message FROM tasks WHERE state = 'FAILED'", path)
    assert code == 0 and "\x1b" not in out and "\\x1b[2J, <b>" in out
    code, out, err = miniray("sql", "SELECT name FROM tasks", path, "--limit", "1")
    assert err == "Note: There are more rows than the limit.\n"


def test_a_reader_that_has_seen_enough_is_no_error(script, tmp_path):
    """As `miniray sql ... | head -1`."""
    path = str(tmp_path / "run.db")
    assert miniray("record", "-o", path, "--", script)[0] == 0
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "miniray", "sql", "SELECT * FROM information_schema.columns", path]
    run = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (run.returncode, run.stderr) == (0, "")


def test_an_interrupt_ends_the_command(script, tmp_path):
    path = str(tmp_path / "run.db")
    assert miniray("record", "-o", path, "--", script)[0] == 0
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
    program = (
        "import signal, sys; from miniray.cli import main; signal.setitimer(signal.ITIMER_REAL, 3); "
        "signal.signal(signal.SIGALRM, signal.default_int_handler); sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "sql", endless, path, "--timeout", "60"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (run.returncode, run.stdout) == (130, "")


def test_a_table_shows_times_with_their_digits():
    """A time since 1970 has ten digits before the point, and six behind it."""
    from miniray.cli.sql import formatted

    values = [1796050000.0, 1796050123123456.0, 1796050123.25, 0.123456789, 1e300, float("inf")]
    table = formatted(["a"], [{"a": value} for value in values], "table", False)
    cells = [line.split()[1] for line in table.splitlines()[2:]]
    assert cells == ["1796050000", "1796050123123456", "1796050123.25", "0.123457", "1e+300", "inf"]


def test_the_command_describes_the_tables():
    code, out, _ = miniray("sql", ".schema")
    assert code == 0 and "task_attempts" in out and "_attempts " not in out.replace("task_attempts", "")
    assert "timestamp_us" in miniray("sql", ".schema", "task_events")[1]
    code, _, err = miniray("sql", ".schema task_event")
    assert code == 2 and "did you mean task_events?" in err


@pytest.mark.parametrize(
    "words, said",
    [
        (("SELECT 1",), "name the program"),
        (("SELECT 1", "no.db"), "there is no recording 'no.db'"),
        (("SELECT", "1", "x.db"), "quote the statement"),
        (("SELECT 1", "x.db", "--", "y.py"), "not both"),
    ],
)
def test_the_command_says_what_is_wrong_with_its_words(words, said):
    code, out, err = miniray("sql", *words)
    assert code in (1, 2) and out == "" and said in err
