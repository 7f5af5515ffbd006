"""Which frames of a stack are the program's own, and how they are shown.

A stack is shown as the program sees it. It begins where the program's own code begins, and ends in the line of the
program that waits or runs; frames of this library, of the test runner and of the command line are left out.
"""

from __future__ import annotations

import inspect
import linecache
import os
import re
import traceback
from types import CodeType, FrameType
from typing import Any, NamedTuple, Optional

from ...process.our_code import FOLDER

LIBRARY = os.path.dirname(os.__file__) + os.sep
INSTALLED = os.path.join(LIBRARY, "site-packages") + os.sep
AS_LIBRARY = tuple(FOLDER + name + os.sep for name in ("util", "experimental"))  # they use miniray as a program does
NEVER_OUTERMOST = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
Place = tuple[CodeType, Optional[int]]  # a function's code, and the line in which it stands

RUNS_THE_PROGRAM = re.compile(r"[/\\](_pytest|pluggy|miniray[/\\]cli)[/\\]")
BELOW_A_TASK = re.compile(
    r"[/\\](threading\.py|selectors\.py|asyncio[/\\]|concurrent[/\\]futures[/\\]thread\.py)|^<frozen"
)


class Frame(NamedTuple):
    """One call of a stack: the file and the function as the code names them, and the line in which it stands."""

    file: str
    line: int | None
    function: str

    @property
    def code(self) -> str:
        """The text of the line; "" if there is no source."""
        return linecache.getline(self.file, self.line or 0).strip()

    def asdict(self) -> dict[str, Any]:
        """The frame as plain data."""
        return {"file": self.file, "line": self.line, "function": self.function, "code": self.code}


def places(frame: FrameType) -> list[Place]:
    """A thread's stack from its innermost frame, the outermost call first."""
    found: list[Place] = [(one.f_code, line) for one, line in traceback.walk_stack(frame)]
    return found[::-1]


def places_of_traceback(trace: Any) -> list[Place]:
    """The stack of an exception, up to where it was raised."""
    return [(one.f_code, line) for one, line in traceback.walk_tb(trace)]


def programs_part(codes: list[CodeType]) -> list[int]:
    """The positions of the program's frames in a stack, the outermost first. Empty for the command line itself, for a
    thread of this library, and for a thread that only waits for work in the standard library.

    The functions of the standard library that the program has called belong to it, unless this library has called them.
    """
    names = [code.co_filename for code in codes]
    first = max((n + 1 for n, name in enumerate(names[:-1]) if RUNS_THE_PROGRAM.search(name)), default=0)
    own = [n for n in range(first, len(names)) if not _is_ours(names[n]) and not is_librarys(names[n])]
    last = next((n for n in range(own[-1] if own else first, len(names)) if _is_ours(names[n])), len(names))
    while first < last - 1 and (_is_ours(names[first]) or BELOW_A_TASK.search(names[first])):
        first += 1
    kept = [n for n in range(first, last) if not _is_ours(names[n]) and not names[n].startswith("<frozen")]
    return [] if all(BELOW_A_TASK.search(names[n]) for n in kept) else kept


def _is_ours(name: str) -> bool:
    return name.startswith(FOLDER) and not name.startswith(AS_LIBRARY)


def is_librarys(name: str) -> bool:
    """Whether a file belongs to the standard library."""
    return name.startswith("<frozen") or name.startswith(LIBRARY) and not name.startswith(INSTALLED)


def begins_a_thread(code: CodeType) -> bool:
    """Whether a stack that begins with this function can be whole. A thread goes on while its stack is read, and a call
    that has returned meanwhile no longer leads to its caller: the rest of the stack is missing then."""
    if code.co_flags & NEVER_OUTERMOST:
        return False
    name = code.co_name
    return name in ("<module>", "_bootstrap", "_run_module_as_main") or code.co_filename.startswith(FOLDER)


def shown(stack: list[Place], all_frames: bool = False) -> list[Frame]:
    """The frames of a stack that are shown, the outermost first. all_frames: also those that are not the program's."""
    kept = range(len(stack)) if all_frames else programs_part([code for code, _ in stack])
    return [Frame(stack[n][0].co_filename, stack[n][1], stack[n][0].co_name) for n in kept]


def as_lines(frames: list[Frame]) -> list[str]:
    """Frames as the lines of a traceback, the innermost call last."""
    if not frames:
        return []
    summary = [traceback.FrameSummary(frame.file, frame.line or 0, frame.function) for frame in frames]
    return "".join(traceback.StackSummary.from_list(summary).format()).rstrip().split("\n")
