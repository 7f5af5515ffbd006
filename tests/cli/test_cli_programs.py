"""Programs that commands run: hangs, signals, several sessions, modules; ids as people type them; the grammar."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import miniray as ray
from miniray.cli import main
from miniray.cli._layout import fitted
from miniray.observe.escape import cells, cut

ROOT = Path(__file__).resolve().parent.parent.parent
INFEASIBLE = """
import miniray as ray
ray.init(num_cpus=1, log_to_driver=False)
ray.get(ray.remote(num_cpus=2)(lambda: 1).remote())
"""
DEADLOCK = """
import miniray as ray
ray.init(num_cpus=2, log_to_driver=False)
@ray.remote
class Half:
    def ask(self, other):
        return ray.get(other.answer.remote(other))
    def answer(self, other):
        return 1
a = Half.remote()
try:
    ray.get(a.ask.remote(a))
except Exception:
    print("not for the program to catch")
"""
ENDLESS = """
import sys, threading, time
import miniray as ray
from miniray.observe import doctor
from miniray.process import context
doctor.RUNNING_FROM_S = 0.0
context.spins = threading.Event()  # a task has copies of the globals of this program, and none of a module
ray.init(num_cpus=1, log_to_driver=False)
def tell():
    context.spins.wait()
    while not context.session.driver_waiters:
        time.sleep(0.001)
    print("started", file=sys.__stdout__, flush=True)
threading.Thread(target=tell, daemon=True).start()
@ray.remote
def spin():
    print("spinning", flush=True)
    context.spins.set()
    threading.Event().wait()
ref = spin.remote()
ray.get(ref)
"""
TWO_SESSIONS = """
import miniray as ray
for name in ("first", "second"):
    ray.init(num_cpus=1, log_to_driver=False)
    ray.get(ray.remote(lambda: 1).options(name=name).remote())
    ray.shutdown()
"""


def start(tmp_path, text, *words):
    """Start a command on a program, which is in the file program.py of its folder."""
    (tmp_path / "program.py").write_text(text)
    return subprocess.Popen(
        [sys.executable, "-m", "miniray", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(tmp_path, text, *words):
    """Run a command on a program. Returns its exit code, stdout and stderr."""
    done = start(tmp_path, text, *words)
    out, err = done.communicate(timeout=50)
    return done.returncode, out, err


# ---------------------------------------------------------------- programs that hang


@pytest.mark.parametrize(("text", "symptom"), [(INFEASIBLE, "PENDING"), (DEADLOCK, "DEADLOCK")])
def test_a_program_that_can_never_go_on_is_ended(tmp_path, text, symptom):
    """The report is made while the program still waits, so it has the driver's line. The program cannot catch it."""
    code, out, err = run(tmp_path, text, "doctor", "--", "program.py")
    assert code == 1 and f"1. {symptom}: " in out and "not for the program" not in err
    assert "The program was ended, since its wait can never return: " in err
    assert 'stack of the driver:\n     File "program.py", line' in out


def test_a_program_that_gets_sigterm_is_examined_first(tmp_path):
    """The report names the task that runs on, with its stack and the driver's. The exit code is that of SIGTERM."""
    done = start(tmp_path, ENDLESS, "doctor", "--format", "json", "--", "program.py")
    assert done.stdout.readline() == "started\n"
    done.send_signal(signal.SIGTERM)
    out, _ = done.communicate(timeout=50)
    assert done.returncode == 128 + signal.SIGTERM
    (finding,) = json.loads(out)
    assert finding["symptom"] == "RUNNING" and "spinning" in finding["sentence"]
    assert "wait()" in "".join(finding["stacks"]["worker 1, which runs spin"])
    assert "ray.get(ref)" in "".join(finding["stacks"]["the driver"])
    assert finding["command"] == "python -m miniray stack --after 3 -- program.py"


def test_ctrl_c_shows_where_the_driver_was(tmp_path):
    """The session is examined after the interrupt, and the traceback of the interrupt has the driver's line."""
    done = start(tmp_path, ENDLESS, "stack", "--", "program.py")
    assert done.stdout.readline() == "started\n"
    done.send_signal(signal.SIGINT)
    out, _ = done.communicate(timeout=50)
    assert done.returncode == 128 + signal.SIGINT
    assert out.startswith(
        'The program was interrupted in\n  File "program.py", line 21, in <module>\n    ray.get(ref)\n'
    )
    assert "Worker 1 runs spin" in out


def test_after_works_for_every_command(tmp_path):
    """The program is interrupted, and the tables are those of the moment before."""
    code, out, _ = run(tmp_path, ENDLESS, "list", "tasks", "--format", "json", "--after", "3", "--", "program.py")
    assert code == 128 + signal.SIGINT
    assert [(row["name"], row["state"]) for row in json.loads(out.partition("\n")[2])] == [("spin", "RUNNING")]


def test_a_program_that_catches_the_interrupt_is_ended_all_the_same(tmp_path):
    """The answer is printed, and the process ends without the program."""
    text = ENDLESS.replace(
        "ray.get(ref)", "while True:\n    try:\n        ray.get(ref)\n    except KeyboardInterrupt: pass"
    )
    short_grace = "import miniray.cli._look as look, miniray.cli; look.GRACE_S = 0.2; "
    (tmp_path / "program.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", short_grace + "miniray.cli.main(['stack', '--after', '3', '--', 'program.py'])"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 128 + signal.SIGINT and "Worker 1 runs spin" in done.stdout
    assert "did not end within 0.2 s" in done.stderr


# ---------------------------------------------------------------- several sessions, modules


def test_a_program_with_two_sessions_has_two_answers(tmp_path):
    """Each is shown under its number; JSON is one document, which has the answer of each, or the one asked for."""
    code, out, _ = run(tmp_path, TWO_SESSIONS, "summary", "tasks", "--", "program.py")
    assert code == 0 and out.index("Session 1 of 2") < out.index("first") < out.index("Session 2 of 2") < out.index(
        "second"
    )
    code, out, err = run(tmp_path, TWO_SESSIONS, "list", "tasks", "--format", "json", "--", "program.py")
    assert [[row["name"] for row in rows] for rows in json.loads(out)["sessions"]] == [["first"], ["second"]]
    code, out, err = run(tmp_path, TWO_SESSIONS, "list", "actors", "--format", "json", "--", "program.py")
    assert code == 0 and json.loads(out) == {"sessions": ["No resource in the cluster"] * 2}
    words = ("list", "tasks", "--format", "json", "--session", "1", "--", "program.py")
    assert [row["name"] for row in json.loads(run(tmp_path, TWO_SESSIONS, *words)[1])] == ["first"]
    code, _, err = run(tmp_path, TWO_SESSIONS, "memory", "--session", "3", "--", "program.py")
    assert code == 2 and "the program had 2 sessions" in err


def test_stacks_and_logs_can_be_json(tmp_path):
    """The stacks with the waits; the names of the logs by category; the lines of one log."""
    done = start(tmp_path, ENDLESS, "stack", "--format", "json", "--", "program.py")
    assert done.stdout.readline() == "started\n"
    done.send_signal(signal.SIGINT)
    found = json.loads(done.communicate(timeout=50)[0])
    (worker,) = found["workers"]
    assert [task["name"] for task in worker["tasks"]] == ["spin"] and not worker["blocked"]
    assert "wait()" in "".join(worker["stack"]) and "ray.get(ref)" in "".join(found["interrupted_in"])
    text = "import miniray as ray\nray.init(num_cpus=1)\n@ray.remote\ndef say():\n    print('hello')\nray.get(say.remote())\n"
    _, out, _ = run(tmp_path, text, "logs", "--format", "json", "--", "program.py")
    assert set(json.loads(out)) == {"worker_out", "worker_err", "raylet"}
    _, out, _ = run(tmp_path, text, "logs", "task", "--id", "say", "--format", "json", "--", "program.py")
    assert json.loads(out) == ["hello"]


def test_a_module_can_be_examined(tmp_path):
    """As with `python -m`; the words after its name are its own. `run` accepts the same words."""
    text = TWO_SESSIONS + "import sys; print(sys.argv[1:])\n"
    code, out, err = run(tmp_path, text, "summary", "tasks", "--session", "2", "--", "-m", "program", "--after")
    assert code == 0 and "second" in out and "['--after']" in err
    assert run(tmp_path, text, "run", "--", "-m", "program", "x")[:2] == (0, "['x']\n")
    assert run(tmp_path, text, "run", "--", "program.py", "--", "x")[:2] == (0, "['--', 'x']\n")


def test_the_status_of_a_program(tmp_path):
    """It is that of its session, at its end."""
    code, out, _ = run(tmp_path, INFEASIBLE, "status", "--", "program.py")
    assert code == 1 and "0.0/1.0 CPU" in out and "{'CPU': 2.0}: 1+ pending tasks/actors" in out
    code, out, _ = run(tmp_path, INFEASIBLE, "status", "--format", "json", "--", "program.py")
    assert json.loads(out)["demands"] == ["{'CPU': 2.0}: 1+ pending tasks/actors"]


def test_the_exit_code_can_tell_of_findings(tmp_path):
    """With --exit-code a program that ended well, and has findings, gives 3."""
    text = "import miniray as ray\nray.wait([ray.remote(lambda: 1 / 0).remote()])\n"
    assert [run(tmp_path, text, "doctor", *more, "--", "program.py")[0] for more in ((), ("--exit-code",))] == [0, 3]
    assert run(tmp_path, TWO_SESSIONS, "doctor", "--exit-code", "--", "program.py")[0] == 0


def test_a_file_that_cannot_be_written_is_known_before_the_program_runs(tmp_path):
    """The exit code is 2, and the program has not run."""
    code, out, err = run(tmp_path, "print('ran')", "timeline", "-o", "nowhere/t.html", "--", "program.py")
    assert (code, out) == (2, "") and "nowhere/t.html cannot be written: there is no folder" in err and "ran" not in err
    code, out, _ = run(tmp_path, TWO_SESSIONS, "timeline", "-o", "t.json", "--", "program.py")
    assert code == 0 and (tmp_path / "t.json").exists() and (tmp_path / "t-2.json").exists()


# ---------------------------------------------------------------- ids and names


@pytest.fixture
def session():
    """A session with two tasks of one name, an actor, and a put object."""
    ray.init(num_cpus=2, log_to_driver=False)

    @ray.remote
    def square(n):
        return n * n

    @ray.remote
    class Counter:
        def add(self):
            print("added")

    kept = [square.remote(1), square.remote(2), Counter.remote(), ray.put(3)]
    ray.get([*kept[:2], kept[2].add.remote()])
    yield kept
    ray.shutdown()


def got(capsys, *words):
    """Run `get` with JSON. Returns the rows."""
    assert main(["get", *words, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_row_is_found_by_its_id_by_its_short_id_and_by_its_name(capsys, session):
    """A name may have several rows. Objects have short ids too."""
    whole = session[0].task_id().hex()
    assert got(capsys, "tasks", whole) == got(capsys, "tasks", "1") == got(capsys, "tasks", whole[:17])
    assert [row["task_id"] for row in got(capsys, "tasks", "square")] == [ref.task_id().hex() for ref in session[:2]]
    actor = session[2]._actor_id.hex()
    assert (
        got(capsys, "actors", "Counter")[0]["actor_id"]
        == got(capsys, "actors", actor.lstrip("0"))[0]["actor_id"]
        == actor
    )
    assert got(capsys, "tasks", "init-3")[0]["name"] == "Counter.__init__"
    assert got(capsys, "objects", "1.1")[0]["object_id"] == session[0].hex()
    (put,) = got(capsys, "objects", "put-5")
    assert put["object_id"] == session[3].hex() and put["call_site"] == "(put object)"
    assert main(["logs", "actor", "--id", "Counter"]) == 0 and "added" in capsys.readouterr().out


def test_a_name_that_nobody_has_or_that_several_have_is_explained(capsys, session):
    """The message shows the rows that there are, with their short ids, and a name that is similar."""
    assert main(["get", "tasks", "sqare"]) == 2
    assert "there are 1 (square), 2 (square)" in (err := capsys.readouterr().err) and "did you mean square?" in err
    assert main(["get", "tasks", "0000"]) == 2 and "have an id that begins with '0000'" in capsys.readouterr().err
    assert main(["logs", "task", "--id", "square"]) == 2
    assert "2 tasks are called 'square': name one by its id: 1, 2" in capsys.readouterr().err


# ---------------------------------------------------------------- the grammar


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["list", "tasks", "s.py"], "put -- before the script: miniray list ... -- s.py"),
        (["doctor", "-m", "pytest"], "put -- before the module: miniray doctor ... -- -m pytest"),
        (["list", "taks"], "did you mean tasks?"),
        (["memory", "--sort", "pid", "--unitz"], "did you mean --units?"),
        (["lst"], "did you mean list?"),
        (["list", "tasks", "--"], "name a script, or a module with -m, after --"),
        (["summary", "tasks", "--", "-m"], "name a module after -m"),
        (["status", "--resources", "disk=2"], "expected JSON such as '{\"disk\": 2.0}', not 'disk=2'"),
        (["get", "--", "s.py"], "the following arguments are required: RESOURCE, ID"),
    ],
)
def test_wrong_words_are_answered_with_the_right_ones(capsys, words, expected):
    """The usage is that of the command."""
    with pytest.raises(SystemExit) as left:
        main(words)
    err = capsys.readouterr().err
    assert (
        left.value.code == 2
        and expected in err
        and err.startswith(f"usage: miniray {'' if words == ['lst'] else words[0]}")
    )


def test_the_version(capsys):
    """It names Ray's as well."""
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0 and capsys.readouterr().out.startswith("miniray ")


def test_a_filter_with_two_equal_signs_is_refused(capsys, session):
    """It would match nothing, without a word."""
    assert main(["list", "tasks", "--filter", "state==FINISHED"]) == 1
    assert "did you mean state=FINISHED?" in capsys.readouterr().err
    assert (
        main(["list", "tasks", "--filter", "stat=FINISHED"]) == 2 and "did you mean state?" in capsys.readouterr().err
    )


# ---------------------------------------------------------------- widths


def test_widths_are_counted_in_cells():
    """A wide character takes two; a mark that combines, and one that joins, take none."""
    assert [cells(text) for text in ("abc", "日本", "é", "e\u0301", "a\u200db")] == [3, 4, 1, 1, 2]
    assert [cut("日本語", width) for width in (6, 5, 4)] == ["日本語", "日本…", "日…"]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_a_table_fits_its_terminal(width):
    """However long its names are, every row has its name and its state."""
    headers = ["ID", "NAME", "TWIN", "STATE", "JOB"]
    rows = [[f"{n:032x}", name, name, "DONE", "one"] for n, name in enumerate(["日本語の名前", "x" * 120, "short"])]
    table, note = fitted(headers, rows, width, "NAME STATE | ID")
    note = " ".join(note.split())
    assert max(cells(line) for line in table.splitlines()) <= width
    header, *lines = table.splitlines()
    assert header.split()[:2] == ["NAME", "STATE"] and all("DONE" in line for line in lines)
    assert "TWIN (as NAME)" in note and "JOB one" in note
