"""What a suspended coroutine awaits, and what that awaits in turn, down to the future that nobody has completed yet.

Nothing here runs code of the program: the chain is read from the objects of the interpreter and of asyncio. The loop's
own thread may go on meanwhile, so a chain may end early.
"""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any

from .frames import Frame, Place, shown

MOST_LINKS = 100  # a chain that is longer is cut; a circle of tasks that await each other ends here, too


class Chain:
    """A coroutine's stack, and what it awaits.

    stack: the coroutine's calls, the outermost first: each awaits the next. awaits: one sentence for each further thing
    on the way: the asyncio tasks that it awaits with the places where these stand, and the future at the end.
    """

    def __init__(self) -> None:
        self.stack: list[Place] = []
        self.awaits: list[str] = []


def chain_of(coroutine: Any, task: Any = None, all_frames: bool = False) -> Chain:
    """The chain that begins with a coroutine. task: the asyncio task that runs it, if one does."""
    found = Chain()
    seen: set[int] = set()
    awaited = _awaited_by(coroutine, task, found.stack)
    while awaited is not None and id(awaited) not in seen and len(seen) < MOST_LINKS:
        seen.add(id(awaited))
        awaited = _told(awaited, found.awaits, all_frames)
    return found


def _awaited_by(coroutine: Any, task: Any, stack: list[Place]) -> Any:
    """Note the calls of a coroutine, and return the future or the futures that it awaits; None if it awaits nothing."""
    frames: list[FrameType] = []
    end = follow(coroutine, frames)
    stack += [(frame.f_code, frame.f_lineno) for frame in frames]
    for frame in reversed(frames):  # these two wait for a future of their own, which their argument completes
        name = INSIDE.get(frame.f_code.co_name) if "asyncio" in frame.f_code.co_filename else None
        inside = frame.f_locals.get(name) if name is not None else None
        if inside is not None:
            return inside
    return end if end is not None else getattr(task, "_fut_waiter", None)


INSIDE = {"wait_for": "fut", "_wait": "fs"}
"""Functions of asyncio, and which of their variables has the future, or the futures, that they wait for."""


def _told(awaited: Any, awaits: list[str], all_frames: bool) -> Any:
    """Say what this is that a coroutine awaits. Returns the future that it waits for in turn, or None."""
    if hasattr(awaited, "get_coro"):  # an asyncio task
        coroutine = awaited.get_coro()
        stack: list[Place] = []
        end = _awaited_by(coroutine, awaited, stack)
        awaits.append(f"asyncio task {awaited.get_name()}: {name_of(coroutine)}{_at(shown(stack, all_frames))}")
        return end
    if not _is_future(awaited):
        if not isinstance(awaited, (set, frozenset, list, tuple)):
            return _awaited_by(awaited, None, [])  # a coroutine
        return _several("wait for", list(awaited), awaits)
    children = getattr(awaited, "_children", None)
    if children:
        return _several("gather of", list(children), awaits)
    awaits.append(_future(awaited))
    return None


def _several(what: str, children: list[Any], awaits: list[str]) -> Any:
    """Say how many futures these are. Returns the first that is not done."""
    pending = [child for child in children if not child.done()]
    awaits.append(f"{what} {len(children)}, {len(pending)} of them not done")
    return pending[0] if pending else None


def _at(frames: list[Frame]) -> str:
    if not frames:
        return ""
    return f", at {frames[-1].file}:{frames[-1].line} in {frames[-1].function}"


def _future(future: Any) -> str:
    for callback in list(getattr(future, "_callbacks", None) or ()):
        function = callback[0] if type(callback) is tuple else callback
        said = getattr(function, "awaited", None)  # see `object_ref`: the reference that completes this future
        if type(said) is str:
            return said
    return f"a {type(future).__name__} that is {'done' if future.done() else 'not done'}"


def name_of(coroutine: Any) -> str:
    """The name of a coroutine's function."""
    return str(getattr(coroutine, "__qualname__", None) or type(coroutine).__name__)


def follow(awaitable: Any, frames: list[FrameType]) -> Any:
    """Note the frame of each coroutine and generator from this one inwards. Returns the future at the end, or None."""
    for _ in range(MOST_LINKS):
        for frame_slot, next_slot in SLOTS:
            frame = getattr(awaitable, frame_slot, None)
            if frame is not None:
                frames.append(frame)
                awaitable = getattr(awaitable, next_slot, None)
                break
        else:
            if awaitable is None or _is_future(awaitable):
                return awaitable
            # A wrapper of C, such as the iterator of a future, or the step of an asynchronous generator.
            awaitable = next((one for one in gc.get_referents(awaitable) if _is_link(one)), None)
    return None


SLOTS = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))


def _is_link(thing: Any) -> bool:
    return _is_future(thing) or any(hasattr(type(thing), slot) for slot, _ in SLOTS)


def _is_future(thing: Any) -> bool:
    asyncio = sys.modules.get("asyncio")  # imported by the code that has made a future
    return asyncio is not None and bool(asyncio.isfuture(thing))
