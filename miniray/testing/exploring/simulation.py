"""Simulation: run a Ray program under a seed, with one thread at a time and a virtual clock.

    def transfer():
        ...                                  an ordinary program, with ray.get, time.sleep and so on
        assert ray.get(account.balance.remote()) == 100

    simulate(transfer, seed=7)               the same schedule each time
    explore(transfer, seeds=range(1000))     see `exploration`

The seed decides which thread goes on, at every call of miniray and at every lock, and what random numbers the program
draws. The clock stands still while any thread runs. When all wait, it jumps to the next time that one of them waits
for.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import functools
import gc
import inspect
import io
import itertools
import os
import re
import sys
from collections.abc import Coroutine, Iterator
from typing import Any, Callable

from ... import session
from ...object_ref import ObjectRef
from ...process import context
from ...process.held_signals import HeldSignals
from ...runtime.core_access import CoreAccess
from ...runtime.core_lock import HAS_GIL
from ...runtime.runtime import Runtime
from ...runtime.simulated import replacing
from ...runtime.simulated.baton import BEGINNING_S
from ...runtime.simulated.schedules import RandomWalk, Schedule
from ...runtime.simulated.simulation import Simulation
from . import arguments, fault_plan
from .error_text import text_of
from .fault_plan import FaultPlan

MAX_STEPS, MAX_VIRTUAL_S = 100_000, 86_400.0
RUNS_OF_GARBAGE = 50
"""After so many runs the collector frees what they have left. A session is full of cycles, and the collector is off
during a run, so it would hardly ever start on its own."""
_runs = itertools.count(1)


class NotRun(TypeError):
    """A function has returned something that would run outside of the simulation."""


class Run:
    """One run of a function under a schedule.

    result: what the function returned. error: what it raised, or what ended the run. error_text: as the report shows
    it. schedule: its `taken` repeats the run. steps, digest, virtual_s: how many steps it took, a number that stands
    for their order, and the time on the clock. sometimes: how often each condition of `sometimes` held. log: the event
    log, if `keep_log` was set. struck: the faults that struck. timeline: the file for a timeline page, written at the
    end of a session. unwritten: why it could not be written. quiet: what the program prints is dropped.
    """

    def __init__(
        self,
        fn: Callable[[], Any],
        seed: int,
        schedule: Schedule | None = None,
        faults: FaultPlan | None = None,
        max_steps: int = MAX_STEPS,
        max_virtual_s: float = MAX_VIRTUAL_S,
        keep_log: bool = False,
        timeline: str | None = None,
        watchdog_s: float = 10.0,
        globals_: dict[str, Any] | None = None,
        quiet: bool = False,
    ):
        self.fn, self.seed, self.faults = fn, seed, faults
        self.schedule = schedule if schedule is not None else RandomWalk(seed)
        self.limits = max_steps, max_virtual_s
        self.watchdog_s = watchdog_s
        self.globals = globals_ if globals_ is not None else globals_of(fn)
        self.quiet = quiet
        self.keep_log, self.timeline = keep_log, timeline
        self.result: Any = None
        self.error: BaseException | None = None
        self.error_text = ""
        self.sometimes: dict[str, int] = {}
        self.sessions: list[str] = []
        self.trace: list[Any] = []
        self.struck: list[str] = []
        self.stories: list[str] = []
        self.log = ""
        self.unwritten: OSError | None = None
        self.steps = self.steps_of_fn = self.switches = self.digest = 0
        self.virtual_s = 0.0

    def go(self) -> Run:
        """Run the function. Raises RuntimeError if a session is running, or if a simulation runs on this thread; stores
        any other error. Waits while another thread simulates."""
        signals = HeldSignals()  # but for `fn`: an error on the way in or out would leave this thread inside
        try:
            with _one_at_a_time(signals), _nothing_printed() if self.quiet else contextlib.nullcontext():
                self._go(signals)
        finally:
            signals.release()
        if next(_runs) % RUNS_OF_GARBAGE == 0 and gc.isenabled():
            gc.collect()
        return self

    def _go(self, signals: HeldSignals) -> None:
        global _run
        if context.session is not None:
            raise RuntimeError("a session is running: call ray.shutdown() before you simulate")
        simulation = Simulation(self.seed, self.schedule, *self.limits, self.watchdog_s)
        baton = simulation.baton
        plan = fault_plan.Active(self.faults, self.seed, simulation) if self.faults is not None else None
        session.before_end.append(self._session_ends)
        clusters = set(session.clusters)
        _run = self
        try:
            replacing.install_in(self.globals)
            replacing.install_in(vars(sys.modules["__main__"]))
            try:
                try:
                    signals.release()
                    self.result = _finished(self.fn())
                finally:
                    signals.hold()
            except BaseException as error:
                self.error = error
            self.steps_of_fn = len(baton.trace)
            baton.cleans_up = True
            try:
                if self.error is not None:
                    self.error_text = text_of(self.error)  # inside of the run: its __str__ may call miniray
                session.shutdown()
                if HAS_GIL:  # without it, this would look at all objects
                    gc.collect(0)  # what the run leaves in cycles may call miniray when it goes, and start a session
                session.shutdown()
            except BaseException as error:
                error.__context__ = self.error
                self.error, self.error_text = error, text_of(error)
        finally:
            signals.hold()  # an error may have come right after `fn`
            _run = None
            session.before_end.remove(self._session_ends)
            for address in session.clusters.keys() - clusters:  # each would keep the session of this run
                del session.clusters[address]
            if plan is not None:
                self.struck = plan.close()
            self.steps, self.switches, self.digest = baton.steps, baton.switches, baton.digest
            self.virtual_s, self.trace = baton.now() - BEGINNING_S, baton.trace
            if baton.stopped_by is not None:
                self.error = baton.stopped_by
            simulation.close()
        if self.keep_log:
            self.log = "".join(self.sessions) + "".join(
                f"{at:.9f} {fiber.name}: {what}\n" for at, fiber, what in self.trace
            )

    def _session_ends(self, runtime: Runtime) -> None:
        """Called while the tables of a session are still full."""
        if self.keep_log:
            self.sessions.append(event_log(runtime))
            self.stories = [line for task in list(runtime.cluster.tasks.values())[-200:] for line in _story(task)]
        if self.timeline is not None:
            import miniray  # the facade, which has `timeline`

            context.session = runtime  # for the last time
            try:
                miniray.timeline(html=self.timeline)
            except OSError as problem:
                self.unwritten = problem
            finally:
                context.session = None


_run: Run | None = None
_running = _thread.RLock()  # a real one; held during a run, since a process can have only one simulation


@contextlib.contextmanager
def _one_at_a_time(signals: HeldSignals) -> Iterator[None]:
    """Wait until no other thread simulates. From then on signals are held."""
    if replacing.here() is not None:
        raise RuntimeError("a simulation is running already, and this is part of it")
    signals.hold()
    while not _running.acquire(False):
        signals.release()  # Ctrl-C ends the wait
        with _running:
            pass
        signals.hold()
    try:
        yield
    finally:
        _running.release()


@contextlib.contextmanager
def _nothing_printed() -> Iterator[None]:
    """Drop what is written to `sys.stdout` and `sys.stderr`."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _in_the_child() -> None:
    """In a forked child no simulation runs."""
    global _run, _running
    _run, _running = None, _thread.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_the_child)


def _finished(result: Any) -> Any:
    """The result of a function. If it is a coroutine, or another awaitable but not a reference, nothing of it has run
    yet: run it. Raises NotRun for a generator."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise NotRun(
            f"the simulated function returned a generator, {result!r}: its code would run later, outside of the "
            "simulation. Return what it yields, such as list(...)"
        )
    if isinstance(result, Coroutine):
        return asyncio.run(result)
    if inspect.isawaitable(result) and not isinstance(result, ObjectRef):

        async def main() -> Any:
            return await result

        return asyncio.run(main())
    return result


def globals_of(fn: Any) -> dict[str, Any]:
    """The globals of a function, also of one that is wrapped."""
    fn = inspect.unwrap(fn)
    while isinstance(fn, functools.partial):
        fn = inspect.unwrap(fn.func)
    found: dict[str, Any] = getattr(fn, "__globals__", None) or getattr(type(fn).__call__, "__globals__", {})
    return found


def _story(task: Any) -> list[str]:
    return [f"{task.spec.name} ({task.hex[:16]})"] + [f"    {line}" for line in task.story()]


ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")


def event_log(runtime: Runtime) -> str:
    """The events of a session and the story of each task, as text. The same run has the same text.

    The text of an error may name the process, or an object by its address. Both are not the simulation's, so they are
    left out.
    """
    with CoreAccess.locked(runtime) as cluster:  # the runtime's own is a point in a simulation
        lines = [f"{event.at:.9f} {event.kind}: {event.text}" for event in cluster.events]
        for task in cluster.tasks.values():
            lines.extend(_story(task))
        for actor in cluster.actors.values():
            lines += [f"{actor.class_name} ({actor.hex})"] + [f"    {line}" for line in actor.story()]
    text = ADDRESS.sub("0x...", "\n".join(lines))
    return re.sub(rf"(pid[=:] ?){os.getpid()}\b", r"\1...", text) + "\n"


def simulate(fn: Callable[[], Any], seed: int = 0, faults: FaultPlan | None = None) -> Any:
    """Run `fn()` in a simulation of its own, and return what it returns. The same seed gives the same run.

    seed: decides the schedule and all random numbers. faults: see `FaultPlan`. A coroutine that `fn` returns is run by
    `asyncio.run`, inside the simulation. A session that `fn` starts, by itself or
    with `ray.init`, is simulated, and ends with the run. Raises what `fn` raises, DeadlockError when no thread can ever
    go on, RuntimeError if a session is running already, and TypeError or ValueError for a wrong argument. If another
    thread simulates, this waits for it.
    """
    arguments.check_function(fn)
    fault_plan.check_faults(faults)
    seed = arguments.whole_number("seed", seed)
    run = Run(fn, seed, faults=faults).go()
    if run.error is not None:
        raise run.error
    return run.result


def sometimes(condition: Any, name: str) -> bool:
    """Note whether a condition holds that should hold in some runs, though not in all. Returns the condition.

    `explore` counts by name in how many runs it held, so that a test can tell if its seeds never met a situation.
    Raises TypeError for a name that is not a string, and ValueError for an empty one.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a condition must be a string, not {name!r}")
    if not name:
        raise ValueError("the name of a condition must not be empty")
    if _run is not None:
        _run.sometimes[name] = _run.sometimes.get(name, 0) + bool(condition)
    return bool(condition)


def reachable(name: str) -> None:
    """Note that this line was reached: `sometimes(True, name)`."""
    sometimes(True, name)
