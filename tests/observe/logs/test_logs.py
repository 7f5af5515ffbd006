"""Logs: what tasks print reaches the driver behind its prefix, is kept and read back; afterwards `sys` is as it was."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pickle
import sys
import threading

import pytest

import miniray
from miniray import api
from miniray.process import standard_streams
from miniray.observe.logs.folding import HINT, Folding
from miniray.observe.logs.session import system_message
from tests.observe.printed import captured, log, run

PID = os.getpid()


@pytest.fixture
def session(monkeypatch):
    """A session with two CPUs, whose prefixes have no colour."""
    monkeypatch.setenv("RAY_COLOR_PREFIX", "0")
    miniray.init(num_cpus=2)
    yield api.session
    miniray.shutdown()


# ---------------------------------------------------------------- prefixes


def test_each_line_of_a_task_stands_behind_its_name(session):
    """Also a line that one print made of several, and one that the task did not end."""

    def greet():
        print("one\ntwo")
        print("three", end="")

    with captured() as out:
        run(greet)
    assert out.getvalue() == f"(greet pid={PID}) one\n(greet pid={PID}) two\n(greet pid={PID}) three\n"


def test_a_line_written_in_pieces_is_shown_when_it_ends(session, monkeypatch):
    """Two tasks at once do not mix within a line."""
    # What a module holds is shared by the workers; what a function refers to is copied.
    monkeypatch.setattr(standard_streams, "together", threading.Barrier(2, timeout=10), raising=False)

    def slow(name):
        for piece in (name, " goes", " on\n"):
            sys.stdout.write(piece)
            standard_streams.together.wait()

    task = miniray.remote(slow)
    with captured() as out:
        miniray.get([task.remote("a"), task.remote("b")])
    assert sorted(out.getvalue().splitlines()) == [f"(slow pid={PID}) a goes on", f"(slow pid={PID}) b goes on"]


def test_a_task_is_called_by_its_option_and_an_actor_by_its_class_or_repr(session):
    """The repr is known when the constructor has run; an actor's own name is not shown."""

    class Plain:
        def say(self):
            print("hi")

    class Shown(Plain):
        def __init__(self):
            print("made")

        def __repr__(self):
            return "Shown(7)"

    with captured() as out:
        run(lambda: print("hi"), name="named")
        for cls in (Plain, Shown):
            miniray.get(miniray.remote(cls).options(name=cls.__name__.lower()).remote().say.remote())
    names = [line.split(" pid=")[0] for line in out.getvalue().splitlines()]
    assert names == ["(named", "(Plain", "(Shown", "(Shown(7)"]


def test_a_name_cannot_steer_the_terminal(session):
    """Escapes and newlines in names are shown as such, on the screen and in the log's markers; what was printed passes
    as it is.
    """
    with captured() as out:
        task_id = run(lambda: print("\x1b[31mred") or miniray.get_runtime_context().get_task_id(), name="\x1b[2J\nboo")
    assert out.getvalue() == f"(\\x1b[2J\\nboo pid={PID}) \x1b[31mred\n"
    assert log(task_id=task_id) == "\x1b[31mred\n"
    assert ":task_name:\\x1b[2J\\nboo\n" in log(node_id=session.head.hex, pid=PID)


def test_prefixes_are_coloured_as_in_ray(monkeypatch):
    """Cyan, also where the output is no terminal; RAY_COLOR_PREFIX=0 turns it off."""
    monkeypatch.delenv("RAY_COLOR_PREFIX", raising=False)
    with miniray.init(num_cpus=1), captured() as out:
        run(lambda: print("hi"))
    assert out.getvalue() == f"\x1b[36m(<lambda> pid={PID})\x1b[0m hi\n"


@pytest.mark.parametrize("variable", ["MINIRAY_LOG_PREFIX=0", "RAY_DISABLE_WORKER_LOG_PREFIX=1"])
def test_the_prefix_can_be_left_off(monkeypatch, variable):
    """Then a task's lines look like the driver's own."""
    monkeypatch.setenv(*variable.split("="))
    with miniray.init(num_cpus=1), captured() as out:
        run(lambda: print("hi"))
    assert out.getvalue() == "hi\n"


def test_a_task_on_another_node_names_its_address(monkeypatch):
    """As Ray's workers on other machines do."""
    monkeypatch.setenv("RAY_COLOR_PREFIX", "0")
    from miniray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1, resources={"far": 1})
    miniray.init(address=cluster.address)
    try:
        with captured() as out:
            run(lambda: print("hi"), resources={"far": 1})
    finally:
        miniray.shutdown()
        cluster.shutdown()
    assert out.getvalue() == f"(<lambda> pid={PID}, ip=127.0.0.2) hi\n"


def test_log_to_driver_false_keeps_and_does_not_show():
    """The driver's own prints are shown."""
    with miniray.init(num_cpus=1, log_to_driver=False), captured() as out:
        task_id = run(lambda: print("hi") or miniray.get_runtime_context().get_task_id())
        print("driver")
        assert log(task_id=task_id) == "hi\n"
    assert out.getvalue() == "driver\n"


def test_the_system_speaks_on_stdout(session):
    """As Ray's raylet: `(raylet) text`; it can be read again in raylet.out."""
    with captured() as out:
        system_message(session, "a node is full", "WARNING")
    assert out.getvalue() == "(raylet) a node is full\n"
    assert "[WARNING] a node is full\n" in log(node_id=session.head.hex, filename="raylet.out")


# ---------------------------------------------------------------- whose stdout it is


def test_the_driver_keeps_its_own_stream(session):
    """`sys.stdout` is what the program put there, unwrapped, at every depth of redirection."""
    before = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()) as outer:
        assert sys.stdout is outer
        with contextlib.redirect_stdout(io.StringIO()) as inner:
            run(lambda: print("deep"))
            assert sys.stdout is inner
        run(lambda: print("shallow"))
    assert sys.stdout is before
    assert "deep" in inner.getvalue() and "shallow" in outer.getvalue() and "deep" not in outer.getvalue()


def test_a_redirection_inside_a_task_is_the_task_s(session):
    """Two tasks redirect at the same time; each gets its own lines, the driver none."""

    def quiet(text):
        with contextlib.redirect_stdout(io.StringIO()) as mine:
            print(text)
            miniray.get(inner.remote())  # another task, on another worker, prints meanwhile
        print("after", text)
        return mine.getvalue()

    inner = miniray.remote(num_cpus=0)(lambda: print("inner"))
    task = miniray.remote(quiet)
    with captured() as out:
        assert miniray.get([task.remote("a"), task.remote("b")]) == ["a\n", "b\n"]
    shown = sorted(line.split(") ")[1] for line in out.getvalue().splitlines())
    assert shown == ["after a", "after b", "inner", "inner"]


def test_in_a_task_stdout_is_a_text_file_for_writing(session):
    """Bytes go through its buffer, it is no terminal, and it cannot be sent away."""

    def look():
        sys.stdout.buffer.write("ü".encode()[:1])
        sys.stdout.buffer.write("ü".encode()[1:] + b"\n")
        sys.stdout.writelines(["a\n", "b\n"])
        with pytest.raises(TypeError, match="must be str, not bytes"):
            sys.stdout.write(b"x")
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(sys.stdout)
        sys.stdout.reconfigure(line_buffering=False)
        sys.stdout.flush()
        return sys.stdout.isatty(), isinstance(sys.stdout, io.TextIOBase), sys.stdout.encoding, sys.stdout.writable()

    with captured() as out:
        assert run(look) == (False, True, "utf-8", True)
    assert [line.split(") ")[1] for line in out.getvalue().splitlines()] == ["ü", "a", "b"]


def test_a_lone_surrogate_is_written_as_an_escape(session):
    """Real Ray raises UnicodeEncodeError in the task."""
    with captured() as out:
        task_id = run(lambda: print("\ud800!") or miniray.get_runtime_context().get_task_id())
    assert out.getvalue().endswith("\\ud800!\n")
    assert log(task_id=task_id) == "\\ud800!\n"


def test_a_screen_without_the_characters_gets_escapes(session):
    """A driver on an ASCII terminal."""
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with contextlib.redirect_stdout(screen):
        run(lambda: print("grün"))
    screen.flush()
    assert screen.buffer.getvalue().endswith(b"gr\\xfcn\n")


def test_a_screen_that_is_gone_does_not_fail_the_task(session):
    """The line is in the log."""
    screen = io.StringIO()
    screen.close()
    with contextlib.redirect_stdout(screen):
        task_id = run(lambda: print("hi") or miniray.get_runtime_context().get_task_id())
    assert log(task_id=task_id) == "hi\n"


def test_shutdown_leaves_sys_and_logging_as_they_were():
    """No class, no stream, no descriptor; a redirection made meanwhile ends as it would have."""
    found = type(sys), sys.__dict__["stdout"], sys.__dict__["stderr"]
    miniray.init(num_cpus=1)
    assert type(sys) is not found[0]
    with captured() as out:
        miniray.shutdown()
        assert sys.stdout is out and sys.__dict__["stdout"] is out
    assert (type(sys), sys.__dict__["stdout"], sys.__dict__["stderr"]) == found
    assert "stream" not in vars(logging.StreamHandler)


def test_a_stream_kept_from_a_task_writes_for_whoever_writes(session, monkeypatch):
    """On the driver it is the driver's, also after the session."""
    monkeypatch.setattr(standard_streams, "kept", None, raising=False)

    def hand_over():
        standard_streams.kept = sys.stdout

    run(hand_over)
    for closing in (False, True):
        if closing:
            miniray.shutdown()
        with captured() as out:
            standard_streams.kept.write("mine")
        assert out.getvalue() == "mine"


def test_sys_can_be_named_in_what_is_sent(session):
    """A function that uses `sys` travels by value; its module travels by name, as ever."""
    assert pickle.loads(pickle.dumps(sys)) is sys


def test_in_local_mode_a_task_prints_as_the_driver(capsys):
    """It runs in the caller's thread, under its debugger: nothing stands between."""
    with miniray.init(local_mode=True):
        assert run(lambda: print("hi") or sys.stdout.__class__.__name__) == sys.stdout.__class__.__name__
    assert capsys.readouterr().out == "hi\n"


# ---------------------------------------------------------------- logging


@pytest.fixture
def root_handler():
    """A handler on the root logger that was made before init, with the screen of that time."""
    handler = logging.StreamHandler()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def test_a_handler_of_the_screen_shows_a_task_s_record_behind_its_prefix(root_handler, session, caplog):
    """Whether it was made before or after init; on the driver it writes as ever. caplog sees the records of both."""
    late = logging.StreamHandler()
    late.setFormatter(logging.Formatter("late %(message)s"))
    logging.getLogger().addHandler(late)
    try:
        with contextlib.redirect_stderr(io.StringIO()) as err:
            task_id = run(
                lambda: logging.getLogger("app").warning("careful") or miniray.get_runtime_context().get_task_id()
            )
    finally:
        logging.getLogger().removeHandler(late)
    assert err.getvalue() == f"(<lambda> pid={PID}) careful\n(<lambda> pid={PID}) late careful\n"
    assert log(task_id=task_id, suffix="err") == "careful\nlate careful\n"
    assert [record.message for record in caplog.records] == ["careful"]
    assert root_handler.stream is root_handler.__dict__["stream"]


def test_a_handler_of_the_program_s_own_stream_is_left_alone(session):
    """Its lines are not the screen's."""
    handler = logging.StreamHandler(mine := io.StringIO())
    logger = logging.getLogger("test_logs.own")
    logger.addHandler(handler)
    try:
        with contextlib.redirect_stderr(io.StringIO()) as err:
            run(lambda: logging.getLogger("test_logs.own").warning("careful"))
    finally:
        logger.removeHandler(handler)
    assert mine.getvalue() == "careful\n" and err.getvalue() == ""


def test_a_handler_made_in_a_task_outlives_it(session, monkeypatch):
    """It holds the driver's stream itself, not the task's."""
    monkeypatch.setattr(standard_streams, "kept", None, raising=False)

    def make():
        standard_streams.kept = logging.StreamHandler()

    run(make)
    assert standard_streams.kept.stream is sys.stderr


# ---------------------------------------------------------------- folding


def texts(shown):
    """Lines without who they are from."""
    return [line for _, line in shown]


def test_a_line_from_another_worker_is_held_back_and_counted():
    """Lines that differ only in words with digits are alike; one worker's own repeats are all shown."""
    folding = Folding()
    assert texts(folding.fold(0, 1, "a", ["step 1 done", "step 2 done"])) == ["step 1 done", "step 2 done"]
    assert texts(folding.fold(1, 2, "b", ["step 3 done", "other"])) == ["other"]
    assert texts(folding.fold(2, 3, "c", ["step 4 done"])) == []
    assert folding.fold(6, 1, "a", ["new"]) == [("a", "new"), ("c", f"step 4 done [repeated 2x across cluster]{HINT}")]


def test_the_hint_is_given_once_and_counting_goes_on():
    """A pattern that keeps coming is counted anew in each window."""
    folding = Folding()
    for source in (1, 2, 3):
        folding.fold(0, source, "x", ["same"])
    folding.fold(5, 1, "x", ["tick"])
    for source in (1, 2, 3):
        assert folding.fold(6, source, "x", ["same"]) == []
    assert texts(folding.fold(10, 1, "x", ["tock"])) == ["tock", "same [repeated 3x across cluster]"]


def test_a_single_repeat_comes_out_as_it_was():
    """There is nothing to sum up."""
    folding = Folding()
    folding.fold(0, 1, "a", ["same"])
    folding.fold(1, 2, "b", ["same"])
    assert folding.fold(5, 1, "a", ["new"]) == [("a", "new"), ("b", "same")]


def test_at_the_end_what_is_held_back_comes_out():
    """And only that."""
    folding = Folding()
    for source in (1, 2, 3):
        folding.fold(0, source, source, ["same", str(source)])
    assert folding.flush() == [(3, f"same [repeated 2x across cluster]{HINT}")]
    assert folding.flush() == []


def test_what_is_only_numbers_is_never_folded_and_expressions_decide_first():
    """RAY_DEDUP_LOGS_ALLOW_REGEX shows always, _SKIP_REGEX never."""
    folding = Folding(allow="keep", skip="drop")
    for source in (1, 2):
        assert texts(folding.fold(0, source, "x", ["17 0x1f", "keep this", "drop this"])) == ["17 0x1f", "keep this"]


@pytest.mark.parametrize("setting, shown", [(None, 3), ("1", 1), ("0", 3)])
def test_a_stream_that_the_program_put_there_gets_every_line(monkeypatch, setting, shown):
    """RAY_DEDUP_LOGS=1 folds all the same; unset, only the process's own screen is folded."""
    if setting is None:
        monkeypatch.delenv("RAY_DEDUP_LOGS", raising=False)
    else:
        monkeypatch.setenv("RAY_DEDUP_LOGS", setting)

    class Same:
        def say(self):
            print("same")

    with captured() as out:
        with miniray.init(num_cpus=1):
            for actor in [miniray.remote(Same).remote() for _ in range(3)]:
                miniray.get(actor.say.remote())
            assert out.getvalue().count("same\n") == shown
    assert out.getvalue().count("same") == (2 if setting == "1" else 3)


def test_the_process_s_own_screen_is_folded(monkeypatch):
    """Without any setting, as in Ray."""
    monkeypatch.delenv("RAY_DEDUP_LOGS", raising=False)
    out = io.StringIO()
    monkeypatch.setattr(sys, "__stdout__", out)
    monkeypatch.setattr(sys, "stdout", out)
    with miniray.init(num_cpus=1):

        class Same:
            def say(self):
                print("same")

        for actor in [miniray.remote(Same).remote() for _ in range(3)]:
            miniray.get(actor.say.remote())
        assert out.getvalue().count("same") == 1
    assert "[repeated 2x across cluster]" in out.getvalue()
