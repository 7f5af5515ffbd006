"""`miniray list`, `get`, `summary`, `memory` and `logs`: Ray's layout, formats, filters and exit codes; programs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import miniray as ray
from miniray.cli import main
from miniray.util import state

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = """
import sys
import miniray as ray
ray.init(num_cpus=1, log_to_driver=False)
print("the program's own words", sys.argv[1:])
ref = ray.remote(lambda: 1).options(name="made\\x1b[2J").remote()
ray.get(ref)
if "shutdown" in sys.argv:
    ray.shutdown()
if "exit" in sys.argv:
    sys.exit(3)
if "raise" in sys.argv:
    raise OSError("of the program")
"""


class Counter:
    """An actor, for the tables to list."""

    def add(self):
        """A call, for the tables to list."""
        return 1


@pytest.fixture
def session():
    """A session with three tasks (one of them failed), an actor, and a value of 300,000 bytes."""
    ray.init(num_cpus=2, log_to_driver=False)

    def half(n):
        return 1 / n

    kept = [ray.remote(half).options(name=f"half {n}").remote(n) for n in (1, 2, 0)]
    ray.wait(kept, num_returns=3)
    counter = ray.remote(Counter).options(name="bob").remote()
    ray.get(counter.add.remote())
    yield [kept, counter, ray.put(bytes(300_000))]
    ray.shutdown()


def ask(capsys, *words):
    """Run a command in this process. Returns its exit code, stdout and stderr."""
    code = main(words)
    return code, *capsys.readouterr()


def refused(capsys, *words):
    """Run a command that argparse refuses with exit code 2. Returns stderr."""
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    return capsys.readouterr().err


def run(tmp_path, *words):
    """Run a command in its own process, in a folder with a program. Returns its exit code, stdout and stderr."""
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "miniray", *words],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=50,
    )
    return done.returncode, done.stdout, done.stderr


# ---------------------------------------------------------------- list


def test_a_list_has_the_layout_of_ray_list(capsys, session):
    """A heading with the time, the number of rows, upper-case columns without details, numbers aligned right."""
    code, out, err = ask(capsys, "list", "tasks", "--filter", "type=normal_task")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert re.fullmatch(r"======== List: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ ========", lines[1])
    assert lines[2:7] == ["Stats:", "-" * 30, "Total: 3", "", "Table:"] and lines[7] == "-" * 30
    assert lines[8].split() == [column.upper() for column in state.list_tasks()[0].list_columns(detail=False)]
    assert [line.split()[0] for line in lines[9:12]] == ["0", "1", "2"] and lines[11].endswith(
        "TASK_EXECUTION_EXCEPTION"
    )
    assert lines[9].index("half") == lines[8].index("NAME") and lines[12:] == [""]


def test_a_terminal_shows_the_columns_that_fit(capsys, session, monkeypatch):
    """The most useful come first, so no row is without its name and state. A column with one value in all rows is named
    below the table with its value; a column that repeats another is not shown.

    A pipe, and `--format table`, show all of Ray's columns.
    """
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _, out, _ = ask(capsys, "list", "tasks")
    assert max(map(len, out.splitlines())) <= 80
    lines = out.splitlines()
    header = next(line for line in lines if "TASK_ID" in line)
    assert header.split()[:2] == ["NAME", "STATE"] and "JOB_ID 01000000" in out and "Hidden columns: " in out
    named = {word.strip(",") for line in lines for word in line.split()}
    assert {column.upper() for column in state.list_tasks()[0].list_columns(detail=False)} <= named
    for words in (["--format", "table"], []):
        monkeypatch.setenv("COLUMNS", "80" if words else "400")
        _, out, _ = ask(capsys, "list", "tasks", *words)
        assert out.splitlines()[8].split() == [
            column.upper() for column in state.list_tasks()[0].list_columns(detail=False)
        ]
        assert "Hidden columns" not in out


def test_a_summary_fits_the_terminal(capsys, session, monkeypatch):
    """A long name is cut and less useful columns are hidden; `--format table` shows everything."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    ray.get(ray.remote(lambda: 1).options(name="n" * 150).remote())
    for resource in ("tasks", "actors", "objects"):
        assert main(["summary", resource]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 60
        wanted = {"tasks": "FINISHED: ", "actors": "ALIVE: ", "objects": "TOTAL_OBJECTS"}[resource]
        assert any(wanted in line for line in lines)
        assert main(["summary", resource, "--format", "table"]) == 0
        capsys.readouterr()


def test_other_formats(capsys, session):
    """JSON is one line with all fields, and YAML is one document.

    `--detail` prints YAML unless a table is asked for.
    """
    code, out, _ = ask(capsys, "list", "tasks", "--format", "json", "--limit", "2")
    rows = json.loads(out)
    assert (code, len(rows), out.count("\n")) == (0, 2, 1) and list(rows[0]) == state.list_tasks()[0].list_columns()
    assert rows[0]["events"] is None
    _, detailed, _ = ask(capsys, "list", "actors", "--detail")
    assert (
        detailed.startswith("---\n-   actor_id: ")
        and detailed.endswith("...\n\n")
        and "    num_restarts: 0\n" in detailed
    )
    assert ask(capsys, "list", "actors", "--format", "yaml")[1].count("null") > 5
    _, table, _ = ask(capsys, "list", "actors", "--detail", "--format", "table")
    assert "NUM_RESTARTS" in table


def test_times_and_sizes_are_readable(capsys, session):
    """Every format has units and dates, as in Ray."""
    _, out, _ = ask(capsys, "list", "objects")
    assert "292.969 KiB" in out and "8.000 B" in out
    (row,) = json.loads(ask(capsys, "list", "nodes", "--format", "json", "--detail")[1])
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d", row["start_time_ms"]) and row["resources_total"]["memory"].endswith(
        "GiB"
    )


def test_a_table_that_the_limit_cut_short_gives_a_warning(capsys, session):
    """The warning is one line on stderr; JSON gives none."""
    code, _, err = ask(capsys, "list", "tasks", "--limit", "1")
    assert code == 0 and err.startswith("Warning: Limit last 1 entries (Total 5)") and err.count("\n") == 1
    assert ask(capsys, "list", "tasks", "--limit", "1", "--format", "json")[2] == ""


def test_filters_of_the_command_line(capsys, session):
    """All filters must match, case does not matter, and a value may contain `=`.

    If no row matches, a message says so.
    """

    def names(*filters):
        words = [word for text in filters for word in ("-f", text)]
        return [row["name"] for row in json.loads(ask(capsys, "list", "tasks", "--format", "json", *words)[1])]

    assert names("STATE=failed") == ["half 0"] and names("state=FINISHED", "name!=half 1", "type!=ACTOR_TASK") == [
        "half 2",
        "bob:Counter.__init__",
    ]
    assert ask(capsys, "list", "tasks", "-f", "name=a=b")[:2] == (0, "No resource in the cluster\n")


@pytest.mark.parametrize(
    "resource",
    ["actors", "jobs", "placement-groups", "nodes", "workers", "tasks", "objects", "runtime-envs", "cluster-events"],
)
def test_every_table_can_be_listed(capsys, session, resource):
    """This holds for each format; an empty table prints Ray's message."""
    for how in ("table", "json", "yaml"):
        code, out, _ = ask(capsys, "list", resource, "--format", how)
        assert code == 0 and out.strip()
        if resource in ("placement-groups", "runtime-envs", "cluster-events"):
            assert out == "No resource in the cluster\n"


# ---------------------------------------------------------------- get, summary, memory


def test_one_row_is_a_yaml_list_of_one(capsys, session):
    """`get` prints all details of the row."""
    (task,) = state.list_tasks(filters=[("name", "=", "half 0")])
    code, out, _ = ask(capsys, "get", "tasks", task.task_id)
    assert (
        code == 0
        and out.startswith(f"---\n-   task_id: {task.task_id}\n")
        and 'error_message: "User exception:\\n' in out
    )
    assert ask(capsys, "get", "objects", session[0][0].hex())[1].count("object_id") == 1


def test_an_id_that_names_nothing(capsys, session):
    """The exit code is 0, as in Ray; it is 2 if the text cannot be an id."""
    assert ask(capsys, "get", "tasks", "0" * 48) == (0, f"Resource with id={'0' * 48} not found in the cluster.\n", "")
    code, out, err = ask(capsys, "get", "actors", "zz")
    assert (
        (code, out) == (2, "")
        and err.startswith("Error: 'zz' is not the id or the name of one of the actors")
        and err.count("\n") == 1
    )


def test_summaries(capsys, session):
    """Totals in alphabetical order, then a table in which a dict fills several lines; objects are by call site."""
    code, out, _ = ask(capsys, "summary", "tasks")
    lines = out.splitlines()
    assert code == 0 and re.match("======== Tasks Summary: .* ========", lines[1])
    assert lines[4:9] == ["total_actor_scheduled: 1", "total_actor_tasks: 1", "total_tasks: 3", "", ""]
    assert lines[9] == "Table (group by func_name):" and lines[11].split() == [
        "FUNC_OR_CLASS_NAME",
        "STATE_COUNTS",
        "TYPE",
    ]
    assert lines[12].split() == ["0", "half", "1", "FINISHED:", "1", "NORMAL_TASK"]
    assert "Actors Summary" in ask(capsys, "summary", "actors")[1]
    _, out, err = ask(capsys, "summary", "objects")
    assert "callsite_enabled: false\ntotal_objects: 5" in out and "Table (group by callsite)\n" in out
    assert "(actor handle) Counter\n    REF_TYPE_COUNTS" in out and "(put object)\n" in out and "disabled" not in out
    assert "\n--  ----" in out and err.startswith("Warning: ")
    assert json.loads(ask(capsys, "summary", "tasks", "--format", "json")[1])["cluster"]["total_tasks"] == 3
    assert ask(capsys, "summary", "actors", "--format", "yaml")[1].startswith("---\ncluster:\n    summary:\n")


def test_memory(capsys, session):
    """References by size, unknown sizes as `?`, sums for each kind of reference, and the object stores at the end."""
    code, out, _ = ask(capsys, "memory")
    assert code == 0 and "--- Summary for node address: 127.0.0.1 ---" in out
    assert re.search(r"Mem Used by Objects +Local References.*\n300016\.0 B +4, \(300016\.0 B\) +0, \(0\.0 B\)", out)
    sizes = re.findall(r"\| (\?|[\d.]+ B) +\| (?:ACTOR_HANDLE|LOCAL_REFERENCE)", out)
    assert sizes == ["?", "?", "8.0 B", "8.0 B", "300000.0 B"]
    assert "Plasma memory usage 0 MiB, 1 objects, 0.0% full" in out
    _, out, _ = ask(capsys, "memory", "--n", "1", "--units", "kb", "--group-by", "stack_trace", "--sort-by", "pid")
    assert "Display 1 entries per group" in out and "Summary for stack trace: (put object)" in out and "300.0 KB" in out
    _, out, _ = ask(capsys, "memory", "--stats-only")
    assert "Plasma" in out and "Summary" not in out


def test_memory_on_a_wide_terminal(capsys, session, monkeypatch):
    """A wide terminal gets another layout, unless --no-format is given."""
    monkeypatch.setenv("COLUMNS", "200")
    assert " | " not in ask(capsys, "memory")[1] and " | " in ask(capsys, "memory", "--no-format")[1]


# ---------------------------------------------------------------- errors


def test_wrong_words_are_refused(capsys):
    """The exit code is 2, the message names the choices, and nothing is run."""
    assert "invalid choice: 'nope'" in refused(capsys, "list", "nope") and "RESOURCE" in refused(capsys, "list")
    assert "--format" in refused(capsys, "list", "tasks", "--format", "xml")
    assert "--limit" in refused(capsys, "list", "tasks", "--limit", "x")
    assert "invalid choice: 'jobs'" in refused(capsys, "get", "jobs", "x") and "required" in refused(capsys, "summary")
    assert ask(capsys, "get", "tasks")[::2] == (
        2,
        "Error: Invalid value: Missing argument 'ID'. Do you mean 'miniray list tasks'?\n",
    )


def test_wrong_filters_are_refused(capsys, session):
    """The exit code is 1 for text that is not a filter, and 2 for a wrong column or a value of the wrong type."""
    for text, code, words in (
        ("bad", 1, "Cannot find the predicate"),
        ("=x", 1, "Cannot identify key"),
        ("name=", 1, "Cannot identify"),
        ("nope=1", 2, "Invalid filter key 'nope' for resource 'tasks'"),
        ("events=1", 2, "not supported"),
        ("attempt_number=x", 2, "integer filter"),
    ):
        got, out, err = ask(capsys, "list", "tasks", "--filter", text)
        assert (got, out) == (code, "") and words in err and err.count("\n") == 1 and err.startswith("Error: "), text
    assert ask(capsys, "list", "tasks", "--limit", "-1")[0] == 2


@pytest.mark.parametrize("words", [["list", "tasks"], ["get", "tasks", "00"], ["summary", "actors"], ["memory"]])
def test_without_a_session_the_error_shows_the_command_to_type(capsys, words):
    """The exit code is 1: there is no server to ask."""
    code, out, err = ask(capsys, *words)
    assert (code, out) == (1, "") and err.startswith("Error: Could not find any running Ray instance")
    assert err.splitlines()[1:] == [f"    python -m miniray {' '.join(words)} -- script.py [args]"]


# ---------------------------------------------------------------- running a program


def test_a_program_is_run_and_its_tables_are_shown(tmp_path):
    """The program gets its own options, its output goes to stderr, and control characters in names are escaped."""
    code, out, err = run(tmp_path, "list", "tasks", "--format", "table", "--", "program.py", "--limit", "7")
    assert code == 0 and "Total: 1" in out and r"made\x1b[2J" in out and "\x1b" not in out
    assert "the program's own words ['--limit', '7']" in err and "words" not in out


def test_the_tables_are_read_before_the_program_shuts_its_session_down(tmp_path):
    """The program's exit code is the command's."""
    code, out, _ = run(tmp_path, "summary", "tasks", "--format", "json", "--", "program.py", "shutdown", "exit")
    assert code == 3 and json.loads(out)["cluster"]["total_tasks"] == 1


def test_the_tables_of_a_program_that_fails_are_shown_too(tmp_path):
    """The program's traceback goes to stderr."""
    code, out, err = run(tmp_path, "memory", "--stats-only", "--", "program.py", "raise")
    assert code == 1 and "Plasma" in out and "OSError: of the program" in err


def test_a_program_without_a_file_or_without_a_session_is_an_error(tmp_path):
    """The exit code is 2 if the file does not exist, and 1 if the program starts no session."""
    assert run(tmp_path, "list", "tasks", "--", "nothing.py")[::2] == (
        2,
        "Error: there is no file 'nothing.py' to run\n",
    )
    (tmp_path / "empty.py").write_text("")
    assert run(tmp_path, "list", "tasks", "--", "empty.py")[::2] == (
        1,
        "Error: empty.py started no session, so there is nothing to show\n",
    )


# ---------------------------------------------------------------- logs


PRINTS = """
import miniray as ray
ray.init(num_cpus=1, log_to_driver=False)

@ray.remote
class Talker:
    def talk(self):
        print("from an actor")

talker = Talker.remote()
ray.get(talker.talk.remote())
print(talker._actor_id.hex())
"""


def test_the_logs_of_a_program_have_names(tmp_path):
    """The names are those of the workers' and the system's logs. A pattern that matches only one log prints it."""
    (tmp_path / "prints.py").write_text(PRINTS)
    code, out, _ = run(tmp_path, "logs", "--", "prints.py")
    assert (
        code == 0
        and out.startswith("Node IP: 127.0.0.1\n---\nworker_out:\n- worker-")
        and out.endswith("- raylet.out\n...\n")
    )
    code, out, _ = run(tmp_path, "logs", "worker-*.out", "--tail", "-1", "--", "prints.py")
    assert (code, out) == (0, ":job_id:01000000\n:actor_name:Talker\nfrom an actor\n")


def test_a_log_that_does_not_exist_is_an_error(tmp_path):
    """The exit code is 1. Wrong words are refused with 2 before the program runs."""
    (tmp_path / "prints.py").write_text(PRINTS)
    code, out, err = run(tmp_path, "logs", "actor", "--id", "f" * 32, "--", "prints.py")
    assert (code, out) == (1, "") and err.endswith(f"Error: Actor ID {'f' * 32} not found.\n")
    code, out, err = run(tmp_path, "logs", "task", "--", "prints.py")
    assert code == 2 and "Missing option '--id'." in err and "from an actor" not in err


def test_a_program_can_read_the_logs_of_its_own_session(session, capsys):
    """Without a session, the error shows the command to type."""
    assert main(["logs", "raylet*"]) == 0 and "node_joined" in capsys.readouterr().out
    assert main(["logs", "nothing*"]) == 0 and capsys.readouterr().out == "Node IP: 127.0.0.1\n---\n{}\n...\n\n"
    assert main(["logs", "actor", "--id", "0" * 32]) == 1 and "not found" in capsys.readouterr().err
    ray.shutdown()
    with pytest.raises(SystemExit):
        main(["logs"])
    assert "    python -m miniray logs -- script.py [args]\n" in capsys.readouterr().err
