"""What the commands that read a session's tables have in common.

In Ray a command asks a server for the tables. Here the tables belong to the program and end with it. So the command
runs the program (`miniray list tasks -- script.py args`) and reads the tables when the program ends, is interrupted, or
shuts its session down. Called inside a program, through `miniray.cli.main`, it reads the tables of the running session.

A program that hangs is examined while it hangs, with its waits and stacks in place, and is interrupted afterwards:
after `--after` seconds, on SIGTERM, and when the driver waits for something that provably never comes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ..observe.escape import for_terminal
from ..observe.explain.explanation import find_deadlock
from ..observe.stacks.report import of_traceback
from ..observe.state import book
from ..observe.state.query import RayStateApiException
from ..observe.state.ray_rows import StateResource
from ..observe.state.short_ids import LENGTHS, matches, short
from ..process import context
from ..runtime.frames import current_frames
from ._grammar import Command, similar

Answer = Callable[[Any], str]
AS_IN_RAY = "accepted as in Ray, without effect"
GRACE_S = 10.0  # a program that was interrupted has this long to end; then the process ends without it
RESEND_S = 0.1  # how long the interrupt may take to be noticed before it is sent again
CODES = """Exit codes: the program's own; 2 if the words make no sense or the question cannot be answered; 1 if the
program raised an exception, started no session, or waited for something that can never come; 130 if it was interrupted
by Ctrl-C or --after; 143 on SIGTERM"""


class Refused(Exception):
    """The question cannot be answered as asked. code: the command's exit code."""

    def __init__(self, text: str, code: int = 2):
        super().__init__(text)
        self.code = code


# ------------------------------------------------------------ options


def accept_program(parser: Command, purpose: str = "shows its tables") -> None:
    """Let `-- script.py args` or `-- -m module args` follow the command: `args.program`. purpose: for the help."""
    parser.takes_program = True
    parser.add_argument(
        "--after",
        type=float,
        metavar="SECONDS",
        help="if the program has not ended after this time, answer and interrupt it; Ctrl-C does so at any time",
    )
    parser.add_argument(
        "--session",
        type=int,
        metavar="N",
        help="of a program with several sessions, answer for the Nth (default: for each of them; JSON is then "
        '{"sessions": [...]} with the answer of each)',
    )
    parser.epilog = (
        f"The command runs the program given after `--`, and {purpose} when the program ends, is interrupted, waits "
        f"for something that can never come, or shuts its session down. Its own output goes to stderr. {CODES}."
    )
    parser.set_defaults(words=parser.prog)


def accept_file(parser: argparse.ArgumentParser) -> None:
    """Declare `--from`: answer for the session in a recording, instead of running a program."""
    parser.add_argument(
        "--from",
        dest="source",
        metavar="RUN.DB",
        help="answer for the session in this recording, as of its end (see `miniray record`), and run nothing",
    )


def accept_server_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that Ray's commands have because they ask a server."""
    parser.add_argument("--timeout", type=int, default=30, metavar="S", help=f"{AS_IN_RAY}: the tables are local")
    accept_address(parser)


def accept_address(parser: argparse.ArgumentParser) -> None:
    """Declare Ray's option --address."""
    parser.add_argument("--address", help=f"{AS_IN_RAY}: there is no other session")


def accept_format(parser: argparse.ArgumentParser, *formats: str, default: str = "text") -> None:
    """Declare `--format`. default: what the default format is, for the help."""
    parser.add_argument(
        "--format", choices=("default", *formats), default="default", help=f"output format (default: {default})"
    )


# ------------------------------------------------------------ the answer


def show(args: argparse.Namespace, answer: Answer) -> int:
    """Print the text that `answer(runtime)` returns for the session. Returns the exit code.

    A question that cannot be answered gives one line on stderr and exit code 2 (or the code that it names); no session
    gives exit code 1. The program's own output goes to stderr, so that another program can read stdout. The program's
    exit code becomes the command's, unless the command itself failed. While `answer` runs, `args.width` is the width of
    the terminal, or None if stdout is none, and `args.interrupted` is the stack of the line in which the program was
    interrupted, or [].
    """
    args.width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    args.interrupted = []
    if getattr(args, "source", None) is not None:
        return of_file(args, lambda runtime: _printed(lambda: answer(runtime)))
    if args.program:
        return _Examined(args, answer).run()
    if context.session is None:
        words = (args.resource, getattr(args, "id", None))
        return complain(no_session(f"{args.words} {' '.join(filter(None, words))}".strip()), 1)
    return _printed(lambda: answer(context.session))


def of_file(args: argparse.Namespace, ask: Callable[[Any], int]) -> int:
    """Call `ask` with the session in the recording `args.source`. Returns its exit code; 2 for a file that cannot be
    read, and 1 for one without rows. Tells on stderr what the recording lacks.

    Anybody may have made the file. Each of its values was checked when it was read, but rows may contradict each other
    in ways that no list of rules foresees. An error that may come from that is told in one line, with its place.
    """
    from ..telemetry.recording import restore  # it takes sqlite3

    if args.program:
        return complain("give --from or a program after --, not both", 2)
    try:
        with restore.restored(args.source) as runtime:
            tables = runtime.cluster
            if not (tables.nodes or tables.workers or tables.tasks or tables.actors):
                return complain(f"{args.source} has no rows: {for_terminal(runtime.why_empty())}", 1)
            for gap in runtime.gaps:
                print(f"Note: {for_terminal(gap)}", file=sys.stderr)
            return ask(runtime)
    except restore.Unreadable as problem:
        return complain_of(problem, 2)
    except restore.OF_ROWS as problem:
        return complain_of(restore.failed(args.source, problem), 2)


def no_session(command: str) -> str:
    """The message of a command that was given no program to look at. command: as it was typed, from "miniray" on."""
    next_step = (
        f"Tables and logs end with their program, so name the program:\n    python -m {command} -- script.py [args]"
    )
    return str(context.not_found(next_step))


def again(args: argparse.Namespace, command: str) -> str:
    """The command line that asks another question of the same program. command: its words after `miniray`."""
    source = getattr(args, "source", None)
    if source is not None:
        question = "explain" if command.partition(" ")[0] == "stack" else command  # a recording has no stacks
        return f"python -m miniray {question} --from {_typed(source)}"
    program = " ".join(map(_typed, args.program))
    after = f" --after {args.after:g}" if getattr(args, "after", None) and "--after" not in command else ""
    return f"python -m miniray {command}{after}" + (f" -- {program}" if program else "")


def _typed(word: str) -> str:
    return word if word.isprintable() and " " not in word else repr(word)


def complain(text: str, code: int) -> int:
    """Print an error on stderr. Returns the exit code."""
    print(f"Error: {for_terminal(text, newlines=True)}", file=sys.stderr)
    return code


def complain_of(problem: object, code: int) -> int:
    """As `complain`, on one line: the text quotes a file, which may be damaged."""
    return complain(for_terminal(problem), code)


def cannot_be_written(name: str) -> str | None:
    """Why the file cannot be written, as far as can be known before; None if nothing is in its way."""
    folder = os.path.dirname(os.path.abspath(name))
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    if os.path.isdir(name):
        return "it is a folder"
    place = name if os.path.exists(name) else folder
    return None if os.access(place, os.W_OK) else "permission denied"


@contextlib.contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Print each warning of the block as one line on stderr when the block ends."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        print(f"Warning: {for_terminal(warning.message)}", file=sys.stderr)


def _printed(ask: Callable[[], str]) -> int:
    text, code = _asked(ask)
    if text is not None:
        print(text)
    return code


def _asked(ask: Callable[[], str]) -> tuple[str | None, int]:
    """The answer and 0; or None and the exit code, after the error was printed."""
    try:
        return ask(), 0
    except Refused as refused:
        return None, complain(str(refused), refused.code)
    except (RayStateApiException, ValueError) as problem:
        return None, complain(str(problem), 2)


def _from_json(text: str | None) -> Any:
    """The value of an answer in JSON; the text itself if it is none, such as "No resource in the cluster"."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


# ------------------------------------------------------------ a program


class _Examined:
    """A program that is run for the sake of an answer.

    answers: for each session the answer, or a function that raises its error; asked while the session still runs, and
    printed after the program has ended. requests: why the watching thread is to answer and interrupt at once.
    """

    def __init__(self, args: argparse.Namespace, answer: Answer):
        self.args, self.answer = args, answer
        self.answers: dict[int, Callable[[], str]] = {}
        self.sessions: list[Any] = []  # keeps each runtime alive, so that its id() stays its own
        self.requests: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.code: int | None = None  # the exit code, once the program was interrupted
        self.over, self.ending = threading.Event(), threading.RLock()  # the program has ended; held while it changes
        self.out = sys.stdout

    def run(self) -> int:
        """Run the program, and print the answers. Returns the exit code."""
        from .. import api, session

        session.after_start.append(self.on_start)
        session.before_end.append(self.look)
        session.on_stuck.append(self.on_stuck)
        watcher = threading.Thread(target=self.watch, name="miniray-watch", daemon=True)
        watcher.start()
        handler = self.on_terminate
        handled = _handle(signal.SIGTERM, handler)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                try:
                    code = run_program(self.args.program)
                    with self.ending:  # from here on, nobody interrupts
                        self.over.set()
                except KeyboardInterrupt as stopped:
                    code = self.code or 128 + signal.SIGINT
                    self.args.interrupted = of_traceback(stopped.__traceback__)
                api.shutdown()
        finally:
            self.over.set()
            self.requests.put("")
            session.after_start.remove(self.on_start)
            session.before_end.remove(self.look)
            session.on_stuck.remove(self.on_stuck)
            if handled and signal.getsignal(signal.SIGTERM) == handler:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return self.printed(code)

    def printed(self, code: int) -> int:
        """Print the answers. Returns the exit code; code: the program's."""
        answers = list(self.answers.values())
        if not answers:
            return code or complain(f"{self.args.program[0]} started no session, so there is nothing to show", 1)
        total, chosen = len(answers), self.args.session
        if chosen is not None:
            if not 1 <= chosen <= total:
                return complain(f"--session {chosen}: the program had {total} session{'s' * (total > 1)}", 2)
            return _printed(answers[chosen - 1]) or code
        if total > 1 and getattr(self.args, "format", None) == "json":
            asked = [_asked(ask) for ask in answers]
            print(json.dumps({"sessions": [_from_json(text) for text, _ in asked]}))
            return next((failed for _, failed in asked if failed), code)
        failed = 0
        for number, ask in enumerate(answers, 1):
            if total > 1:
                print(f"{'' if number == 1 else chr(10)}######## Session {number} of {total} ########")
            failed = _printed(ask) or failed
        return failed or code

    # ------------------------------------------------------------ looks

    def look(self, runtime: Any) -> None:
        """Ask now, while the session runs, unless an answer was given while the program was stuck. Never raises."""
        if id(runtime) in self.answers:
            return
        self.sessions.append(runtime)
        stopped = sys.exc_info()[1]
        if isinstance(stopped, KeyboardInterrupt) and not self.args.interrupted:
            self.args.interrupted = of_traceback(stopped.__traceback__)
        try:
            text = self.answer(runtime)
        except Exception as problem:
            self.answers[id(runtime)] = _raiser(problem)
        else:
            self.answers[id(runtime)] = lambda: text

    def on_start(self, runtime: Any) -> None:
        """A session has its own handler of SIGTERM, which raises SystemExit. Ours examines the program first."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.on_terminate)

    def on_terminate(self, *ignored: object) -> None:
        """The handler of SIGTERM. The work is done by the watching thread: this one may be inside the core."""
        self.requests.put("terminated")

    def on_stuck(self, runtime: Any) -> None:
        """Called by a thread of the session, when its wait can never return."""
        self.requests.put("stuck")

    def watch(self) -> None:
        """The watching thread: wait for a reason to answer and to interrupt the program, and do so."""
        seconds = self.args.after
        while not self.over.is_set():
            try:
                why = self.requests.get(timeout=seconds)
            except queue.Empty:
                why = "late"
            runtime = context.session
            if self.over.is_set() or why == "stuck" and not self.never_returns(runtime):
                continue
            self.code = {"late": 128 + signal.SIGINT, "terminated": 128 + signal.SIGTERM, "stuck": 1}[why]
            if runtime is not None:
                self.look(runtime)
            elif why == "late":
                print(f"After {seconds:g} s the program had not called init: there is no session.", file=sys.stderr)
            if not self.interrupt():
                self.end_anyway()
            return

    def interrupt(self) -> bool:
        """Raise KeyboardInterrupt in the main thread, as Ctrl-C does. Returns whether the program has ended in time.

        CPython does not notice a signal that arrives between its look for signals and a system call that blocks. So the
        signal is sent again for as long as the main thread stands where it stood.
        """
        main = threading.main_thread().ident or 0
        stands = None
        for _ in range(round(GRACE_S / RESEND_S)):
            frame = current_frames().get(main)
            place = frame and (frame, frame.f_lasti)
            with self.ending:
                if self.over.is_set():
                    return True
                if stands in (None, place):
                    stands = place
                    signal.pthread_kill(main, signal.SIGINT)
            if self.over.wait(RESEND_S):
                return True
        return False

    def never_returns(self, runtime: Any) -> bool:
        """Whether the main thread waits for something that can never come. If so, say it."""
        main = threading.main_thread().ident
        waits = runtime.driver_waiters.copy() if runtime is not None else {}
        for waiter, objects in waits.items():
            why = find_deadlock(runtime, objects) if waiter.thread == main and not waiter.timed else None
            if why is not None:
                print(f"The program was ended, since its wait can never return: {why}", file=sys.stderr)
                return True
        return False

    def end_anyway(self) -> None:
        """The program has caught the interrupt and goes on: print the answers, and end the process."""
        print(f"The program did not end within {GRACE_S:g} s of its interrupt.", file=sys.stderr)
        with contextlib.redirect_stdout(self.out):
            code = self.printed(self.code or 1)
        self.out.flush()
        os._exit(code)


def _raiser(problem: Exception) -> Callable[[], str]:
    def ask() -> str:
        raise problem

    return ask


def _handle(number: int, handler: Any) -> bool:
    """Set a handler, if this is the main thread and the signal has none. Returns whether it was set."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(number) is not signal.SIG_DFL:
        return False
    signal.signal(number, handler)
    return True


def run_program(words: list[str]) -> int:
    """Run a script or `-m module` as `miniray run` does. Returns its exit code."""
    from . import run

    module = words[1:] if words[0] == "-m" else None
    if module is None and not os.path.isfile(words[0]):
        return complain(f"there is no file {words[0]!r} to run", 2)
    try:
        return run.run(
            argparse.Namespace(engine="miniray", address=None, module=module, script=words, usage_error=None)
        )
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1


# ------------------------------------------------------------ ids as people type them

NAMES = {
    StateResource.TASKS: ("name", "func_or_class_name"),
    StateResource.ACTORS: ("name", "class_name"),
    StateResource.PLACEMENT_GROUPS: ("name",),
    StateResource.NODES: ("node_name", "node_ip"),
}


def ids_of(runtime: Any, resource: StateResource, text: str, missing: int = 2) -> list[str]:
    """The ids that a text means: a whole id, a short one, the first digits of one, or a name, which several may have.

    Raises Refused if it means none (with the exit code `missing`), or if it is the beginning of several ids.
    """
    if len(text) in LENGTHS and not text.lower().strip("0123456789abcdef"):
        return [text]
    column = book.BOOK[resource].id_column
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = book.book_rows(runtime, resource)
    for wanted in (
        [row for row in rows if short(row[column]) == text.lower()],
        [row for row in rows if any(row[name] == text for name in NAMES.get(resource, ()))],
        [row for row in rows if any(_last(row[name]) == text for name in NAMES.get(resource, ()))],
    ):
        if wanted:
            return [row[column] for row in wanted]
    begins = [row for row in rows if matches(row[column], text)]
    if len(begins) == 1:
        return [begins[0][column]]
    what = resource.value.replace("_", " ")
    if begins:
        raise Refused(f"{len(begins)} {what} have an id that begins with {text!r}: {_listed(begins, column, resource)}")
    names = sorted({str(row[name]) for row in rows for name in NAMES.get(resource, ()) if row[name]})
    known = f"; there are {_listed(rows, column, resource)}" if rows else f"; the session has no {what}"
    raise Refused(f"{text!r} is not the id or the name of one of the {what}{known}{similar(text, names)}", missing)


def id_of(runtime: Any, resource: StateResource, text: str) -> str:
    """As `ids_of`, where only one id will do."""
    ids = ids_of(runtime, resource, text, 1)
    if len(ids) > 1:
        shown = ", ".join(short(id) for id in ids[:FEW])
        raise Refused(f"{len(ids)} {resource.value} are called {text!r}: name one by its id: {shown}, ...")
    return ids[0]


FEW = 8


def _last(name: str | None) -> str:
    return (name or "").rpartition(".")[2]


def _listed(rows: list[dict[str, Any]], column: str, resource: StateResource) -> str:
    said = [
        f"{short(row[column])} ({next((row[name] for name in NAMES.get(resource, ()) if row[name]), '')})".replace(
            " ()", ""
        )
        for row in rows[:FEW]
    ]
    return ", ".join(said) + (", ..." if len(rows) > FEW else "")
