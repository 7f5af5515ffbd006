"""Fault plans: faults that strike a simulated program, decided by the seed.

    plan = FaultPlan(crash=0.05, delay=0.2)
    explore(transfer, faults=plan)

Whether a fault strikes depends on the seed and on what it would strike (an attempt of a task, named by its path), and
not on the schedule. So a failure can be shrunk: first the faults, then the schedule.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable

from ... import session
from ...api import remote
from ...core.actions import Action
from ...core.records import NodeRecord, ObjectRecord, TaskRecord, TaskSpec
from ...process.context import current
from ...runtime.runtime import Runtime
from ...runtime.simulated.simulation import Simulation
from .. import faults
from .arguments import KINDS, real_number, seconds


@dataclass(frozen=True)
class FaultPlan:
    """Which faults may strike, each with its probability at every opportunity.

    crash: the worker of an attempt crashes: before its code, after it, or at one of its first calls. fatal: also if
    the task has no retries left, or the actor no restarts. lose_node: when a task begins, its node is lost, unless it
    is the head node; a node like it joins `node_back_s` virtual seconds later. lose_object: every copy of a large value
    is lost after the task that made it has finished. delay: the message of an actor call takes up to `delay_s` seconds,
    so that calls of other callers overtake it; calls of one caller keep their order. slow: an attempt begins up to
    `slow_s` seconds late, as on a slow node. full_store: a `put` of a large value finds the store full. clock_jump:
    when a task begins, the clock jumps by up to `clock_jump_s` seconds.

    at: functions without arguments that make a fault of `testing.faults`, as in `lambda: crash_worker("train",
    attempt=0)`. They are called when a session starts, and are active until it ends. only: the faults that may strike,
    by the names in `ExplorationFailure.struck`; None for all.

    Raises TypeError or ValueError for a probability that is not a number from 0 to 1, for a time span that is negative
    or infinite, and for other wrong values.
    """

    crash: float = 0.0
    fatal: bool = False
    lose_node: float = 0.0
    node_back_s: float = 10.0
    lose_object: float = 0.0
    delay: float = 0.0
    delay_s: float = 1.0
    slow: float = 0.0
    slow_s: float = 1.0
    full_store: float = 0.0
    clock_jump: float = 0.0
    clock_jump_s: float = 60.0
    at: tuple[Callable[[], faults.Fault], ...] = ()
    only: frozenset[str] | None = None

    def __post_init__(self) -> None:
        """Check the arguments. Lists and sets become tuples and frozensets, so that a plan can be hashed."""
        for kind in KINDS:
            object.__setattr__(self, kind, real_number(kind, getattr(self, kind), 0.0, 1.0))
        for name in ("node_back_s", "delay_s", "slow_s", "clock_jump_s"):
            object.__setattr__(self, name, seconds(name, getattr(self, name)))
        if not isinstance(self.fatal, bool):
            raise TypeError(f"fatal must be True or False, not {self.fatal!r}")
        if not isinstance(self.at, (tuple, list)):
            raise TypeError(f"at must be a tuple of functions, not {self.at!r}")
        object.__setattr__(self, "at", tuple(self.at))
        for make in self.at:
            if isinstance(make, faults.Fault) or not callable(make):
                raise TypeError(
                    f"at must have functions that make a fault, as in `lambda: crash_worker('train')`, not {make!r}"
                )
        if self.only is not None:
            if not isinstance(self.only, (frozenset, set, list, tuple)):
                raise TypeError(f"only must be a set of names or None, not {self.only!r}")
            for name in self.only:
                if not isinstance(name, str):
                    raise TypeError(f"only must have names of faults, not {name!r}")
            object.__setattr__(self, "only", frozenset(self.only))

    @property
    def by_chance(self) -> bool:
        """Whether the seed decides what strikes, because a fault has a probability."""
        return any(getattr(self, kind) for kind in KINDS)


def check_faults(plan: Any) -> None:
    """Raise TypeError unless this is a FaultPlan or None."""
    if plan is not None and not isinstance(plan, FaultPlan):
        raise TypeError(f"faults must be a FaultPlan or None, not {plan!r}")


DELAY = "delayed_message"
MOST_STEPS = 6  # a crash in the middle of an attempt strikes at one of its first calls of miniray


@remote(num_cpus=0, max_retries=-1)
def delayed_message(seconds: float) -> None:
    """The time that a message takes."""
    from miniray.process.context import current  # the function travels by value

    execution = current.get()
    assert execution is not None
    execution.runtime.sleep(execution, seconds)


class Active:
    """A plan at work in one simulation. struck: the name of each fault that struck, in order."""

    def __init__(self, plan: FaultPlan, seed: int, simulation: Simulation):
        self.plan, self.seed, self.simulation = plan, seed, simulation
        self.struck: list[str] = []
        self._last_delay: Any = None  # keeps the reference until the call that waits for it has counted it
        self._puts: dict[str, int] = {}
        self._begun: list[faults.Fault] = []
        simulation.faults = self
        session.after_start.append(self._session_starts)
        session.before_end.append(self._session_ends)

    def close(self) -> list[str]:
        """The simulation ends. Returns what struck."""
        session.after_start.remove(self._session_starts)
        session.before_end.remove(self._session_ends)
        self.simulation.faults = None
        return self.struck

    def _session_starts(self, runtime: Runtime) -> None:
        if self.plan.crash:
            self._begun.append(_PlannedCrash(runtime, self).__enter__())
        for make in self.plan.at:
            fault = make()
            if not isinstance(fault, faults.Fault):
                raise TypeError(
                    f"a function in the FaultPlan's `at` must make a fault, but {make!r} returned {fault!r}"
                )
            self._begun.append(fault.__enter__())

    def _session_ends(self, runtime: Runtime) -> None:
        while self._begun:
            fault = self._begun.pop()
            fault.__exit__()
            if not isinstance(fault, _PlannedCrash):
                self.struck += [event.text for event in fault.hits]

    def strikes(self, kind: str, probability: float, about: str) -> random.Random | None:
        """Decide about one opportunity. Returns a source of chance for the details if the fault strikes."""
        if not probability:
            return None
        chance = random.Random(f"fault {self.seed} {kind} {about}")
        name = f"{kind}: {about}"
        if chance.random() >= probability or self.plan.only is not None and name not in self.plan.only:
            return None
        self.struck.append(name)
        return chance

    def about(self, task: TaskRecord) -> str:
        """An attempt of a task, in words that are the same in every schedule."""
        return f"{task.spec.name} ({self.simulation.path_of(task)})"

    # ------------------------------------------------------------ opportunities, called by the simulated runtime

    def task_begins(self, task: TaskRecord, handle: Any) -> None:
        """A worker is about to run an attempt, on this thread."""
        if task.spec.func_name == DELAY:
            return
        plan, baton = self.plan, self.simulation.baton
        about = self.about(task)
        chance = self.strikes("slow", plan.slow, about)
        if chance is not None:
            baton.block(baton.time + chance.random() * plan.slow_s, "a slow node", idle=True)
        chance = self.strikes("clock_jump", plan.clock_jump, about)
        if chance is not None:
            baton.advance_to(baton.time + chance.random() * plan.clock_jump_s)
        node = handle.record.node
        runtime = self.simulation.runtime
        if node is None or node is runtime.head or not self.strikes("lose_node", plan.lose_node, about):
            return
        runtime.tell(self._lose_node, node)

    def _lose_node(self, now: float, node: NodeRecord) -> list[Action]:
        """An event: the node is lost, unless another fault was faster."""
        runtime = self.simulation.runtime
        if not node.alive:
            return []
        self.simulation.baton.start("a new node", self._node_returns, (runtime, node))
        actions: list[Action] = runtime.cluster.remove_node(now, node, "a fault removed it")
        return actions

    def _node_returns(self, runtime: Any, node: Any) -> None:
        baton = self.simulation.baton
        baton.block(baton.time + self.plan.node_back_s, "the time to come back", idle=True)
        if not runtime.closed:
            amounts = {name: units / 10_000 for name, units in node.total.items() if not name.startswith("node:")}
            session.add_node(runtime, amounts, node.store.capacity, dict(node.labels), False)

    def task_reported(self, task: TaskRecord) -> None:
        """A worker has reported an attempt of this task."""
        runtime = self.simulation.runtime
        for index, obj in enumerate(task.returns or ()):
            if obj.locations and self.strikes(
                "lose_object", self.plan.lose_object, f"{self.about(task)} value {index}"
            ):
                runtime.tell(runtime.cluster.lose_object, obj)

    @contextlib.contextmanager
    def around_put(self) -> Iterator[None]:
        """The block stores a value."""
        execution = current.get()
        owner = "driver" if execution is None else self.simulation.path_of(execution.task)
        count = self._puts[owner] = self._puts.get(owner, 0) + 1
        if self.strikes("full_store", self.plan.full_store, f"put {count} of {owner}"):
            with faults.full_store():
                yield
        else:
            yield

    def message_delay(self, spec: TaskSpec) -> ObjectRecord | None:
        """An actor is called. Returns an object for which the call must wait, or None."""
        if not self.plan.delay:
            return None
        about = f"{spec.name} ({self.simulation.next_path(current.get())})"
        chance = self.strikes("delay", self.plan.delay, about)
        if chance is None:
            return None
        self._last_delay = delayed_message.remote(chance.random() * self.plan.delay_s)
        record: ObjectRecord = self._last_delay._record
        return record


class _PlannedCrash(faults._Crash):
    def __init__(self, runtime: Runtime, active: Active):
        super().__init__(runtime, None, None, None, False)
        self._active = active

    def strikes(self, runtime: Runtime, task: TaskRecord) -> bool:
        if runtime is not self.runtime or task.spec.func_name == DELAY:
            return False
        if not self._active.plan.fatal and not _survives_a_crash(task):
            return False
        about = self._active.about(task)
        chance = self._active.strikes("crash", self._active.plan.crash, about)
        if chance is None:
            return False
        moment = chance.random()
        self.after = moment > 0.75
        when = "after" if self.after else "before"
        in_the_middle = moment < 0.5 and (task.actor is None or not task.actor.is_async)
        if in_the_middle:
            steps = chance.randrange(MOST_STEPS)
            when = f"at step {steps + 1} of"
            runtime_: Any = runtime
            runtime_.crash_later(task, task.worker, steps, "SYSTEM_ERROR: a fault made it crash")
        with runtime.lock:
            self.struck(runtime.now(), f"the worker of {about}, {when} its code", task)
        return not in_the_middle


def _survives_a_crash(task: TaskRecord) -> bool:
    """Whether the program's options provide for a crash of this attempt's worker."""
    actor = task.actor
    if actor is None:
        return task.retries_left != 0
    return bool(actor.max_restarts < 0 or actor.restarts < actor.max_restarts)
