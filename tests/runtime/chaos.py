"""Chaos: three programs on four nodes, while a seeded plan kills workers and nodes and loses values.

    python -m tests.runtime.chaos --seed 7             one seed, told strike by strike
    python -m tests.runtime.chaos --seeds 200          all of them, as `make chaos N=200` does
    python -m tests.runtime.chaos --seeds 200 --foreign    as `make chaos N=200 FOREIGN=1` does: with foreign code

Foreign code: finalisers, callbacks of weak references and signal handlers call the API at every moment (traps.py).

A seed fixes what strikes and after which event of the core. After each event the core's invariants are checked
(`--every N`: after every Nth, and always after a strike). At the end every result is compared with what plain Python
gives, every attempt must be explained by the event log, and nothing may be left: no resource, no reference, no file, no
thread, no descriptor.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import gc
import math
import os
import random
import sys
import threading
import time
from collections import deque
from typing import Any, Callable

import miniray as ray
from miniray.cluster_utils import Cluster as Nodes
from miniray.core import records
from miniray.core.cluster import Cluster
from miniray.core.invariants import check
from miniray.core.records import READY, SPILLED, Failure, units
from miniray.core.transitions import ActorStatus, TaskStatus, WorkerStatus
from miniray.process import context, our_code
from miniray.runtime.core_lock import core_lock
from tests.runtime import chaos_notes as notes
from tests.runtime import traps
from tests.runtime.several_nodes import Threads

LARGE = bytes(120_000)  # makes a value large enough for the object stores
STORE = 1_500_000  # capacity of each in bytes: a dozen such values, so that some must be spilled
PATIENCE_S = 60  # longer than any seed takes; ten times as long while foreign code calls the API
MANY_EVENTS = 1_000_000  # lines of the event log: foreign code makes many
STRETCH, STRIKES = 2, 2  # with foreign code: so many times as many events, or more, and so many times as many strikes
OVER = (TaskStatus.FINISHED, TaskStatus.FAILED)
EVENTS = [
    name
    for name in vars(Cluster)
    if not name.startswith("_")
    and name
    in (
        "worker_started worker_died blocked unblocked submit_task task_finished task_failed stream_item cancel timer "
        "create_actor submit_actor_task kill_actor actor_exited put wait_for stop_waiting settled object_spilled "
        "spill_failed object_restored make_room lose_object create_placement_group remove_placement_group add_node "
        "remove_node"
    ).split()
]


# ---------------------------------------------------------------- the programs


@ray.remote(max_retries=-1, num_returns=4)
def map_words(text: str) -> list:
    """The words of a text with their counts, in four parts by their first letter."""
    notes.enter()
    parts: list[collections.Counter] = [collections.Counter() for _ in range(4)]
    for word in text.split():
        parts[ord(word[0]) % 4][word] += 1
    return [(dict(part), LARGE) for part in parts]


@ray.remote(max_retries=-1)
def reduce_words(*parts: tuple) -> dict:
    """All counts of one part, added up."""
    notes.enter()
    total: collections.Counter = collections.Counter()
    for counts, _ in parts:
        total.update(counts)
    return dict(total)


@ray.remote(max_retries=-1)
def merge(refs: list) -> dict:
    """All parts in one. It waits inside, and lends its CPU meanwhile. A part may be lost and rebuilt while it waits."""
    notes.enter()
    total: dict = {}
    for part in ray.get([add_nothing.remote(ref) for ref in refs]):
        total.update(part)
    return total


@ray.remote(max_retries=-1)
def add_nothing(part: dict) -> dict:
    """A task inside a task: its owner is a worker, and may die before it."""
    notes.enter()
    return part


@ray.remote(max_retries=-1)
def step(number: int, payload: tuple) -> tuple:
    """One link of the chain; every tenth is a large value."""
    notes.enter()
    before, _ = payload
    return before + number, LARGE if number % 10 == 0 else b""


@ray.remote(max_retries=-1)
def gradient(parameters: tuple, shard: int) -> tuple:
    """The gradient that one worker of the parameter server computes."""
    notes.enter()
    values, _ = parameters
    return [(value * (shard + 3) + shard) % 1009 for value in values], LARGE


@ray.remote(max_restarts=-1, max_task_retries=-1)
class Server:
    """A parameter server that restarts from its checkpoints and does nothing twice.

    The thread of a worker that was declared dead may go on for a moment, for instance if the collector has just called
    a finaliser there. So two workers may write the same checkpoint, which is always the same.
    """

    def __init__(self, run: int):
        notes.enter()
        self.rounds = notes.disk.setdefault(run, {0: [1, 2, 3, 4, 5]})

    def apply(self, number: int, *gradients: tuple) -> tuple:
        """Round `number`: add the gradients. A round that was done before is answered from the checkpoint."""
        notes.enter()
        if number not in self.rounds:
            self.rounds[number] = added(self.rounds[number - 1], [values for values, _ in gradients])
        return self.rounds[number], LARGE


def added(values: list, gradients: list) -> list:
    """One step of the parameters."""
    return [(value + sum(column)) % 10_007 for value, column in zip(values, zip(*gradients))]


class Sizes:
    """How large the programs are."""

    def __init__(self, texts: int = 8, links: int = 1000, rounds: int = 30, strikes: int = 14, workers: int = 3):
        self.texts, self.links, self.rounds, self.strikes, self.shards = texts, links, rounds, strikes, workers


SMALL = Sizes(texts=4, links=60, rounds=6, strikes=8)


def texts_of(chance: random.Random, count: int) -> list[str]:
    """Texts of random words."""
    return [" ".join("".join(chance.choices("abcdefgh", k=2)) for _ in range(200)) for _ in range(count)]


def start(seed: int, sizes: Sizes, texts: list[str]) -> tuple:
    """Submit everything. Returns references to the words, the end of the chain, and the last parameters."""
    parts = [map_words.remote(text) for text in texts]
    words = merge.remote([reduce_words.remote(*[part[n] for part in parts]) for n in range(4)])
    link: Any = (0, b"")
    for number in range(1, sizes.links + 1):
        link = step.remote(number, link)
    server = Server.remote(seed)
    parameters = server.apply.remote(0)
    for number in range(1, sizes.rounds + 1):
        parameters = server.apply.remote(number, *[gradient.remote(parameters, shard) for shard in range(sizes.shards)])
    return words, link, parameters


def expected(sizes: Sizes, texts: list[str]) -> tuple:
    """The expected results."""
    values = [1, 2, 3, 4, 5]
    for _ in range(sizes.rounds):
        values = added(
            values, [[(value * (shard + 3) + shard) % 1009 for value in values] for shard in range(sizes.shards)]
        )
    return dict(collections.Counter(" ".join(texts).split())), sizes.links * (sizes.links + 1) // 2, values


# ---------------------------------------------------------------- the plan


def under_the_lock(function: Callable) -> Callable:
    """Decorator: the function is called under the core's lock. It counts as ours, so that signals are postponed."""

    @our_code.stands_in
    def call(*args: Any) -> Any:
        before, core_lock.owner = core_lock.owner, threading.get_ident()
        try:
            return function(*args)
        finally:
            core_lock.owner = before

    return call


class Ended(deque):
    """The finished tasks of a history, oldest first. by_number: the same, and those that have left it."""

    def __init__(self, finished: deque[records.TaskRecord]):
        super().__init__(finished)
        self.by_number = {task.number: task for task in finished}

    def append(self, task: records.TaskRecord) -> None:
        """A task has ended."""
        self.by_number[task.number] = task
        super().append(task)


class Striker:
    """Called at the end of every event of a cluster: strikes if the plan says so, and checks the invariants."""

    def __init__(self, runtime: Any, plan: dict[int, tuple[str, float]], every: int, tell: Callable[[str], None]):
        self.runtime, self.cluster, self.plan, self.every, self.tell = runtime, runtime.cluster, plan, every, tell
        self.events = 0
        self.struck: list[str] = []
        self.problem: BaseException | None = None
        # Opened once, under the core's lock. An Event has a lock of its own, which the driver may hold while it waits:
        # in a simulation, a thread that has the core's lock must not wait for it.
        self._rest = threading.Lock()
        self._rest.acquire()
        self._has_come_to_rest = False
        self._due: tuple[str, float] | None = None
        self._inside = False
        for name in EVENTS:
            setattr(self.cluster, name, self._around(getattr(self.cluster, name)))
        self.cluster.after_event.append(self._after_event)
        self._is_unsettled = False
        self._references_dropped = self.cluster.references_dropped
        self.cluster.references_dropped = self.references_dropped  # type: ignore[method-assign]
        # Let the core forget finished tasks soon, so that a check has less to do. All are kept here, to be explained.
        history = self.cluster.history
        history.limit, history.finished = 20, Ended(history.finished)
        self.ended = history.finished.by_number

    @under_the_lock
    def references_dropped(self, now: float, dropped: deque) -> None:
        """An event must follow before the lock is released: what the references kept may now end, or become free."""
        if self._is_unsettled:
            self._note(AssertionError("no event followed the drop of references"))
        self._is_unsettled = True
        self._references_dropped(now, dropped)

    def _after_event(self, now: float) -> list:
        self._is_unsettled = False
        due, self._due = self._due, None
        if due is None:
            return []
        self._inside = True  # the strike is a part of this event
        actions = self.strike(now, *due)
        self._inside = False
        return actions

    def _around(self, event: Callable) -> Callable:
        @under_the_lock
        def call(now: float, *args: Any) -> Any:
            if self._inside:  # an event of a strike
                return event(now, *args)
            self.events += 1
            struck = self._due = self.plan.get(self.events, self._due)
            try:
                result = event(now, *args)
            except Exception as problem:
                self._note(problem)
                raise
            try:
                if struck is not None or self.events % self.every == 0:
                    self._check()
                if self.is_quiet():
                    self._come_to_rest()
            except Exception as problem:  # raised at the end of the run, not in the thread that reported the event
                self._note(problem)
            return result

        return call

    def _note(self, problem: Exception) -> None:
        self.problem = self.problem or problem
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        if not self._has_come_to_rest:
            self._has_come_to_rest = True
            self._rest.release()

    def wait_for_rest(self, timeout: float) -> bool:
        """Wait until nothing is left to do, or something has gone wrong. Returns False if the time ran out."""
        return self._rest.acquire(timeout=timeout)

    def _check(self) -> None:
        if self.problem is None:
            check(self.cluster)

    def strike(self, now: float, kind: str, pick: float) -> list:
        """Carry out one strike of the plan. `pick` (0 to 1) chooses among the candidates."""
        cluster = self.cluster
        if kind == "worker":
            found: list = [w for w in cluster.workers.values() if w.status is not WorkerStatus.DEAD]
        elif kind == "node":
            found = [n for n in cluster.scheduler.alive if not n.is_head]
        else:
            found = [
                o
                for o in cluster.objects.values()
                if o.status in (READY, SPILLED) and o.locations and o.task is not None
            ]
        if not found:
            return []
        victim = found[int(pick * len(found))]
        self.struck.append(kind)
        cluster.events.add(now, "fault", f"chaos: {kind} {victim.hex}", victim)
        self.tell(f"event {self.events}: {kind} {victim!r}")
        if kind == "worker":
            return cluster.worker_died(now, victim, Failure("WORKER_DIED", "SYSTEM_ERROR: chaos", about=victim))
        if kind == "object":
            return cluster.lose_object(now, victim)
        actions = cluster.remove_node(now, victim, "chaos")
        self.runtime.last_node += 1
        return actions + cluster.add_node(now, self.runtime.last_node, units({"CPU": 2}), {}, STORE)[1]

    def is_quiet(self) -> bool:
        """Whether nothing of the programs is left."""
        cluster = self.cluster
        return (
            not cluster.objects
            and all(a.status is ActorStatus.DEAD for a in cluster.actors.values())
            and all(t.status in OVER for t in cluster.tasks.values())
            and all(w.status in (WorkerStatus.IDLE, WorkerStatus.DEAD) for w in cluster.workers.values())
        )


def plan_of(chance: random.Random, sizes: Sizes, foreign: bool) -> dict[int, tuple[str, float]]:
    """The strikes, by the number of the event after which each happens."""
    length = 3 * (
        sizes.links + sizes.rounds * (sizes.shards + 1) + 6 * sizes.texts
    )  # about the number of events of a run
    strikes = sizes.strikes
    if foreign:
        length, strikes = length * STRETCH, strikes * STRIKES
    return {
        chance.randrange(20, length): (chance.choice(("worker", "worker", "node", "object", "object")), chance.random())
        for _ in range(strikes)
    }


# ---------------------------------------------------------------- what must hold at the end


def explain_attempts(cluster: Cluster, tasks: dict[int, records.TaskRecord]) -> int:
    """Every attempt but the first of every task of the programs follows from a line of the event log. Returns how many
    there were.
    """
    assert cluster.dropped["events"] == 0, "the log does not reach back to the start"
    lines = collections.Counter((event.kind, event.about) for event in _hashable(cluster.events))
    extra = 0
    ours = [
        task for task in tasks.values() if task.spec.module == __name__
    ]  # not those that foreign code has submitted
    for task in ours:
        history = task.history or []
        assert len(history) == task.attempt, f"{task!r} remembers {len(history)} attempts"
        rebuilt = restarted = 0
        for attempt in history:
            extra += 1
            failure = attempt.failure
            if failure is None:
                rebuilt += 1
            elif failure.error_type in ("ACTOR_DIED", "ACTOR_UNAVAILABLE"):  # the actor's constructor and its calls
                restarted += 1
                assert lines["actor_restarting", task.actor], (
                    f"{task!r}: its actor died, says {failure}, and the log does not"
                )
            else:
                kind = {"WORKER_DIED": "worker_died", "NODE_DIED": "node_died"}[failure.error_type]
                assert lines[kind, failure.about], f"{task!r}: {failure} is not in the log"
        assert rebuilt == lines["reconstruction", task], (
            f"{task!r} was rebuilt {rebuilt} times: {lines['reconstruction', task]}"
        )
        if task.actor is not None:
            assert restarted <= task.actor.restarts == lines["actor_restarting", task.actor], (
                f"{task!r}: {restarted} restarts"
            )
        if task.status is TaskStatus.FAILED:
            # A task that was running when its owner died is ended with its worker, and its row says so.
            assert task.failure.error_type in ("OWNER_DIED", "WORKER_DIED") and task.owner.t_died, (
                f"{task!r} failed: {task.failure}"
            )
    ran = collections.Counter(notes.entered)
    for number, times in ran.items():
        task = tasks[number]
        assert times <= task.attempt + 1, f"{task!r} was entered {times} times"
    for task in ours:
        assert task.status is not TaskStatus.FINISHED or ran[task.number], f"{task!r} finished and was never entered"
    return extra


def _hashable(events: Any) -> list:
    return [
        event
        for event in events
        if event.about is None
        or isinstance(
            event.about,
            (records.TaskRecord, records.ActorRecord, records.NodeRecord, records.WorkerRecord, records.ObjectRecord),
        )
    ]


def nothing_is_left(runtime: Any, tasks: dict[int, records.TaskRecord]) -> None:
    """Check that every resource is returned, every store and the spill folder is empty, and every waiter is gone."""
    cluster = runtime.cluster
    for node in cluster.scheduler.alive:
        assert node.available == node.total, f"{node!r} misses {node.total} - {node.available}"
        assert node.store.used == node.store.spilled == 0 and not node.store.objects, (
            f"{node!r} stores {node.store.stats()}"
        )
    assert not runtime.driver_waiters, f"waiters are left: {runtime.driver_waiters}"
    # The thread that reported the last event may be about to drop values, and the one that writes the file of a value that
    # was dropped meanwhile is about to delete it. Neither tells anybody.
    deadline = time.monotonic() + PATIENCE_S
    while cluster.references.freed or runtime.spill.path is not None and os.listdir(runtime.spill.path):
        assert time.monotonic() < deadline, (
            f"left are the values {cluster.references.freed}, "
            f"and the files {runtime.spill.path is not None and os.listdir(runtime.spill.path)}"
        )
        time.sleep(0.01)
    for task in tasks.values():
        assert task.args is None and not task.deps and not task.contained, (
            f"{task!r} keeps its arguments: lineage nobody needs"
        )


def play(
    seed: int,
    sizes: Sizes = Sizes(),
    every: int = 1,
    tell: Callable[[str], None] = lambda text: None,
    foreign: bool = False,
) -> dict[str, int]:
    """Run one seed from start to end. foreign: with foreign code that calls the API at every moment. Returns counts.
    Raises AssertionError with the log's last lines on failure.
    """
    chance, descriptors = random.Random(seed), open_descriptors().keys()
    texts = texts_of(chance, sizes.texts)
    notes.entered.clear()
    notes.disk.clear()
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": STORE})
    ray.init(address=nodes.address, log_to_driver=False)
    runtime = context.running()
    cluster = runtime.cluster
    for _ in range(3):
        nodes.add_node(num_cpus=2, object_store_memory=STORE)
    striker = Striker(runtime, plan_of(chance, sizes, foreign), every, tell)
    refs = None
    stress: Any = contextlib.nullcontext()
    if foreign:
        cluster.events.events = deque(cluster.events, MANY_EVENTS)
        stress = traps.everywhere(seed, traps.DEATHS)
    try:
        with stress:
            refs = start(seed, sizes, texts)
            words, (total, _), (parameters, _) = ray.get(list(refs), timeout=PATIENCE_S * (10 if foreign else 1))
        for what, found, wanted in zip(
            ("words", "total", "parameters"), (words, total, parameters), expected(sizes, texts)
        ):
            assert found == wanted, f"wrong {what}: {found} instead of {wanted}"
        del refs
        gc.collect()  # the errors of struck attempts are in cycles with their frames, which may hold references
        with runtime.locked():  # this reports the dropped references
            pass
        assert striker.wait_for_rest(30), (
            f"it does not come to rest; {len(runtime.dropped)} references are not reported"
        )
        if striker.problem is not None:
            raise striker.problem
        extra = explain_attempts(cluster, striker.ended)
        nothing_is_left(runtime, striker.ended)
        counts = {
            "events": striker.events,
            "attempts": extra,
            **({"foreign calls": traps.num_calls()} if foreign else {}),
            **collections.Counter(striker.struck),
            "spilled": sum(n.store.counters["spilled"] for n in cluster.nodes.values()),
            "rebuilt": cluster.task_manager.num_reconstructions,
        }
    except BaseException as problem:
        log = "\n".join(f"{event.at:.4f} {event.kind}: {event.text}" for event in list(cluster.events)[-60:])
        left = [task for task in cluster.tasks.values() if task.status not in OVER][:20]
        raise AssertionError(
            f"{log}\nunfinished: {left}\nobjects: {list(cluster.objects.values())[:20]}\n"
            f"{striker.problem or problem!r}\nreplay: python -m tests.runtime.chaos --seed {seed}"
        ) from (striker.problem or problem)
    finally:
        folder = runtime.spill.path
        runtime.threads = left = Threads(runtime.threads)
        ray.shutdown()
        nodes.shutdown()
    assert folder is None or not os.path.exists(folder), "the spill folder is left"
    assert left.empty.wait(PATIENCE_S), f"threads are left: {list(left)}"  # shutdown waits for a second only
    if foreign:
        gc.collect()  # a call on a worker that has died is refused with an error, whose frames hold the worker's inbox
    left = open_descriptors().keys() - descriptors
    assert not left, f"file descriptors are left: {[open_descriptors()[one] for one in left]}"
    return counts


def open_descriptors() -> dict[str, str]:
    """What each file descriptor refers to; nothing if the system has no /proc."""
    found = {}
    for one in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this very listing
            found[one] = os.readlink(f"/proc/self/fd/{one}")
    return found


def main(arguments: list[str]) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.runtime.chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, help="play this seed and tell what strikes")
    parser.add_argument("--seeds", type=int, default=20, help="play the seeds 0 to N-1")
    parser.add_argument("--first", type=int, default=0, help="begin with this seed")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no further seed after so many minutes")
    parser.add_argument("--every", type=int, default=1, help="check the invariants after every Nth event")
    parser.add_argument("--foreign", action="store_true", help="foreign code calls the API at every moment")
    parser.add_argument("--small", action="store_true", help="small programs")
    parser.add_argument("--switch-interval", type=float, help="seconds: how often Python changes threads")
    options = parser.parse_args(arguments)
    if options.switch_interval:
        sys.setswitchinterval(options.switch_interval)
    one = options.seed is not None
    end = time.monotonic() + 60 * options.minutes
    for seed in [options.seed] if one else range(options.first, options.first + options.seeds):
        if time.monotonic() > end:
            break
        began = time.perf_counter()
        tell = print if one else lambda text: None
        found = play(seed, SMALL if options.small else Sizes(), options.every, tell, options.foreign)
        print(
            f"seed {seed}: {time.perf_counter() - began:.1f} s, "
            + ", ".join(f"{n} {what}" for what, n in found.items()),
            flush=True,
        )


if __name__ == "__main__":
    from tests.runtime.chaos import main as imported_main  # so that tasks find this module by its name

    imported_main(sys.argv[1:])
