"""The simulated runtime: the threaded runtime, with fibers in place of threads and points in front of every event.

It differs from the threaded runtime in three ways. Its threads are fibers of a `Baton`, so one of them runs at a time.
Its locks, inboxes and timers are those of the simulation, so a thread that waits gives the baton away. And before each
event that another thread could notice there is a point, at which the schedule may let another thread go first.

Points are never inside an event: the core's lock is free there, and nothing that the core has ordered is left undone.
"""

from __future__ import annotations

import _thread
from collections import deque
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from random import Random
from typing import Any, Callable, Iterable, Iterator

from ...core.cluster import Cluster
from ...core.records import (
    ACTOR_TASK,
    PENDING,
    ActorRecord,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
    StreamRecord,
    TaskRecord,
    TaskSpec,
    WorkerRecord,
)
from ...core.transitions import WorkerStatus
from ...process.context import Execution, current
from ...process.exits import TaskInterrupt, WorkerExit
from ..handles import WorkerHandle
from ..interrupts import Interrupts
from ..outcomes import Outcome
from ..threaded import ThreadedRuntime
from ..timers import Timers
from ..verbs import Verbs
from ..worker import report, run_attempt
from .baton import Fiber, Outside
from .clocks import EPOCH_S
from .locks import SimInbox, SimLock
from .scarcity import Demand
from .schedules import LateCall, Schedule
from .simulation import Simulation
from .steps import GOES_ON, Step

DEAD = WorkerStatus.DEAD
SCHEDULER = "scheduler"
PUT = Step("puts an object")
LOOKS_AT_TABLES = Step("looks at the session", None, polls=True)
# What an event touches. All other events may concern everything. Workers of one node are interchangeable: it makes no
# difference which of them comes up first, or which of two that become free gets the next task. So these events touch
# nothing; neither does a report, unless there are several nodes. If resources are scarce, however, they decide whose
# turn it is. The order of submissions does make a difference.
FREES = ("worker_started", "blocked", "settled")
TOUCHES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(FREES, ()),
    "create_placement_group": (SCHEDULER,),
    "stream_item": ("streams",),
    "timer": (SCHEDULER,),
}


class SimulatedRuntime(ThreadedRuntime):
    """Carries out the core's actions with the fibers of a simulation. One session of the simulation.

    ends_simulation: the simulation was made for this session and ends with it. why_stuck: why objects will never be
    ready, as text.
    """

    def __init__(self, options: dict[str, Any], dropped: deque[Any], simulation: Simulation):
        super().__init__(options, dropped)
        self.simulation, self.baton = simulation, simulation.baton
        self.now = self.baton.now
        self.epoch = EPOCH_S
        self.trace_seed = Random(f"{simulation.seed} traces").getrandbits(128)
        own: Any = self  # the types of its parts are those of the threaded runtime
        own.allocate_lock = lambda: SimLock(self.baton)
        self.start_thread = self._start_fiber
        self.new_inbox = lambda: SimInbox(self.baton)
        self.timers = Timers(self.timer, self.now, self.allocate_lock, self._start_timers)
        self.interrupts = SimulatedInterrupts(self)
        self.baton.interrupt = self._interrupt
        simulation.runtime = self
        self.before_look = self._look
        self._demand = Demand()
        self.ends_simulation = False
        self.why_stuck: Callable[[list[Any]], str] = lambda objects: ""

    # A wait that can never end is found at once, by the baton. So there is no stuck check.
    stuck = property(lambda self: None, lambda self, check: None)

    # ------------------------------------------------------------ fibers

    def _start_fiber(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        worker, handle = args
        actor = worker.actor
        if actor is None:
            name = f"worker {worker.number}"
        elif actor.in_order or actor.is_async:
            name = f"{actor.class_name} (actor {actor.number})"
        else:  # it has several threads
            name = f"{actor.class_name} (actor {actor.number}, worker {worker.number})"
        fiber = self.baton.start(name, function, args)
        fiber.handle = handle
        if actor is not None and not actor.in_order:
            fiber.memory = ("actor", actor.number)

    def _start_timers(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.baton.start("timers", self.idle_thread, (function, args))

    def idle_thread(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Run a thread of the runtime itself, which a deadlock does not concern."""
        self.baton.current.resumes = GOES_ON
        function(*args)

    def new_loop(self, worker: WorkerRecord, handle: WorkerHandle) -> Any:
        """The AsyncWorker of an async actor's thread."""
        from .async_worker import SimulatedAsyncWorker

        return SimulatedAsyncWorker(self, worker, handle)

    def _serve(self, worker: WorkerRecord, handle: WorkerHandle) -> None:
        next_task = handle.inbox.get
        task = worker.task
        while worker.status is not DEAD:
            if task is None:
                task = next_task()
                if task is None:
                    return
            try:
                self.simulation.task_begins(task, handle)
                # No name for an empty context: it ends here, with what the task has put into it.
                outcome = (Context() if handle.context is None else handle.context).run(run_attempt, self, worker, task)
                self.before_report(task, outcome)
                following = report(self, worker, task, outcome)
                del outcome
                if self.simulation.faults is not None:
                    self.simulation.faults.task_reported(task)
                task = following
            except (TaskInterrupt, WorkerExit):
                task = self._interrupted_late(worker, handle, task)

    def before_report(self, task: TaskRecord, outcome: Outcome) -> None:
        """A point: the task's outcome is about to be reported."""
        touches: list[Any] = [("object", obj.number) for obj in task.returns]
        if outcome.failure is not None or outcome.exit:
            touches += [("failure", obj.number) for obj in task.returns]
        if task.actor is not None and task.spec.options.get("max_pending_calls", -1) != -1:
            touches.append(("actor", task.actor.number))
        known = self.baton.schedule.known
        if "scarce" in known:
            touches.append(SCHEDULER)
        actor = task.actor
        if actor is not None and (outcome.exit or outcome.failure is not None and task is actor.creation):
            touches += [("actor", actor.number), "names"]  # it dies, and its name is free
        for what in known:
            if isinstance(what, LateCall) and (
                what.name == task.spec.name or actor is not None and what.actor == actor.number
            ):
                touches.append(("actor", what.actor))
        self.baton.point(Step(f"reports {task.spec.name}", touches))

    # ------------------------------------------------------------ points in front of events

    def tell(self, event: Callable[..., list[Any]], *args: Any) -> None:
        """Report an event. A point comes first."""
        if self.baton.here() is not None:
            name = event.__name__
            if name == "_owned":
                name = args[1].__name__
            if name != "create_actor":  # it has had one
                touches = (SCHEDULER,) if name in FREES and "scarce" in self.baton.schedule.known else TOUCHES.get(name)
                self.baton.point(Step(name.replace("_", " "), touches))
        super().tell(event, *args)

    def _enter(self, step: Step) -> None:
        """A point: user code calls the runtime. Raises RuntimeError on a thread that takes no part."""
        self.simulation.must_take_part()
        self.baton.point(step, by_user=True)

    @contextmanager
    def locked(self) -> Iterator[Cluster]:
        """A point: the program is about to look at the tables, where everything shows. Then as in every runtime."""
        baton = self.baton
        if baton.here() is not None and baton.current in baton.runnable:  # not for the text of a deadlock
            baton.point(LOOKS_AT_TABLES, by_user=True)
        with super().locked() as cluster:
            yield cluster

    def drain(self) -> None:
        """As in every runtime. No point: the program does not look at anything."""
        with super().locked():
            return

    def submit(
        self, spec: TaskSpec, args: tuple[Any, ...], kwargs: dict[str, Any], actor: ActorRecord | None = None
    ) -> TaskRecord:
        """A point, and then as in every runtime."""
        self._enter(Step(f"calls {spec.name}", [SCHEDULER if actor is None else ("actor", actor.number)]))
        task = super().submit(spec, args, kwargs, actor)
        if actor is None:
            self._asks_for_room(task)
        self.simulation.task_submitted(task, current.get())
        return task

    def _asks_for_room(self, task: TaskRecord) -> None:
        nodes = self.cluster.scheduler.alive
        if len(nodes) > 1 or nodes and self._demand.is_scarce_with(task, nodes[0]):
            self.baton.schedule.learn("scarce")

    def prepare(
        self, spec: TaskSpec, args: tuple[Any, ...], kwargs: dict[str, Any], actor: ActorRecord | None = None
    ) -> TaskRecord:
        """As in every runtime. A fault may delay the message: the call then has one more argument to wait for."""
        task = super().prepare(spec, args, kwargs, actor)
        if actor is not None:
            for dep in task.deps:
                if dep.task is not None:
                    self.baton.schedule.learn(LateCall(dep.task.spec.name, actor.number))
        faults = self.simulation.faults
        if faults is None or actor is None or spec.kind != ACTOR_TASK:
            return task
        delay: ObjectRecord | None = faults.message_delay(spec)
        if delay is None:
            return task
        return TaskRecord(
            spec, task.args, (*task.deps, delay), task.contained, task.parent, task.owner, actor, task.trace
        )

    def create_actor(self, actor: ActorRecord, spec: TaskSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A point, and then as in every runtime."""
        self._enter(Step(f"creates {actor.class_name}", [SCHEDULER, "names"] if actor.name else [SCHEDULER]))
        super().create_actor(actor, spec, args, kwargs)
        self._asks_for_room(actor.creation)
        self.simulation.task_submitted(actor.creation, current.get())

    def add_node(self, *args: Any, **kwargs: Any) -> NodeRecord:
        """A point, unless no other thread runs yet, and then as in every runtime."""
        if len(self.baton.fibers) > 1:
            self.baton.schedule.learn("scarce")
            self._enter(Step("adds a node", [SCHEDULER]))
        return super().add_node(*args, **kwargs)

    def create_placement_group(self, group: PlacementGroupRecord) -> None:
        """As in every runtime. The group waits for room beside all tasks."""
        self.baton.schedule.learn("scarce")
        super().create_placement_group(group)

    def put(self, value: Any) -> ObjectRecord:
        """A point, and then as in every runtime."""
        self._enter(PUT)
        if self.simulation.faults is not None:
            with self.simulation.faults.around_put():
                return super().put(value)
        return super().put(value)

    def get_one(self, obj: ObjectRecord) -> tuple[Any] | None:
        """A point, and then as in every runtime."""
        self._enter(_gets([obj], "callbacks" in self.baton.schedule.known))
        return super().get_one(obj)

    def get(self, objects: list[ObjectRecord], timeout: float | None = None) -> Any:
        """A point, and then as in every runtime."""
        self._enter(_gets(objects, timeout is not None or "callbacks" in self.baton.schedule.known))
        return super().get(objects, timeout)

    def value_of(self, obj: ObjectRecord) -> Any:
        """A point, and then as in every runtime."""
        self._enter(_gets([obj], "callbacks" in self.baton.schedule.known))
        return super().value_of(obj)

    def take_item(self, stream: StreamRecord) -> ObjectRecord | None:
        """A point, and then as in every runtime."""
        self._enter(Step("takes an item", ["streams"]))
        return super().take_item(stream)

    def _look(self, what: str, records: Iterable[Any] = (), polls: bool = False) -> None:
        """A point: the program is about to look at something that another thread may change, or to change it. what:
        "names", "keys", or which of the records are ready."""
        self._enter(Step(f"looks at {what}", _looks_at(list(records), True) if records else [what], polls))

    def wait_for(self, objects: list[Any], need: int, fail_fast: bool, timeout: float | None) -> bool:
        """As in every runtime. Notes what the thread will look at when the wait is over."""
        self.simulation.must_take_part()
        fiber = self.baton.current
        touches = _looks_at(objects, timeout is not None or not fail_fast)
        fiber.resumes = GOES_ON if touches == [] else Step("goes on", touches)
        try:
            return super().wait_for(objects, need, fail_fast, timeout)
        finally:
            fiber.resumes = GOES_ON

    def call_program(self, obj: ObjectRecord, callback: Callable[[], None]) -> None:
        """As in every runtime. The thread that reports calls the function, and meanwhile shares the memory of the one
        that has given it."""
        fiber = self.baton.current
        memory = fiber.memory = fiber.memory or ("fiber", fiber.number)
        self.baton.schedule.learn("callbacks")
        self._look("a reference", [obj], polls=False)
        super().call_program(obj, partial(self._call_back, callback, memory))

    def _call_back(self, callback: Callable[[], None], memory: Any) -> None:
        fiber = self.baton.current
        before, fiber.memory = fiber.memory, memory
        try:
            callback()
        finally:
            fiber.memory = before

    def sleep(self, execution: Execution | None, seconds: float) -> bool:
        """Sleep on the virtual clock."""
        if execution is not None:
            self._enter(Step("sleeps", (), polls=not seconds))
        return super().sleep(execution, seconds)

    # ------------------------------------------------------------ interrupts, deadlocks

    def _interrupt(self, fiber: Fiber) -> None:
        """Raise the first of a fiber's interrupts that is meant for what it runs, and whose time has come."""
        handle = fiber.handle
        for entry in list(fiber.interrupts):
            error, task, steps = entry
            if handle is None or handle.user_task is None or task is not None and task is not handle.user_task:
                fiber.interrupts.remove(entry)
            elif steps:
                entry[2] -= 1
            else:
                fiber.interrupts.remove(entry)
                raise error()

    def crash_later(self, task: TaskRecord, worker: WorkerRecord, steps: int, why: str) -> None:
        """Let the worker of this task, which the calling fiber runs, crash when its code has taken so many steps."""

        def crash() -> BaseException:
            self.crash(worker, why)  # first, so that nothing which the code does on its way out has an effect
            return WorkerExit(why)

        self.baton.current.interrupts.append([crash, task, steps])

    def fiber_of(self, handle: WorkerHandle) -> Fiber | None:
        """The fiber that serves a worker."""
        return next((fiber for fiber in self.baton.fibers.values() if fiber.handle is handle), None)

    def shutdown(self) -> None:
        """End the session, on the virtual clock. How it ends is not explored."""
        schedule, self.baton.schedule = self.baton.schedule, Schedule()
        try:
            super().shutdown()
        finally:
            self.baton.schedule = schedule
            self.baton.interrupt = lambda fiber: None
            self.simulation.runtime = None


class SimulatedInterrupts(Interrupts):
    """Raises exceptions in fibers: out of a wait, or at the next point that user code comes to."""

    def raise_in(self, handle: WorkerHandle, error: type[BaseException], task: TaskRecord | None = None) -> None:
        """Raise `error` in the fiber that runs this worker's user code. Does nothing if no user code runs, if it is
        another task's (task: None for any), or on the fiber itself."""
        runtime: Any = self.runtime
        running = handle.user_task
        if running is None or task is not None and running is not task or handle.ident == _thread.get_ident():
            return
        waiter = handle.waiter
        if waiter is not None:
            handle.interrupted = error()
            if task is not None and task.cancel_requested:
                task.was_interrupted = True
            if not waiter.fired:
                waiter.fired = True
                waiter.token()
            return
        fiber = runtime.fiber_of(handle)
        if fiber is None or handle.loop is not None:
            return
        if fiber.blocked and isinstance(fiber.waiting, (SimLock, Outside)):
            fiber.pending_error = error()
            runtime.baton.wake(fiber)
        else:
            fiber.interrupts.append([error, task, 0])


def _gets(objects: list[ObjectRecord], timed: bool = False) -> Step:
    names = {obj.task.spec.name if obj.task is not None else "an object" for obj in objects[:4]}
    return Step(f"gets {', '.join(sorted(names))}", _looks_at(objects, timed))


def _looks_at(objects: list[Any], at_all: bool) -> list[Any] | None:
    """What a thread that waits for these objects finds out. It waits until all have a value, or one has failed; so the
    order in which values come makes no difference. at_all: it also finds out which of them are ready. None: it may
    concern everything, since one of them is a stream, or becomes ready when a placement group finds room."""
    if len(objects) == 1 and not at_all:
        return []
    if any(type(obj) is not ObjectRecord or obj.task is None and obj.status is PENDING for obj in objects):
        return None
    return [("object" if at_all else "failure", obj.number) for obj in objects]


_complete: type[Verbs] = SimulatedRuntime  # an error for mypy if a verb is missing
