"""Exploration: run a program under many schedules, and shrink the one that fails.

    explore(transfer, seeds=range(1000))                     random schedules
    explore(transfer, strategy="pct", depth=3)               few, well-chosen interruptions
    explore(transfer, strategy="exhaustive")                 every schedule of a small program

A failure raises ExplorationFailure, which says how to repeat it. To replay it under a debugger, run the command in
`replay`: it runs this one schedule in the main thread, and nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from ..runtime.simulated.schedules import PCT, DepthFirst, Pruned, RandomWalk, Replay, Schedule
from . import shrinking
from .fault_plan import FaultPlan
from .simulation import MAX_STEPS, MAX_VIRTUAL_S, Run

REPLAY, FAULTS = "MINIRAY_REPLAY", "MINIRAY_REPLAY_FAULTS"
STRATEGIES = ("random", "pct", "exhaustive")
STORY_STEPS = 60


@dataclass
class Exploration:
    """What an exploration has seen.

    runs: how many runs there were. distinct: how many different schedules. covered: "exhaustive" has seen every
    schedule that can make a difference. sometimes: for each name, in how many runs its condition held. pruned: runs
    that "exhaustive" gave up because they could not differ from an earlier one. steps: of all runs together.
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


class ExplorationFailure(AssertionError):
    """A run has failed. Its `__cause__` is the error.

    seed, strategy, faults: of the run that failed. schedule: the shrunk list of choices (see `schedules`). replay: a
    shell command that repeats it. story: what the threads did, for people. runs: how many runs it took.
    """

    def __init__(self, run: Run, strategy: str, choices: list[int], replay: str, runs: int, struck: list[str]):
        self.seed, self.strategy, self.faults = run.seed, strategy, run.faults
        self.schedule, self.replay, self.runs, self.struck = choices, replay, runs, struck
        self.story = story_of(run)
        self._run = run
        super().__init__(self._text(run))

    def _text(self, run: Run) -> str:
        error = run.error
        interruptions = sum(map(bool, self.schedule))
        return (
            f"{type(error).__name__}: {error}\n"
            f"found by run {self.runs} with seed {self.seed}, strategy {self.strategy!r}; the shrunk schedule has "
            f"{interruptions} choice{'s' if interruptions != 1 else ''} that differ from the calmest one\n"
            f"replay: {self.replay}\n{self.story}"
        )

    def timeline(self, path: str) -> None:
        """Replay the failure, and write a timeline page of its last session, in virtual time."""
        run = self._run
        Run(run.fn, run.seed, Replay(self.schedule), run.faults, *run.limits, timeline=path, globals_=run.globals).go()


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
    seeds: Iterable[int] = range(1000),
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

    Args:
        seeds: one run for each. "exhaustive" uses only the first, for the random numbers.
        strategy: "random": any thread that could go on may. "pct": see `schedules.PCT`. "exhaustive": every schedule.
        faults: faults that may strike, see `FaultPlan`.
        max_steps: a run that takes more steps fails with LimitExceeded.
        max_virtual_s: the same for the seconds on the virtual clock.
        depth: for "pct", how many steps must come in a certain order for the bug to show.
        max_schedules: for "exhaustive", how many runs there may be.
        replay: makes the shell command that repeats a failure, from its seed, its choices and its faults.
        shrink: after a failure, look for a shorter schedule that fails in the same way.
        quiet: drop what the program prints.
        watchdog_s: after how many real seconds without a step the watchdog reports; 0 switches it off.
        globals_: the globals in which names of clocks and the like are replaced; by default those of `fn`.

    Raises:
        ExplorationFailure: a run has raised an error, or exceeded a limit.
        ValueError: the strategy is unknown.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(map(repr, STRATEGIES))}, not {strategy!r}")
    found = Exploration()
    again = _to_replay(fn)
    if again is not None:
        seed, choices = again
        if faults is not None and FAULTS in os.environ:
            faults = dataclasses.replace(faults, only=frozenset(filter(None, os.environ[FAULTS].split("|"))))
        _raise(Run(fn, seed, Replay(choices), faults, max_steps, max_virtual_s, watchdog_s=0, globals_=globals_).go())
        found.runs = found.distinct = 1
        return found

    def run_once(seed: int, schedule: Schedule, keep_log: bool = False, plan: FaultPlan | None = faults) -> Run:
        run = Run(fn, seed, schedule, plan, max_steps, max_virtual_s, keep_log, None, watchdog_s, globals_)
        with contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext():
            return run.go()

    def check(run: Run) -> None:
        if run.error is None:
            return
        if not isinstance(run.error, Exception) and type(run.error).__module__.split(".")[0] != "miniray":
            raise run.error  # Ctrl-C, or the end of the program
        plan = faults
        if faults is not None and shrink:
            plan = _fewest_faults(run, faults, lambda plan: run_once(run.seed, Replay(run.schedule.taken), plan=plan))
            run = run_once(run.seed, Replay(run.schedule.taken), plan=plan)
        shrunk = run.schedule.taken
        if shrink:
            shrunk = shrinking.shrink(run, lambda choices: run_once(run.seed, Replay(choices), plan=plan))
        last = run_once(run.seed, Replay(shrunk), keep_log=True, plan=plan)
        if last.error is None:  # the program does not repeat itself
            last = run
        command = replay(run.seed, shrunk, plan) if replay is not None else replay_command(fn, run.seed, shrunk, plan)
        failure = ExplorationFailure(last, strategy, shrunk, command, found.runs, last.struck)
        raise failure from last.error

    digests: set[int] = set()
    if strategy == "exhaustive":
        _explore_all(found, digests, next(iter(seeds), 0), run_once, check, max_schedules)
    else:
        length = 100
        for seed in seeds:
            run = run_once(seed, RandomWalk(seed) if strategy == "random" else PCT(seed, depth, length))
            length = len(run.schedule.taken)
            digests.add(run.digest)
            found._count(run)
            check(run)
    found.distinct = len(digests)
    return found


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
    seed: int,
    run_once: Callable[[int, Schedule], Run],
    check: Callable[[Run], None],
    max_schedules: int,
) -> None:
    search = DepthFirst()
    while not search.done and found.runs + found.pruned < max_schedules:
        run = run_once(seed, search.next_run())
        if isinstance(run.error, Pruned):
            found.pruned += 1
        else:
            digests.add(run.digest)
            found._count(run)
            check(run)
        search.finished()
    found.covered = search.done


def _raise(run: Run) -> None:
    if run.error is not None:
        raise run.error


def name_of(fn: Any) -> str:
    """A function's name in a replay command."""
    return str(getattr(fn, "__qualname__", type(fn).__name__))


def replay_command(fn: Any, seed: int, choices: Sequence[int], faults: FaultPlan | None = None) -> str:
    """The shell command that repeats a run: this process's own command, with a variable that `explore` reads."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    words = ["python", "-m", "pytest", test] if test else ["python", *_own_arguments()]
    hash_seed = os.environ.get("PYTHONHASHSEED")
    variables = [f"PYTHONHASHSEED={hash_seed}"] if hash_seed else []
    if faults is not None and faults.only is not None:
        variables.append(f"{FAULTS}={shlex.quote('|'.join(sorted(faults.only)))}")
    value = f"{name_of(fn)}:{seed}:{','.join(map(str, choices))}"
    return " ".join([*variables, f"{REPLAY}={shlex.quote(value)}", *map(shlex.quote, words)])


def _own_arguments() -> list[str]:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None:
        return ["-m", spec.name.removesuffix(".__main__"), *sys.argv[1:]]
    return list(sys.argv)


def _to_replay(fn: Any) -> tuple[int, list[int]] | None:
    """The seed and the choices in the environment, if they are meant for this function."""
    value = os.environ.get(REPLAY, "")
    name, _, rest = value.rpartition(":")[0].rpartition(":")[0], 0, value
    if not value or name != name_of(fn):
        return None
    _, seed, choices = rest.rsplit(":", 2)
    return int(seed), [int(choice) for choice in choices.split(",") if choice]
