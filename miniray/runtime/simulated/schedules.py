"""Schedules: which of the threads that could go on does so.

A schedule is asked at each point where more than one thread could go on. The candidates come in a fixed order: first
the thread that runs now, if it could go on, then the others in the order in which they became able to. The answer is a
position in this list. `taken` records the answers; a `Replay` of them repeats the run. Position 0 means that no thread
is interrupted, so a list of zeros is the calmest schedule, and zeros at the end of a list may be left out.

This module is pure: it knows neither threads nor clocks. A candidate is any object with `number` (in the order in which
the threads of the run began), `step` (see `steps`), and `memory`, which names the memory that it shares with other
threads, or is None.
"""

from __future__ import annotations

import random
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

from .steps import GOES_ON, Step, independent


class Schedule:
    """Chooses the thread that goes on. This class always lets the running thread go on, and otherwise the first.

    taken: the position of each choice among several candidates. every_step: ask also if there is one candidate only.
    known: what has been learnt about the program: which steps depend on each other, see `DepthFirst`.
    """

    every_step = False
    known: Set[Any] = frozenset()

    def __init__(self) -> None:
        self.taken: list[int] = []

    def choose(self, candidates: Sequence[Any], running: bool) -> int:
        """The position of the candidate that goes on. running: the first candidate is the thread that runs now."""
        position = self.position(candidates, running) if len(candidates) > 1 or self.every_step else 0
        if len(candidates) > 1:
            self.taken.append(position)
        return position

    def learn(self, what: Any) -> None:
        """The run has found out something that `DepthFirst` needs to know."""

    def position(self, candidates: Sequence[Any], running: bool) -> int:
        """What `choose` returns, without the record."""
        return 0


class RandomWalk(Schedule):
    """Each candidate is as likely as any other."""

    def __init__(self, seed: int):
        super().__init__()
        self._random = random.Random(f"schedule {seed}").random

    def position(self, candidates: Sequence[Any], running: bool) -> int:
        """A random position."""
        return int(self._random() * len(candidates))


class Replay(Schedule):
    """Repeats recorded choices, and goes on like `Schedule` when they are used up."""

    def __init__(self, choices: Sequence[int]):
        super().__init__()
        self._left = list(reversed(choices))
        self._misfit = ""

    def position(self, candidates: Sequence[Any], running: bool) -> int:
        """The next recorded position. A position that does not exist becomes the last one that does."""
        if not self._left:
            return 0
        position = self._left.pop()
        if position < len(candidates):
            return position
        self._misfit = self._misfit or (
            f"choice {len(self.taken) + 1} of its schedule is {position}, and only {len(candidates)} threads could go "
            "on there"
        )
        return len(candidates) - 1

    @property
    def misfit(self) -> str:
        """After a run: why it cannot be the run that was recorded. "" if it may be the same."""
        if self._misfit or not any(self._left):
            return self._misfit
        return f"it ended after choice {len(self.taken)}, and its schedule has {len(self._left)} more"


class PCT(Schedule):
    """Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010).

    Each thread gets a random priority, and the candidate with the highest one goes on. At `depth` - 1 random points of
    the run, the thread that runs gets a priority below all others. If a program with n threads and k points has a bug
    of depth d, so a bug that needs d steps to happen in a certain order, one run with this depth finds it with a
    probability of at least 1 / (n * k ** (d - 1)).

    length: how many points a run has, about. A thread that only polls gets the lowest
    priority as well, since otherwise it would run forever.
    """

    def __init__(self, seed: int, depth: int = 3, length: int = 100):
        super().__init__()
        self._random = random.Random(f"pct {seed}")
        self._priorities: dict[int, float] = {}
        self._lowest = 0.0
        self._points = 0
        points = range(max(length, 1))
        self._changes = set(self._random.sample(points, min(depth - 1, len(points))))

    def position(self, candidates: Sequence[Any], running: bool) -> int:
        """The position of the candidate with the highest priority."""
        for candidate in candidates:
            if candidate.number not in self._priorities:
                self._priorities[candidate.number] = 1.0 + self._random.random()
        best = self._best(candidates)
        if self._points in self._changes or candidates[best].step.polls:
            self._lowest -= 1.0
            self._priorities[candidates[best].number] = self._lowest
            best = self._best(candidates)
        self._points += 1
        return best

    def _best(self, candidates: Sequence[Any]) -> int:
        return max(range(len(candidates)), key=lambda at: self._priorities[candidates[at].number])


POLLS_IN_VAIN = 3


class Pruned(SystemExit):
    """Raised in the driver: this schedule differs from an earlier one only in the order of independent steps.

    A SystemExit, because an event loop lets it out of a callback. It would catch most others, and go on.
    """


class LateCall(NamedTuple):
    """Calls of an actor have arguments that tasks of this name return.

    So the report of such a task decides whether calls of other callers overtake. So does the report of a call of this
    actor, which starts the next one that is ready. actor: its number.
    """

    name: str
    actor: int


class _Choice:
    """One point of the current path. options: the step of each candidate, by number. asleep: those whose next step
    need not be tried here, because an earlier path has done it. giving_way: those that have polled in vain. chosen: the
    number of the one that was chosen."""

    __slots__ = ("options", "asleep", "giving_way", "chosen", "forced")

    def __init__(self, options: dict[int, Step], asleep: dict[int, Step], giving_way: Set[int]):
        self.options, self.asleep, self.giving_way = options, asleep, giving_way
        self.chosen = -1
        self.forced = False  # no other candidate needs to be tried


class DepthFirst:
    """All schedules of a program, one after the other, by depth-first search with sleep sets (Godefroid, 1996).

    The program is run again and again. Each run follows the path of the run before up to the last point where another
    candidate is left to be tried. A candidate is *asleep* if its next step was tried at an earlier point of the path
    and nothing that depends on this step has happened since: to do it now would only exchange independent steps.

    A thread that was woken first goes on to its next step, which no other thread can notice. So such a thread is chosen
    without an alternative. This holds as long as no step concerns everything, as `cancel` does: it also strikes a
    thread on its way to the next step.

    The search learns from its runs which steps depend on each other. What it has learnt must hold from the first point
    of a path on: a thread that is asleep since an earlier point would not be woken by the steps that it depends on.
    So whenever the search learns something, it begins again:
    - careful: some step concerns everything.
    - loops: event loops run. They see what several threads report in the order in which it was reported.
    - scarce: the order of submissions and reports decides who gets resources, see `scarcity`.
    - callbacks: a thread that reports a value may call functions of the program before it wakes those that wait for
      the value. So it makes a difference whether a `get` begins to wait before the report.
    - a LateCall: calls of an actor wait for what tasks of a certain name return.

    A loop that polls has schedules without end. So a thread that has polled POLLS_IN_VAIN times, while no other has
    done anything that it looks at, gives way to the others as long as one of them can go on.

    path: the points of the current path. done: every schedule has been seen. gave_way: some thread has given way, so
    there are schedules that were not seen.
    """

    def __init__(self) -> None:
        self.path: list[_Choice] = []
        self.learnt: set[Any] = set()
        self.done = self.restart = self.gave_way = False

    def learn(self, what: Any) -> None:
        """Begin again, unless this is known already. what: see above."""
        self.restart = self.restart or what not in self.learnt
        self.learnt.add(what)

    def next_run(self) -> _DepthFirstRun:
        """The schedule of the next run. Call `finished` after the run."""
        return _DepthFirstRun(self)

    def finished(self) -> None:
        """The run has ended: find the point from which the next run differs, or set `done`."""
        if self.restart:
            self.restart = self.gave_way = False
            self.path.clear()
            return
        while self.path:
            last = self.path[-1]
            last.asleep = {**last.asleep, last.chosen: last.options[last.chosen]}
            if not last.forced:
                left = [n for n in last.options if n not in last.asleep and n not in last.giving_way]
                if left:
                    last.chosen = left[0]
                    return
            self.path.pop()
        self.done = True


class _DepthFirstRun(Schedule):
    every_step = True

    def __init__(self, search: DepthFirst):
        super().__init__()
        self.search = search
        known = self.known = frozenset(search.learnt)
        self._careful, self._loops = "careful" in known, "loops" in known
        self._at = 0
        self._polled: dict[int, int] = {}  # how often each thread has polled in vain
        self._looks_at: dict[int, Step] = {}  # with this step
        self._asleep: dict[int, Step] = {}  # at the point that comes next

    def learn(self, what: Any) -> None:
        self.search.learn(what)

    def position(self, candidates: Sequence[Any], running: bool) -> int:
        search = self.search
        for candidate in candidates:
            touches = candidate.step.touches
            if touches is None:
                search.learn("careful")
            elif "loops" in touches:
                search.learn("loops")
        if search.restart:
            raise Pruned
        options = {candidate.number: self._full_step(candidate) for candidate in candidates}
        if self._at < len(search.path):
            choice = search.path[self._at]
            if choice.options.keys() != options.keys():
                raise RuntimeError(
                    "the program did not repeat itself: it depends on something that the simulation does not control"
                )
        else:
            tired = {number for number in options if self._polled.get(number, 0) >= POLLS_IN_VAIN}
            choice = _Choice(options, self._asleep, tired if len(tired) < len(options) else frozenset())
            search.gave_way = search.gave_way or bool(choice.giving_way)
            awake = [n for n in options if n not in choice.asleep and n not in choice.giving_way]
            if not awake:
                raise Pruned
            local = [number for number in awake if options[number] is GOES_ON]
            choice.forced = bool(local) and not self._careful
            choice.chosen = local[0] if choice.forced else awake[0]
            search.path.append(choice)
        self._at += 1
        step = options[choice.chosen]
        self._asleep = {
            number: asleep
            for number, asleep in choice.asleep.items()
            if number != choice.chosen and independent(asleep, step)
        }
        position = [candidate.number for candidate in candidates].index(choice.chosen)
        self._count_polls(choice.chosen, step, candidates[position].step.polls)
        return position

    def _count_polls(self, number: int, step: Step, polls: bool) -> None:
        """A thread takes a step, which may end the waits of those that poll."""
        if polls:
            self._polled[number] = self._polled.get(number, 0) + 1
            self._looks_at[number] = step
            return
        for other in list(self._polled):
            if other == number or not independent(self._looks_at[other], step):
                del self._polled[other]

    def _full_step(self, candidate: Any) -> Step:
        """A candidate's step. Threads that share memory may notice each other's every step."""
        step: Step = candidate.step
        touches = step.touches
        if touches is None:
            return step
        more: list[Any] = []
        if candidate.memory is not None:
            more.append(("memory", candidate.memory))
        if self._loops and touches:
            more.append("loops")
        return Step(step.what, [*touches, *more]) if more else step
