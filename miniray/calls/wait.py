"""`ray.wait`: which of these references are ready?

A loop that drains n references calls `wait` n times, each time with the list of references that are left. Work that
grows with the list is therefore done n times. Looking for ready references need not grow: `_ready_positions` stops as
soon as it has found enough. Checking the list for duplicates must look at every reference, and takes longer than
everything else together.

The one trick here avoids most of those checks. A draining loop passes in exactly the list that the previous call
returned. So `_CheckedLists` keeps a copy of the last long list that it returned on this thread. If the next list holds
the same references in the same order, it needs no check. Python compares two lists of identical items in C, without
calling any `__eq__`.
"""

from __future__ import annotations

import threading
from operator import lt

from ..core.records import ENDED, FAILED, READY, ObjectRecord
from ..exceptions import RaySystemError
from ..object_ref import ObjectRef, ObjectRefGenerator, is_ready
from ..runtime.waiting import of_an_ended_session
from ..session import session_or_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")  # ObjectRef or ObjectRefGenerator

SURPLUS = 3  # how many ready references to look for beyond those wanted
LONG = 64  # from this length on, remembering a list is cheaper than checking it again
INT64_LIMIT = 1 << 63


def wait(
    ray_waitables: list[T], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[T], list[T]]:
    """Wait until `num_returns` of the given references are ready, and return them and the rest as two lists.

    A reference is ready when its object holds a value or an error; `wait` itself never raises that error. A generator
    in the list is ready when it can hand out its next reference, or has ended.

        ready, rest = ray.wait(refs, num_returns=2, timeout=1.0)

    Args:
        ray_waitables: a list of distinct ObjectRefs and ObjectRefGenerators. An empty list returns two empty lists.
        num_returns: how many references to wait for.
        timeout: seconds to wait at most; None waits forever, and 0 returns at once.
        fetch_local: accepted as in Ray. It has no effect, since every value is in this process.

    Returns:
        (ready, rest), each in the order of `ray_waitables`. `ready` has `num_returns` items, or fewer after a timeout.
        If more are ready, the others are in `rest`; which ones is not specified.

    Raises:
        TypeError: `ray_waitables` is not a list of references, or `num_returns` or `timeout` is not a number.
        ValueError: the list holds a duplicate or a reference of an ended session, `num_returns` is below 1 or above the
            length of the list, or `timeout` is negative.
    """
    runtime = session_or_start()
    if isinstance(ray_waitables, (ObjectRef, ObjectRefGenerator)):
        raise TypeError(
            "wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got a single ray.ObjectRef or "
            f"ray.ObjectRefGenerator {ray_waitables}"
        )
    if not isinstance(ray_waitables, list):
        raise TypeError(f"wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got {type(ray_waitables)}")
    if timeout is not None and _number("timeout", timeout) < 0:
        raise ValueError(f"The 'timeout' argument must be nonnegative. Received {timeout}")
    if not ray_waitables:
        return [], []
    _checked_lists.check(ray_waitables)
    if _number("num_returns", num_returns) <= 0:
        raise ValueError(f"Invalid number of objects to return {int(num_returns)}.")
    if num_returns > len(ray_waitables):
        raise ValueError("num_returns cannot be greater than the number of ray_waitables provided to ray.wait.")
    seconds = None if timeout is None else max(0.0, whole_milliseconds(timeout) / 1000)
    num_returns = int(num_returns)
    if not num_returns:  # it was a fraction below 1
        raise RaySystemError("wait() was asked for no reference at all: num_returns must be at least 1")
    if runtime.before_look is not None:
        runtime.before_look("what is ready", [_record_of(w) for w in ray_waitables], seconds == 0)
    ready = _ready_positions(ray_waitables, num_returns)
    if len(ready) < num_returns:
        if seconds == 0 and runtime.dropped:
            # The tasks waited for may need resources or a name that the program has already dropped. A program that
            # only polls never enters the runtime in another way, so the drops are counted here.
            runtime.drain()
        records = [_record_of(w) for w in ray_waitables]
        deadline = None if seconds is None else runtime.now() + seconds
        while len(ready) < num_returns:
            pending = [record for record in records if not is_ready(record)]
            for record in pending:
                if type(record) is ObjectRecord and record.status is ENDED:
                    raise of_an_ended_session(record)
            if seconds == 0:
                break
            left = None if deadline is None else max(0.0, deadline - runtime.now())
            missing = num_returns - (len(records) - len(pending))
            in_time = runtime.wait_for(pending, missing, False, left) if pending else True
            ready = _ready_positions(ray_waitables, num_returns)
            if not in_time and left is not None:
                break
    return _checked_lists.split(ray_waitables, ready)


def whole_milliseconds(timeout: Any) -> int:
    """A timeout in seconds as Ray stores it: whole milliseconds in a signed 64-bit integer.

    Raises ValueError for NaN and for a string, OverflowError for a number that does not fit, TypeError for anything
    that cannot be multiplied.
    """
    try:
        milliseconds = int(timeout * 1000)
    except (TypeError, ValueError) as error:
        raise type(error)(f"'timeout' must be a number of seconds or None, not {timeout!r}") from None
    if not -INT64_LIMIT <= milliseconds < INT64_LIMIT:
        raise OverflowError(f"a 'timeout' of {timeout!r} seconds is more than 64 bits of milliseconds")
    return milliseconds


def _number(name: str, value: Any) -> Any:
    """The value itself, if it can be compared with a number: that is all Ray asks of it. Raises TypeError otherwise."""
    try:
        lt(0, value)
    except TypeError:
        raise TypeError(f"wait() expected a number for '{name}', got {value!r}") from None
    return value


def _record_of(waitable: Any) -> Any:
    """The core's record behind a reference or a generator."""
    return waitable._record if type(waitable) is ObjectRef else waitable._stream


def _ready_positions(waitables: list[Any], wanted: int) -> list[int]:
    """The positions of up to `wanted` ready references, in ascending order.

    If more are ready, Ray chooses among them by the hashes of their ids. A program must not come to rely on getting the
    first ones, so the choice here skips some: it takes the middle of the first `wanted + SURPLUS`.
    """
    ready: list[int] = []
    enough = wanted + SURPLUS
    for position, waitable in enumerate(waitables):
        if type(waitable) is ObjectRef:
            status = waitable._record.status
            if status is not READY and status is not FAILED and not is_ready(waitable._record):
                continue
        elif not is_ready(waitable._stream):
            continue
        ready.append(position)
        if len(ready) == enough:
            break
    first = max(0, len(ready) - wanted) // 2
    return ready[first : first + wanted]


class _CheckedLists:
    """Checks the list given to each `wait`, splits it, and remembers the rest as checked: the trick above.

    It remembers one list per thread, and only a list of at least LONG references. `remembered` holds real references,
    so it keeps their objects alive until the thread's next `wait` with another list.
    """

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def check(self, waitables: list[Any]) -> None:
        """Raise TypeError unless every item is a reference or a generator, and ValueError if an object occurs twice."""
        remembered = getattr(self._of_thread, "remembered", None)
        if remembered is not None:
            if remembered == waitables:
                return
            self._of_thread.remembered = None
        for waitable in waitables:
            kind = type(waitable)
            if kind is not ObjectRef and kind is not ObjectRefGenerator:
                raise TypeError(
                    f"wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got list containing {kind}"
                )
        if len({id(_record_of(w)) for w in waitables}) != len(waitables):
            raise ValueError("Wait requires a list of unique ray_waitables.")

    def split(self, waitables: list[T], ready: list[int]) -> tuple[list[T], list[T]]:
        """The items at these ascending positions, and the others. `waitables` is the list that `check` saw last."""
        found = [waitables[position] for position in ready]
        if not ready:
            rest = waitables[:]
        elif ready[-1] - ready[0] == len(ready) - 1:
            # A contiguous run, which is the usual case: copy the long tail, then insert the few items before the run.
            rest = waitables[ready[-1] + 1 :]
            rest[:0] = waitables[: ready[0]]
        else:
            chosen = set(ready)
            rest = [w for position, w in enumerate(waitables) if position not in chosen]
        remembered = getattr(self._of_thread, "remembered", None)
        if remembered is not None:  # equal to `waitables`: deleting the same positions is cheaper than another copy
            for position in reversed(ready):
                del remembered[position]
        elif len(rest) >= LONG:
            self._of_thread.remembered = rest[:]
        return found, rest


_checked_lists = _CheckedLists()
