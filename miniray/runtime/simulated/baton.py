"""The baton: the threads of a simulation, of which one runs at a time.

Theory of operation. A *fiber* is a thread that takes part in the simulation. Each has a *gate*, a real lock on which
its thread sleeps unless it has the baton. The thread that has the baton runs until it comes to a *point* or *blocks*.
At a point the schedule chooses the fiber that goes on. A fiber that blocks is no candidate until somebody calls `wake`,
or until its time has come. To hand over the baton, a thread opens the gate of the other one and sleeps at its own.
Everything in this module is done by the thread that has the baton, so nothing here needs a lock.

Time. The clock stands still while any fiber can go on. When all are blocked, it jumps to the earliest time for which
one of them waits; all fibers that wait for this time can then go on, and the schedule chooses among them.

Deadlock. If all fibers are blocked and none of them waits for a time, nothing will ever happen again. Then each fiber
that waits, except an idle worker, gets a DeadlockError.

The end. `stop` ends a run early: the error is raised in the driver at once, wherever it is. When the run is over,
`close` raises `RunOver` in every fiber that is left, so that its thread ends.
"""

from __future__ import annotations

import _thread
import heapq
import time
from typing import Any, Callable

from ...process.our_code import parks_here
from ..core_lock import core_lock
from .schedules import Schedule
from .steps import GOES_ON, Step

BEGINNING_S = 1_000.0  # on the clock; not 0, which means "not yet" in the records
TRACE_LENGTH = 50_000
CLOCK_READS = 100  # after so many looks at a clock that stands still, or polls, in a row it advances
STILL_STEPS = 10_000  # after so many steps without a jump of the clock it advances as well
RAISE_AGAIN_STEPS = 10_000  # a driver that has caught what ended the run gets it again after so many steps
TICK_S = 0.001  # by this much at each further one
START = Step("begins")
LOOKS_AT_CLOCK = Step("looks at the clock", polls=True)
LOOKS_OUTSIDE = Step("looks outside", ["outside"])
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.0005, 0.02  # between two looks at something outside of the simulation
_real_time, _real_sleep = time.monotonic, time.sleep
_allocate_lock = _thread.allocate_lock
_start_new_thread = _thread.start_new_thread
_get_ident = _thread.get_ident


class RunOver(SystemExit):
    """Raised in a thread that is left when its run is over. `threading` ends a thread silently for a SystemExit."""


class LimitExceeded(BaseException):
    """The run took more steps, or more virtual time, than it may."""


class Outside:
    """A wait for something outside of the simulation: a pipe, a socket, a child process (see `outside`).

    is_ready: looks whether the wait is over, and does not wait itself. foreign: another process may end it. what: for
    people.
    """

    __slots__ = ("is_ready", "foreign", "what")

    def __init__(self, is_ready: Callable[[], bool], foreign: bool, what: str):
        self.is_ready, self.foreign, self.what = is_ready, foreign, what

    def __repr__(self) -> str:
        return self.what


class Fiber:
    """A thread of the simulation. The thread that has the baton writes the slots.

    number: in the order in which the fibers began; 0 is the driver. name: for people. gate: see above. ident: of its
    thread, 0 until it runs. step: what the fiber does when it goes on. blocked: whether it waits. due: the number of
    its wait, for the timers. in_time: whether the last wait ended before its time. is_idle: it waits for work, so a
    deadlock does not concern it. waiting: what it waits for, for people and for `deadlock`. pending_error: an exception
    to raise when it goes on. is_over: its thread ends. interrupts: exceptions for its user code that could not be
    raised yet. handle: the WorkerHandle that it serves. resumes: the step after its wait in `SimLock.acquire`. joiners:
    fibers that wait for its end. memory: a name for the memory that it shares with other fibers, None if with none.
    unwinding: above 0 when RunOver was raised in it, then counted by its locks.
    """

    __slots__ = (
        "number",
        "name",
        "gate",
        "ident",
        "step",
        "blocked",
        "due",
        "in_time",
        "is_idle",
        "waiting",
        "pending_error",
        "is_over",
        "interrupts",
        "handle",
        "resumes",
        "joiners",
        "memory",
        "unwinding",
    )

    def __init__(self, number: int, name: str):
        self.number, self.name = number, name
        self.gate = _allocate_lock()
        self.gate.acquire()
        self.ident = 0
        self.step = START
        self.blocked = self.is_idle = self.is_over = False
        self.in_time = True
        self.due = 0
        self.waiting: Any = None
        self.pending_error: BaseException | None = None
        self.interrupts: list[Any] = []
        self.handle: Any = None
        self.resumes = GOES_ON
        self.joiners: list[Fiber] = []
        self.memory: Any = None
        self.unwinding = 0

    def __repr__(self) -> str:
        return f"Fiber({self.number}, {self.name!r})"


class Baton:
    """The fibers of one run, the clock, and the record of what happened.

    current: the fiber that has the baton. runnable: the fibers that could go on, in the order in which they became able
    to; `current` is one of them unless it is about to block. trace: (time, fiber, what it does) for each step. forked:
    this is the copy of a baton in a forked child, where no fiber runs. cleans_up: the program's function has returned,
    and the driver ends the run. deadlock_errors: returns a DeadlockError
    for each of the fibers that wait forever.
    """

    def __init__(self, schedule: Schedule, max_steps: int = 100_000, max_virtual_s: float = 86_400.0):
        self.schedule = schedule
        self.max_steps, self.max_virtual_s = max_steps, max_virtual_s
        self.time = BEGINNING_S
        self.steps = self.switches = 0
        self.trace: list[tuple[float, Fiber, str]] = []
        self.dropped_steps = 0
        self.digest = 0
        self.locks = 0  # how many locks the program has made
        self.fibers: dict[int, Fiber] = {}
        self._numbers = self._waits = 0
        self._timers: list[tuple[float, int, Fiber]] = []
        self._clock_reads = self._moved_at = 0
        self._urgent: Fiber | None = None
        self._outside: dict[Fiber, Outside] = {}  # who waits for something outside of the simulation, and for what
        self.over = self.forked = self.cleans_up = False
        self._raise_again_at = 0
        self.stopped_by: BaseException | None = None
        self.interrupt: Callable[[Fiber], None] = lambda fiber: None  # raises what is in fiber.interrupts
        self.deadlock_errors: Callable[[list[Fiber]], list[BaseException]] = lambda stuck: [RunOver() for _ in stuck]
        self.at_step: list[Callable[[], None]] = []  # called at each point, before the choice
        driver = self._new_fiber("driver")
        driver.ident = _get_ident()
        self.driver = self.current = driver
        self.runnable: list[Fiber] = [driver]

    # ------------------------------------------------------------ who is here

    def here(self) -> Fiber | None:
        """The fiber of the calling thread; None for a thread that takes no part in the simulation."""
        fiber = self.current
        return fiber if fiber.ident == _get_ident() else None

    def now(self) -> float:
        """The time on the virtual clock."""
        return self.time

    def read_clock(self) -> float:
        """The time, for a program that asks. A loop that does nothing but look at the clock makes it advance."""
        self._clock_reads += 1
        if self._clock_reads > CLOCK_READS:
            self.point(LOOKS_AT_CLOCK)
        return self.time

    # ------------------------------------------------------------ points

    def point(self, step: Step, by_user: bool = False) -> None:
        """The running fiber is about to take a step: let the schedule choose who goes on. Returns when this fiber has
        been chosen.

        by_user: the step was called by user code, in which exceptions may be raised. Raises the exception that was sent
        to the fiber meanwhile.
        """
        if core_lock.locked():  # code that an event calls, such as a test's hook: nobody else may enter now
            return
        fiber = self.current
        for look in self.at_step:
            look()
        fiber.step = step
        if step.polls:
            self._clock_reads += 1
            if self._clock_reads > CLOCK_READS:
                self.advance_to(self.time + TICK_S)
        runnable = self.runnable
        if len(runnable) > 1 or self.schedule.every_step or self._urgent is not None:
            if runnable[0] is not fiber:  # in one step: the handler of a signal may raise between two
                runnable[:] = [fiber, *[other for other in runnable if other is not fiber]]
            chosen = self._take_urgent() or self._choose(True)
            if chosen is not fiber:
                self._hand_over(fiber, chosen)
        self._took(fiber, step)
        if fiber.pending_error is not None:
            self._raise(fiber)
        if by_user and fiber.interrupts:
            self.interrupt(fiber)

    def _choose(self, running: bool) -> Fiber:
        if not self.over:
            try:
                return self.runnable[self.schedule.choose(self.runnable, running)]
            except BaseException as error:
                self.stop(error)
                return self._take_urgent() or self.driver
        if running:  # one after the other
            self.runnable[:] = [*self.runnable[1:], self.runnable[0]]
        return self.runnable[0]

    def _took(self, fiber: Fiber, step: Step) -> None:
        """Record that a fiber takes a step."""
        self.steps += 1
        self.digest = hash((self.digest, fiber.number, step.what))
        if len(self.trace) < TRACE_LENGTH:
            self.trace.append((self.time, fiber, step.what))
        else:
            self.dropped_steps += 1
            if self.dropped_steps >= TRACE_LENGTH // 2:  # keep the last steps
                del self.trace[: TRACE_LENGTH // 2]
                self.dropped_steps = 0
        if not step.polls:
            self._clock_reads = 0
        if self.over:
            self.advance_to(self.time + TICK_S)  # a thread that goes on and on must not hold up the end
            if fiber is self.driver and not self.cleans_up and self.steps >= self._raise_again_at:
                self._raise_again_at = self.steps + RAISE_AGAIN_STEPS
                fiber.pending_error = self.stopped_by
        elif self.steps - self._moved_at > STILL_STEPS and self._timers:
            self.advance_to(self.time + TICK_S)  # a loop without a sleep must not stop the time of all others
        if self.steps > self.max_steps and not self.over:
            self.stop(LimitExceeded(f"the run took more than max_steps={self.max_steps} steps"))

    def _raise(self, fiber: Fiber) -> None:
        error, fiber.pending_error = fiber.pending_error, None
        if type(error) is RunOver:
            fiber.unwinding += 1
        if error is not None:
            raise error

    # ------------------------------------------------------------ blocking

    def block(
        self, until: float | None = None, waiting: Any = None, idle: bool = False, resumes: Step = GOES_ON
    ) -> bool:
        """The running fiber waits until `wake`, or until a time on the clock. Returns False if the time came first.

        waiting: what it waits for. idle: it waits for work. resumes: the step that follows the wait. Raises the
        exception that was sent to the fiber meanwhile.
        """
        fiber = self.current
        for look in self.at_step:
            look()
        if fiber.pending_error is not None:
            self._raise(fiber)
        fiber.blocked, fiber.is_idle, fiber.waiting, fiber.step = True, idle, waiting, resumes
        fiber.in_time = True
        self._waits += 1
        fiber.due = self._waits
        self.runnable.remove(fiber)
        if until is not None:
            heapq.heappush(self._timers, (max(until, self.time), fiber.due, fiber))
        chosen = self._next()
        if chosen is not fiber:
            self._hand_over(fiber, chosen)
        self._took(fiber, resumes)
        if fiber.pending_error is not None:
            self._raise(fiber)
        return fiber.in_time

    def block_outside(
        self, what: Outside, until: float | None = None, idle: bool = False, resumes: Step = LOOKS_OUTSIDE
    ) -> bool:
        """The running fiber waits for something outside of the simulation, or until a time; otherwise as `block`."""
        fiber = self.current
        if not self._outside:
            self.at_step.append(self._look_outside)
        self._outside[fiber] = what
        try:
            return self.block(until, what, idle, resumes)
        finally:
            del self._outside[fiber]
            if not self._outside:
                self.at_step.remove(self._look_outside)

    def waiting_outside(self) -> list[Fiber]:
        """Who waits for something outside of the simulation. May be called by any thread."""
        return list(self._outside)

    def _look_outside(self) -> None:
        """Wake the fibers whose waits for something outside are over."""
        for fiber, what in list(self._outside.items()):
            if fiber.blocked and what.is_ready():
                self.wake(fiber)

    def _wait_outside(self, seconds: float | None) -> None:
        """Nobody can go on: wait on the real clock until something outside is ready, but no longer than this many
        seconds; None for no limit. Does not wait if only threads of the simulation could end the waits, and the time on
        the virtual clock can go on."""
        self._look_outside()
        if seconds is not None and not any(what.foreign for what in self._outside.values()):
            return
        end, pause_s = None if seconds is None else _real_time() + seconds, FIRST_PAUSE_S
        while not self.runnable and self._urgent is None:
            left_s = LONGEST_PAUSE_S if end is None else end - _real_time()
            if left_s <= 0:
                return
            _real_sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            self._look_outside()

    def wake(self, fiber: Fiber) -> None:
        """End a fiber's wait. Does nothing if the fiber does not wait."""
        if fiber.blocked:
            fiber.blocked, fiber.waiting, fiber.due = False, None, 0
            self.runnable.append(fiber)

    def advance_to(self, time: float) -> None:
        """Set the clock forward, and wake every fiber whose time has come. Time never goes back."""
        if time - self.time > TICK_S:
            self._moved_at = self.steps
        self.time = max(self.time, time)
        while self._timers and self._timers[0][0] <= self.time:
            _, due, fiber = heapq.heappop(self._timers)
            if fiber.due == due and fiber.blocked:
                self.wake(fiber)
                fiber.in_time = False
        if self.time - BEGINNING_S > self.max_virtual_s and not self.over:
            self.stop(
                LimitExceeded(f"the run took more than max_virtual_s={self.max_virtual_s:g} seconds of its clock")
            )

    def _next(self) -> Fiber:
        """The fiber that goes on now that the running one does not. Advances the clock if nobody could go on."""
        while not self.runnable and self._urgent is None:
            while self._timers and (self._timers[0][2].due != self._timers[0][1]):
                heapq.heappop(self._timers)  # that wait has ended already
            if self._outside:
                self._wait_outside(self._timers[0][0] - self.time if self._timers else None)
                if self.runnable or self._urgent is not None:
                    break
            if self._timers:
                self.advance_to(self._timers[0][0])
            else:
                self._deadlock()
        return self._take_urgent() or self._choose(False)

    def _deadlock(self) -> None:
        everybody = [fiber for fiber in self.fibers.values() if fiber.blocked]
        stuck = [fiber for fiber in everybody if not fiber.is_idle or fiber is self.driver]
        for fiber, error in zip(stuck, self.deadlock_errors(stuck)):
            fiber.pending_error = fiber.pending_error or error
            self.wake(fiber)

    # ------------------------------------------------------------ handing over

    def _hand_over(self, fiber: Fiber, chosen: Fiber) -> None:
        """Give the baton away, and sleep until it comes back."""
        self.switches += 1
        self.current = chosen
        chosen.gate.release()
        self._sleep(fiber)

    @parks_here
    def _sleep(self, fiber: Fiber) -> None:
        """Sleep until this fiber has the baton. Ctrl-C, which strikes the driver only, makes the driver the next."""
        interrupted = False
        while True:
            try:
                fiber.gate.acquire()
                return
            except BaseException as error:
                if self.current is fiber:  # the baton is on its way, or is here already
                    fiber.gate.acquire(False)
                    fiber.pending_error = error
                    return
                if interrupted:
                    raise
                interrupted = True
                fiber.pending_error = error
                self._urgent = fiber

    def stop(self, error: BaseException) -> None:
        """End the run early: raise an exception in the driver, which goes on before all others."""
        self.over = True
        self.stopped_by = self.driver.pending_error = error
        self._raise_again_at = self.steps + RAISE_AGAIN_STEPS
        self._urgent = self.driver

    def _take_urgent(self) -> Fiber | None:
        """The fiber that must go on before all others, if there is one. It need not wait any longer."""
        fiber, self._urgent = self._urgent, None
        if fiber is not None:
            self.wake(fiber)
        return fiber

    # ------------------------------------------------------------ fibers begin and end

    def _new_fiber(self, name: str) -> Fiber:
        fiber = self.fibers[self._numbers] = Fiber(self._numbers, name)
        self._numbers += 1
        return fiber

    def start(self, name: str, function: Callable[..., object], args: tuple[Any, ...], starter: Any = None) -> Fiber:
        """Start a thread that takes part. It can go on at once, and does so when it is chosen. Raises RuntimeError if
        the system refuses. starter: starts the thread, in place of `_thread.start_new_thread`."""
        fiber = self._new_fiber(name)
        try:
            (starter or _start_new_thread)(self._run, (fiber, function, args))
        except BaseException:
            del self.fibers[fiber.number]
            raise
        self.runnable.append(fiber)
        return fiber

    def _run(self, fiber: Fiber, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        fiber.gate.acquire()
        fiber.ident = _get_ident()
        self._took(fiber, START)
        try:
            if fiber.pending_error is None:
                function(*args)
        except SystemExit:  # RunOver is one
            fiber.pending_error = None
        except BaseException as error:  # a mistake of the runtime: a task's errors do not come to here
            self.stop(error)
        finally:
            self._end(fiber)

    def _end(self, fiber: Fiber) -> None:
        """The thread of a fiber ends: give the baton away for good."""
        fiber.is_over = True
        fiber.handle = None
        for joiner in fiber.joiners:
            self.wake(joiner)
        del self.fibers[fiber.number]
        self.runnable.remove(fiber)
        chosen = self._next()
        self.current = chosen
        chosen.gate.release()

    def join(self, fiber: Fiber, until: float | None = None) -> bool:
        """Wait until a fiber has ended. Returns False if the time came first."""
        while not fiber.is_over:
            fiber.joiners.append(self.current)
            if not self.block(until, fiber):
                return fiber.is_over
        return True

    def close(self) -> None:
        """End every fiber that is left. Called by the driver. A thread that does not end is left behind, asleep."""
        self.over = True
        self.max_steps = self.steps + 10_000
        self._urgent = None
        for fiber in list(self.fibers.values()):
            if fiber is not self.driver:
                fiber.pending_error = RunOver()
                self.wake(fiber)
        for _ in range(1_000):
            if len(self.fibers) == 1:
                break
            for fiber in self.fibers.values():
                if fiber is not self.driver and (fiber.blocked or fiber.pending_error is None):
                    fiber.pending_error = RunOver()
                    self.wake(fiber)
            # The driver goes to the end of the line, and comes back when each other fiber has ended or blocked again.
            driver = self.driver
            driver.step = GOES_ON
            self.runnable[:] = [*[fiber for fiber in self.runnable if fiber is not driver], driver]
            chosen = self.runnable[0]
            if chosen is driver:
                break
            self._hand_over(driver, chosen)
            driver.pending_error = None
