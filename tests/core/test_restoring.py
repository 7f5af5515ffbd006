"""A session is rebuilt from rows that are written down here. tests/telemetry records and reads real sessions."""

from __future__ import annotations

from miniray.core.cluster import Cluster
from miniray.core.records import ACTOR_TASK, NORMAL_TASK
from miniray.core.restoring import EARLIER_BITS, Restoring
from miniray.core.task_events import OTHER_NAMES
from miniray.core.transitions import ActorStatus, PlacementGroupStatus, TaskStatus


class Row(dict):
    """A row. Columns that a test does not mention are NULL."""

    def __missing__(self, name):
        return None


def rebuilt(**tables) -> Cluster:
    """The cluster of these tables; the other ones are empty."""
    return Restoring().rebuilt(lambda table: tables.get(table, []))


def a_node(**columns) -> Row:
    """A node that is alive."""
    store = {"store_json": {}, "store_capacity_bytes": 100, "store_used_bytes": 0, "store_spilled_bytes": 0}
    has = {"resources_total_json": {"CPU": 4}, "resources_available_json": {"CPU": 4}, "labels_json": {}}
    return Row({"number": 1, **store, **has, "starting": 0, "state": "ALIVE", **columns})


def a_group(**columns) -> Row:
    """A placement group."""
    return Row({"number": 5, "strategy": "SPREAD", "name": "g", "attempts": 2, "created_us": 1_500_000, **columns})


def a_spec(**columns) -> Row:
    """What the calls of a function have in common."""
    names = {"given_name": "f", "func_name": "f", "module": "m", "num_returns": 1, "max_retries": 0, "max_calls": 0}
    return Row({"id": 1, "kind": NORMAL_TASK, "backpressure": -1, **names, **columns})


def an_attempt(key=1, **columns) -> Row:
    """The last attempt of a task, if the key is positive."""
    return Row({"key": key, "spec": 1, "attempt": 0, "state": "FINISHED", "created_us": 1_000_000, **columns})


def an_actor(**columns) -> Row:
    """An actor that is alive, on worker 1."""
    counts = {"num_restarts": 0, "max_restarts": 0, "num_executed_calls": 0, "lineage": 0}
    names = {"class_name": "Counter", "ray_namespace": "", "groups_json": {"": {"limit": 2}}}
    return Row({"id": 7, "state": "ALIVE", "worker": 1, "node": 1, **counts, **names, **columns})


def a_worker(**columns) -> Row:
    """A worker of node 1 that runs a task."""
    return Row({"number": 1, "node": 1, "state": "LEASED", "tasks_done": 0, "lent": 0, **columns})


def test_a_resource_that_is_not_among_the_available_ones_is_all_in_use():
    """A row names the resources that are left."""
    c = rebuilt(nodes=[a_node(resources_total_json={"CPU": 4, "GPU": 1}, resources_available_json={})])
    assert c.nodes[1].available == {"CPU": 0, "GPU": 0} and c.nodes[1].total == {"CPU": 40_000, "GPU": 10_000}


def test_single_devices_keep_their_numbers():
    """JSON has turned the numbers into strings. A node without devices has NULL."""
    c = rebuilt(nodes=[a_node(free_devices_json={"GPU": {"0": 10000, "3": 5000}}), a_node(number=2)])
    assert c.nodes[1].free_devices == {"GPU": {0: 10_000, 3: 5_000}} and c.nodes[2].free_devices == {}


def test_a_placement_group():
    """Its bundles come in their order, on the nodes that still have a row. Times are in seconds."""
    groups = [a_group(state="CREATED", placed_us=2_500_000), a_group(number=6, state="PENDING")]
    bundles = [
        Row(placement_group=5, bundle_index=1, resources_json={"GPU": 1}, available_json={}, node=9),
        Row(placement_group=5, bundle_index=0, resources_json={"CPU": 1}, available_json={"CPU": 1}, node=1),
    ]
    c = rebuilt(nodes=[a_node()], placement_groups=groups, bundles=bundles)
    created = c.placement_groups[5]
    assert created.status is PlacementGroupStatus.CREATED and (created.number, created.attempts) == (5, 2)
    assert (created.t_created, created.t_placed) == (1.5, 2.5)
    assert [(bundle.total, bundle.available, bundle.node) for bundle in created.bundles] == [
        ({"CPU": 10_000}, {"CPU": 10_000}, c.nodes[1]),
        ({"GPU": 10_000}, {}, None),
    ]
    assert c.placement_groups[6].t_placed == 0.0 and list(c.groups.waiting) == [6]


def test_an_event_about_a_node_that_has_no_row_keeps_the_id():
    """The node counts as one that joined later than the head, so that the event is listed."""
    event = Row(timestamp_us=1_500_000, kind="node_joined", message="it joined", about_kind="node", about_number=9)
    [line] = rebuilt(cluster_events=[Row(event, about_id="abc")]).events
    assert (line.at, line.kind, line.text) == (1.5, "node_joined", "it joined")
    assert line.about.hex == "abc" and not line.about.is_head


def test_the_attempts_of_a_task():
    """Each has its own times, in seconds; a moment that has not come is 0."""
    times = {"ready_us": 2_000_000, "leased_us": 3_000_000, "started_us": 4_000_000}
    over = {"ended_us": 5_000_000, "finished_us": 6_000_000}
    first = an_attempt(-(1 << EARLIER_BITS), **times, **over, failure=1)
    last = an_attempt(state="RUNNING", attempt=1, **times, worker=1)
    failures = [Row(id=1, error_type="WORKER_DIED", message="it crashed", text="it crashed")]
    c = rebuilt(nodes=[a_node()], workers=[a_worker()], _specs=[a_spec()], _attempts=[last, first], _failures=failures)
    task = c.tasks[1]
    assert (task.t_created, task.t_ready, task.t_leased, task.t_started) == (1.0, 2.0, 3.0, 4.0)
    assert (task.t_ended, task.t_finished) == (0.0, 0.0) and task.status is TaskStatus.SUBMITTED_TO_WORKER
    assert task.worker is c.workers[1] and task.node is c.nodes[1] and task.attempt == 1
    [past] = task.history
    assert (past.number, past.t_started, past.t_ended, past.t_finished) == (0, 4.0, 5.0, 6.0)
    assert past.failure.error_type == "WORKER_DIED"


def test_the_calls_of_an_actor():
    """One runs and one is queued."""
    c = rebuilt(
        nodes=[a_node()],
        workers=[a_worker(actor=7)],
        actors=[an_actor()],
        _specs=[a_spec(kind=ACTOR_TASK, func_name="Counter.add")],
        _attempts=[
            an_attempt(8, actor=7, state="RUNNING", started_us=2_000_000, worker=1),
            an_attempt(9, actor=7, state="SUBMITTED_TO_WORKER"),
        ],
    )
    actor = c.actors[7]
    group = actor.groups[""]
    assert actor.worker is c.workers[1] and list(actor.calls) == [8, 9]
    assert (group.running, group.limit, [task.number for task in group.queue]) == (1, 2, [9])


def test_a_call_of_an_actor_that_has_no_row():
    """The session has dropped the actor: a dead one of the same class is in its place."""
    spec = a_spec(kind=ACTOR_TASK, func_name="Counter.add")
    c = rebuilt(nodes=[a_node()], _specs=[spec], _attempts=[an_attempt(8, actor=7, finished_us=2_000_000)])
    actor = c.tasks[8].actor
    assert (actor.class_name, actor.status, actor.number) == ("Counter", ActorStatus.DEAD, 7) and not c.actors


def test_attempts_of_a_name_that_was_counted_twice_are_not_added_twice():
    """The session had kept one of three records of f, and counted the two others, and four of g, under one name."""
    restoring = Restoring()
    tables = {
        "nodes": [a_node()],
        "_specs": [a_spec()],
        "_attempts": [an_attempt(number, finished_us=2_000_000) for number in (1, 2, 3)],
    }
    c = restoring.rebuilt(lambda table: tables.get(table, []))
    restoring.attempts([["f", False, True, 1], [OTHER_NAMES, False, True, 6]])
    assert c.totals.dropped_tasks == {(OTHER_NAMES, False, True): 4} and len(c.tasks) == 3
