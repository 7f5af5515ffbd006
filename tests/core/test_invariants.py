"""Each rule of the invariants finds a broken table: a check that cannot fail proves nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from miniray.core.invariants import InvariantBroken, check
from miniray.core.records import FAILED, READY, SchedulingClass
from miniray.core.transitions import ActorStatus, TaskStatus, WorkerStatus
from tests.core.builders import (
    LARGE,
    a_call,
    a_group,
    a_value,
    crash,
    finished_task,
    living_actor,
    node,
    one_node,
    put,
    running_task,
    started,
    submitted,
)


def busy_cluster():
    """A node on which tasks and calls run and wait. Returns the cluster, and its entities by name."""
    c = one_node(cpus=4, GPU=1)
    finished = finished_task(c)
    running, worker = running_task(c, GPU=1, deps=(put(c, LARGE),))
    group = a_group(c, {"CPU": 1})
    actor = living_actor(c, name="n", holds_cpus=1)
    call = a_call(c, actor)
    started(c, call)
    queued = a_call(c, actor)
    running_task(c)
    waiting = submitted(c)
    pending = submitted(c, deps=running.returns)
    check(c)
    return c, {
        "finished": finished,
        "running": running,
        "worker": worker,
        "group": group,
        "actor": actor,
        "call": call,
        "queued": queued,
        "waiting": waiting,
        "pending": pending,
        "node": node(c),
        "value": running.deps[0],
    }


def copied(wanted: SchedulingClass) -> SchedulingClass:
    """Another class with the same demand."""
    return SchedulingClass(wanted.need, wanted.hold, wanted.strategy, wanted.selector)


def assign(name: str, attribute: str, value):
    """Set an attribute of one of the entities."""

    def break_it(c, entities):
        setattr(entities[name], attribute, value)

    return break_it


# What is broken -> (how, a part of the error that says so). Where tables disagree, the first rule that looks at both
# reports it.
BREAKS = {
    "a resource appears from nowhere": (
        lambda c, e: e["node"].available.update(CPU=e["node"].available["CPU"] + 1),
        "of 40000 CPU, 1 are free and 40000 are held",
    ),
    "a resource is negative": (lambda c, e: e["node"].available.update(CPU=-1), "-1 are free"),
    "a GPU is both free and held": (
        lambda c, e: e["node"].free_devices["GPU"].update({0: 10_000}),
        "GPU 0: 10000 units are free",
    ),
    "a bundle has more free than it has": (
        lambda c, e: e["group"].bundles[0].available.update(CPU=20_000),
        "of 10000 CPU, 20000 are free",
    ),
    "a worker has lent more than it holds": (assign("worker", "lent", 30_000), "has lent 30000 units"),
    "a running task's worker is dead": (assign("worker", "status", WorkerStatus.DEAD), "is dead and still on"),
    "a leased worker has no task": (assign("worker", "task", None), "is leased with the task None"),
    "an actor's worker has the lease of another class": (
        lambda c, e: setattr(e["actor"].worker, "lease", copied(e["actor"].worker.lease)),
        "has the lease SchedulingClass",
    ),
    "a worker is in a bundle that its class does not name": (
        lambda c, e: setattr(e["worker"], "bundle", e["group"].bundles[0]),
        "which its strategy or its labels exclude",
    ),
    "an actor counts fewer calls than none": (assign("actor", "lineage", -1), "counts -1 calls that can run again"),
    "a worker has the lease of another class": (
        lambda c, e: setattr(e["worker"], "lease", copied(e["worker"].lease)),
        "has the lease SchedulingClass",
    ),
    "a worker is where it may not be": (
        lambda c, e: setattr(e["worker"].lease, "selector", (("zone", "exists", ()),)),
        "which its strategy or its labels exclude",
    ),
    "an idle worker has a task": (assign("worker", "status", WorkerStatus.IDLE), "is idle and has a task"),
    "a waiting task has a worker": (assign("waiting", "worker", "a worker"), "waits, but has a worker"),
    "a waiting task is in no queue": (
        lambda c, e: e["waiting"].spec.scheduling_class.queue.clear(),
        "is not in the queue of its class",
    ),
    "a class with a waiting task is not marked": (
        lambda c, e: c.scheduler.waiting.clear(),
        "neither waiting nor infeasible",
    ),
    "a task waits although there is room": (
        lambda c, e: (e["node"].total.update(CPU=80_000), e["node"].available.update(CPU=40_000)),
        "waits, although a node has room",
    ),
    "a task miscounts its missing arguments": (assign("pending", "pending", 2), "waits for 2 arguments"),
    "an argument does not know who waits for it": (
        lambda c, e: setattr(e["running"].returns[0], "dependents", None),
        "of which [] know of it",
    ),
    "a worker has a finished task": (assign("running", "status", TaskStatus.FINISHED), "which is not submitted to it"),
    "a finished task has no end": (assign("finished", "t_finished", 0.0), "has ended, but t_finished is not set"),
    "times are out of order": (assign("running", "t_created", 99.0), "its times are not in order"),
    "an actor counts a call too many": (
        lambda c, e: setattr(e["actor"].groups[""], "running", 2),
        "counts 2 running calls of at most 1",
    ),
    "a call is not in its queue": (
        lambda c, e: e["actor"].groups[""].queue.clear(),
        "has no worker and is in no queue",
    ),
    "a dead actor has a worker": (assign("actor", "status", ActorStatus.DEAD), "is alive, but ActorRecord"),
    "a living actor has no worker": (assign("actor", "worker", None), "is alive and has no worker"),
    "a name leads to another actor": (
        lambda c, e: c.actor_manager.names.update({("", "n"): None}),
        "its name leads to another actor",
    ),
    "a store miscounts its bytes": (lambda c, e: setattr(e["node"].store, "used", 1), "its store counts 1 bytes"),
    "a value is not in the store of its location": (
        lambda c, e: e["node"].store.objects.clear(),
        "is not in the store of",
    ),
    "a reference count is negative": (assign("value", "refs", -1), "refs -1"),
    "an argument is not counted as used": (assign("value", "uses", 0), "uses 0 of 1"),
    "a value is counted as held by nobody": (assign("value", "held", 1), "held 1 of 0"),
    "a lineage count is negative": (assign("value", "lineage", -1), "lineage -1 of 0"),
    "an object in use is not in the table": (
        lambda c, e: c.objects.pop(e["value"].number),
        "which is not in the table",
    ),
    "a task waits for a value that is stored": (
        lambda c, e: setattr(e["running"].returns[0], "status", FAILED),
        "missing: []",
    ),
    "an action was not returned": (lambda c, e: c.actions.append("an action"), "no event returned these actions"),
    "waiters were not told": (lambda c, e: c.ready.append(e["value"]), "the waiters of these objects were not told"),
    "a leased worker is not on its node": (
        lambda c, e: e["node"].workers.pop(e["worker"].number),
        "with those that workers hold 0",
    ),
    "a worker has died and nobody knows when": (
        lambda c, e: (crash(c, e["worker"]), setattr(e["worker"], "t_died", 0.0)),
        "is dead, but since when, and why?",
    ),
    "a worker works and has not started": (assign("worker", "t_started", 0.0), "has started at 0.0"),
    "a worker is alive and has died": (assign("worker", "t_died", 9.0), "is alive and has died at 9.0"),
    "a node is alive and has died": (assign("node", "t_died", 9.0), "is alive: True; died at 9.0"),
    "an actor is alive, but not since some time": (assign("actor", "t_alive", 0.0), "is alive, but since when?"),
    "an actor is alive and has died": (assign("actor", "t_died", 9.0), "died at 9.0"),
    "a restart was not counted": (assign("actor", "restarts", -1), "was constructed again, and counts no restart"),
    "a group is placed, but not since some time": (assign("group", "t_placed", 0.0), "is placed, but since when?"),
    "a value is there, but not since some time": (assign("value", "t_ready", 0.0), "is there, but since when?"),
    "a task is ready, but not since some time": (assign("waiting", "t_ready", 0.0), "is ready, but since when?"),
    "a running task was never leased": (assign("running", "t_leased", 0.0), "was leased at 0.0"),
    "an earlier attempt is not in the history": (assign("running", "attempt", 1), "has 0 earlier attempts"),
    "nobody waits, and yet there is a list of those who do": (
        lambda c, e: setattr(e["value"], "waiters", []),
        "keeps an empty list",
    ),
    "the history exceeds its limit": (lambda c, e: setattr(c.history, "limit", -1), "of at most -1"),
}


@pytest.mark.parametrize("break_it, text", BREAKS.values(), ids=BREAKS)
def test_a_broken_table_is_found(break_it, text):
    """The error says which rule is broken."""
    c, entities = busy_cluster()
    break_it(c, entities)
    with pytest.raises(InvariantBroken) as found:
        check(c)
    assert text in str(found.value).splitlines()[0]


def test_the_error_prints_the_history_of_the_entity():
    """Its own record first, then the events about it."""
    c, entities = busy_cluster()
    entities["running"].t_created = 99.0
    with pytest.raises(InvariantBroken, match="(?s)Its history:.*attempt 0.*a worker was told to run it"):
        check(c)


def test_the_references_of_the_program_are_compared():
    """If the caller hands it in: one reference too many or too few is found."""
    c = one_node()
    obj = put(c)
    check(c, Counter({obj: 1}))
    for wrong in (Counter(), Counter({obj: 2})):
        with pytest.raises(InvariantBroken, match="references"):
            check(c, wrong)


def test_an_object_that_nobody_needs_is_found():
    """It should have been freed with its last reference."""
    c = one_node()
    a_value(c).refs = 0
    with pytest.raises(InvariantBroken, match="nobody needs it"):
        check(c)


def test_a_healthy_cluster_passes():
    """No rule is broken, whatever is going on in it."""
    c, entities = busy_cluster()
    assert entities["value"].status is READY and c.actors
    check(c)
