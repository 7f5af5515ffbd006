"""Random programs on a cluster that changes under them. Every invariant is checked after every event.

    python -m tests.core.random_events --seed 7 --events 5000    replay one seed; prints the end of the log if it fails
    python -m tests.core.random_events --seeds 1000              search

A seed gives the same events and the same actions every time: the random generator is passed in, and neither this module
nor the core uses another.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys

from miniray.core.actor_manager import NameTaken
from miniray.core.records import (
    READY,
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    FAILED,
    NORMAL_TASK,
    ActorRecord,
    Failure,
    ObjectRecord,
    PlacementGroupRecord,
    SchedulingClass,
    TaskRecord,
    TaskSpec,
    units,
)
from miniray.core.transitions import ActorStatus, WorkerStatus
from tests.core.fake_runtime import THERE, Program
from tests.core.random_cluster import LARGE, SMALL, RandomCluster
from tests.core.the_end import OVER, end

DEAD = WorkerStatus.DEAD
MANY_TASKS, MANY_REFS, MANY_ACTORS, MANY_GROUPS = 16, 24, 6, 3
STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
RESOURCES = (
    {"CPU": 1},
    {"CPU": 1},
    {"CPU": 1},
    {"CPU": 0.5},
    {"CPU": 2},
    {},
    {"GPU": 1},
    {"GPU": 0.5, "CPU": 1},
    {"CPU": 1, "fast": 1},
    {"CPU": 4},
)
LIKELY = {
    "carry_out": 60,
    "worker_starts": 40,
    "finish": 40,
    "resume": 30,
    "submit": 20,
    "call": 14,
    "drop": 14,
    "get": 16,
    "put": 2,
    "fail": 4,
    "crash": 1,
    "cancel": 1.5,
    "lose_patience": 6,
    "create_actor": 1.5,
    "kill_actor": 0.5,
    "exit_actor": 0.5,
    "look_up": 1,
    "yield_item": 14,
    "take_item": 14,
    "give_up": 3,
    "block": 5,
    "file_is_done": 12,
    "lose_object": 2,
    "add_node": 1,
    "remove_node": 0.5,
    "create_group": 0.7,
    "remove_group": 0.5,
    "await_group": 0.5,
    "timer": 2,
}


class RandomEvents(RandomCluster):
    """Random programs on a random cluster: the code of the driver and of its tasks does by chance whatever a program
    can do."""

    def __init__(self, chance: random.Random):
        super().__init__(chance)
        self.submitted = 0  # how many tasks in all, including constructors
        self.names = list(LIKELY)
        # Each seed has its own preferences, so that somewhere one rare step meets another.
        self.weights = [weight * chance.choice((0.3, 1, 1, 3)) for weight in LIKELY.values()]

    def run(self, events: int) -> None:
        """Make this many steps. The invariants are checked after each step that reported an event."""
        for _ in range(events):
            self.runtime.now += self.chance.choice((0.0, 0.001, 0.1))
            told = len(self.runtime.log)
            while not getattr(self, self.chance.choices(self.names, self.weights)[0])():
                continue
            if len(self.runtime.log) > told:
                self.check()

    # ------------------------------------------------------------ who acts, and on what

    def someone(self) -> Program:
        """The driver, or a task whose code is running."""
        running = [program for program in self.runtime.programs.values() if self.runs(program)]
        return self.chance.choice(running) if running and self.chance.random() < 0.5 else self.runtime.driver

    def runs(self, program: Program) -> bool:
        """Whether the program's code is running: it is neither waiting nor getting its arguments."""
        return program.entered and not program.waits

    def a_program(self) -> Program | None:
        """An attempt whose code is running, perhaps one whose report will no longer count."""
        running = [program for program in self.runtime.programs.values() if self.runs(program)]
        return self.chance.choice(running) if running else None

    def objects_of(self, program: Program) -> list[ObjectRecord]:
        """The references to values that the program holds."""
        return [obj for obj in program.refs if obj.actor is None]

    def arguments_of(self, program: Program, most: int) -> tuple:
        """Some of the program's references to values, as arguments of a call. Few are errors, which fail a call at
        once."""
        return self.some(
            [obj for obj in self.objects_of(program) if obj.status is not FAILED or self.chance.random() < 0.1], most
        )

    def handles_of(self, program: Program) -> list[ObjectRecord]:
        """The handles of actors that the program holds."""
        return [obj for obj in program.refs if obj.actor is not None]

    def some(self, things: list, most: int) -> tuple:
        """At most this many of them, chosen at random; the same one may be chosen twice."""
        return tuple(self.chance.choice(things) for _ in range(self.chance.randint(0, most))) if things else ()

    def size(self) -> int:
        """The size of a value in bytes."""
        return self.chance.choice((SMALL, LARGE))

    def scheduling_class(self, hold: dict | None = None) -> SchedulingClass:
        """A demand with a strategy. hold: what is held, if that differs from the demand."""
        need = units(self.chance.choice(RESOURCES))
        strategy: tuple = ("DEFAULT",)
        kind = self.chance.random()
        if kind < 0.15:
            strategy = ("SPREAD",)
        elif kind < 0.25:
            node = self.chance.choice(list(self.cluster.nodes.values()))
            strategy = ("NODE_AFFINITY", node.hex, self.chance.random() < 0.5)
        elif kind < 0.3:
            strategy = ("NODE_LABEL", (("zone", "in", ("a",)),), ())
        elif kind < 0.45 and self.groups:
            group = self.chance.choice(self.groups)
            strategy = ("PLACEMENT_GROUP", group.number, self.chance.choice((-1, 0)))
            need = units({"CPU": 1})
        selector = (("zone", "not_in", ("b",)),) if self.chance.random() < 0.05 else ()
        return self.cluster.scheduler.scheduling_class(need, need if hold is None else hold, strategy, selector)

    # ------------------------------------------------------------ tasks

    def submit(self) -> bool:
        """`.remote()` of a function."""
        program, chance = self.someone(), self.chance
        if self.submitted_now() > MANY_TASKS:
            return False
        num_returns = chance.choice((1, 1, 1, 1, 0, 3, "streaming", "streaming", "dynamic"))
        spec = TaskSpec(
            NORMAL_TASK,
            "f",
            "f",
            scheduling_class=self.scheduling_class(),
            num_returns=num_returns,
            max_retries=chance.choice((0, 1, 3, -1)),
            backpressure=chance.choice((-1, -1, 2)),
        )
        task = TaskRecord(
            spec, ("args",), self.arguments_of(program, 3), self.some(program.refs, 2), program.hex, program.worker
        )
        self.runtime.tell(self.cluster.submit_task, task)
        self.returned(program, task)
        return True

    def submitted_now(self) -> int:
        """How many tasks are not over."""
        return sum(task.status not in OVER for task in self.cluster.tasks.values())

    def returned(self, program: Program, task: TaskRecord) -> None:
        """The caller gets what `.remote()` returns."""
        self.submitted += 1
        program.refs.extend(task.returns if task.stream is None else task.returns[:1])
        if task.stream is not None:
            program.streams.append(task.stream)

    def finish(self) -> bool:
        """A task returns."""
        program = self.a_program()
        if program is None:
            return False
        task, chance = program.task, self.chance
        if task.spec.streams:
            self.runtime.report(program, (None if chance.random() < 0.5 else "the end",), (0,), None)
            return True
        count = len(task.returns)
        contained = tuple(self.some(program.refs, 2) for _ in range(count)) if chance.random() < 0.5 else None
        values = tuple(
            Failure("TASK_EXECUTION_EXCEPTION", "not to be stored")
            if contained and chance.random() < 0.05
            else f"value {task.number}.{index} of attempt {program.attempt}"
            for index in range(count)
        )
        self.runtime.report(program, values, tuple(self.size() for _ in range(count)), contained)
        return True

    def fail(self) -> bool:
        """A task raises. An interrupted one mostly raises the interrupt."""
        program = self.a_program()
        if program is None or program.task.spec.kind == ACTOR_CREATION_TASK and self.chance.random() < 0.8:
            return False
        if program.interrupted and self.chance.random() < 0.8:
            program.task.was_interrupted = True
            self.runtime.report_failure(program, Failure("TASK_CANCELLED", "it was cancelled"), retry=False)
        else:
            self.runtime.report_failure(
                program, Failure("TASK_EXECUTION_EXCEPTION", "it raised"), self.chance.random() < 0.5
            )
        return True

    def crash(self) -> bool:
        """A worker's thread ends, sometimes that of an idle worker."""
        living = [
            worker
            for worker in self.cluster.workers.values()
            if worker.status is not DEAD and worker not in self.runtime.starting
        ]
        busy = [worker for worker in living if worker.task is not None]
        if not living:
            return False
        worker = self.chance.choice(busy if busy and self.chance.random() < 0.8 else living)
        self.runtime.worker_died(worker, Failure("WORKER_DIED", "it crashed", about=worker))
        return True

    def cancel(self) -> bool:
        """`cancel` of a task to which somebody holds a reference."""
        known = [obj for obj in self.someone().refs if obj.task is not None]
        if known:
            task = self.chance.choice(known).task
            force = self.chance.random() < 0.4 and task.spec.kind == NORMAL_TASK
            self.runtime.tell(self.cluster.cancel, task, force, self.chance.random() < 0.5)
        return bool(known)

    def lose_patience(self) -> bool:
        """Infeasible tasks would fill the queues, so the oldest one is cancelled, or its actor killed."""
        for wanted in self.cluster.scheduler.infeasible:
            for task in wanted.queue:
                if task.status not in OVER:
                    if task.actor is None:
                        self.runtime.tell(self.cluster.cancel, task, False, False)
                    else:
                        self.runtime.tell(self.cluster.kill_actor, task.actor)
                    return True
        return False

    def yield_item(self) -> bool:
        """A generator yields, and waits for its consumer if its back-pressure asks for that."""
        yielding = [p for p in self.runtime.programs.values() if self.runs(p) and p.task.spec.streams]
        if not yielding:
            return False
        program = self.chance.choice(yielding)
        task = program.task
        if len(task.stream.items) > 12:
            return False
        self.runtime.tell(
            self.cluster.stream_item,
            program.worker,
            task,
            f"item {len(task.stream.items)} of {task.number}",
            self.size(),
            self.some(program.refs, 1),
        )
        if self.cluster.task_manager.is_current(program.worker, task):
            self.runtime.wait_for_consumer(program)
        return True

    def take_item(self) -> bool:
        """A consumer takes the next item of a stream, or waits for it."""
        program = self.someone()
        if not program.streams:
            return False
        stream = self.chance.choice(program.streams)
        if stream.taken < len(stream.items):
            program.refs.append(self.runtime.tell(self.cluster.take_item, stream))
        elif stream.ended:
            self.runtime.drop(program, stream)
        elif len(self.runtime.driver.waits) < 4:
            self.runtime.wait(program, [stream], 1, fail_fast=False, timed=self.chance.random() < 0.3)
        else:
            return False
        return True

    # ------------------------------------------------------------ references

    def drop(self) -> bool:
        """A program drops some of its references."""
        program = self.someone()
        if len(program.refs) + len(program.streams) < self.chance.randint(1, 12):
            return False
        for _ in range(self.chance.choice((1, 1, 2, 5 if len(program.refs) < MANY_REFS else len(program.refs) // 2))):
            if program.refs or program.streams:
                self.runtime.drop(program, self.chance.choice(program.refs + program.streams))
        if self.chance.random() < 0.7:
            self.runtime.tell(self.cluster.settled)
        return True

    def put(self) -> bool:
        """`put` of a value, sometimes with references inside."""
        program, head = self.someone(), self.cluster.scheduler.alive[0]
        obj = ObjectRecord(0, owner=program.worker, status=READY)
        obj.value, obj.contained = "a value that was put", self.some(program.refs, 2)
        here = program.worker is not None and program.worker.node.alive
        self.runtime.tell(self.cluster.put, obj, self.size(), program.worker.node if here else head)
        program.refs.append(obj)
        return True

    def get(self) -> bool:
        """`get`, or `wait` for some of several."""
        program, chance = self.someone(), self.chance
        objects = self.objects_of(program)
        if not objects or len(program.waits) > 3:
            return False
        objects = list(self.some(objects, 3)) or [objects[0]]
        pending = [obj for obj in objects if obj.status not in THERE]
        if any(obj.status is FAILED for obj in objects):
            return False
        if pending:
            fail_fast = chance.random() < 0.7
            self.runtime.wait(
                program,
                pending,
                len(pending) if fail_fast else chance.randint(1, len(pending)),
                fail_fast,
                chance.random() < 0.3,
                lend=chance.random() < 0.5,
            )
            return True
        for obj in objects:
            if obj.status in THERE:  # reading one object may have made another one lost
                self.runtime.take(program, obj)
        return True

    def block(self) -> bool:
        """A task has waited for a while: its worker lends its CPU."""
        waiting = [
            wait
            for _, wait in self.runtime.waiting.values()
            if wait.lender is not None and wait.lender.status is WorkerStatus.LEASED
        ]
        if waiting:
            self.runtime.tell(self.cluster.blocked, self.chance.choice(waiting).lender)
        return bool(waiting)

    def resume(self) -> bool:
        """A program that was woken resumes."""
        woken = [pair for pair in self.runtime.waiting.values() if pair[1].woken]
        if woken:
            self.runtime.stop_waiting(*self.chance.choice(woken))
        return bool(woken)

    def give_up(self) -> bool:
        """The timeout of a wait is over."""
        late = [pair for pair in self.runtime.waiting.values() if pair[1].timed and not pair[1].woken]
        if late:
            self.runtime.stop_waiting(*self.chance.choice(late))
        return bool(late)

    # ------------------------------------------------------------ actors

    def create_actor(self) -> bool:
        """`.remote()` of an actor class."""
        program, chance = self.someone(), self.chance
        if sum(actor.status is not ActorStatus.DEAD for actor in self.cluster.actors.values()) >= MANY_ACTORS:
            return False
        is_async = chance.random() < 0.25
        groups = chance.choice(({"": 1}, {"": 1}, {"": 2}, {"": 1, "io": 2}))
        actor = ActorRecord(
            "A",
            name=chance.choice(("", "", "n1", "n2")),
            detached=chance.random() < 0.1,
            max_restarts=chance.choice((0, 0, 1, 2, -1)),
            options={"max_task_retries": chance.choice((0, 1, -1))},
            groups=groups,
            is_async=is_async,
            owner=program.worker,
        )
        wanted = self.scheduling_class({} if chance.random() < 0.6 else None)
        creation = TaskRecord(
            TaskSpec(ACTOR_CREATION_TASK, "A.__init__", "A.__init__", scheduling_class=wanted, num_returns=0),
            ("args",),
            self.arguments_of(program, 1),
            self.some(program.refs, 1),
            program.hex,
            program.worker,
        )
        creation.actor = actor
        try:
            self.runtime.tell(self.cluster.create_actor, actor, creation)
        except NameTaken:  # references that were dropped before the call take effect with the next event
            self.runtime.tell(self.cluster.settled)
            return True
        self.submitted += 1
        program.refs.append(actor.handle)
        return True

    def call(self) -> bool:
        """`.remote()` of a method."""
        program, chance = self.someone(), self.chance
        handles = self.handles_of(program)
        if not handles or self.submitted_now() > MANY_TASKS:
            return False
        actor = chance.choice(handles).actor
        spec = TaskSpec(
            ACTOR_TASK,
            "A.m",
            "A.m",
            num_returns=chance.choice((1, 1, 1, 0, 2, "streaming")),
            max_retries=actor.options["max_task_retries"],
            group=chance.choice(list(actor.groups)),
            backpressure=chance.choice((-1, 2)),
        )
        task = TaskRecord(
            spec,
            ("args",),
            self.arguments_of(program, 2),
            self.some(program.refs, 2),
            program.hex,
            program.worker,
            actor,
        )
        self.runtime.tell(self.cluster.submit_actor_task, task)
        self.returned(program, task)
        return True

    def kill_actor(self) -> bool:
        """`kill`."""
        handles = self.handles_of(self.someone())
        if handles:
            self.runtime.tell(self.cluster.kill_actor, self.chance.choice(handles).actor, self.chance.random() < 0.5)
        return bool(handles)

    def exit_actor(self) -> bool:
        """An actor ends itself in one of its calls."""
        program = self.a_program()
        inside = program is not None and program.worker.actor is not None
        if inside:
            self.runtime.actor_exits(program, self.chance.random() < 0.4)
        return inside

    def look_up(self) -> bool:
        """One more handle, found by the actor's name: a weak one by `get_actor`, another one by get_if_exists."""
        actor = self.cluster.actor_manager.find(self.chance.choice(("n1", "n2")), "")
        if actor is not None and self.chance.random() < 0.5:
            self.runtime.hold(self.someone(), (actor.handle,))
        elif actor is not None:
            self.someone().refs.append(self.cluster.add_weak_reference(self.runtime.now, actor))
        return actor is not None

    # ------------------------------------------------------------ placement groups

    def create_group(self) -> bool:
        """`placement_group`."""
        program, chance = self.someone(), self.chance
        if len(self.groups) >= MANY_GROUPS:
            return False
        bundles = [
            units(chance.choice(({"CPU": 1}, {"CPU": 2}, {"CPU": 1, "GPU": 1}))) for _ in range(chance.randint(1, 3))
        ]
        group = PlacementGroupRecord(bundles, chance.choice(STRATEGIES), owner=program.worker)
        self.runtime.tell(self.cluster.create_placement_group, group)
        self.groups.append(group)
        group.ready.value = "placed" if group.ready.value is None else group.ready.value
        program.refs.append(group.ready)
        return True

    def await_group(self) -> bool:
        """`group.ready()`: one more reference to the object that becomes ready with the group."""
        if not self.groups:
            return False
        group = self.chance.choice(self.groups)
        self.someone().refs.append(self.runtime.tell(self.cluster.placement_group_ready, group, "placed"))
        return True


def play(seed: int, events: int) -> RandomEvents:
    """Play one seed to its end. A failure is raised with the last lines of the log and the command that replays it."""
    game = RandomEvents(random.Random(seed))
    try:
        game.run(events)
        end(game)
    except Exception as problem:
        last = "\n".join(game.runtime.log[-40:])
        raise AssertionError(
            f"{last}\n{type(problem).__name__}: {problem}\nreplay: python -m tests.core.random_events "
            f"--seed {seed} --events {events}"
        ) from problem
    return game


def digest(game: RandomEvents) -> str:
    """A short text that differs whenever an event or an action of the run differs."""
    return hashlib.sha256("\n".join(game.runtime.log).encode()).hexdigest()


def main(arguments: list[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.core.random_events", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="play this seed")
    parser.add_argument("--seeds", type=int, default=20, help="play the seeds 0 to N-1")
    parser.add_argument("--events", type=int, default=5_000, help="how many events a seed has")
    options = parser.parse_args(arguments)
    for seed in range(options.seeds) if options.seed is None else [options.seed]:
        print(seed, digest(play(seed, options.events)))


if __name__ == "__main__":
    main(sys.argv[1:])
