"""Each rule finds the table that was broken: a check that cannot fail proves nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from miniray.core.invariants import InvariantBroken, check
from miniray.core.records import FAILED, READY
from miniray.core.transitions import ActorStatus, TaskStatus, WorkerStatus
from tests.core.builders import (
    LARGE,
    a_call,
    a_group,
    a_value,
    living_actor,
    node,
    one_node,
    put,
    running_task,
    started,
    submitted,
)


def busy_cluster():
    """A node on which something of everything goes on."""
    c = one_node(cpus=4, GPU=1)
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


def of(name: str, attribute: str, value):
    """Set an attribute of one of the things."""

    def break_it(c, things):
        setattr(things[name], attribute, value)

    return break_it


def then(action):
    """Do something to the things."""
    return lambda c, things: action(c, things)


BREAKS = {
    "a resource came out of nothing": then(lambda c, t: t["node"].available.update(CPU=t["node"].available["CPU"] + 1)),
    "a resource is negative": then(lambda c, t: t["node"].available.update(CPU=-1)),
    "a GPU is given twice": then(lambda c, t: t["node"].gpu_free.update({0: 10_000})),
    "a bundle holds more than it has": then(lambda c, t: t["group"].bundles[0].available.update(CPU=20_000)),
    "a worker has lent what it has not": of("worker", "lent", 30_000),
    "a running task's worker is dead": of("worker", "status", WorkerStatus.DEAD),
    "a leased worker has no task": of("worker", "task", None),
    "an idle worker is in no list": of("worker", "status", WorkerStatus.IDLE),
    "a task runs in a worker that runs another": of("waiting", "worker", "nobody"),
    "a waiting task is in no queue": then(lambda c, t: t["waiting"].spec.scheduling_class.queue.clear()),
    "a class with a waiting task is not looked at": then(lambda c, t: c.scheduler.waiting.clear()),
    "a task waits although there is room": then(
        lambda c, t: (t["node"].total.update(CPU=80_000), t["node"].available.update(CPU=40_000))
    ),
    "a task miscounts its missing arguments": of("pending", "pending", 2),
    "an argument forgot who waits for it": then(lambda c, t: setattr(t["running"].returns[0], "dependents", None)),
    "a task that is over has no end": of("running", "status", TaskStatus.FINISHED),
    "times go back": of("running", "t_created", 99.0),
    "an actor counts a call too many": then(lambda c, t: setattr(t["actor"].groups[""], "running", 2)),
    "a call has lost its place": then(lambda c, t: t["actor"].groups[""].queue.clear()),
    "a name leads to a dead actor": of("actor", "status", ActorStatus.DEAD),
    "an actor lives on without a worker": of("actor", "worker", None),
    "a store counts bytes that are not there": then(lambda c, t: setattr(t["node"].store, "used", 1)),
    "a value is not where it says": then(lambda c, t: t["node"].store.objects.clear()),
    "a reference count is negative": of("value", "refs", -1),
    "an argument is not counted as used": of("value", "uses", 0),
    "a value is counted as held by nobody": of("value", "held", 1),
    "lineage is counted below zero": of("value", "lineage", -1),
    "an object in use was let go of": then(lambda c, t: c.objects.pop(t["value"].number)),
    "a value is there and nobody was told": then(lambda c, t: setattr(t["running"].returns[0], "status", FAILED)),
    "an action was not returned": then(lambda c, t: c.actions.append("something")),
    "somebody was not told": then(lambda c, t: c.ready.append(t["value"])),
    "a worker is listed nowhere": then(lambda c, t: t["node"].workers.pop(t["worker"].number)),
    "more is remembered than the limit": then(lambda c, t: setattr(c.history, "limit", -1)),
}


@pytest.mark.parametrize("break_it", BREAKS.values(), ids=BREAKS)
def test_a_broken_table_is_found(break_it):
    """And the error names an entity, in words."""
    c, things = busy_cluster()
    break_it(c, things)
    with pytest.raises(InvariantBroken) as found:
        check(c)
    assert ": " in str(found.value)


def test_the_programs_own_account_is_compared():
    """When it is handed in: one reference too many, or too few."""
    c = one_node()
    obj = put(c)
    check(c, Counter({obj: 1}))
    for wrong in (Counter(), Counter({obj: 2})):
        with pytest.raises(InvariantBroken, match="references"):
            check(c, wrong)


def test_an_object_that_nobody_holds_is_found():
    """It should have gone with its last reference."""
    c = one_node()
    a_value(c).refs = 0
    with pytest.raises(InvariantBroken, match="nobody needs it"):
        check(c)


def test_a_healthy_cluster_passes():
    """Whatever goes on in it."""
    c, things = busy_cluster()
    assert things["value"].status is READY and c.actors
    check(c)
