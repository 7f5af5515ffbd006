"""Exploration: run a program under many schedules, and shrink the one that fails.

    explore(transfer, seeds=range(1000))                     random schedules
    explore(transfer, strategy="pct", depth=3)               few, well-chosen interruptions
    explore(transfer, strategy="exhaustive")                 every schedule of a small program

A failure raises ExplorationFailure, which says how to repeat it. To replay it under a debugger, run the command in
`replay`: it runs this one schedule in the main thread, and nothing else.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import signal
import sys
import unittest
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from ...process import signal_handlers
from ...runtime.simulated.schedules import PCT, DepthFirst, Pruned, RandomWalk, Replay, Schedule
from . import arguments, shrinking
from .error_text import attribute_of, of_every_error
from .fault_plan import FaultPlan, check_faults
from .replay_command import FAULTS, REPLAY, name_of, replay_command
from .simulation import MAX_STEPS, MAX_VIRTUAL_S, NotRun, Run

SEEDS, SEEDS_OF_FAULTS = range(1000), range(100)
STORY_STEPS = 60
RUNS_FOR_LENGTH = 3


@dataclass
class Exploration:
    """What an exploration has seen.

    runs: how many runs there were. distinct: how many different schedules. covered: "exhaustive" has seen every
    schedule that can make a difference, with the random numbers of each of its seeds; always False with faults that
    strike with a probability, since other seeds would draw other faults. sometimes: for each name, in how many runs its
    condition held. pruned: runs that "exhaustive" gave up because they could not differ from an earlier one. steps: of
    all runs together.
    """

    runs: int = 0
    distinct: int = 0
    covered: bool = False
    sometimes: dict[str, int] = field(default_factory=dict)
    pruned: int = 0
    steps: int = 0

    @property
    def never(self) -> list[str]:
        """The names of the conditions that held in no run."""
        return [name for name, count in self.sometimes.items() if not count]

    def _count(self, run: Run) -> None:
        self.runs += 1
        self.steps += run.steps
        for name, count in run.sometimes.items():
            self.sometimes[name] = self.sometimes.get(name, 0) + bool(count)


class DidNotRepeat(RuntimeError):
    """A replay has passed, and was not the run that it was to repeat."""


class ExplorationFailure(AssertionError):
    """A run has failed. Its `__cause__` is the error.

    seed, strategy, faults: of the run that failed. schedule: the shrunk list of choices (see `schedules`). replay: a
    shell command that repeats it. story: what the threads did, for people. runs: how many runs it took.
    repeats: False if the failure did not occur again when its schedule was repeated.
    """

    def __init__(
        self,
        run: Run,
        strategy: str,
        choices: list[int],
        replay: str,
        runs: int,
        struck: list[str],
        repeats: bool = True,
    ):
        self.repeats = repeats
        self.seed, self.strategy, self.faults = run.seed, strategy, run.faults
        self.schedule, self.replay, self.runs, self.struck = choices, replay, runs, struck
        self.story = story_of(run)
        self._run = run
        super().__init__(self._text(run))

    def _text(self, run: Run) -> str:
        interruptions = sum(map(bool, self.schedule))
        found = f"{run.error_text}\nfound by run {self.runs} with seed {self.seed}, strategy {self.strategy!r}; "
        if not self.repeats:
            found += (
                "it did not fail again when the same schedule was repeated, so the replay command may pass. The "
                "program depends on something that the simulation does not control, such as a variable that outlives "
                "a run"
            )
        else:
            found += (
                f"the shrunk schedule has {interruptions} "
                f"choice{'s that differ' if interruptions != 1 else ' that differs'} from the calmest one"
            )
        return f"{found}\nreplay: {self.replay}\n{self.story}"

    def timeline(self, path: str) -> None:
        """Replay the failure, and write a timeline page of its last session, in virtual time. Raises OSError if the
        file cannot be written."""
        run = self._run
        again = Run(
            run.fn, run.seed, Replay(self.schedule), run.faults, *run.limits, timeline=path, globals_=run.globals
        )
        problem = again.go().unwritten
        if problem is not None:
            raise problem


def story_of(run: Run) -> str:
    """The last steps of a run, one line for each, and the faults that struck."""
    lines = [f"    {line}" for line in run.struck]
    before = None
    told = run.trace[: run.steps_of_fn]
    steps = told[-STORY_STEPS:]
    if len(steps) < len(told):
        lines.append(f"    ... {len(told) - len(steps)} earlier steps")
    width = max((len(fiber.name) for _, fiber, _ in steps), default=0)
    for at, fiber, what in steps:
        mark = "  " if fiber is before else "->"
        lines.append(f"    {at - 1000.0:10.6f} s {mark} {fiber.name:{width}}  {what}")
        before = fiber
    return "\n".join(lines)


def explore(
    fn: Callable[[], Any],
    seeds: int | Iterable[int] = SEEDS,
    strategy: str = "random",
    faults: FaultPlan | None = None,
    max_steps: int = MAX_STEPS,
    max_virtual_s: float = MAX_VIRTUAL_S,
    *,
    depth: int = 3,
    max_schedules: int = 10_000,
    replay: Callable[[int, Sequence[int], FaultPlan | None], str] | None = None,
    shrink: bool = True,
    quiet: bool = True,
    watchdog_s: float = 10.0,
    globals_: dict[str, Any] | None = None,
) -> Exploration:
    """Run `fn()` once for each seed, each time in a simulation of its own.

    A run fails if `fn` raises an error, which includes SystemExit. Ctrl-C, what the handler of a signal raises, and a
    test that skips itself end the whole exploration, and are raised as they are.

    Args:
        fn: a function without arguments. A coroutine that it returns is run by `asyncio.run`, inside the simulation.
        seeds: one run for each; a number N for range(N). "exhaustive" runs every schedule for each seed. By default it
            takes seed 0 only, and range(100) with faults that strike with a probability.
        strategy: "random": any thread that could go on may. "pct": see `schedules.PCT`. "exhaustive": every schedule.
        faults: faults that may strike, see `FaultPlan`.
        max_steps: a run that takes more steps fails with LimitExceeded.
        max_virtual_s: the same for the seconds on the virtual clock.
        depth: for "pct", how many steps must come in a certain order for the bug to show.
        max_schedules: for "exhaustive", how many runs there may be, with all seeds together.
        replay: makes the shell command that repeats a failure, from its seed, its choices and its faults.
        shrink: after a failure, look for a shorter schedule that fails in the same way.
        quiet: drop what the program prints, to stderr as well.
        watchdog_s: after how many real seconds without a step the watchdog reports; 0 switches it off.
        globals_: the globals in which names of clocks and the like are replaced; by default those of `fn`.

    Raises:
        ExplorationFailure: a run has raised an error, or exceeded a limit.
        DidNotRepeat: a replay command was given, and the program did something else and passed.
        TypeError, ValueError: an argument is wrong, there is no seed, or `fn` returns a generator.
    """
    arguments.check_function(fn)
    check_faults(faults)
    arguments.check_exploration(
        strategy, max_steps, max_virtual_s, depth, max_schedules, replay, shrink, quiet, watchdog_s, globals_
    )
    tried = arguments.seeds_of(seeds)
    found = Exploration()
    again = _to_replay(fn)
    if again is not None:
        seed, choices = again
        if faults is not None and FAULTS in os.environ:
            faults = dataclasses.replace(faults, only=frozenset(filter(None, os.environ[FAULTS].split("|"))))
        check_replay(
            Run(fn, seed, Replay(choices), faults, max_steps, max_virtual_s, watchdog_s=0, globals_=globals_).go()
        )
        found.runs = found.distinct = 1
        return found

    def run_once(seed: int, schedule: Schedule, keep_log: bool = False, plan: FaultPlan | None = faults) -> Run:
        """One run, of the exploration or to shrink a failure. Raises an error that ends the exploration."""
        run = Run(fn, seed, schedule, plan, max_steps, max_virtual_s, keep_log, None, watchdog_s, globals_, quiet).go()
        if run.error is not None and _ends_the_exploration(run.error):
            add_note = attribute_of(run.error, "add_note")  # Python 3.11
            if _interrupts(run.error) and add_note is not None:
                with contextlib.suppress(Exception):  # an error may refuse to be changed
                    add_note(f"raised after {found.runs} runs of explore, with seed {seed}")
            raise run.error
        return run

    def check(run: Run) -> None:
        if run.error is None:
            return
        plan = faults
        if faults is not None and shrink:
            plan = _fewest_faults(run, faults, lambda plan: run_once(run.seed, Replay(run.schedule.taken), plan=plan))
            run = run_once(run.seed, Replay(run.schedule.taken), plan=plan)
        shrunk = run.schedule.taken
        if shrink:
            shrunk = shrinking.shrink(run, lambda choices: run_once(run.seed, Replay(choices), plan=plan))
        last = run_once(run.seed, Replay(shrunk), keep_log=True, plan=plan)
        repeats = last.error is not None
        if not repeats:
            last = run
        command = replay(run.seed, shrunk, plan) if replay is not None else replay_command(fn, run.seed, shrunk, plan)
        failure = ExplorationFailure(last, strategy, shrunk, command, found.runs, last.struck, repeats)
        raise failure from last.error

    digests: set[int] = set()
    if strategy == "exhaustive":
        by_chance = faults is not None and faults.by_chance
        if seeds is SEEDS:
            tried = SEEDS_OF_FAULTS if by_chance else (0,)
        _explore_all(found, digests, tried, run_once, check, max_schedules)
        found.covered &= not by_chance
    else:
        length = pct_length(run_once) if strategy == "pct" else 0
        for seed in tried:
            run = run_once(seed, RandomWalk(seed) if strategy == "random" else PCT(seed, depth, length))
            digests.add(run.digest)
            found._count(run)
            check(run)
    found.distinct = len(digests)
    return found


def pct_length(run_once: Callable[[int, Schedule], Run]) -> int:
    """How many choices a run has, which the strategy "pct" must know: as many as the first of a few random runs that
    passes. These runs are not part of the exploration, and always have the same seeds. So a seed gives the same
    schedule alone and among others.
    """
    lengths = []
    for seed in range(RUNS_FOR_LENGTH):
        run = run_once(seed, RandomWalk(seed))
        if run.error is None:
            return len(run.schedule.taken)
        lengths.append(len(run.schedule.taken))
    return max(lengths)


def _ends_the_exploration(error: BaseException) -> bool:
    """Whether an error concerns more than one run: an interrupt; a test that skips itself or ends the test session; a
    function that cannot be run at all."""
    pytest: Any = sys.modules.get("pytest")
    kinds: list[type[BaseException]] = [NotRun, unittest.SkipTest]
    if pytest is not None:
        kinds += [pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception]
    return issubclass(type(error), tuple(kinds)) or _interrupts(error)


def _interrupts(error: BaseException | None) -> bool:
    """Whether this is Ctrl-C, or the handler of a signal has raised it: the time limit of a test, or SIGTERM in a
    session. Or such an error was being handled when this one was raised, for instance by a `finally` block."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {getattr(getattr(handler, "__func__", handler), "__code__", None) for handler in handlers} - {None}
    codes.add(signal_handlers.EXIT)
    seen: list[int] = []
    while error is not None and id(error) not in seen:
        if issubclass(type(error), KeyboardInterrupt):
            return True
        trace = of_every_error(error, "__traceback__")
        while trace is not None:
            if trace.tb_frame.f_code in codes:
                return True
            trace = trace.tb_next
        seen.append(id(error))
        error = of_every_error(error, "__context__")
    return False


def _fewest_faults(run: Run, faults: FaultPlan, again: Callable[[FaultPlan], Run]) -> FaultPlan:
    """The plan with as few of the faults that struck as are needed for the run to fail in the same way."""
    wanted = shrinking.kind_of(run.error)

    def fails(only: frozenset[str]) -> bool:
        return bool(shrinking.kind_of(again(dataclasses.replace(faults, only=only)).error) == wanted)

    struck = frozenset(run.struck)
    return dataclasses.replace(faults, only=shrinking.fewest(struck, fails)) if fails(struck) else faults


def _explore_all(
    found: Exploration,
    digests: set[int],
    seeds: Iterable[int],
    run_once: Callable[[int, Schedule], Run],
    check: Callable[[Run], None],
    max_schedules: int,
) -> None:
    for seed in seeds:
        search = DepthFirst()
        while not search.done:
            if found.runs + found.pruned >= max_schedules:
                return
            run = run_once(seed, search.next_run())
            if type(run.error) is Pruned:
                found.pruned += 1
            else:
                digests.add(run.digest)
                found._count(run)
                check(run)
            search.finished()
    found.covered = True


def check_replay(run: Run) -> None:
    """Raise what a replay has raised, or DidNotRepeat if it has passed and is not the run that it was to repeat."""
    if run.error is not None:
        raise run.error
    problem = run.schedule.misfit if isinstance(run.schedule, Replay) else ""
    only = run.faults.only if run.faults is not None else None
    missing = sorted(
        name for name in only or () if name.partition(":")[0] in arguments.KINDS and name not in run.struck
    )
    if not problem and missing:
        problem = f"the fault {missing[0]!r} did not strike"
    if problem:
        unset = os.environ.get("PYTHONHASHSEED", "random") == "random"
        raise DidNotRepeat(
            f"the replay passed, but it is not the run that failed: {problem}. The program is not the same, or it "
            "depends on something that the simulation does not control"
            + (", such as the order of a set of strings: PYTHONHASHSEED is not set" if unset else "")
        )


def _to_replay(fn: Any) -> tuple[int, list[int]] | None:
    """The seed and the choices in the environment, if they are meant for this function. Raises ValueError if they
    make no sense."""
    global _meant_for
    value = os.environ.get(REPLAY, "")
    if not value:
        return None
    name, seed, choices = (["", "", *value.rsplit(":", 2)])[-3:]
    try:
        found = int(seed), choices_in(choices)
    except ValueError as problem:
        raise ValueError(
            f"{REPLAY} must have the form NAME:SEED:CHOICES, such as 'transfer:7:0,1', not {value!r} ({problem})"
        ) from None
    if name != name_of(fn):
        if _meant_for is None:
            _meant_for = name
            atexit.register(_say_what_was_not_replayed)
        return None
    _meant_for = ""
    return found


_meant_for: str | None = None  # a function that the environment names, and that has not been explored; "" if it has


def not_replayed() -> str:
    """What to say if a replay was asked for, other functions have been explored, and this one has not; or ""."""
    return f"{REPLAY} names {_meant_for!r}, and no exploration of this function has begun" if _meant_for else ""


def _say_what_was_not_replayed() -> None:
    if not_replayed():
        print(f"miniray: {not_replayed()}", file=sys.__stderr__)


def choices_in(text: str) -> list[int]:
    """The choices of a schedule, such as "0,1". Raises ValueError unless all are whole numbers, at least 0."""
    choices = [int(choice) for choice in text.split(",") if choice.strip()]
    if any(choice < 0 for choice in choices):
        raise ValueError(f"no choice may be negative: {text!r}")
    return choices
