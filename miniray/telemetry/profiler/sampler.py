"""The sampler: a thread that looks at all others a hundred times a second, and notes where each of them stands.

Theory of operation. A sample costs the program time, so it does the least: it walks the frames of each thread from the
innermost outwards, and counts them in a tree, one node for each function. Names, files, and which frames are the
program's, are looked up when the profile is read. A worker that is idle is passed over.

The time since the last sample is what a sample weighs. So the sums are right although the sampler comes late while a
thread keeps the GIL: what that thread does then weighs more.

Calls of async actors that are suspended stand on no thread. They are looked at more rarely, and wait.

Running or waiting. A thread in `get`, `wait`, or the sleep of a task waits. Any other thread may be in a function of C,
and Python does not tell whether that computes or waits. If the instruction in which it stands is no call, the thread
computes, or would if it got the GIL: it runs. Otherwise the system tells how much time of a CPU it has used since the
last sample; that part of the time it ran, and the rest it waited. While the GIL is never free, a thread that computes
gets only its share of the time, so this part then counts as often as there are threads that run. Where the system does
not tell (it does on Linux), a thread waits if it stands in the same call as at the last sample.
"""

from __future__ import annotations

import _thread
import dis
import os
import sys
import time
from types import CodeType, FrameType
from typing import Any

from ...observe.stacks.coroutines import follow
from ...observe.stacks.frames import begins_a_thread
from ...observe.stacks.reading import context_of
from ...process import context, our_code
from ...process.context import current
from ...process.doorbell import new_real_lock, start_real_thread
from ...process.threads import real_main_thread
from ...process.worker_process import STARTED_IN, native_ids, threads
from ...runtime.frames import current_frames

MOST_NODES = 500_000  # of the tree; beyond, a stack is counted where it leaves the tree
SUSPENDED_EVERY = 10  # samples: how often the suspended calls of async actors are noted
MOST_SUSPENDED = 100  # of one actor, at a time
OF_A_CALL = ("_call", "_attempt")  # the coroutines of ours around a call of an async actor
READ_AGAIN = 3  # times, if a stack was cut while it was read
MOST_DEPTH = 512  # the innermost calls of a stack that are noted
SATURATED = 0.9  # the part of the time that the process used a CPU, from which on the GIL counts as never free
LATE_S = 0.002  # a sample that comes so late had to wait: a thread that computes keeps the GIL for 5 ms
IDLE_SHARE = 0.01  # of a CPU: a thread that has used less waits
DRIVER, LOOP = "driver", object()
# Instructions that call something, or may: the thread may be in a function of C that waits.
MAY_WAIT = frozenset(
    code
    for name, code in dis.opmap.items()
    if "CALL" in name or name in ("BEFORE_WITH", "SETUP_WITH", "FOR_ITER", "SEND", "YIELD_FROM", "IMPORT_NAME")
)
ON_LINUX = sys.platform == "linux" and hasattr(time, "clock_gettime")
_now, _clock = time.perf_counter, getattr(time, "clock_gettime", None)  # a simulation replaces clocks


class Node:
    """A function at one place of the tree. children: by id() of their code, which the node keeps alive. samples: how
    often it was the innermost call. ran, waited: the seconds of these. ids: those of the task, the actor and the
    worker that it was seen in, each None if there was none, or several. numbers: those of the same records, 0 for none,
    -1 for several; the tree keeps no record alive. latest: the numbers of the last sample. last: when it was last seen,
    on the sampler's clock. lines: by number of a line, the seconds in which it was the innermost one."""

    __slots__ = ("code", "children", "samples", "ran", "waited", "numbers", "latest", "ids", "last", "lines")

    def __init__(self, code: CodeType | None):
        self.code = code
        self.children: dict[int, Node] = {}
        self.samples = 0
        self.ran = self.waited = self.last = 0.0
        self.numbers: tuple[int, ...] = ()
        self.latest: tuple[int, int, int] | None = None
        self.ids: list[str | None] = [None, None, None]
        self.lines: dict[int, float] = {}


class Seen:
    """What the last sample saw of a thread: the name it counts for, the place of its innermost call, and its node.

    codes, ids: of its calls, the outermost first: the functions, and the id() of the frames. place_of: their positions.

    clock, cpu_s: the clock of the time of a CPU that the thread uses, and what it showed when it was last read. native:
    the system's number of the thread.
    """

    __slots__ = ("known_as", "place", "leaf", "codes", "ids", "place_of", "native", "clock", "cpu_s")

    def __init__(self) -> None:
        self.known_as = ""
        self.place: tuple[int, ...] = ()
        self.leaf: Node | None = None
        self.codes: list[CodeType] = []
        self.ids: list[int] = []
        self.place_of: dict[int, int] = {}
        self.native = 0
        self.clock: int | None = None
        self.cpu_s = 0.0


class Sampler:
    """Samples until it is stopped. roots: the tree of each name: a task's, a thread's of the driver, or "driver"."""

    def __init__(self, hz: float):
        self.interval_s = 1.0 / hz
        self.roots: dict[str, Node] = {}
        self.known: dict[tuple[str, tuple[int, ...]], Node] = {}  # by name, and id() of each function's code
        self.nodes = self.samples = self.full = 0
        self.began = self.ended = 0.0
        self.epoch = 0.0
        self.unseen_s = 0.0  # since the suspended coroutines were last looked at
        self.spent_s = 0.0  # the time of a CPU that the sampler itself has taken
        self.codes: dict[int, tuple[CodeType, bytes]] = {}  # by id() of the code: its instructions
        self.seen: dict[int, Seen] = {}
        self.running = self.crowd = 0  # how many threads ran at this sample; how many share the GIL, 1 if it was free
        self.process_s = 0.0  # the time of a CPU that the process had used at the last sample
        self.problem: Exception | None = None  # what ended the sampler before its time
        self._stop, self._done = new_real_lock(), new_real_lock()

    def start(self) -> None:
        """Start the thread."""
        self._stop.acquire()
        self._done.acquire()
        start_real_thread(self._run, ())

    def stop(self) -> None:
        """End the thread, and wait until it has ended."""
        self._stop.release()
        self._done.acquire()
        self.codes.clear()
        self.seen.clear()
        self.known.clear()

    def _run(self) -> None:
        try:
            # Here, since a simulation has a clock of its own for the thread that begins the profile.
            self.began, self.process_s = _now(), time.process_time()
            self.epoch = time.time() - self.began
            here, last = _thread.get_ident(), self.began
            due = last + self.interval_s
            while not self._stop.acquire(True, max(0.0, due - _now())):
                now = _now()
                self.sample(here, now, now - last, now - due > LATE_S)
                last = now
                due = max(due + self.interval_s, now)  # a sample that comes late is not made up for
            if context.session is not None:  # the suspended calls are not looked at in every sample
                self._suspended(context.session, last)
            self.spent_s = time.thread_time()
        except Exception as problem:
            self.problem = problem
        finally:
            self.ended = _now()
            self._done.release()

    # ------------------------------------------------------------ one sample

    def sample(self, here: int, now: float, seconds: float, late: bool) -> None:
        """Note where each thread stands. here: the sampler's own thread. seconds: what this sample weighs. late: it had
        to wait for the GIL, or for a CPU."""
        frames = current_frames()
        try:
            self.samples += 1
            used = time.process_time()
            saturated = late or used - self.process_s > SATURATED * seconds
            self.process_s, self.crowd, self.running = used, max(1, self.running) if saturated else 1, 0
            runtime = context.session
            owners = {} if runtime is None else self._owners(runtime)
            waits = {waiter.thread for waiter in runtime.driver_waiters.copy()} if runtime is not None else ()
            self.unseen_s += seconds
            if runtime is not None and self.samples % SUSPENDED_EVERY == 0:
                self._suspended(runtime, now)
            for ident, frame in frames.items():
                if ident == here:
                    continue
                owner = owners.get(ident)
                if owner is None:
                    self._other(ident, frame, runtime, waits, now, seconds)
                elif owner[0] is LOOP:
                    self._note(loop_name(owner[1]), ident, frame, False, now, seconds, None, owner[1])
                elif owner[0] is not None:
                    task, worker, waiting = owner
                    self._note(task.spec.name, ident, frame, waiting, now, seconds, task, worker, runtime.local)
        finally:
            frames.clear()  # they contain this very frame, and would keep all of them alive
            del frames

    def _owners(self, runtime: Any) -> dict[int, tuple[Any, Any, bool]]:
        """By ident of a worker's thread: its task, None if it is idle, LOOP for an event loop between two tasks; its
        worker; and whether it waits. In local mode a thread runs the task that began last."""
        found: dict[int, tuple[Any, Any, bool]] = {}
        if runtime.local:
            workers = runtime.cluster.workers.copy().values()
            handles = [worker.handle for worker in workers if worker.handle is not None and worker.handle.user_task]
            for handle in sorted(handles, key=lambda handle: handle.user_task.t_started if handle.user_task else 0.0):
                task = handle.user_task
                if task is not None and handle.loop is None:
                    found[handle.ident] = task, handle.record, handle.waiter is not None
            return found
        for handle in runtime.threads.copy():
            worker = handle.record
            if handle.loop is not None:
                found[handle.ident] = _of_loop(handle.loop.loop) or LOOP, worker, False
            else:
                found[handle.ident] = handle.user_task or worker.task, worker, handle.waiter is not None
        return found

    def _suspended(self, runtime: Any, now: float) -> None:
        """Note where the suspended calls of async actors stand: some of them, if there are many, each for its share."""
        seconds, self.unseen_s = self.unseen_s, 0.0
        if runtime.local:
            workers = runtime.cluster.workers.copy().values()
            handles = [worker.handle for worker in workers if worker.handle is not None]
        else:
            handles = list(runtime.threads.copy())
        for handle in handles:
            calls = list(handle.loop.calls.copy().items()) if handle.loop is not None else []
            step = -(-len(calls) // MOST_SUSPENDED) or 1
            for number, call in calls[self.samples // SUSPENDED_EVERY % step :: step]:
                task = handle.record.running.get(number)
                frames: list[FrameType] = []
                follow(call.get_coro(), frames)
                if task is None or len(frames) <= len(OF_A_CALL):
                    continue  # it has not begun, or it runs at this moment
                node = self._descend(task.spec.name, [frame.f_code for frame in frames])
                node.samples += SUSPENDED_EVERY * step
                node.waited += seconds * step
                node.last = now
                self._whose(node, task, handle.record)

    def _other(self, ident: int, frame: FrameType, runtime: Any, waits: Any, now: float, seconds: float) -> None:
        """A thread that serves no worker: the driver's, or one that a task has started."""
        if ident == real_main_thread().ident:
            self._note(DRIVER, ident, frame, ident in waits, now, seconds)
            return
        thread = threads.get(ident)
        if thread is None:  # one of ours, or of a library that is no Python
            return
        number, _ = getattr(thread, STARTED_IN, None) or (0, 0)
        task = runtime.cluster.tasks.get(number) if runtime is not None and number else None
        if task is not None:
            self._note(task.spec.name, ident, frame, False, now, seconds, task, task.worker)
        else:
            self._note(f"thread {thread.name}", ident, frame, ident in waits, now, seconds)

    def _note(
        self,
        name: str,
        ident: int,
        frame: FrameType,
        waiting: bool,
        now: float,
        seconds: float,
        task: Any = None,
        worker: Any = None,
        nested: bool = False,
    ) -> None:
        """Count one stack. nested: only what is above the call that runs the innermost task."""
        seen = self.seen.get(ident)
        if seen is None:
            seen = self.seen[ident] = Seen()
        ran = 0.0 if waiting else self._ran(ident, frame, seen, seconds)
        self.running += ran > 0.0
        outer = frame.f_back
        place = id(frame), frame.f_lasti, id(outer), outer.f_lasti if outer is not None else 0
        # Most threads wait where they waited at the last sample. The frame of a call has the address of an earlier one
        # at times; then its caller decides.
        node = seen.leaf if seen.place == place and seen.known_as == name else None
        if node is None:
            node = seen.leaf = self._node(name, ident, frame, seen, nested)
            seen.place, seen.known_as = place, name
        line = frame.f_lineno
        node.samples += 1
        node.ran += ran
        node.waited += seconds - ran
        node.last = now
        if line is not None:
            node.lines[line] = node.lines.get(line, 0.0) + seconds
        self._whose(node, task, worker)

    def _whose(self, node: Node, task: Any, worker: Any) -> None:
        """Note whose a stack was, as ids: the records may be gone when the profile is read."""
        actor = task.actor if task is not None else None
        numbers = (
            task.number if task is not None else 0,
            actor.number if actor is not None else 0,
            worker.number if worker is not None else 0,
        )
        if node.latest != numbers:
            node.latest = numbers
            records = task, actor, worker
            if not node.numbers:
                node.numbers, node.ids = numbers, [one.hex if one is not None else None for one in records]
            else:
                same = [one == before for one, before in zip(numbers, node.numbers)]
                node.numbers = tuple(one if kept else -1 for one, kept in zip(numbers, same))
                node.ids = [id if kept else None for id, kept in zip(node.ids, same)]

    def _node(self, name: str, ident: int, frame: FrameType, seen: Seen, nested: bool) -> Node:
        """The node of a stack, given by its innermost frame."""
        codes = self._walked(frame, seen)
        for _ in range(READ_AGAIN):
            if begins_a_thread(codes[0]):
                break
            again = current_frames().get(ident)  # a call returned during the walk, and no longer leads to its caller
            if again is None:
                break
            codes = self._walked(again, seen)
            del again
        if nested:
            inside = next((n for n in range(len(codes), 0, -1) if codes[n - 1] in our_code.attempts), 0)
            codes = codes[inside:] if inside else []
        elif not begins_a_thread(codes[0]):
            codes = []
        if not codes:
            return self._descend(name, [])  # the time counts for the name; the outer calls are not known
        codes = codes[-MOST_DEPTH:]
        key = name, tuple(map(id, codes))
        node = self.known.get(key)
        if node is None:
            node = self._descend(name, codes)
            if not self.full:  # the tree keeps the functions of the key alive
                self.known[key] = node
        return node

    def _walked(self, frame: FrameType, seen: Seen) -> list[CodeType]:
        """The functions of a stack, the outermost first. This loop is most of what a sample costs: it reads memory that
        the thread itself uses. So it ends at the first call that the thread was in at the last sample."""
        codes: list[CodeType] = []
        ids: list[int] = []
        place_of, at = seen.place_of.get, frame
        outer_codes: list[CodeType] = []
        outer_ids: list[int] = []
        while at is not None:
            number = id(at)
            n = place_of(number)
            back = at.f_back
            # A later frame may have the address of an earlier one: then its function or its caller is another one.
            if n is not None and seen.codes[n] is at.f_code and (not n or seen.ids[n - 1] == id(back)):
                outer_codes, outer_ids = seen.codes[: n + 1], seen.ids[: n + 1]
                break
            codes.append(at.f_code)
            ids.append(number)
            at = back  # type: ignore[assignment]
        codes.reverse()
        ids.reverse()
        seen.codes, seen.ids = codes, ids = outer_codes + codes, outer_ids + ids
        seen.place_of = dict(zip(ids, range(len(ids))))
        return codes

    def _descend(self, name: str, codes: list[CodeType]) -> Node:
        """The node of a stack, given by its functions, the outermost first."""
        node = self.roots.get(name)
        if node is None:
            node = self.roots[name] = Node(None)
        for code in codes:
            child = node.children.get(id(code))
            if child is None:
                if self.nodes >= MOST_NODES:
                    self.full += 1
                    break
                self.nodes += 1
                child = node.children[id(code)] = Node(code)
            node = child
        return node

    def _ran(self, ident: int, frame: FrameType, seen: Seen, seconds: float) -> float:
        """How many of the seconds since the last sample a thread ran, if it does not wait for objects."""
        code = frame.f_code
        known = self.codes.get(id(code))
        if known is None:
            known = self.codes[id(code)] = code, code.co_code
        if known[1][frame.f_lasti] not in MAY_WAIT:
            return seconds
        used = self._used(ident, seen)
        if used is not None:
            used *= self.crowd
            return min(used, seconds) if used > IDLE_SHARE * seconds else 0.0
        return 0.0 if seen.place[:2] == (id(frame), frame.f_lasti) else seconds

    def _used(self, ident: int, seen: Seen) -> float | None:
        """How many seconds of a CPU a thread has used since it was last asked, or since it began; None if the system
        does not tell."""
        native = _native_id(ident) if ON_LINUX else 0
        if seen.native != native:  # the first time; or a new thread with the ident of one that has ended
            seen.native, seen.clock, seen.cpu_s = native, ~native << 3 | 6 if native else None, 0.0
        if seen.clock is None or _clock is None:
            return None
        try:
            used = _clock(seen.clock)
        except OSError:  # the thread has ended
            seen.clock = None
            return None
        before, seen.cpu_s = seen.cpu_s, used
        return max(seen.cpu_s - before, 0.0)


def _native_id(ident: int) -> int:
    """The system's number of a thread, of which Linux makes the number of its clock; 0 if it is not known. The clock
    that pthread_getcpuclockid makes of an ident would crash the process if the thread has ended; this one is refused
    then."""
    found: int | None = native_ids.get(ident) or getattr(threads.get(ident), "native_id", None)
    if found is None:
        return os.getpid() if ident == real_main_thread().ident else 0
    return found


def loop_name(worker: Any) -> str:
    """What the time of an async actor's event loop is called, while it runs none of the actor's calls."""
    return f"{worker.actor.class_name if worker.actor is not None else 'actor'} (event loop)"


def _of_loop(loop: Any) -> Any:
    """The task whose code an event loop runs at this moment, or None."""
    asyncio = sys.modules.get("asyncio")
    running = asyncio.current_task(loop) if asyncio is not None and loop is not None else None
    if running is None:
        return None
    execution = context_of(running).get(current)
    return execution.task if execution is not None else None
