"""The data of an explanation: for each reason the same as its sentence says, under names that a program can rely on."""

from __future__ import annotations

import pytest

from miniray.core.records import LOST, Failure, Waiter
from miniray.observe.explain.explanation import explain, find_deadlock
from miniray.observe.explain.links import link
from miniray.observe.explain.sentence import HOLDERS_SPOKEN as HOLDERS_NAMED, LINKS_SPOKEN
from tests.observe.still_session import StillSession


def step(session: StillSession, record) -> tuple[str, dict]:
    """The reason and the data of the step from this record; the sentence has the step's own name and words."""
    one = link(session, record)
    assert one.id and one.kind and explain(session, record.hex).chain[0]["text"].strip()
    return one.reason, one.details


def in_worker(task) -> dict:
    """What is said of every task that has a worker."""
    return {"worker_id": task.worker.hex, "node_id": task.worker.node.hex}


def holds(task, name: str, amount: float) -> dict:
    """A task among the holders of a resource."""
    return {"holder": f"task {task.spec.name}", "id": task.hex, "resource": name, "amount": amount}


# ---------------------------------------------------------------- what is over, or there


def test_the_data_of_what_is_over():
    """The attempt, the kind of the error, the size of the value."""
    session = StillSession(CPU=1)
    good, bad = session.done(), session.task("bad", retries=1)
    session.start(bad)
    session.fail(bad, retry=True)
    session.start(bad)
    assert step(session, bad) == ("running", in_worker(bad))
    session.fail(bad)
    assert step(session, good) == ("finished", {"attempt": 0})
    assert step(session, good.returns[0]) == ("ready", {"size": 8})
    for failed in (bad, bad.returns[0]):
        assert step(session, failed) == ("failed", {"error_type": "TASK_EXECUTION_EXCEPTION"})


def test_the_data_of_values_that_are_elsewhere():
    """The size of one in a file; a lost one names its task, if that can make it again."""
    session = StillSession(CPU=1, store_bytes=1_500_000)
    value = session.spilled()
    assert step(session, value) == ("spilled", {"size": 1_000_000})
    session.cluster.lose_object(session.tick(), value)
    assert value.status is LOST and step(session, value) == ("lost", {})
    session.cluster.session_ended(session.tick())
    one = link(session, value)
    assert (one.reason, one.phrase) == ("ended", "was released, or belongs to a session that has ended")


def test_the_data_of_a_dead_actor():
    """How often it was restarted, and the kind of its error. A cause that says no more is not repeated."""
    session = StillSession(CPU=1)
    actor = session.living_actor(max_restarts=1)
    for _ in range(2):
        session.cluster.worker_died(session.tick(), actor.worker, Failure("WORKER_DIED", "it crashed"))
        if actor.worker is None and actor.creation.worker is not None:
            session.start(actor.creation)
            session.finish(actor.creation)
    assert explain(session, actor.hex).sentence == "actor Keeper is dead: it crashed"
    assert step(session, actor) == ("actor_dead", {"error_type": "ACTOR_DIED", "restarts": 1})


# ---------------------------------------------------------------- actors


def test_the_data_of_calls():
    """The group, its limit, how many wait in it, and which calls go first."""
    session = StillSession(CPU=1)
    actor = session.living_actor(limit=2, groups={"io": 1}, called="bob")
    slow = session.call(actor, "slow", group="io")
    session.start(slow)
    quick = session.call(actor, "quick", group="io")
    data = {"actor_id": actor.hex, "limit": 1, "running": [slow.hex], "queued": 1, "concurrency_group": "io"}
    assert step(session, quick) == ("mailbox_order", data)
    assert link(session, quick).phrase == "is queued at actor Keeper named 'bob', concurrency group 'io', behind"
    assert step(session, actor) == ("alive", {"running": 1, "waiting": 1})


def test_the_data_of_an_actor_that_is_not_alive():
    """Its state, for a call; how often it was restarted, for the actor. Both go on with its constructor."""
    session = StillSession(CPU=1)
    unborn = session.actor(cpus=8)
    call = session.call(unborn)
    assert step(session, call) == ("actor_not_alive", {"actor_id": unborn.hex, "actor_state": "PENDING_CREATION"})
    assert step(session, unborn) == ("actor_not_alive", {"restarts": 0})
    assert link(session, call).next is link(session, unborn).next is unborn.creation


# ---------------------------------------------------------------- tasks with a worker


def test_the_data_of_a_generator_that_is_held_back():
    """How many items it has yielded, and how many were taken."""
    session = StillSession(CPU=1)
    task = session.task("stream", num_returns="streaming")
    worker = session.start(task)
    assert step(session, task) == ("running", in_worker(task))
    for _ in range(3):
        session.cluster.stream_item(session.tick(), worker, task, "an item", 8)
    session.cluster.take_item(session.tick(), task.stream)
    task.stream.producer_waiter = object()
    assert step(session, task) == ("backpressure", {"produced": 3, "taken": 1, **in_worker(task)})
    assert link(session, task.stream).name == "the consumer of task stream"


def test_the_data_of_a_task_that_waits_in_get():
    """What it waits for; a stream among that has no id of its own."""
    session = StillSession(CPU=1)
    task = session.task()
    worker = session.start(task)
    stream, inner = session.task(num_returns="streaming", owner=worker), session.task(owner=worker, cpus=9)
    session.wait(worker, inner.returns[0], stream.stream, session.put())
    assert step(session, task) == ("waits_in_get", {"missing": [inner.returns[0].hex], **in_worker(task)})


# ---------------------------------------------------------------- tasks without a place


def test_the_data_of_a_node_that_does_not_exist():
    """The demand, the strategy and the labels, and the condition in words."""
    session = StillSession(CPU=1)
    labels = (("zone", "not_in", ("a", "b")), ("gpu", "exists", ()), ("old", "absent", ()))
    task = session.task(selector=labels)
    data = {"needs": {"CPU": 1.0}, "strategy": ["DEFAULT"], "label_selector": list(labels)}
    assert step(session, task) == ("no_such_node", data)
    assert (
        "whose labels match: zone not in a, b and gpu set and old not set, but there is no such node"
        in link(session, task).phrase
    )
    hard = ("NODE_LABEL", (("zone", "in", ("a",)),), ())
    other = session.task(strategy=hard)
    assert step(session, other)[1] == {"needs": {"CPU": 1.0}, "strategy": list(hard), "label_selector": []}
    assert "whose labels match: zone in a, but there is no such node" in link(session, other).phrase


def test_the_data_of_a_demand_that_is_too_large():
    """The nearest node, and what it has of what is lacking."""
    session = StillSession(CPU=1, disk=1)
    larger = session.node(CPU=2)
    task = session.task(cpus=9, disk=0)
    data = {"needs": {"CPU": 9.0, "disk": 0.0}, "nearest_node": larger.hex, "nearest_has": {"CPU": 2.0}}
    assert step(session, task) == ("infeasible", data)


def test_the_data_of_a_busy_node():
    """Of the node with most of it free: what is free there, who holds the rest, and how many of the same kind come first."""
    session = StillSession(CPU=4)
    first = session.cluster.nodes[1]
    second = session.node(CPU=4)
    small, large = session.task("small", cpus=1), session.task("large", cpus=2, strategy=affinity(second))
    tasks = [session.task(cpus=4), session.task(cpus=4)]
    assert (small.node, large.node) == (first, second)
    data = {"needs": {"CPU": 4.0}, "node_id": first.hex, "free": {"CPU": 3.0}, "holders": [holds(small, "CPU", 1.0)]}
    for ahead, task in enumerate(tasks):
        assert step(session, task) == ("resources_busy", {**data, "ahead_in_queue": ahead})


def test_the_node_that_is_named_lacks_least_of_what_it_lacks_most():
    """One node has every CPU free and no GPU, the other half of each."""
    session = StillSession(CPU=2, GPU=2)
    second = session.node(CPU=2, GPU=2)
    for node, cpus, gpus in ((session.cluster.nodes[1], 0, 2), (second, 1, 1)):
        assert session.task(strategy=affinity(node), cpus=cpus, GPU=gpus).node is node
    assert step(session, session.task(cpus=2, GPU=2))[1]["node_id"] == second.hex


def affinity(node) -> tuple:
    """The strategy of a task that runs on this node only."""
    return ("NODE_AFFINITY", node.hex, False)


def test_a_resource_of_which_nothing_is_asked_does_not_choose_the_node():
    """Zero of a resource is had everywhere."""
    session = StillSession(CPU=1)
    session.start(session.task())
    assert step(session, session.task(disk=0))[0] == "resources_busy"


def test_the_data_of_what_is_free_and_still_not_given():
    """A whole GPU that no device has, or workers that are starting."""
    session = StillSession(CPU=4, GPU=2)
    for _ in range(2):
        session.start(session.task(GPU=0.6))
    whole = session.task(GPU=0.8)
    node = session.cluster.nodes[1]
    data = {"needs": {"CPU": 1.0, "GPU": 0.8}, "node_id": node.hex, "ahead_in_queue": 0, "free": {}}
    assert step(session, whole) == ("no_whole_device", data)
    session = StillSession(CPU=1)
    session.task(cpus=0)
    data = {"needs": {}, "node_id": session.cluster.nodes[1].hex, "ahead_in_queue": 0, "free": {}}
    assert step(session, session.task(cpus=0)) == ("workers_starting", data)


def test_workers_that_start_are_counted():
    """A task without a demand waits for one of them."""
    session = StillSession(CPU=2)
    tasks = [session.task(cpus=0) for _ in range(3)]
    assert link(session, tasks[2]).phrase.startswith("waits for one of the 2 workers that are starting on node ")


def test_as_many_holders_are_named_as_a_sentence_holds():
    """With exactly so many nobody is left out; with one more, one is."""
    for number, rest in ((HOLDERS_NAMED, False), (HOLDERS_NAMED + 1, True)):
        session = StillSession(CPU=number)
        for index in range(number):
            session.start(session.task(f"t{index}"))
        phrase = link(session, session.task(cpus=number)).phrase
        assert phrase.count(" holds 1 CPU") == HOLDERS_NAMED and phrase.endswith(", and 1 other holds the rest") == rest


# ---------------------------------------------------------------- placement groups


def test_the_data_of_placement_groups():
    """The strategy and the bundles, always; the nearest node for a bundle that is too large; who holds what is asked for."""
    session = StillSession(CPU=2)
    node, busy = session.cluster.nodes[1], session.task("busy")
    wide, pair = session.group({"CPU": 1}, {"CPU": 9}), session.group({"CPU": 1}, {"CPU": 1})
    far = session.group({"CPU": 1}, {"CPU": 1}, strategy="STRICT_SPREAD")
    data = {"strategy": "PACK", "bundles": [{"CPU": 1.0}, {"CPU": 9.0}]}
    near = {"nearest_node": node.hex, "nearest_has": {"CPU": 2.0}}
    assert step(session, wide) == ("infeasible", {**data, **near})
    data = {"strategy": "PACK", "bundles": [{"CPU": 1.0}] * 2}
    assert step(session, pair) == ("resources_busy", {**data, "holders": [holds(busy, "CPU", 1.0)]})
    assert step(session, far) == ("infeasible", {**data, "strategy": "STRICT_SPREAD", "num_nodes": 1})
    session.start(busy)
    session.finish(busy)
    assert step(session, pair) == ("created", data)
    held = [{"holder": link(session, pair).name, "id": pair.hex, "resource": "CPU", "amount": 1.0}] * 2
    assert step(session, session.task(cpus=2))[1]["holders"] == held
    session.cluster.remove_placement_group(session.tick(), pair)
    assert step(session, pair) == ("placement_group_removed", data)


def test_the_data_of_tasks_in_placement_groups():
    """The group, the bundle, and what the task needs of it; any bundle is -1."""
    session = StillSession(CPU=2)
    group = session.group({"CPU": 1}, {"CPU": 1})

    def task(name: str, index: int, cpus: float = 1):
        return session.task(name, strategy=("PLACEMENT_GROUP", group.number, index), cpus=cpus)

    held = [holds(task(name, index), "CPU", 1.0) for index, name in enumerate(("first", "second"))]
    data = {"placement_group_id": group.hex, "needs": {"CPU": 1.0}}
    assert step(session, task("any", -1)) == ("bundle_busy", {**data, "bundle_index": -1, "holders": held})
    assert step(session, task("zero", 0)) == ("bundle_busy", {**data, "bundle_index": 0, "holders": held[:1]})
    large = {**data, "needs": {"CPU": 3.0}, "bundle_index": 1}
    assert step(session, task("large", 1, cpus=3)) == ("bundle_too_small", large)


# ---------------------------------------------------------------- long chains, circles, waits


@pytest.mark.parametrize("more", [-1, 0, 1, 2])
def test_a_chain_is_told_in_full_up_to_a_length(more):
    """A longer one by its first steps and its last, with the number of those between."""
    session = StillSession(CPU=1)
    task = session.task("t0", cpus=2)
    length = LINKS_SPOKEN + more
    for index in range(1, length):
        task = session.task(f"t{index}", task.returns[0])
    found = explain(session, task.hex)
    assert len(found.chain) == length
    assert found.sentence.count(", which ") == (length - 1 if more <= 0 else LINKS_SPOKEN - 2)
    end = f"; {more} step{'s' if more > 1 else ''} further on, task t0 needs 2 CPU"
    assert (end in found.sentence) == (more > 0)


def test_a_circle_that_a_timeout_will_break_is_told_once_around():
    """Each of the two waits for the other, with a timeout: no deadlock, and no endless story."""
    session = StillSession(CPU=2)
    first, second = session.task("first"), session.task("second")
    for task in (first, second):
        session.start(task)
    session.wait(first.worker, second.returns[0], timed=True)
    session.wait(second.worker, first.returns[0], timed=True)
    found = explain(session, first.hex)
    assert [one["name"] for one in found.chain] == ["task first", "task second"]
    assert found.reason == "waits_in_get" and found.sentence.endswith("is blocked in get() or wait() on task first")


def test_what_came_while_its_waiter_was_not_woken_yet_is_no_deadlock():
    """The thread's wait still stands in its handle, and everything that it needs is there."""
    session = StillSession(CPU=2)
    waiting, other = session.task("waiting"), session.task("other")
    session.start(waiting), session.start(other)
    session.wait(waiting.worker, session.put())
    waiting.worker.handle.waiter.fired = False
    session.waits_forever = lambda ident: True
    assert find_deadlock(session, [waiting.returns[0]]) is None


def test_a_wait_for_nothing_more_is_no_deadlock():
    """`wait` for one of two, of which one is there: it needs none of those that are stuck."""
    session = StillSession(CPU=1)
    huge = session.task("huge", cpus=8)
    objects = [session.done().returns[0], huge.returns[0]]
    session.waits_forever = lambda ident: True
    session.driver_waiters[Waiter(0, lambda: None)] = objects
    assert find_deadlock(session, objects) is None
    session.driver_waiters.clear()
    session.driver_waiters[Waiter(1, lambda: None)] = objects
    assert find_deadlock(session, objects) is not None


def test_a_cpu_that_is_lent_is_held_by_nobody():
    """A task that waits in get has given it to its child, which is named."""
    session = StillSession(CPU=2, disk=1)
    outer = session.task("outer", cpus=2, disk=1)
    worker = session.start(outer)
    inner = session.task("inner", owner=worker, cpus=2)
    session.wait(worker, inner.returns[0])
    assert step(session, session.task("next", cpus=2))[1]["holders"] == [holds(inner, "CPU", 2.0)]
    assert step(session, session.task("disk", cpus=0, disk=1))[1]["holders"] == [holds(outer, "disk", 1.0)]
    assert link(session, session.task("next", cpus=2)).phrase.endswith("; 1 task with the same request is ahead of it")


def test_a_coroutine_that_runs_may_change_something():
    """The worker of an async actor runs several calls and names none of them as its task."""
    session = StillSession(CPU=1)
    actor = session.living_actor(limit=2, is_async=True)
    call = session.call(actor)
    session.start(call)
    session.waits_forever = lambda ident: True
    huge = session.task("huge", cpus=8)
    actor.worker.task = None
    assert find_deadlock(session, [huge.returns[0]]) is None
    session.finish(call)
    assert find_deadlock(session, [huge.returns[0]]) is not None


def test_an_actor_whose_constructor_waits_for_its_caller_is_a_deadlock():
    """The caller waits for a call of the actor, and the actor for the caller's result."""
    session = StillSession(CPU=1)
    caller = session.task("caller")
    worker = session.start(caller)
    actor = session.actor("Late", caller.returns[0])
    session.wait(worker, session.call(actor, "ask").returns[0])
    found = find_deadlock(session, [caller.returns[0]])
    assert found is not None and found.reason == "deadlock"
    assert [one["name"] for one in found.chain] == ["task caller", "call Late.ask", "the constructor of actor Late"]


def test_a_generator_changes_something_unless_it_waits_for_its_consumer():
    """While it runs it may yield what others wait for."""
    session = StillSession(CPU=1)
    task = session.task("stream", num_returns="streaming")
    session.start(task)
    session.waits_forever = lambda ident: True
    huge = session.task("huge", cpus=8)
    assert find_deadlock(session, [huge.returns[0]]) is None
    task.stream.producer_waiter = object()
    assert find_deadlock(session, [huge.returns[0]]) is not None


def test_without_a_node_there_is_none_of_any_kind():
    """The task asks for no labels, and is told so."""
    session = StillSession()
    words = "needs a node of any kind, but there is no such node (0 nodes are alive)"
    assert link(session, session.task()).phrase == words


def test_only_what_is_lacking_is_among_what_is_held():
    """A group holds a disk as well, which nobody waits for, and no GPU."""
    session = StillSession(CPU=1, disk=1, GPU=1)
    session.group({"CPU": 1, "disk": 1, "GPU": 0}, name="group")
    held = step(session, session.task(GPU=1))[1]["holders"]
    assert [(one["holder"], one["resource"]) for one in held] == [("placement group 'group'", "CPU")]


def test_a_value_that_is_still_to_be_made_goes_on_with_its_task():
    """A lost one, too, when its task runs again."""
    session = StillSession(CPU=1)
    task = session.task(retries=1)
    for _ in range(2):
        one = link(session, task.returns[0])
        assert (one.reason, one.phrase, one.details, one.next) == ("not_made_yet", "waits for", {}, task)
        session.start(task)
        session.finish(task, 200_000)
        session.cluster.lose_object(session.tick(), task.returns[0])
        assert step(session, task.returns[0]) == ("lost", {})
        session.task("after", task.returns[0], cpus=0)
