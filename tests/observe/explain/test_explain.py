"""`explain`: every reason that the scheduler, the actors and the placement groups can give."""

import pytest

from miniray.observe.explain.explanation import explain
from miniray.observe.explain.links import link
from tests.observe.still_session import StillSession, said

NODE = "node 127.0.0.1"


# ---------------------------------------------------------------- tasks that wait for a node


def test_a_task_that_no_node_is_large_enough_for():
    """The sentence names the demand, the nearest node and what that node has."""
    session = StillSession(CPU=2)
    session.node(CPU=4)
    reason, sentence = said(session, session.task("huge", cpus=16))
    assert reason == "infeasible"
    assert sentence == "task huge needs 16 CPU, and no node has that much: the nearest, node 127.0.0.2, has 4 CPU"


def test_a_node_that_lacks_only_a_custom_resource():
    """Only the resources that the nearest node lacks are named, also if it has none of them."""
    session = StillSession(CPU=2)
    assert (
        said(session, session.task("picky", disk=1))[1]
        == f"task picky needs 1 CPU and 1 disk, and no node has that much: the nearest, {NODE}, has 0 disk"
    )


def test_a_task_behind_those_that_hold_the_cpus():
    """The sentence names the holders, and counts the tasks with the same request that are ahead."""
    session = StillSession(CPU=2)
    session.start(session.task("first", cpus=2))
    session.task("second")
    third = session.task("third")
    assert said(session, third) == (
        "resources_busy",
        (
            f"task third waits for 1 CPU on {NODE}, where 0 of 2 CPU are free: task first holds 2 CPU; "
            "1 task with the same request is ahead of it"
        ),
    )
    details = explain(session, third.hex).details
    assert details["ahead_in_queue"] == 1 and details["needs"] == {"CPU": 1.0} and details["free"] == {"CPU": 0.0}
    assert details["holders"] == [
        {"holder": "task first", "id": session.cluster.tasks[1].hex, "resource": "CPU", "amount": 2.0}
    ]


def test_a_sentence_does_not_name_all_of_many_holders():
    """A sentence stays short; the data has every holder."""
    session = StillSession(CPU=20)
    for i in range(20):
        session.start(session.task(f"t{i}"))
    waiting = session.task("last")
    assert said(session, waiting)[1].endswith("task t4 holds 1 CPU, and 15 others hold the rest")
    assert len(explain(session, waiting.hex).details["holders"]) == 20


def test_an_actor_and_a_placement_group_hold_resources_too():
    """They hold resources for as long as they live."""
    session = StillSession(CPU=4)
    session.living_actor("Hog", cpus=1, called="bob")
    session.group({"CPU": 3}, name="reserved")
    assert said(session, session.task("little"))[1] == (
        f"task little waits for 1 CPU on {NODE}, where 0 of 4 CPU are free: "
        "placement group 'reserved' holds 3 CPU, actor Hog named 'bob' holds 1 CPU"
    )


def test_holders_that_look_alike_are_counted():
    """Actors of one class are told together; the bundles of one placement group are added up."""
    session = StillSession(CPU=7)
    for _ in range(4):
        session.living_actor("Shard", cpus=1)
    session.group({"CPU": 1}, {"CPU": 2}, name="pair")
    waiting = session.task("waiting")
    assert said(session, waiting)[1] == (
        f"task waiting waits for 1 CPU on {NODE}, where 0 of 7 CPU are free: "
        "placement group 'pair' holds 3 CPU, 4 actors Shard hold 1 CPU each"
    )
    assert [holder["amount"] for holder in explain(session, waiting.hex).details["holders"]] == [2, 1, 1, 1, 1, 1]


def test_a_part_of_a_gpu_must_come_from_one_device():
    """Two halves on two devices do not make a whole GPU."""
    session = StillSession(CPU=4, GPU=2)
    for i in range(2):
        session.start(session.task(f"half{i}", GPU=0.6))
    reason, sentence = said(session, session.task("whole", GPU=0.8))
    assert (reason, sentence) == (
        "no_whole_device",
        f"task whole needs 0.8 GPU of one device, and no single GPU of {NODE} has that much left",
    )


def test_labels_that_no_node_has():
    """The sentence spells out the condition."""
    session = StillSession(CPU=2)
    task = session.task("there", selector=(("zone", "in", ("east", "west")),))
    assert said(session, task) == (
        "no_such_node",
        "task there needs a node whose labels match: zone in east, west, but there is no such node (1 node is alive)",
    )


@pytest.mark.parametrize("soft", [False, True])
def test_a_task_that_may_run_on_one_busy_node_only(soft):
    """The sentence names only that node, although another one has room. A soft affinity gives way only if the node is
    too small; the sentence used to say that the task was about to start on the other."""
    session = StillSession(CPU=1)
    session.node(CPU=8)
    only = ("NODE_AFFINITY", session.cluster.nodes[1].hex, soft)
    session.start(session.task("first", strategy=only))
    assert said(session, session.task("second", strategy=only)) == (
        "resources_busy",
        f"task second waits for 1 CPU on {NODE}, where 0 of 1 CPU are free: task first holds 1 CPU",
    )


def test_tasks_without_cpus_wait_for_workers_that_are_starting():
    """No more workers start at once than there are CPUs."""
    session = StillSession(CPU=1)
    session.task("first", cpus=0)
    reason, sentence = said(session, session.task("second", cpus=0))
    assert (reason, sentence) == (
        "workers_starting",
        f"task second waits for the worker that is starting on {NODE}",
    )


def test_a_task_with_a_worker():
    """The worker's thread starts, then the task is about to run, then it runs."""
    session = StillSession(CPU=1)
    task = session.task("soon")
    assert said(session, task)[0] == "worker_starting"
    session.cluster.worker_started(session.tick(), task.worker)
    assert said(session, task)[0] == "about_to_run"
    task.t_started = session.tick()
    assert said(session, task) == ("running", "task soon is running")


# ---------------------------------------------------------------- arguments


def test_a_missing_argument_and_the_task_that_makes_it():
    """The chain is told in one sentence; as data it is a list of steps."""
    session = StillSession(CPU=2)
    huge = session.task("huge", cpus=16)
    after = session.task("after", huge.returns[0])
    assert said(session, after) == (
        "infeasible",
        "task after waits for its argument from task huge, which needs 16 CPU, and no node has that much: the nearest, "
        f"{NODE}, has 2 CPU",
    )
    steps = explain(session, after.hex).chain
    assert [(step["kind"], step["id"], step["reason"]) for step in steps] == [
        ("task", after.hex, "argument_missing"),
        ("task", huge.hex, "infeasible"),
    ]
    assert steps[0]["details"]["missing"] == [huge.returns[0].hex]


def test_several_missing_arguments_are_counted():
    """The chain follows the first of them."""
    session = StillSession(CPU=2)
    first, second = session.task("first", cpus=2), session.task("second", cpus=2)
    session.start(first)
    both = session.task("both", first.returns[0], second.returns[0])
    assert said(session, both) == (
        "running",
        "task both waits for 2 arguments, the first from task first, which is running",
    )


def test_a_chain_of_many_tasks_is_a_short_sentence():
    """The chain is followed to its end without recursion. The sentence has its first steps and its last one."""
    session = StillSession(CPU=1)
    task = session.task("root", cpus=2)
    for i in range(2_000):
        task = session.task(f"t{i}", task.returns[0], cpus=1)
    reason, sentence = said(session, task)
    assert reason == "infeasible" and len(sentence) < 500
    assert sentence.startswith("task t1999 waits for its argument from task t1998, which ")
    assert "task t1994; 1,995 steps further on, task root needs 2 CPU" in sentence


# ---------------------------------------------------------------- actors


def test_a_call_of_an_actor_that_is_not_alive_yet():
    """The call, and the actor, wait for whatever the constructor waits for."""
    session = StillSession(CPU=1)
    actor = session.actor("Big", cpus=8)
    cause = f"needs 8 CPU, and no node has that much: the nearest, {NODE}, has 1 CPU"
    assert said(session, session.call(actor)) == (
        "infeasible",
        f"call Big.go waits for the constructor of actor Big, which {cause}",
    )
    assert said(session, actor) == ("infeasible", f"actor Big cannot start yet: its constructor {cause}")


def test_an_actor_whose_constructor_runs():
    """It is starting; its calls wait for the constructor."""
    session = StillSession(CPU=1)
    actor = session.actor()
    session.start(actor.creation)
    assert said(session, actor) == ("running", "actor Keeper is starting: its constructor is running")
    assert said(session, session.call(actor))[1] == (
        "call Keeper.go waits for the constructor of actor Keeper, which is running"
    )


def test_a_call_of_an_actor_that_is_restarting():
    """A call waits until the constructor has run again."""
    session = StillSession(CPU=1)
    actor = session.living_actor(max_restarts=1)
    session.cluster.kill_actor(session.tick(), actor, no_restart=False)
    waiting = session.call(actor)
    assert said(session, waiting) == (
        "worker_starting",
        "call Keeper.go cannot run while its actor restarts, and waits for the constructor of actor Keeper, "
        "which was given to a worker whose thread is still starting",
    )
    assert said(session, actor)[1].startswith("actor Keeper is restarting: its constructor was given to a worker")
    assert explain(session, waiting.hex).chain[0]["reason"] == "actor_restarting"
    assert explain(session, actor.hex).chain[0]["reason"] == "actor_restarting"


def test_a_call_behind_another_in_the_queue():
    """The sentence names the call that runs, and tells what that call does."""
    session = StillSession(CPU=1)
    actor = session.living_actor()
    session.start(session.call(actor, "slow"))
    assert said(session, session.call(actor, "quick")) == (
        "running",
        "call Keeper.quick is queued at actor Keeper behind call Keeper.slow, which is running",
    )
    assert explain(session, list(actor.calls.values())[1].hex).chain[0]["reason"] == "mailbox_order"


def test_a_call_behind_one_that_lacks_an_argument():
    """In an actor that keeps order, no call overtakes another one of the same caller."""
    session = StillSession(CPU=1)
    actor = session.living_actor()
    never = session.task("never", cpus=9)
    session.call(actor, "first", never.returns[0])
    assert said(session, session.call(actor, "second"))[1].startswith(
        "call Keeper.second is queued at actor Keeper behind call Keeper.first, which waits for its argument "
        "from task never"
    )


def test_a_call_is_behind_those_of_its_own_caller_only():
    """A call of another caller that lacks an argument is in front of it, and may be overtaken."""
    session = StillSession(CPU=1)
    actor, owner = session.living_actor(), session.start(session.task("caller"))
    never = session.task("never", cpus=9)
    session.call(actor, "others", never.returns[0])
    session.call(actor, "first", never.returns[0], owner=owner)
    assert said(session, session.call(actor, "second", owner=owner))[1].startswith(
        "call Keeper.second is queued at actor Keeper behind call Keeper.first, which waits"
    )


def test_an_actor_that_has_ended_itself_waits_for_its_unfinished_work():
    """Not for what it has submitted and is done. Its queued calls wait for the same."""
    session = StillSession(CPU=2)
    actor = session.living_actor()
    leaves = session.call(actor, "leave")
    worker = session.start(leaves)
    done, open_ = session.task("done", owner=worker), session.task("open", owner=worker)
    queued = session.call(actor, "late")
    session.start(done)
    session.start(open_)
    session.finish(done)
    session.cluster.actor_exited(session.tick(), worker, leaves, "it has exited")
    assert said(session, actor) == (
        "running",
        "actor Keeper has ended itself, and waits for 1 task that it has submitted or runs, the first is running",
    )
    first = explain(session, actor.hex).chain[0]
    assert (first["reason"], first["details"]) == ("actor_ending", {"work": [open_.hex]})
    assert queued.t_finished or explain(session, queued.hex).chain[0]["reason"] == "actor_ending"


def test_a_call_over_the_concurrency_limit():
    """As many calls run at once as the limit allows."""
    session = StillSession(CPU=1)
    actor = session.living_actor(limit=2, groups={"io": 3})
    for i in range(2):
        session.start(session.call(actor, f"slow{i}"))
    reason, sentence = said(session, session.call(actor, "third"))
    assert sentence == (
        "call Keeper.third is queued at actor Keeper, which runs 2 of at most 2 calls at once, "
        "among them call Keeper.slow0, which is running"
    )
    assert explain(session, list(actor.calls.values())[2].hex).chain[0]["reason"] == "concurrency_limit"
    session.start(session.call(actor, "read", group="io"))
    session.start(session.call(actor, "read", group="io"))
    session.start(session.call(actor, "read", group="io"))
    assert said(session, session.call(actor, "write", group="io"))[1].startswith(
        "call Keeper.write is queued at actor Keeper, concurrency group 'io', which runs 3 of at most 3 calls at once"
    )


def test_a_dead_actor_and_why():
    """The sentence has the error of the constructor, if that is why the actor died."""
    session = StillSession(CPU=1)
    killed, broken = session.living_actor(), session.actor("Broken")
    session.cluster.kill_actor(session.tick(), killed)
    assert said(session, killed) == ("actor_dead", "actor Keeper is dead: it was killed by `ray.kill`")
    session.start(broken.creation)
    session.fail(broken.creation, "ValueError: born broken")
    assert said(session, broken) == (
        "actor_dead",
        "actor Broken is dead: its constructor failed: ValueError: born broken",
    )


def test_a_living_actor():
    """The sentence counts the calls that run and those that wait."""
    session = StillSession(CPU=1)
    actor = session.living_actor()
    session.start(session.call(actor))
    session.call(actor)
    assert said(session, actor) == ("alive", "actor Keeper is alive: 1 call running, 1 waiting")


# ---------------------------------------------------------------- placement groups


def test_a_placement_group_that_does_not_fit_now():
    """The nodes are large enough, but not enough of them is free."""
    session = StillSession(CPU=2)
    session.start(session.task("first", cpus=2))
    assert said(session, session.group({"CPU": 1}, {"CPU": 1}, name="pair")) == (
        "resources_busy",
        "placement group 'pair' needs 2 bundles of 1 CPU each (PACK), and there is not enough free: "
        "task first holds 2 CPU",
    )


def test_a_placement_group_with_a_bundle_that_fits_nowhere():
    """The sentence names the bundle and the nearest node."""
    session = StillSession(CPU=2)
    assert said(session, session.group({"CPU": 1}, {"CPU": 5}, name="wide")) == (
        "infeasible",
        "placement group 'wide' needs 1 bundle of 1 CPU and 1 bundle of 5 CPU (PACK), and no node has room for "
        f"bundle 1: the nearest, {NODE}, has 2 CPU",
    )


def test_a_placement_group_whose_bundles_fit_but_not_together():
    """A strict spread needs as many nodes as bundles."""
    session = StillSession(CPU=2)
    assert said(session, session.group({"CPU": 1}, {"CPU": 1}, strategy="STRICT_SPREAD", name="far")) == (
        "infeasible",
        "placement group 'far' needs 2 bundles of 1 CPU each (STRICT_SPREAD), and the only living node cannot satisfy "
        "that, even when idle",
    )


def test_a_task_in_a_placement_group():
    """It waits for the group, then for its bundle; forever if the bundle is too small or the group is removed."""
    session = StillSession(CPU=2)
    placed, pending = session.group({"CPU": 1}, name="placed"), session.group({"CPU": 9}, name="pending")

    def task(name, group, cpus=1):
        return session.task(name, strategy=("PLACEMENT_GROUP", group.number, 0), cpus=cpus)

    early = task("early", pending)
    assert said(session, early)[1].startswith(
        "task early waits for placement group 'pending', which needs 1 bundle of 9 CPU"
    )
    assert explain(session, early.hex).chain[0]["reason"] == "placement_group_pending"
    session.start(task("first", placed))
    assert said(session, task("second", placed)) == (
        "bundle_busy",
        "task second waits for 1 CPU in bundle 0 of placement group 'placed': task first holds 1 CPU",
    )
    assert said(session, task("large", placed, 2)) == (
        "bundle_too_small",
        "task large needs 2 CPU in bundle 0 of placement group 'placed', which has 1 CPU: it will never fit",
    )
    assert said(session, placed) == ("created", "placement group 'placed' has its resources")
    session.cluster.remove_placement_group(session.tick(), pending)
    assert said(session, pending) == ("placement_group_removed", "placement group 'pending' was removed")
    assert said(session, early) == (
        "placement_group_removed",
        "task early can never run, because placement group 'pending' was removed",
    )


def test_the_ready_object_of_a_group_is_explained_by_the_group():
    """A task that waits for `ready` is told why the group is not placed."""
    session = StillSession(CPU=1)
    group = session.group({"CPU": 4}, name="wide")
    assert explain(session, group.ready.hex).reason == "infeasible"
    assert said(session, session.task("after", group.ready))[1].startswith(
        "task after waits for its argument from placement group 'wide', which needs"
    )


# ---------------------------------------------------------------- tasks and objects that are done


def test_a_finished_task_and_its_value():
    """A task has finished or failed; an object is available or holds an error."""
    session = StillSession(CPU=1)
    good, bad = session.done("good"), session.task("bad")
    session.start(bad)
    session.fail(bad)
    assert said(session, good) == ("finished", "task good has finished")
    assert said(session, bad) == ("failed", "task bad has failed: ValueError: no")
    assert said(session, good.returns[0]) == ("ready", "the result of task good is available")
    assert said(session, bad.returns[0]) == (
        "failed",
        "the result of task bad holds an error: TASK_EXECUTION_EXCEPTION: ValueError: no",
    )


def test_values_that_are_not_in_memory():
    """They are in a file, or they are lost and rebuilt when they are needed."""
    session = StillSession(CPU=1, store_bytes=1_500_000)
    value, made = session.spilled(), session.task("make", retries=1)
    session.start(made)
    session.finish(made, 200_000)
    session.cluster.lose_object(session.tick(), made.returns[0])
    assert said(session, value) == ("spilled", "a put object was spilled to a file, and is read back when it is needed")
    assert said(session, made.returns[0])[0] == "lost"


def test_a_generator_that_waits_for_its_consumer():
    """Backpressure: it goes on when its consumer takes more."""
    session = StillSession(CPU=1)
    task = session.task("stream", num_returns="streaming")
    session.start(task)
    task.stream.producer_waiter = object()
    assert said(session, task) == (
        "backpressure",
        "task stream has yielded 0 items, and waits until its consumer takes more",
    )
    assert link(session, task.stream).next is task
    assert link(session, task.stream).id == task.returns[0].hex


def test_a_task_that_is_blocked_in_get():
    """The chain follows the object that the task waits for."""
    session = StillSession(CPU=1)
    outer = session.task("outer")
    worker = session.start(outer)
    inner = session.task("inner", owner=worker, cpus=7)
    session.wait(worker, inner.returns[0])
    assert said(session, outer) == (
        "infeasible",
        "task outer is blocked in get() or wait() on task inner, which needs 7 CPU, and no node has that much: "
        f"the nearest, {NODE}, has 1 CPU",
    )


def test_ids_without_a_record():
    """They are a ValueError; a thing that can have no id is a TypeError. An id may be written in upper case."""
    session = StillSession(CPU=1)
    task = session.done("known")
    for text in ("0" * 48, "zz", "f" * 56, "", "0" * 32, "0" * 36):
        with pytest.raises(ValueError, match="is not the id"):
            explain(session, text)
    with pytest.raises(TypeError):
        explain(session, 3)
    assert explain(session, task.hex.upper()).id == task.hex


def test_no_pending_thing_has_an_empty_explanation():
    """In a session with one record of each kind, every explanation has a reason, a sentence and a chain."""
    session = StillSession(CPU=4)
    running = session.task("running", cpus=2)
    worker = session.start(running)
    session.wait(worker, session.task("too large", cpus=99).returns[0])
    session.task("hungry", running.returns[0])
    actor, unborn = session.living_actor(), session.actor("Unborn", running.returns[0])
    session.call(unborn)
    session.start(session.call(actor))
    for i in range(3):
        session.call(actor, "go", *([running.returns[0]] if i else []))
    for group in (session.group({"CPU": 1}), session.group({"CPU": 50}), session.group({"CPU": 4})):
        for cpus in (1, 2):
            session.task(f"in group {cpus}", strategy=("PLACEMENT_GROUP", group.number, -1), cpus=cpus)
    cluster = session.cluster
    for record in [
        *cluster.tasks.values(),
        *cluster.actors.values(),
        *cluster.placement_groups.values(),
        *cluster.objects.values(),
    ]:
        found = explain(session, record.hex)
        assert found.reason and found.chain and found.sentence.count(" ") > 2, record
        assert all(step["text"].strip() and step["reason"] for step in found.chain), record
