"""A simulation: one run of a program under a seed. It may hold several sessions, one after the other.

A simulation begins on the thread that makes it, the driver, and ends with `close`. Meanwhile the clocks, locks, threads
and random numbers of the standard library belong to it, for the threads that take part (see `replacing`).

Chance. Each task draws its random numbers from a stream of its own, which depends on the seed, on the attempt, and on
the task's *path*: the how-manieth call of which task it is. So a task draws the same numbers in each schedule. An actor
has one stream for its life.
"""

from __future__ import annotations

import gc
import random
import sys
from typing import Any

from ...core.records import TaskRecord
from ...exceptions import DeadlockError
from ...process import context, random_numbers
from ...process.context import NOBODY_WAITS, Execution, current
from ..handles import WorkerHandle
from . import replacing
from .baton import Baton, Fiber
from .deadlock import reasons
from .locks import Turn
from .schedules import Schedule
from .watchdog import Watchdog

COLLECT_EVERY = 20_000  # steps between two runs of the cyclic collector, which is off otherwise


class Simulation:
    """One run. seed: of the random numbers; the schedule has its own.

    paths: the path of each task by number. runtime: of the session that runs. faults: decides which faults strike, see
    `testing.exploring.fault_plan`. watchdog_s: after how many real seconds without a step the watchdog reports.
    """

    def __init__(
        self,
        seed: int,
        schedule: Schedule,
        max_steps: int = 100_000,
        max_virtual_s: float = 86_400.0,
        watchdog_s: float = 10.0,
    ):
        if context.simulation is not None:
            raise RuntimeError("a simulation is running already")
        self.seed = seed
        self.baton = Baton(schedule, max_steps, max_virtual_s)
        self.paths: dict[int, str] = {}
        self._calls: dict[str, int] = {}
        self._streams: dict[str, random.Random] = {}
        self._turns: dict[Any, Turn] = {}  # by the real lock
        self._collect_at = COLLECT_EVERY
        self._collects = gc.isenabled()
        gc.disable()
        self._driver_state = random.getstate()
        random.seed(f"{seed} driver random")
        numpy_random: Any = sys.modules.get("numpy.random")
        self._numpy_state = numpy_random.get_state() if numpy_random is not None else None
        if numpy_random is not None:
            numpy_random.seed(seed % (1 << 32))
        random_numbers.new_seed = self._new_seed
        self.baton.at_step.append(self._collect)
        self.baton.deadlock_errors = self._deadlock_errors
        self.runtime: Any = None
        self.faults: Any = None
        context.simulation = self
        try:
            replacing.install(self)
        except BaseException:  # Ctrl-C, for instance
            self._restore()
            raise
        self.watchdog = Watchdog(self.baton, watchdog_s)

    def close(self) -> None:
        """End the run: end its threads, and restore what was replaced. Called on the driver's thread."""
        if context.simulation is not self:
            return
        try:
            self.baton.close()
        finally:
            self.watchdog.stop()
            self._restore()

    def _restore(self) -> None:
        context.simulation = None
        replacing.uninstall()
        random_numbers.new_seed = lambda: None
        random.setstate(self._driver_state)
        if self._numpy_state is not None:
            sys.modules["numpy.random"].set_state(self._numpy_state)
        if self._collects:
            gc.enable()

    def forked(self) -> None:
        """In a forked child: the simulation no longer holds up the cyclic collector, and it has no more seeds."""
        random_numbers.new_seed = lambda: None
        if self._collects:
            gc.enable()

    def turn(self, lock: Any) -> Any:
        """The turn at a real lock of miniray: see `context.in_turn`."""
        if self.baton.here() is None:
            return NOBODY_WAITS
        return self._turns.setdefault(lock, Turn(self.baton))

    def must_take_part(self) -> None:
        """Raise RuntimeError on a thread that takes no part: the simulation cannot decide when it runs."""
        if self.baton.here() is None:
            raise RuntimeError(
                "a thread that was started before the simulation, or by C code, cannot use a simulated session: "
                "start the thread inside the simulation"
            )

    def must_take_part_to_end(self) -> None:
        """The same, unless the driver's thread has ended: then any thread may end the session."""
        if self.baton.driver.ident in sys._current_frames():
            self.must_take_part()

    def _deadlock_errors(self, stuck: list[Fiber]) -> list[BaseException]:
        return [DeadlockError(reason) for reason in reasons(self.runtime, stuck)]

    def _collect(self) -> None:
        """The cyclic collector runs at certain steps only, since it may drop references."""
        if self.baton.steps >= self._collect_at:
            self._collect_at = self.baton.steps + COLLECT_EVERY
            gc.collect()

    # ------------------------------------------------------------ chance

    def task_submitted(self, task: TaskRecord, execution: Execution | None) -> None:
        """Give a new task its path. execution: of the task that called it."""
        self.paths[task.number] = self.next_path(execution)
        parent = self._path_of_caller(execution)
        self._calls[parent] = self._calls.get(parent, 0) + 1

    def next_path(self, execution: Execution | None) -> str:
        """The path of the next task that this one calls. execution: None for the driver."""
        parent = self._path_of_caller(execution)
        return f"{parent}.{self._calls.get(parent, 0) + 1}"

    def _path_of_caller(self, execution: Execution | None) -> str:
        return "driver" if execution is None else self.paths.get(execution.task.number, "driver")

    def path_of(self, task: TaskRecord) -> str:
        """The path of a task and the number of its attempt."""
        return f"{self.paths.get(task.number, task.number)} attempt {task.attempt}"

    def task_begins(self, task: TaskRecord, handle: WorkerHandle) -> None:
        """A plain task has its own random numbers, though it may share a worker with others."""
        if task.actor is None:
            handle.process.random = handle.process.numpy_random = None
        if self.faults is not None:
            self.faults.task_begins(task, handle)

    def _owner(self) -> str:
        """Whose random numbers the caller draws."""
        execution = current.get()
        if execution is None:
            return self.baton.current.name
        if execution.worker.actor is not None:
            return f"actor {self.path_of(execution.worker.actor.creation)}"
        return self.path_of(execution.task)

    def stream(self) -> random.Random:
        """The caller's stream of random bits, for everything but the module `random`."""
        owner = self._owner()
        if owner not in self._streams:
            self._streams[owner] = random.Random(f"{self.seed} {owner}")
        return self._streams[owner]

    def _new_seed(self) -> int | None:
        """The seed of a new generator of the caller's. None outside of the simulation."""
        return self.stream().getrandbits(32) if self.baton.here() is not None else None
