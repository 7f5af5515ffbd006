"""Logs: the output of tasks reaches the driver behind a prefix and is stored; shutdown restores `sys`."""

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
    """Also if one print writes several lines, and if the task does not end its last line."""

    def greet():
        print("one\ntwo")
        print("three", end="")

    with captured() as out:
        run(greet)
    assert out.getvalue() == f"(greet pid={PID}) one\n(greet pid={PID}) two\n(greet pid={PID}) three\n"


def test_a_line_written_in_pieces_is_shown_when_it_ends(session, monkeypatch):
    """Two tasks at once do not mix within a line."""
    # Workers share the attributes of modules; the objects that a function refers to are copied.
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
    """The repr is known once the constructor has run. The name of the actor itself is not shown."""

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
    """Escapes and newlines in names are spelled out, on the screen and in the log's markers. Output is not changed."""
    with captured() as out:
        task_id = run(lambda: print("\x1b[31mred") or miniray.get_runtime_context().get_task_id(), name="\x1b[2J\nboo")
    assert out.getvalue() == f"(\\x1b[2J\\nboo pid={PID}) \x1b[31mred\n"
    assert log(task_id=task_id) == "\x1b[31mred\n"
    assert ":task_name:\\x1b[2J\\nboo\n" in log(node_id=session.head.hex, pid=PID)


@pytest.mark.parametrize(
    ("is_terminal", "variable", "coloured"),
    [
        (True, "", True),
        (False, "", False),
        (True, "NO_COLOR=1", False),
        (True, "RAY_COLOR_PREFIX=0", False),
        (False, "RAY_COLOR_PREFIX=1", True),
    ],
)
def test_prefixes_are_coloured_on_a_terminal(monkeypatch, is_terminal, variable, coloured):
    """They have no colour in a file or a pipe, nor with NO_COLOR; RAY_COLOR_PREFIX decides about all of them."""
    monkeypatch.delenv("RAY_COLOR_PREFIX", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if variable:
        monkeypatch.setenv(*variable.split("="))
    with miniray.init(num_cpus=1), captured() as out:
        out.isatty = lambda: is_terminal
        run(lambda: print("hi"))
    assert ("\x1b[" in out.getvalue()) is coloured and "hi\n" in out.getvalue()
    if variable == "" and coloured:
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


def test_log_to_driver_false_stores_the_output_without_showing_it():
    """The driver's own output is shown."""
    with miniray.init(num_cpus=1, log_to_driver=False), captured() as out:
        task_id = run(lambda: print("hi") or miniray.get_runtime_context().get_task_id())
        print("driver")
        assert log(task_id=task_id) == "hi\n"
    assert out.getvalue() == "driver\n"


def test_messages_of_the_system_go_to_stdout(session):
    """As in Ray, with the prefix `(raylet)`; raylet.out keeps them."""
    with captured() as out:
        session.say("WARNING", "a node is full")
    assert out.getvalue() == "(raylet) a node is full\n"
    assert "[WARNING] a node is full\n" in log(node_id=session.head.hex, filename="raylet.out")


# ---------------------------------------------------------------- whose stdout it is


def test_the_driver_keeps_its_own_stream(session):
    """`sys.stdout` is the object that the program assigned, unwrapped, at every depth of redirection."""
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
    """Two tasks redirect at the same time. Each gets its own lines, and the driver gets none."""

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
    """Its buffer takes bytes, it is not a terminal, and it cannot be pickled."""

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


def test_a_lone_surrogate_cannot_be_printed_in_a_task(session):
    """As in Ray: the log is UTF-8. Nothing of the text is written."""
    with captured() as out, pytest.raises(UnicodeEncodeError):
        run(lambda: print("\ud800!"))
    assert "!" not in out.getvalue()


def test_a_screen_without_the_characters_gets_escapes(session):
    """The driver's terminal is ASCII only."""
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with contextlib.redirect_stdout(screen):
        run(lambda: print("grün"))
    screen.flush()
    assert screen.buffer.getvalue().endswith(b"gr\\xfcn\n")


def test_a_closed_screen_does_not_fail_the_task(session):
    """The line is still in the log."""
    screen = io.StringIO()
    screen.close()
    with contextlib.redirect_stdout(screen):
        task_id = run(lambda: print("hi") or miniray.get_runtime_context().get_task_id())
    assert log(task_id=task_id) == "hi\n"


def test_shutdown_leaves_sys_and_logging_as_they_were():
    """No class, stream or descriptor is left; a redirection that was made meanwhile ends as usual."""
    found = type(sys), sys.__dict__["stdout"], sys.__dict__["stderr"]
    miniray.init(num_cpus=1)
    assert type(sys) is not found[0]
    with captured() as out:
        miniray.shutdown()
        assert sys.stdout is out and sys.__dict__["stdout"] is out
    assert (type(sys), sys.__dict__["stdout"], sys.__dict__["stderr"]) == found
    assert "stream" not in vars(logging.StreamHandler)


def test_a_task_s_stream_that_the_driver_uses_writes_to_the_driver(session, monkeypatch):
    """Even after the session has ended."""
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
    """A function that uses `sys` is pickled by value, and `sys` by name, as usual."""
    assert pickle.loads(pickle.dumps(sys)) is sys


def test_in_local_mode_a_task_prints_as_the_driver(capsys):
    """The task runs in the caller's thread, and its output has no prefix."""
    with miniray.init(local_mode=True):
        assert run(lambda: print("hi") or sys.stdout.__class__.__name__) == sys.stdout.__class__.__name__
    assert capsys.readouterr().out == "hi\n"


# ---------------------------------------------------------------- logging


@pytest.fixture
def root_handler():
    """A handler on the root logger, made before init with the stream of that time."""
    handler = logging.StreamHandler()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def test_a_handler_of_the_screen_shows_a_task_s_record_behind_its_prefix(root_handler, session, caplog):
    """It does so whether it was made before or after init. On the driver it writes as usual."""
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
    """Its lines do not go to the screen."""
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
    """It refers to the driver's stream, not to the task's."""
    monkeypatch.setattr(standard_streams, "kept", None, raising=False)

    def make():
        standard_streams.kept = logging.StreamHandler()

    run(make)
    assert standard_streams.kept.stream is sys.stderr


def test_code_that_runs_often_sees_the_driver_s_stream(session):
    """Python 3.14 reads the attributes of modules directly once code has run often enough. It used to find the door."""

    def kinds():
        return {type(sys.stderr).__name__ for _ in range(20_000)}

    assert kinds() == {type(sys.stderr).__name__} and "Door" not in kinds()
    with pytest.raises(AttributeError, match="module 'sys' has no attribute 'stdour'"):
        sys.stdour  # noqa: B018


# ---------------------------------------------------------------- folding


def texts(shown):
    """The lines without their labels."""
    return [line for _, line in shown]


def test_a_line_from_another_worker_is_held_back_and_counted():
    """Lines that differ only in words with digits count as the same; a worker's own repeats are all shown."""
    folding = Folding()
    assert texts(folding.fold(0, 1, "a", ["step 1 done", "step 2 done"])) == ["step 1 done", "step 2 done"]
    assert texts(folding.fold(1, 2, "b", ["step 3 done", "other"])) == ["other"]
    assert texts(folding.fold(2, 3, "c", ["step 4 done"])) == []
    assert folding.fold(6, 1, "a", ["new"]) == [("a", "new"), ("c", f"step 4 done [repeated 2x across cluster]{HINT}")]


def test_the_hint_is_given_once_and_counting_continues():
    """A pattern that repeats is counted again in each window."""
    folding = Folding()
    for source in (1, 2, 3):
        folding.fold(0, source, "x", ["same"])
    folding.fold(5, 1, "x", ["tick"])
    for source in (1, 2, 3):
        assert folding.fold(6, source, "x", ["same"]) == []
    assert texts(folding.fold(10, 1, "x", ["tock"])) == ["tock", "same [repeated 3x across cluster]"]


def test_a_single_repeat_comes_out_as_it_was():
    """There is nothing to count."""
    folding = Folding()
    folding.fold(0, 1, "a", ["same"])
    folding.fold(1, 2, "b", ["same"])
    assert folding.fold(5, 1, "a", ["new"]) == [("a", "new"), ("b", "same")]


def test_flush_returns_the_lines_that_are_held_back():
    """It returns them once."""
    folding = Folding()
    for source in (1, 2, 3):
        folding.fold(0, source, source, ["same", str(source)])
    assert folding.flush() == [(3, f"same [repeated 2x across cluster]{HINT}")]
    assert folding.flush() == []


def test_a_line_of_numbers_is_never_folded_and_the_expressions_decide_first():
    """A line that matches RAY_DEDUP_LOGS_ALLOW_REGEX is always shown; one that matches _SKIP_REGEX never is."""
    folding = Folding(allow="keep", skip="drop")
    for source in (1, 2):
        assert texts(folding.fold(0, source, "x", ["17 0x1f", "keep this", "drop this"])) == ["17 0x1f", "keep this"]


@pytest.mark.parametrize("setting, shown", [(None, 3), ("1", 1), ("0", 3)])
def test_a_stream_that_the_program_assigned_gets_every_line(monkeypatch, setting, shown):
    """RAY_DEDUP_LOGS=1 folds all streams; if it is unset, only the process's own stream is folded."""
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
    """That is the default, as in Ray."""
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
