"""What a suspended coroutine awaits, and what that awaits in turn, down to the future that nobody has completed yet.

Nothing here runs code of the program: the chain is read from the objects of the interpreter and of asyncio. The loop's
own thread may go on meanwhile, so a chain may end early.
"""

from __future__ import annotations

import gc
import os
import sys
from types import FrameType
from typing import Any

from .frames import LIBRARY, Frame, Place, shown

ASYNCIO = os.path.join(LIBRARY, "asyncio") + os.sep
MOST_LINKS = 100  # a chain that is longer is cut; a circle of tasks that await each other ends here, too


class Chain:
    """A coroutine's stack, and what it awaits.

    stack: the coroutine's calls, the outermost first: each awaits the next. It ends in the program's line; the calls
    inside asyncio that follow are one sentence of `awaits`. awaits: one sentence for each further thing on the way: the
    function of asyncio, the asyncio tasks that it awaits with the places where these stand, and the future at the end.
    """

    def __init__(self) -> None:
        self.stack: list[Place] = []
        self.awaits: list[str] = []


def chain_of(coroutine: Any, task: Any = None, all_frames: bool = False) -> Chain:
    """The chain that begins with a coroutine. task: the asyncio task that runs it, if one does. all_frames: the stack
    has the calls inside asyncio, too."""
    found = Chain()
    seen: set[int] = set()
    found.stack, called, awaited = _awaited_by(coroutine, task, all_frames)
    while awaited is not None and id(awaited) not in seen and len(seen) < MOST_LINKS:
        seen.add(id(awaited))
        called, awaited = _told(awaited, called, found.awaits, all_frames)
    if called:
        found.awaits.append(called)
    return found


def _awaited_by(coroutine: Any, task: Any, all_frames: bool) -> tuple[list[Place], str, Any]:
    """The calls of a coroutine; the function of asyncio that the last of them awaits, "" for none; and the future or
    the futures that are awaited, None if there are none."""
    frames: list[FrameType] = []
    end = follow(coroutine, frames)
    for frame in reversed(frames):  # these two wait for a future of their own, which their argument completes
        name = INSIDE.get(frame.f_code.co_name) if frame.f_code.co_filename.startswith(ASYNCIO) else None
        inside = frame.f_locals.get(name) if name is not None else None
        if _is_future(inside) or isinstance(inside, SEVERAL):  # from 3.12 on `wait_for` awaits a coroutine itself
            end = inside
            break
    kept = len(frames)
    while kept and frames[kept - 1].f_code.co_filename.startswith(ASYNCIO):
        kept -= 1
    called = _called(frames[kept]) if 0 < kept < len(frames) else ""  # asyncio's own coroutines have only such frames
    if all_frames or not kept:
        kept = len(frames)
    stack: list[Place] = [(frame.f_code, frame.f_lineno) for frame in frames[:kept]]
    return stack, called, end if end is not None else getattr(task, "_fut_waiter", None)


INSIDE = {"wait_for": "fut", "_wait": "fs"}
"""Functions of asyncio, and which of their variables has the future, or the futures, that they wait for."""

SEVERAL = (set, frozenset, list, tuple)


def _called(frame: FrameType) -> str:
    """The function of asyncio that a program awaits, in the program's words: `asyncio.sleep(1)`, `asyncio.Queue.get`,
    `async with asyncio.Lock`."""
    code = frame.f_code
    name = code.co_name
    if name in PUBLIC:
        return PUBLIC[name]
    if name == "sleep" and type(frame.f_locals.get("delay")) in (int, float):
        return f"asyncio.sleep({frame.f_locals['delay']:g})"
    if code.co_varnames[:1] == ("self",) and "self" in frame.f_locals:
        for one in type(frame.f_locals["self"]).__mro__:  # it may be of a subclass that the program has made
            if str(one.__dict__.get("__module__")).startswith("asyncio."):
                method = f"asyncio.{one.__name__}"
                return f"{WITH[name]} {method}" if name in WITH else f"{method}.{name}"
    return f"asyncio.{name}"


WITH = {"__aenter__": "async with", "__aexit__": "the end of async with"}
PUBLIC = {"_wait_for_one": "asyncio.as_completed"}
"""Functions of asyncio that a program reaches by another name."""


def _told(awaited: Any, called: str, awaits: list[str], all_frames: bool) -> tuple[str, Any]:
    """Say what this is that a coroutine awaits. called: the function of asyncio by which it does, "" if that is told.
    Returns the same for what this waits for in turn: the future is None at the end."""
    if hasattr(awaited, "get_coro"):  # an asyncio task
        coroutine = awaited.get_coro()
        stack, inner, end = _awaited_by(coroutine, awaited, all_frames)
        awaits += [called] * bool(called)
        if getattr(coroutine, "__name__", "") != "_wrap_awaitable":  # asyncio's, around an awaitable
            awaits.append(f"asyncio task {awaited.get_name()}: {name_of(coroutine)}{_at(shown(stack, all_frames))}")
        return inner, end
    if isinstance(awaited, SEVERAL):
        return "", _several("wait for", list(awaited), awaits)  # by asyncio.wait, which needs no word of its own
    children = getattr(awaited, "_children", None)
    if children:
        awaits += [called] * bool(called)
        return "", _several("gather of", list(children), awaits)
    said = _future(awaited)
    if called:  # a future that asyncio has made for this call says nothing more
        awaits.append(called)
    if not called or not said.startswith("a "):
        awaits.append(said)
    return "", None


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
