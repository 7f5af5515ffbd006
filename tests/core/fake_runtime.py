"""A runtime without threads: it notes the actions that the core asks for, and carries out each one when it is told to.

It keeps its own account of everything that a program holds (references, streams, waits), so that the core's counts can
be compared with an independent count. A race between threads is an order of calls here: actions may be carried out
late, and reports may come from workers that are dead already.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque

from miniray.core import actions as act
from miniray.core.cluster import Cluster
from miniray.core.invariants import require
from miniray.core.records import (
    ACTOR_CREATION_TASK,
    DROPPED,
    FAILED,
    LOST,
    PENDING,
    READY,
    SPILLED,
    ActorRecord,
    Failure,
    ObjectRecord,
    StreamRecord,
    TaskRecord,
    Waiter,
    WorkerRecord,
)
from miniray.core.transitions import WorkerStatus

DEAD, THERE = WorkerStatus.DEAD, (READY, FAILED, SPILLED)


class File:
    """The file of a spilled value."""

    def __init__(self, value: object):
        self.value = value

    def __repr__(self) -> str:
        return f"File({self.value})"


TYPES = {READY: str, FAILED: Failure, SPILLED: File}  # the type of an object's value, by the object's status


class Wait:
    """A program in get or wait. It holds a reference to each of `objects` until it returns. then: what the program does
    next."""

    def __init__(self, waiter: Waiter, objects: list, lender: WorkerRecord | None, timed: bool, then):
        self.waiter, self.objects, self.lender, self.timed, self.then = waiter, objects, lender, timed, then
        self.woken = False


class Program:
    """User code: the driver, or one attempt of a task. refs, streams: what it holds, with one entry for each
    reference."""

    def __init__(self, worker: WorkerRecord | None = None, task: TaskRecord | None = None):
        self.worker, self.task = worker, task
        self.refs: list[ObjectRecord] = []
        self.streams: list[StreamRecord] = []
        self.waits: list[Wait] = []
        self.attempt = task.attempt if task is not None else 0
        self.entered = self.interrupted = False

    @property
    def hex(self) -> str:
        """The task's id, as its children know their parent."""
        return self.task.hex if self.task is not None else "driver"

    def __repr__(self) -> str:
        return f"{self.worker!r} in {self.task!r}" if self.task is not None else "driver"


class FakeRuntime:
    """Reports events to the core, and keeps the actions that follow until `carry_out`."""

    def __init__(self, record_limit: int = 100_000):
        self.cluster = Cluster(record_limit)
        self.now = 1.0
        self.log: list[str] = []
        self.driver = Program()
        self.programs: dict[tuple[int, int], Program] = {}  # the attempts that are running, by worker and task number
        self.outbox: deque[deque] = deque()  # the actions of one event each; other events may come in between
        self.starting: list[WorkerRecord] = []
        self.spills: list[tuple[ObjectRecord, object]] = []
        self.reads: list[tuple[ObjectRecord, File]] = []
        self.timers: list[float] = []
        self.dropped: deque = deque()
        self.said: list[str] = []
        self.waiting: dict[int, tuple[Program, Wait]] = {}  # by token
        self._token = 0

    # ------------------------------------------------------------ events in, actions out

    def tell(self, event, *args) -> list:
        """Report an event to the core, after the references that the program has dropped, as every runtime does."""
        self.log.append(f"{self.now:.3f} {event.__name__} {', '.join(text_of(arg) for arg in args)}")
        if self.dropped:
            self.log.insert(-1, f"{self.now:.3f} the program dropped {text_of(list(self.dropped))}")
            self.cluster.references_dropped(self.now, self.dropped)
        actions = event(self.now, *args)
        # The first text is for an event that raises; this one shows the records as the event has left them.
        self.log[-1] = f"{self.now:.3f} {event.__name__} {', '.join(text_of(arg) for arg in args)}"
        result = None
        if type(actions) is tuple:
            result, actions = actions
        if actions:
            self.log.append("    " + ", ".join(text_of(action) for action in actions))
            self.outbox.append(deque(actions))
        self.cluster.references.take_freed()
        return actions if result is None else result

    def carry_out(self, index: int = 0) -> None:
        """Carry out all actions of one event: by default of the oldest."""
        batch = self.outbox[index]
        del self.outbox[index]
        for action in batch:
            getattr(self, "_" + type(action).__name__)(action)

    def _StartWorker(self, action: act.StartWorker) -> None:
        self.starting.append(action.worker)

    def _RunTask(self, action: act.RunTask) -> None:
        if action.worker.status is not DEAD:
            self.begin(action.worker, action.task)

    def _StopWorker(self, action: act.StopWorker) -> None:
        require(not self.runs_in(action.worker), action.worker, "is stopped while it runs something")

    def _KillWorker(self, action: act.KillWorker) -> None:
        for program in self.runs_in(action.worker):
            for wait in program.waits:
                wait.waiter.fired = wait.woken = True

    def _InterruptTask(self, action: act.InterruptTask) -> None:
        program = self.programs.get((action.worker.number, action.task.number))
        if program is not None and program.entered:
            program.interrupted = True
            for wait in program.waits:
                action.task.was_interrupted = True
                wait.waiter.fired = wait.woken = True

    def _InterruptWait(self, action: act.InterruptWait) -> None:
        program = self.programs.get((action.worker.number, action.task.number))
        for wait in program.waits if program is not None else ():
            wait.waiter.fired = wait.woken = True

    def _Wake(self, action: act.Wake) -> None:
        if action.waiter.token in self.waiting:
            self.waiting[action.waiter.token][1].woken = True

    def _DropValues(self, action: act.DropValues) -> None:
        require(DROPPED not in action.values, action, "drops a value that was dropped before")

    def _SpillObject(self, action: act.SpillObject) -> None:
        self.spills.append((action.object, action.object.value))

    def _CallLater(self, action: act.CallLater) -> None:
        heapq.heappush(self.timers, action.at)

    def _Say(self, action: act.Say) -> None:
        self.said.append(action.text)

    # ------------------------------------------------------------ workers

    def runs_in(self, worker: WorkerRecord) -> list[Program]:
        """The attempts that the worker's thread is running. Only an async actor runs several."""
        return [program for program in self.programs.values() if program.worker is worker]

    def worker_started(self, worker: WorkerRecord) -> None:
        """A worker's thread has started: it takes its first task from its record."""
        self.starting.remove(worker)
        self.tell(self.cluster.worker_started, worker)
        if worker.status is not DEAD and worker.task is not None:
            self.begin(worker, worker.task)

    def begin(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """A worker's thread takes a task. The references inside the arguments now belong to the task's code as well."""
        is_async = worker.actor is not None and worker.actor.is_async and task.spec.kind != ACTOR_CREATION_TASK
        require(
            is_async or not self.runs_in(worker), worker, "is given {} while it runs {}", task, self.runs_in(worker)
        )
        program = self.programs[worker.number, task.number] = Program(worker, task)
        self.hold(program, task.contained)
        self.enter(program)

    def enter(self, program: Program) -> None:
        """Get the values of the arguments, and then enter the user's function. If an argument is an error, raise it."""
        worker, task = program.worker, program.task
        if not self.cluster.task_manager.is_current(worker, task) or task.t_finished:
            program.entered = True
            return
        missing = [dep for dep in task.deps if dep.status not in THERE]
        if missing and task.spec.kind != ACTOR_CREATION_TASK:
            del self.programs[worker.number, task.number]
            self.tell(self.cluster.arguments_lost, worker, task)
            self._next(program)
            return
        if missing:
            self.wait(program, missing, len(missing), fail_fast=True, then=self.enter)
            return
        for dep in task.deps:
            if dep.status is FAILED:
                self.report_failure(program, Failure(dep.value.error_type, cause=dep.value, about=task), retry=False)
                return
            self.take(program, dep)
        program.entered = True
        task.t_started = self.now

    def report(self, program: Program, values: tuple, sizes: tuple, contained: tuple | None) -> None:
        """An attempt returned."""
        worker, task, cluster = self._over(program)
        if cluster.task_manager.is_current(worker, task):
            for obj, value in zip(task.returns, values):
                if obj.status is PENDING or obj.status is LOST:
                    obj.value = value
            self.tell(cluster.task_finished, worker, task, sizes, contained)
        else:
            self._ignored(cluster.task_finished, worker, task, sizes, contained)
        self._next(program)

    def report_failure(self, program: Program, failure: Failure, retry: bool) -> None:
        """An attempt raised."""
        worker, task, cluster = self._over(program)
        if cluster.task_manager.is_current(worker, task):
            self.tell(cluster.task_failed, worker, task, failure, retry)
        else:
            self._ignored(cluster.task_failed, worker, task, failure, retry)
        self._next(program)

    def worker_died(self, worker: WorkerRecord, failure: Failure) -> None:
        """A worker's thread ends in the middle of whatever it runs."""
        programs = self.runs_in(worker)
        self.tell(self.cluster.worker_died, worker, failure)
        for program in programs:
            self._end(program)

    def actor_exits(self, program: Program, error: bool) -> None:
        """An actor ends itself. error: the end counts as an error."""
        self.tell(self.cluster.actor_exited, program.worker, program.task, "it exited", error)
        self._end(program)

    def _over(self, program: Program) -> tuple:
        del self.programs[program.worker.number, program.task.number]
        if (
            not program.task.t_finished
            and self.cluster.task_manager.is_current(program.worker, program.task)
            and program.entered
        ):
            program.task.t_ended = self.now
        return program.worker, program.task, self.cluster

    def _ignored(self, event, worker: WorkerRecord, task: TaskRecord, *args) -> None:
        """Report late: the worker is dead, or the attempt is not the current one. The report must change nothing."""
        if self.dropped:  # this may end the task's actor, for example: that is not an effect of the report
            self.tell(self.cluster.settled)
        before = repr(task), repr(worker), task.attempt
        self.tell(event, worker, task, *args)
        require(before == (repr(task), repr(worker), task.attempt), task, "was {} before a late report", before)

    def _next(self, program: Program) -> None:
        worker = program.worker
        self.drop_all(program)
        if worker.status is DEAD or worker.actor is not None and worker.actor.is_async:
            return
        if worker.task is not None:
            self.begin(worker, worker.task)

    def _end(self, program: Program) -> None:
        self.programs.pop((program.worker.number, program.task.number), None)
        for wait in list(program.waits):
            self.stop_waiting(program, wait, go_on=False)
        self.drop_all(program)

    # ------------------------------------------------------------ references

    def hold(self, program: Program, records) -> None:
        """The program gets one more reference to each record."""
        for record in records:
            record.refs += 1
            program.refs.append(record)

    def drop(self, program: Program, record) -> None:
        """The program drops a reference. The core is told with the next event."""
        (program.streams if type(record) is StreamRecord else program.refs).remove(record)
        self.dropped.append(record)

    def drop_all(self, program: Program) -> None:
        """The program is over: drop everything that it holds."""
        self.dropped.extend(program.refs)
        self.dropped.extend(program.streams)
        program.refs, program.streams = [], []

    def references(self) -> Counter:
        """How many references the programs hold to each object."""
        held: Counter = Counter(self.driver.refs)
        for program in self.programs.values():
            held.update(program.refs)
        for _, wait in self.waiting.values():
            held.update(obj for obj in wait.objects if type(obj) is ObjectRecord)
        held.update(obj for obj in self.dropped if type(obj) is ObjectRecord)
        return held

    # ------------------------------------------------------------ waiting

    def wait(
        self,
        program: Program,
        objects: list,
        need: int,
        fail_fast: bool,
        timed: bool = False,
        lend: bool = True,
        then=None,
    ) -> Wait:
        """The program waits in get or wait. then: what it does when it resumes."""
        worker = program.worker
        lender = worker if worker is not None and worker.actor is None else None
        self._token += 1
        wait = Wait(Waiter(need, self._token, fail_fast), objects, lender, timed, then)
        wait.waiter.timed = timed
        for obj in objects:
            obj.refs += 1
        program.waits.append(wait)
        self.waiting[self._token] = program, wait
        self.tell(self.cluster.wait_for, wait.waiter, objects, lender if lend else None)
        wait.woken = worker is not None and worker.status is DEAD  # the end of a worker ends its waits
        return wait

    def wait_for_consumer(self, program: Program) -> None:
        """A generator waits for its consumer if its back-pressure asks for that."""
        stream, limit = program.task.stream, program.task.spec.backpressure
        if limit < 0 or not stream.refs or len(stream.items) - stream.taken < limit:
            return
        if program.interrupted or program.worker.status is DEAD:  # the program will raise instead of waiting
            return
        self._token += 1
        worker = program.worker
        wait = Wait(Waiter(1, self._token), [], worker if worker.actor is None else None, False, self.wait_for_consumer)
        program.waits.append(wait)
        self.waiting[self._token] = program, wait
        self.tell(self.cluster.producer_waits, stream, wait.waiter, worker)

    def stop_waiting(self, program: Program, wait: Wait, go_on: bool = True) -> None:
        """A wait is over: it was woken, or its time ran out."""
        program.waits.remove(wait)
        del self.waiting[wait.waiter.token]
        if wait.objects:
            self.tell(self.cluster.stop_waiting, wait.waiter, wait.objects, wait.lender)
        elif wait.lender is not None:
            self.tell(self.cluster.unblocked, wait.lender)
        self.dropped.extend(wait.objects)
        if go_on and wait.then is not None:
            wait.then(program)

    # ------------------------------------------------------------ files

    def spilled(self, obj: ObjectRecord, value: object, well: bool) -> None:
        """The file of a value has been written, or could not be (well is False)."""
        self.spills.remove((obj, value))
        self.tell(self.cluster.settled)
        if not well:
            self.tell(self.cluster.spill_failed, obj, "no space left on the device")
        elif obj.value is value and self.cluster.store.spilling_node(obj) is not None:
            obj.value = File(value)
            self.tell(self.cluster.object_spilled, obj)

    def take(self, program: Program, obj: ObjectRecord) -> None:
        """The program reads the value and gets references to the records inside it. A value in a file is read back
        later."""
        self.value_of(obj)
        self.hold(program, obj.contained)
        node = program.worker.node if program.worker is not None else self.cluster.scheduler.alive[0]
        if obj.status is SPILLED:
            self.tell(self.cluster.make_room, next(iter(obj.locations.values())), obj.size)
            self.reads.append((obj, obj.value))
        elif obj.locations is not None:
            self.tell(self.cluster.object_used, obj, node)

    def read(self, obj: ObjectRecord, file: File, well: bool) -> None:
        """The file of a value has been read, or could not be (well is False)."""
        self.reads.remove((obj, file))
        self.tell(self.cluster.settled)
        if obj.value is not file:
            return  # another thread was faster, or the value is gone
        if not well:
            self.tell(self.cluster.lose_object, obj)
            return
        self.tell(self.cluster.object_restored, obj)
        if obj.status is READY:
            obj.value = file.value

    def value_of(self, obj: ObjectRecord) -> None:
        """Check that the value of an object has the type that its status demands."""
        # The object of an actor's handle holds no value, and neither does the one that marks the end of a stream.
        none = obj.actor is not None or obj.task is not None and obj.task.stream is not None
        require(
            type(obj.value) is TYPES[obj.status] or obj.value is None and none, obj, "has the value {!r}", obj.value
        )


def text_of(thing: object) -> str:
    """How the log shows an argument. The text is the same in every run, whatever the addresses of objects are."""
    if type(thing) is act.Wake:
        return f"Wake({thing.waiter.token})"
    if type(thing) is Waiter:
        return f"Waiter({thing.token})"
    if type(thing) is StreamRecord:
        return f"Stream({thing.task.number})"
    if type(thing) in (list, tuple):
        return "[" + ", ".join(text_of(one) for one in thing) + "]"
    if type(thing) is ActorRecord:
        return f"{thing!r}.{thing.restarts}"
    return repr(thing)
