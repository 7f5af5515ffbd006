"""Questions about a session from another process, such as `miniray stack PID`.

Theory of operation. A session that nobody asks pays nothing: it has no socket, no file and no thread for this. So the
one who asks makes the socket, in a folder that only this user can enter: `/tmp/miniray-UID`, mode 0700. Its name begins
with the id of the process that is asked. Then the asker sends SIGURG to the process, and waits. The session's handler
of the signal (`process.doorbell`) starts a thread for each such socket, which connects, reads one question, and answers
it. The question is one line of JSON, and so is each part of the answer. The thread ends with the last answer.

Both sides look whom they talk to: the folder must belong to the user and be closed to all others; and where the system
tells who is at the other end (SO_PEERCRED), that must be the process that was asked, and a process of the same user.
A socket whose asker has died refuses the connection, and is removed.

The answering thread reads the stacks without any lock. So it also answers when all other threads wait for each other,
and when one of them hangs with the core's lock held. Only what needs the lock is then said to be missing. It cannot
answer while a thread keeps the GIL, or while the main thread is in a function of C that does not return: signal
handlers run between two steps of Python. The asker waits for a limited time, and says so.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..observe.stacks.reading import read
from ..observe.stacks.report import Report, pending_of
from ..observe.stacks.rows import stack_rows, title
from ..process import context, doorbell

PARENT = "/tmp"  # not the directory for temporary files: the two processes may have different environments
LOCK_S = 2.0  # how long an answer waits for what needs the core's lock
RING_AGAIN_S = 0.5  # the first time; then each time twice as long, since a program may count the signals
PEER_S = 10.0  # how long each side waits for the other one to read or to write
LONGEST_LINE = 256 << 20
STOPPED, ENDED = "Tt", "ZX"  # letters of a process's state in /proc

Part = dict[str, Any]
Gone = Callable[[float], bool]  # waits so many seconds for the asker to go; returns whether it is gone


class NoAnswer(Exception):
    """The process cannot be asked, or has not answered. The text says why, and what to do."""


def why_not_here() -> str:
    """Why no process can be asked on this platform; "" if it can."""
    if not hasattr(socket, "AF_UNIX"):
        return f"this platform ({sys.platform}) has no Unix sockets"
    if not doorbell.NUMBER:
        return f"this platform ({sys.platform}) has no signal SIGURG"
    if not os.path.isdir(PARENT):
        return f"there is no folder {PARENT}"
    return ""


def folder(make: bool) -> str:
    """The folder of the sockets. Raises NoAnswer if it is not safe, FileNotFoundError if it is missing and not made."""
    path = os.path.join(PARENT, f"miniray-{os.getuid()}")
    if make:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
        except OSError as problem:
            raise NoAnswer(f"the folder {path} cannot be made: {problem.strerror}") from problem
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NoAnswer(
            f"{path} is not a folder that only this user can enter; look who made it, and remove it or run "
            f"`chmod 700 {path}`"
        )
    return path


def peer_of(connection: socket.socket) -> tuple[int, int] | None:
    """The process and the user at the other end; None where the system does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid


def _send(connection: socket.socket, part: Part) -> None:
    connection.sendall(json.dumps(part).encode() + b"\n")


# ------------------------------------------------------------ who asks


def ask(pid: int, question: Part, timeout_s: float, while_answering_s: float = 0.0) -> Iterator[Part]:
    """Ask the session of a process. Yields the parts of the answer.

    question: `kind` names the entry of ANSWERS, and the rest is for that. timeout_s: how long to wait for the process
    to take notice, and for each part. while_answering_s: how much longer a part may take.

    Raises NoAnswer, with a text for people, if the process does not exist, is another user's, runs no session, or does
    not answer in time. Raises ValueError for a bad pid.
    """
    if pid <= 0:
        raise ValueError(f"a process id is a positive number, not {pid}")
    missing = why_not_here()
    if missing:
        raise NoAnswer(f"a running program cannot be asked: {missing}. Start the program with the command instead.")
    _look_at(pid)
    path = os.path.join(folder(make=True), f"{pid}-{os.urandom(6).hex()}.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(path)
        except OSError as problem:
            raise NoAnswer(f"the socket {path} cannot be made: {problem.strerror}") from problem
        try:
            listener.listen(4)
            connection = _connected(pid, listener, timeout_s)
        finally:
            os.unlink(path)
    with connection:
        connection.settimeout(timeout_s + while_answering_s)
        try:
            _send(connection, question)
            with connection.makefile("rb") as lines:
                while True:
                    line = lines.readline(LONGEST_LINE)
                    if not line.endswith(b"\n"):
                        raise NoAnswer(f"process {pid} ended before it had answered")
                    part = json.loads(line)
                    if "error" in part:
                        raise NoAnswer(f"process {pid} {part['error']}")
                    if part.get("end"):
                        return
                    yield part
        except TimeoutError as late:
            raise NoAnswer(_silent(pid, timeout_s + while_answering_s)) from late
        except OSError as problem:
            raise NoAnswer(f"process {pid} ended before it had answered ({problem.strerror})") from problem


def _look_at(pid: int) -> None:
    """Raise NoAnswer if it is clear already that there is no session to ask."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        raise NoAnswer(f"there is no process {pid}")
    except PermissionError:
        raise NoAnswer(f"process {pid} belongs to another user")
    facts = _status(pid)
    if facts:
        owner = int(facts["Uid"].split()[0])
        if owner != os.getuid():
            raise NoAnswer(f"process {pid} belongs to another user (uid {owner})")
        if facts["State"][:1] in ENDED:
            raise NoAnswer(f"process {pid} has ended, and waits for its parent to take notice")
        if not int(facts["SigCgt"], 16) >> (doorbell.NUMBER - 1) & 1:
            raise NoAnswer(
                f"process {pid} ({facts['Name']}) runs no miniray session that can be asked: it is no miniray program, "
                "or its session has not begun or has ended, or a thread other than its main thread has called init"
            )
        if facts["State"][:1] in STOPPED:
            raise NoAnswer(f"process {pid} is stopped; `kill -CONT {pid}` lets it go on")


def _status(pid: int) -> dict[str, str]:
    """What the system says of a process, where it has /proc; otherwise {}."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    except OSError:
        return {}


def _connected(pid: int, listener: socket.socket, timeout_s: float) -> socket.socket:
    """Ring, and wait until the process connects."""
    try:
        end: int = os.pidfd_open(pid)  # it can be read when the process has ended
    except (AttributeError, OSError):
        end = -1
    try:
        until, pause = time.monotonic() + timeout_s, RING_AGAIN_S
        while True:
            try:
                os.kill(pid, doorbell.NUMBER)
            except OSError as problem:
                raise NoAnswer(f"process {pid} cannot be told: {problem.strerror}") from problem
            left = until - time.monotonic()
            watched = [listener.fileno(), *([end] if end >= 0 else [])]
            ready = select.select(watched, [], [], max(0.0, min(left, pause)))[0]
            pause *= 2
            if listener.fileno() in ready:
                connection, _ = listener.accept()
                if peer_of(connection) in (None, (pid, os.getuid())):
                    return connection
                connection.close()  # somebody else; the process may still come
            elif ready:
                raise NoAnswer(f"process {pid} ended before it had answered")
            elif left <= 0:
                raise NoAnswer(_silent(pid, timeout_s))
            else:
                _look_at(pid)  # its session may have ended; and Python forgets a signal that comes during a fork
    finally:
        if end >= 0:
            os.close(end)


def _silent(pid: int, seconds: float) -> str:
    """What to say of a process that has not answered in time."""
    facts = _status(pid)
    if facts.get("State", "")[:1] in STOPPED and facts:
        return f"process {pid} is stopped; `kill -CONT {pid}` lets it go on"
    seen = {"R": "; it is busy", "S": "; it sleeps", "D": "; it waits for a device"}.get(facts.get("State", "")[:1], "")
    return (
        f"process {pid} has not answered within {seconds:g} s{seen}. Its main thread is in a function of C that does "
        "not return to Python, or another thread keeps the GIL, or the program handles SIGURG itself and cannot be "
        f"asked. Wait longer (--timeout), or look at it from outside: py-spy dump --native --pid {pid}"
    )


# ------------------------------------------------------------ who is asked


def answer() -> None:
    """Answer everybody who asks about the session of this process. Does not run on the main thread."""
    try:
        place = folder(make=False)
        names = os.listdir(place)
    except (NoAnswer, OSError):
        return  # nobody waits there
    for name in names:
        if name.startswith(f"{os.getpid()}-") and name.endswith(".sock"):
            # Each on a thread of its own. Two signals may become one, and an answer may take long.
            doorbell.start_real_thread(_answer_at, (os.path.join(place, name),))


def _answer_at(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PEER_S)
        try:
            connection.connect(path)
            peer = peer_of(connection)
            if peer is not None and peer[1] != os.getuid():
                return
            with connection.makefile("rb") as lines:
                question = json.loads(lines.readline(LONGEST_LINE) or b"null")
            if question is None:
                return  # another thread answers already
            for part in _parts(question, lambda seconds: _gone_within(connection, seconds)):
                _send(connection, part)
            _send(connection, {"end": True})
        except OSError as problem:  # the asker has gone
            if problem.errno == errno.ECONNREFUSED:
                _remove(path)
        except ValueError as problem:
            _say(connection, {"error": f"did not understand the question: {problem}"})


def _say(connection: socket.socket, part: Part) -> None:
    try:
        _send(connection, part)
    except OSError:
        return


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def _gone_within(connection: socket.socket, seconds: float) -> bool:
    """Wait so long, or until the asker is gone. Returns whether it is. It has said all that it says."""
    return bool(select.select([connection], [], [], seconds)[0])


def _parts(question: Part, gone: Gone) -> Iterator[Part]:
    runtime = context.session
    if runtime is None:
        yield {"error": "has no session at this moment"}
        return
    asked = ANSWERS.get(str(question.get("kind")))
    if asked is None:
        yield {"error": f"does not know the question {question.get('kind')!r}: the two versions of miniray differ"}
        return
    try:
        yield from asked(runtime, question, gone)
    except Exception as problem:  # its session may end meanwhile
        yield {"error": f"could not answer: {type(problem).__name__}: {problem}"}


def _stacks(runtime: Any, question: Part, gone: Gone) -> Iterator[Part]:
    """The answer to `stack`: what is pending, which takes the core's lock, and the stacks, which take none."""
    if question.get("rows"):
        yield {"rows": stack_rows(runtime, bool(question.get("all_frames")))}
        return
    pending = within(LOCK_S, lambda: pending_of(runtime))
    stacks = Report(runtime, pending, asks=False)
    note = "" if pending is not None else _holder(runtime)
    yield {"text": str(stacks), "report": stacks.asdict(), "note": note}


def within(seconds: float, read: Callable[[], Any]) -> Any:
    """What `read()` returns, or None if that takes longer. It then goes on on a thread of its own, until it can end."""
    done = doorbell.new_real_lock()
    done.acquire()
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(read())
        finally:
            done.release()

    doorbell.start_real_thread(run, ())
    done.acquire(True, seconds)
    return found[0] if found else None


def _holder(runtime: Any) -> str:
    held = f"the core's lock was not free for {LOCK_S:g} s, so what is pending is not known"
    owner = runtime.lock.owner
    names = {stack.thread: title(stack) for stack in read(runtime)}
    return f"{held}; it is held by: {names.get(owner, f'thread {owner}')}" if owner else held


def _profile(runtime: Any, question: Part, gone: Gone) -> Iterator[Part]:
    """The answer to `profile`: sample for so many seconds, or until nobody needs the answer any longer."""
    from .profiler.recording import Profile

    profile = Profile(hz=question["hz"]).start()
    try:
        gone(question["seconds"])
    finally:
        profile.stop()
    yield {"profile": profile.asdict()}


ANSWERS: dict[str, Callable[[Any, Part, Gone], Iterator[Part]]] = {"stack": _stacks, "profile": _profile}
"""The questions: what each of them is called, and who answers it."""
