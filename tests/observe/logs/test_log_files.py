"""Stored logs: reading those of a task, an actor, a worker or a file; following them; and their bounds."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import urllib.error

import pytest

import miniray
from miniray import api
from miniray.observe.logs import files as log_files
from miniray.observe.logs.reading import get_log, list_logs
from miniray.observe.state.query import RayStateApiException
from tests.observe.printed import captured, log, run

PID = os.getpid()


@pytest.fixture
def session(monkeypatch):
    """A session with two CPUs, whose prefixes have no colour."""
    monkeypatch.setenv("RAY_COLOR_PREFIX", "0")
    miniray.init(num_cpus=2)
    yield api.session
    miniray.shutdown()


def test_a_task_s_log_holds_that_attempt_s_lines_and_no_other(session):
    """Each attempt has its own log, which can still be read after a retry."""

    class Count:
        def __init__(self):
            self.n = 0

        def next(self):
            self.n += 1
            return self.n

    count = miniray.remote(Count).remote()

    def flaky():
        n = miniray.get(count.next.remote())
        print("try", n)
        if n == 1:
            raise ValueError
        return miniray.get_runtime_context().get_task_id()

    with captured():
        task_id = run(flaky, max_retries=1, retry_exceptions=True)
    assert log(task_id=task_id) == "try 1\n"
    assert log(task_id=task_id, attempt_number=1) == "try 2\n"
    with pytest.raises(RayStateApiException, match="2 attempts"):
        log(task_id=task_id, attempt_number=2)


def test_tail_encoding_and_escape_codes(session):
    """As in Ray, tail=0 means 1000 lines, and less than -1 means none. Without an encoding, the chunks are bytes."""
    with captured():
        task_id = run(lambda: print("a\n\x1b[31mü\x1b[0m\nc") or miniray.get_runtime_context().get_task_id())
    assert log(task_id=task_id, tail=2) == "\x1b[31mü\x1b[0m\nc\n"
    assert log(task_id=task_id, tail=0) == log(task_id=task_id, tail="1000") == log(task_id=task_id)
    assert log(task_id=task_id, tail=-2) == ""
    assert log(task_id=task_id, filter_ansi_code=True) == "a\nü\nc\n"
    assert b"".join(get_log(task_id=task_id, encoding=None, tail=1)) == b"c\n"
    with pytest.raises(UnicodeDecodeError):
        log(task_id=task_id, encoding="ascii")


def test_an_actor_s_log_begins_with_its_markers_and_outlives_it(session):
    """By default, methods have no log of their own."""

    class Talker:
        def say(self):
            print("hi")
            return miniray.get_runtime_context().get_task_id()

    actor = miniray.remote(Talker).remote()
    with captured():
        task_id = miniray.get(actor.say.remote())
    actor_id = actor._actor_id.hex()
    whole = ":job_id:01000000\n:actor_name:Talker\nhi\n"
    assert log(actor_id=actor_id) == whole
    assert log(actor_id=actor_id, suffix="err") == ":job_id:01000000\n:actor_name:Talker\n"
    with pytest.raises(RayStateApiException, match=f"For actor task, please query actor log for actor\\({actor_id}\\)"):
        log(task_id=task_id)
    miniray.kill(actor)
    assert log(actor_id=actor_id) == whole


def test_methods_have_logs_of_their_own_if_a_variable_asks_for_it(session, monkeypatch):
    """RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING=1 keeps even coroutines apart that take turns."""
    monkeypatch.setenv("RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING", "1")
    import asyncio

    class Turns:
        async def say(self, word):
            sys.stdout.write(word)
            await asyncio.sleep(0)
            print(" and", word)
            return miniray.get_runtime_context().get_task_id()

    actor = miniray.remote(Turns).remote()
    with captured():
        first, second = miniray.get([actor.say.remote("a"), actor.say.remote("b")])
    assert (log(task_id=first), log(task_id=second)) == ("a and a\n", "b and b\n")


def test_a_log_can_be_read_while_its_line_is_unfinished(session):
    """The unfinished line comes last."""

    def look():
        sys.stdout.write("half")
        return log(task_id=miniray.get_runtime_context().get_task_id())

    with captured():
        assert run(look) == "half"


def test_list_logs_names_a_node_s_files_by_category(session):
    """The names are those of Ray's files. A pattern selects; categories without a match are left out."""
    with captured():
        run(lambda: print("hi"))
    head = session.head
    names = list_logs(node_id=head.hex)
    assert sorted(names) == ["raylet", "worker_err", "worker_out"]
    assert re.fullmatch(rf"worker-[0-9a-f]{{56}}-01000000-{PID}\.out", names["worker_out"][0])
    assert list_logs(node_ip=head.name, glob_filter="worker*.err") == {"worker_err": names["worker_err"]}
    assert list_logs(node_id=head.hex, glob_filter="nothing*") == {}
    assert log(node_id=head.hex, filename=names["worker_out"][0]) == ":job_id:01000000\n:task_name:<lambda>\nhi\n"


def test_list_logs_refuses_wrong_arguments(session):
    """A missing node is an AssertionError; an unknown one, or a pattern that leaves the folder, is an HTTPError."""
    with pytest.raises(AssertionError):
        list_logs()
    for code, which in [
        (500, {"node_id": "ab" * 28}),
        (404, {"node_ip": "1.2.3.4"}),
        (500, {"node_id": session.head.hex, "glob_filter": "../*"}),
    ]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            list_logs(**which)
        assert refused.value.code == code


@pytest.mark.parametrize(
    "which, error",
    [
        ({}, ValueError),
        ({"filename": "x"}, ValueError),
        ({"node_id": "n"}, ValueError),
        ({"node_id": "n", "node_ip": "i", "filename": "x"}, ValueError),
        ({"task_id": "0" * 48, "suffix": "log"}, ValueError),
        ({"task_id": "0" * 48, "tail": None}, ValueError),
        ({"node_id": "n", "pid": "x"}, ValueError),
        ({"task_id": "0" * 48, "_interval": 1}, ValueError),
        ({"task_id": "zz"}, RayStateApiException),
        ({"task_id": "0" * 48}, RayStateApiException),
        ({"actor_id": "0" * 32}, RayStateApiException),
        ({"node_id": "n", "filename": "x"}, RayStateApiException),
        ({"node_ip": "127.0.0.1", "pid": 1}, RayStateApiException),
        ({"node_ip": "127.0.0.1", "filename": "no.out"}, RayStateApiException),
        ({"node_ip": "127.0.0.1", "submission_id": "x"}, RayStateApiException),
    ],
)
def test_get_log_is_lazy_and_then_refuses(session, which, error):
    """It checks its arguments at the first step."""
    generator = get_log(**which)
    with pytest.raises(error):
        next(generator)


def test_without_a_session_there_is_no_log():
    """Both functions raise ConnectionError."""
    with pytest.raises(ConnectionError):
        log(task_id="0" * 48)
    with pytest.raises(ConnectionError):
        list_logs(node_id="n")


def test_following_a_task_ends_with_the_task(session):
    """The reader gets each line as it is written, waits for the next one, and stops when the task ends."""

    class Gate:
        async def __init__(self):
            import asyncio

            self.opened = asyncio.Event()

        async def open(self):
            self.opened.set()

        async def wait(self):
            await self.opened.wait()

    gate = miniray.remote(Gate).remote()

    def talk():
        print("one")
        miniray.get(gate.wait.remote())
        print("two")

    with captured():
        ref = miniray.remote(talk).remote()
        lines, task_id = [], ref.task_id().hex()
        first_seen = threading.Event()

        def read():
            while not lines:  # the first request may come before the task has a worker
                with contextlib.suppress(RayStateApiException):
                    for line in get_log(task_id=task_id, follow=True):
                        lines.append(line)
                        first_seen.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert first_seen.wait(10)
        miniray.get(gate.open.remote())
        miniray.get(ref)
        reader.join(10)
    assert "".join(lines) == "one\ntwo\n" and not reader.is_alive()


def test_following_an_actor_ends_with_the_actor(session):
    """The end of the session stops it too."""

    class Talker:
        def say(self):
            print("hi")

    for end in (miniray.kill, lambda actor: miniray.shutdown()):
        actor = miniray.remote(Talker).remote()
        with captured():
            miniray.get(actor.say.remote())
            follower = get_log(actor_id=actor._actor_id.hex(), follow=True, tail=1)
            assert next(follower) == "hi\n"
            end(actor)
            assert list(follower) == []


# ---------------------------------------------------------------- bounds


def test_a_log_keeps_its_newest_lines_and_counts_the_others(monkeypatch):
    """The first line gives the numbers of lines and bytes, for the whole log and for each attempt."""
    monkeypatch.setattr(log_files, "FILE_BYTES", 1_000)
    file = log_files.LogFile("x.out")
    for i in range(20):
        file.add((i // 15, 0), b"line %02d\n" % i)
    assert file.size <= 1_000
    assert file.read()[0] == b"[11 older lines (88 bytes) of this log have been dropped]\n"
    assert file.read((0, 0)) == [
        b"[88 older bytes of this task's log have been dropped]\n",
        *(b"line %02d\n" % i for i in range(11, 15)),
    ]
    assert file.read((1, 0)) == [b"line %02d\n" % i for i in range(15, 20)]


def test_a_giant_line_is_cut(monkeypatch):
    """Otherwise it would push out everything else."""
    monkeypatch.setattr(log_files, "FILE_BYTES", 8_000)
    file = log_files.LogFile("x.out")
    file.add((1, 0), b"x" * 5_000 + b"\n")
    assert file.read() == [b"x" * 1_000 + b" [4001 more bytes of this line have been dropped]\n"]


def test_all_logs_together_are_bounded(session, monkeypatch):
    """When the sum is too large, each log drops its older half."""
    monkeypatch.setattr(log_files, "ALL_BYTES", 5_000)

    def chatter():
        for i in range(100):
            print("line", i)
        return miniray.get_runtime_context().get_task_id()

    with captured() as out:
        text = log(task_id=run(chatter))
    assert "have been dropped" in text.splitlines()[0] and text.endswith("line 99\n")
    assert out.getvalue().count("line") == 100


def test_an_endless_line_is_stored_in_pieces(session, monkeypatch):
    """A progress display that only returns to the start of its line must not fill the memory."""
    monkeypatch.setattr(log_files, "LONGEST_LINE", 100)

    def spin():
        for _ in range(30):
            sys.stdout.write("working...\r")

    with captured() as out:
        run(spin)
    assert out.getvalue().count("(spin") == 3


def test_logs_of_the_oldest_dead_workers_go_first(session, monkeypatch):
    """The number of actors that a program makes is not bounded."""
    monkeypatch.setattr(log_files, "MOST_WORKERS", 3)

    class Talker:
        def say(self):
            print("hi")

    actors = []
    with captured():
        for _ in range(6):
            actors.append(miniray.remote(Talker).remote())
            miniray.get(actors[-1].say.remote())
            miniray.kill(actors[-1])
    texts_left = [log(actor_id=actor._actor_id.hex()) for actor in actors]
    assert [text.endswith("hi\n") for text in texts_left] == [False, False, False, True, True, True]
    assert texts_left[0].endswith("[the logs of 3 dead workers have been dropped; this may be one of them]\n")
