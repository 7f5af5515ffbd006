"""Which node a task goes to, and when."""

from __future__ import annotations

import pytest

from miniray.core.actions import RunTask, Say, StartWorker, StopWorker
from miniray.core.records import UNIT
from miniray.core.transitions import ActorStatus, TaskStatus, WorkerStatus
from tests.core.builders import (
    LARGE,
    NOW,
    a_task,
    a_value,
    add_node,
    an_actor,
    crash,
    drop,
    finish,
    finished_task,
    free,
    node,
    one_node,
    raise_in,
    running_task,
    several_nodes,
    started,
    submitted,
)

WAITS, LEASED, FAILED = TaskStatus.PENDING_NODE_ASSIGNMENT, TaskStatus.SUBMITTED_TO_WORKER, TaskStatus.FAILED


# ---------------------------------------------------------------- workers and queues


def test_the_first_task_gets_a_worker_that_is_started_for_it():
    """The worker finds the task in its record: no second action says so."""
    c = one_node(cpus=1)
    task = a_task(c)
    actions = c.submit_task(NOW, task)
    assert actions == [StartWorker(task.worker)] and task.worker.task is task
    assert task.status is LEASED and free(c) == 0


def test_a_task_that_finds_no_cpu_waits():
    """It is not lost, and nothing is asked of the runtime."""
    c = one_node(cpus=1)
    running_task(c)
    second = a_task(c)
    assert c.submit_task(NOW, second) == [] and second.status is WAITS


def test_an_idle_worker_is_told_to_run():
    """A worker that waits is woken; none is started."""
    c = one_node(cpus=1)
    first, worker = running_task(c)
    finish(c, first)
    task = a_task(c)
    assert c.submit_task(NOW, task) == [RunTask(worker, task)]


def test_the_last_worker_to_park_is_the_first_to_be_taken():
    """What it has in its caches is the warmest."""
    c = one_node(cpus=2)
    (first, early), (second, late) = running_task(c), running_task(c)
    finish(c, first)
    finish(c, second)
    assert submitted(c).worker is late and submitted(c).worker is early


def test_a_worker_that_ends_a_task_takes_the_next_in_the_same_step():
    """It looks into its record when the report returns: no action, no other thread."""
    c = one_node(cpus=1)
    first, worker = running_task(c)
    second = submitted(c)
    assert finish(c, first) == [] and worker.task is second and second.worker is worker


def test_tasks_of_a_class_run_in_the_order_of_submission():
    """Whoever asked first is first."""
    c = one_node(cpus=1)
    current, _ = running_task(c)
    waiting = [submitted(c) for _ in range(5)]
    for task in waiting:
        finish(c, current)
        assert task.status is LEASED
        current = task


def test_what_cannot_be_placed_holds_up_only_its_own_kind():
    """A large task waits in its class; a small one behind it runs."""
    c = one_node(cpus=2)
    running_task(c)
    large = submitted(c, cpus=2)
    small = submitted(c, cpus=1)
    assert large.status is WAITS and small.status is LEASED


def test_infeasible_tasks_stand_in_one_queue_that_nobody_scans():
    """A hundred of them are one entry, and leave those behind them alone."""
    c = one_node(cpus=1)
    stuck = [submitted(c, cpus=4) for _ in range(100)]
    assert len(c.scheduler.infeasible) == 1 and not c.scheduler.waiting
    finish(c, running_task(c)[0])
    assert all(task.status is WAITS for task in stuck)


def test_an_infeasible_request_is_said_once():
    """The user reads which resources are missing, not once per task."""
    c = one_node(cpus=1)
    said = [action for _ in range(3) for action in c.submit_task(NOW, a_task(c, cpus=4)) if type(action) is Say]
    assert len(said) == 1 and said[0].level == "WARNING" and "'CPU': 4.0" in said[0].text


def test_what_was_infeasible_runs_when_a_node_joins():
    """The class is looked at again, and all of it starts that fits."""
    c = one_node(cpus=1)
    stuck = [submitted(c, cpus=4) for _ in range(3)]
    add_node(c, cpus=8)
    assert [task.status for task in stuck] == [LEASED, LEASED, WAITS]


def test_a_cancelled_task_in_a_queue_is_passed_over():
    """The next of its class takes its turn."""
    c = one_node(cpus=1)
    first, worker = running_task(c)
    cancelled, second = submitted(c), submitted(c)
    c.cancel(NOW, cancelled, False, False)
    finish(c, first)
    assert worker.task is second


def test_spare_idle_workers_are_stopped():
    """One per CPU and a few more are kept; the one that has been idle longest goes first."""
    c = one_node(cpus=1)
    running = [running_task(c, cpus=0) for _ in range(20)]
    stopped = [action for task, _ in running for action in finish(c, task) if type(action) is StopWorker]
    assert stopped and stopped[0].worker is running[0][1] and stopped[0].worker.status is WorkerStatus.DEAD
    assert len(node(c).idle) + len(stopped) == 20


def test_an_actors_constructor_is_not_taken_by_a_worker_that_ends_a_task():
    """An actor that holds a CPU is of the same class as a task that needs one. The worker used to run the constructor, and the
    actor had no worker of its own."""
    c = one_node(cpus=1)
    task, worker = running_task(c)
    actor = an_actor(c, holds_cpus=1)
    finish(c, task)
    assert worker.status is WorkerStatus.IDLE and actor.worker is not worker and actor.worker.actor is actor


def test_tasks_without_cpus_share_a_few_threads():
    """As many workers start as there are CPUs; the others wait for one of them, or for one that blocks."""
    c = one_node(cpus=2)
    tasks = [submitted(c, cpus=0) for _ in range(10)]
    assert sum(task.status is LEASED for task in tasks) == 2
    started(c, tasks[0])
    assert sum(task.status is LEASED for task in tasks) == 3


# ---------------------------------------------------------------- resources


def test_fractions_of_a_cpu_add_up_exactly():
    """Ten tenths are one: amounts are counted in whole units."""
    c = one_node(cpus=1)
    tasks = [running_task(c, cpus=0.1)[0] for _ in range(10)]
    assert node(c).available["CPU"] == 0 and submitted(c, cpus=0.1).status is WAITS
    for task in tasks:
        finish(c, task)
    assert submitted(c, cpus=0.9).status is LEASED


def test_every_resource_is_given_back_however_a_task_ends():
    """Return, error, crash, forced cancellation."""
    c = one_node(cpus=4, fast=2)
    for end in (
        finish,
        raise_in,
        lambda c, task: crash(c, task.worker),
        lambda c, task: c.cancel(NOW, task, True, False),
    ):
        task, _ = running_task(c, cpus=3, fast=2)
        assert free(c) == 1 and free(c, name="fast") == 0
        end(c, task)
        assert free(c) == 4 and free(c, name="fast") == 2


def test_whole_gpus_are_given_by_number():
    """Two tasks never see the same one."""
    c = one_node(cpus=4, GPU=3)
    (_, first), (second_task, second) = running_task(c, GPU=1), running_task(c, GPU=2)
    assert first.gpu_ids == (0,) and second.gpu_ids == (1, 2)
    finish(c, second_task)
    assert running_task(c, GPU=1)[1].gpu_ids == (1,)


def test_parts_of_gpus_fill_one_before_the_next_is_touched():
    """Halves share; what needs a whole one still finds it."""
    c = one_node(cpus=4, GPU=2)
    assert [running_task(c, GPU=0.5)[1].gpu_ids for _ in range(2)] == [(0,), (0,)]
    assert running_task(c, GPU=1)[1].gpu_ids == (1,)


def test_two_halves_of_different_gpus_are_not_a_whole_one():
    """The sum would be enough; no single GPU is."""
    c = one_node(cpus=8, GPU=2)
    running = [running_task(c, GPU=0.6)[0], running_task(c, GPU=0.6)[0]]
    wanted = submitted(c, GPU=1)
    drop(c, *running[0].returns)
    assert wanted.status is WAITS
    finish(c, running[0])
    assert wanted.status is LEASED and wanted.worker.gpu_ids == (0,)


# ---------------------------------------------------------------- nodes


def test_nodes_are_filled_up_to_a_half_before_the_next():
    """Ray's hybrid policy: the submitter's node first, then the others, then the least used."""
    c = several_nodes(4, 4)
    assert [running_task(c)[0].node.number for _ in range(8)][:4] == [1, 1, 2, 2]
    assert free(c, 1) == free(c, 2) == 0


def test_a_task_goes_to_the_node_with_most_of_its_arguments():
    """Bytes are not moved when there is room where they are."""
    c = several_nodes(4, 4)
    value = a_value(c, LARGE, strategy=("NODE_AFFINITY", node(c, 2).hex, False))
    assert submitted(c, deps=(value,)).node is node(c, 2)


def test_spread_takes_the_nodes_in_turn():
    """Also when the first has room for all."""
    c = several_nodes(8, 8, 8)
    assert sorted(submitted(c, strategy=("SPREAD",)).node.number for _ in range(6)) == [1, 1, 2, 2, 3, 3]


def test_hard_affinity_waits_for_its_node():
    """Another node with room does not help."""
    c = several_nodes(2, 1)
    here = ("NODE_AFFINITY", node(c, 2).hex, False)
    first, _ = running_task(c, strategy=here)
    second = submitted(c, strategy=here)
    assert first.node is node(c, 2) and second.status is WAITS
    finish(c, first)
    assert second.node is node(c, 2)


def test_hard_affinity_to_a_node_that_is_not_there_fails():
    """At once, and with Ray's error."""
    c = one_node()
    task = submitted(c, strategy=("NODE_AFFINITY", "f" * 56, False))
    assert task.status is FAILED and task.failure.error_type == "TASK_UNSCHEDULABLE_ERROR"
    actor = an_actor(c, strategy=("NODE_AFFINITY", "f" * 56, False))
    assert actor.status is ActorStatus.DEAD and actor.failure.error_type == "ACTOR_UNSCHEDULABLE_ERROR"


def test_what_waits_for_a_node_by_name_fails_when_that_node_dies():
    """All of the queue, also what was infeasible: it used to wait for ever."""
    c = several_nodes(1, 1)
    here = ("NODE_AFFINITY", node(c, 2).hex, False)
    running_task(c, strategy=here)
    waiting = [submitted(c, strategy=here) for _ in range(3)]
    c.remove_node(NOW, node(c, 2))
    assert [task.failure.error_type for task in waiting] == ["TASK_UNSCHEDULABLE_ERROR"] * 3


def test_soft_affinity_goes_elsewhere_when_its_node_is_gone():
    """A wish, not a condition."""
    c = several_nodes(1, 1)
    wish = ("NODE_AFFINITY", node(c, 2).hex, True)
    assert submitted(c, strategy=wish).node is node(c, 2)
    c.remove_node(NOW, node(c, 2))
    assert submitted(c, strategy=wish).node is node(c, 1)


def test_what_waits_for_the_node_it_prefers_goes_elsewhere_when_that_dies():
    """At once: it used to wait for the next event."""
    c = several_nodes(1, 1)
    wish = ("NODE_AFFINITY", node(c, 2).hex, True)
    actor = an_actor(c, holds_cpus=1, strategy=wish)
    waiting = submitted(c, strategy=wish)
    assert actor.node is node(c, 2) and waiting.worker is None
    c.remove_node(NOW, node(c, 2))
    assert waiting.node is node(c, 1)


@pytest.mark.parametrize("operator, values, number", [("in", ("a", "b"), 2), ("not_in", ("b",), 1), ("exists", (), 2)])
def test_a_label_selector_restricts_the_nodes(operator, values, number):
    """Those with the label, without the value, or with any value of it."""
    c = one_node(cpus=2)
    add_node(c, cpus=2, labels={"zone": "b"})
    assert submitted(c, selector=(("zone", operator, values),)).node is node(c, number)


def test_soft_labels_are_preferred_and_hard_ones_required():
    """A task whose hard labels no node has waits for one that does."""
    c = one_node(cpus=2, labels={"zone": "a"})
    add_node(c, cpus=1, labels={"zone": "a", "disk": "ssd"})
    hard, soft = (("zone", "in", ("a",)),), (("disk", "in", ("ssd",)),)
    assert submitted(c, strategy=("NODE_LABEL", hard, soft)).node is node(c, 2)
    assert submitted(c, strategy=("NODE_LABEL", hard, soft)).node is node(c, 1)
    waiting = submitted(c, strategy=("NODE_LABEL", (("zone", "in", ("z",)),), ()))
    assert waiting.status is WAITS
    assert add_node(c, labels={"zone": "z"}) is waiting.node


# ---------------------------------------------------------------- workers that wait


def test_a_worker_that_waits_lends_its_cpu():
    """The child runs in the parent's CPU, and the parent goes on after it."""
    c = one_node(cpus=1)
    parent, worker = running_task(c)
    child = submitted(c, owner=worker, parent=parent.hex)
    assert child.status is WAITS
    assert c.blocked(NOW, worker) == [StartWorker(child.worker)] and worker.status is WorkerStatus.BLOCKED
    started(c, child)
    finish(c, child)
    c.unblocked(NOW, worker)
    assert worker.status is WorkerStatus.LEASED and free(c) == 0 and worker.lent == 0


def test_a_worker_goes_on_without_its_cpu_when_others_have_it():
    """To wait for it could wait for ever; there is nothing negative, and at the end all is back."""
    c = one_node(cpus=1)
    parent, worker = running_task(c)
    c.blocked(NOW, worker)
    other, _ = running_task(c)
    c.unblocked(NOW, worker)
    assert worker.lent == UNIT and free(c) == 0
    finish(c, parent)
    assert free(c) == 0
    finish(c, other)
    assert free(c) == 1


def test_a_worker_that_waits_twice_lends_its_cpu_once():
    """It had not got it back after the first wait; the second used to lend it again, and a CPU came out of nothing."""
    c = one_node(cpus=1)
    _, worker = running_task(c)
    c.blocked(NOW, worker)
    running_task(c)
    c.unblocked(NOW, worker)
    c.blocked(NOW, worker)
    assert free(c) == 0 and submitted(c).status is WAITS


def test_a_worker_that_dies_while_it_waits_gives_back_what_it_had_left():
    """Its CPU had been lent already."""
    c = one_node(cpus=2, fast=1)
    _, worker = running_task(c, fast=1)
    c.blocked(NOW, worker)
    assert free(c) == 2 and free(c, name="fast") == 0
    crash(c, worker)
    assert free(c) == 2 and free(c, name="fast") == 1


def test_a_task_that_fails_in_its_turn_may_end_an_actor_whose_cpu_is_given_on():
    """The dispatch that failed it used to take the next task out of the queue without running it."""
    c = several_nodes(1, 1)
    holder = an_actor(c, holds_cpus=1, strategy=("NODE_AFFINITY", node(c, 1).hex, False))
    started(c, holder.creation)
    c.task_finished(NOW, holder.worker, holder.creation, ())
    there = ("NODE_AFFINITY", node(c, 2).hex, False)
    busy, _ = running_task(c, strategy=there)
    doomed = submitted(c, strategy=there, contained=(holder.handle,))
    waiting = [submitted(c, strategy=("NODE_AFFINITY", node(c, 1).hex, False)) for _ in range(2)]
    drop(c, holder.handle)
    c.remove_node(NOW, node(c, 2))
    assert doomed.status is FAILED and busy.status is FAILED and holder.status is ActorStatus.DEAD
    assert [task.status for task in waiting] == [LEASED, WAITS]
    started(c, waiting[0])
    finish(c, waiting[0])
    assert waiting[1].status is LEASED


def test_the_same_demand_is_one_class():
    """However often, and in whatever order of its resources, it is asked for."""
    c = one_node()
    assert finished_task(c, cpus=1).spec.scheduling_class is finished_task(c, cpus=1).spec.scheduling_class
    a, b = {"CPU": UNIT, "GPU": UNIT}, {"GPU": UNIT, "CPU": UNIT}
    assert c.scheduler.scheduling_class(a, a) is c.scheduler.scheduling_class(b, b)
