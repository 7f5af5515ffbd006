"""The program's event loops: what is delivered into one, and code that runs inside one and must not see it.

In local_mode a task runs on the thread of its caller, which may be inside an event loop. In Ray the task would be in a
process of its own, where no loop runs: it may call `asyncio.run`, and an async actor's loop may take a turn.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from contextvars import Context
    from typing import Any, Callable


def call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None], context: Context) -> None:
    """Have a loop call the callback, from any thread. Nothing happens if the loop has been closed."""
    try:
        loop.call_soon_threadsafe(callback, context=context)
    except RuntimeError:
        if not loop.is_closed():  # no coroutine of a closed loop is waiting any longer
            raise


def out_of_a_coroutine(error: BaseException) -> BaseException:
    """Return the error as a coroutine would raise it. In Ray a coroutine fills the futures, and from a coroutine Python
    lets neither StopIteration nor StopAsyncIteration out: a RuntimeError takes their place."""
    if not isinstance(error, (StopIteration, StopAsyncIteration)):
        return error
    instead = RuntimeError(f"generator raised {type(error).__name__}")
    instead.__cause__ = error
    return instead


def outside_of_event_loops(run: Callable[..., Any], *args: Any) -> Any:
    """Return run(*args). If the caller is inside an event loop, hide the loop and its current task meanwhile."""
    asyncio = sys.modules.get("asyncio")
    loop = asyncio._get_running_loop() if asyncio is not None else None
    if asyncio is None or loop is None:
        return run(*args)
    # Since Python 3.14 a thread has one current task, whichever its loop, and no other task can be entered meanwhile.
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        return run(*args)
    finally:
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)
