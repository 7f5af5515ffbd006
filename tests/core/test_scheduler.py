"""The scheduler: which node a task goes to, and when."""

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
    """The worker finds the task in its record, so there is no second action."""
    c = one_node(cpus=1)
    task = a_task(c)
    actions = c.submit_task(NOW, task)
    assert actions == [StartWorker(task.worker)] and task.worker.task is task
    assert task.status is LEASED and free(c) == 0


def test_a_task_that_finds_no_cpu_waits():
    """It stays in its queue, and the core asks nothing of the runtime."""
    c = one_node(cpus=1)
    running_task(c)
    second = a_task(c)
    assert c.submit_task(NOW, second) == [] and second.status is WAITS


def test_an_idle_worker_is_told_to_run():
    """The idle worker gets the task; no new worker is started."""
    c = one_node(cpus=1)
    first, worker = running_task(c)
    finish(c, first)
    task = a_task(c)
    assert c.submit_task(NOW, task) == [RunTask(worker, task)]


def test_the_last_worker_to_become_idle_is_the_first_to_be_leased():
    """Its caches are the warmest."""
    c = one_node(cpus=2)
    (first, early), (second, late) = running_task(c), running_task(c)
    finish(c, first)
    finish(c, second)
    assert submitted(c).worker is late and submitted(c).worker is early


def test_a_worker_that_ends_a_task_takes_the_next_in_the_same_step():
    """It reads its record when the report returns: no action and no other thread is involved."""
    c = one_node(cpus=1)
    first, worker = running_task(c)
    second = submitted(c)
    assert finish(c, first) == [] and worker.task is second and second.worker is worker


def test_tasks_of_a_class_run_in_the_order_of_submission():
    """Five tasks wait for one CPU; each in its turn gets the worker."""
    c = one_node(cpus=1)
    current, _ = running_task(c)
    waiting = [submitted(c) for _ in range(5)]
    for task in waiting:
        finish(c, current)
        assert task.status is LEASED
        current = task


def test_a_task_that_cannot_be_placed_holds_up_only_its_own_class():
    """The large task waits in the queue of its class; the small one, submitted later, runs."""
    c = one_node(cpus=2)
    running_task(c)
    large = submitted(c, cpus=2)
    small = submitted(c, cpus=1)
    assert large.status is WAITS and small.status is LEASED


def test_infeasible_tasks_wait_in_one_queue_that_nobody_scans():
    """A hundred of them are one entry in the table, and do not hold up the task behind them."""
    c = one_node(cpus=1)
    stuck = [submitted(c, cpus=4) for _ in range(100)]
    assert len(c.scheduler.infeasible) == 1 and not c.scheduler.waiting
    finish(c, running_task(c)[0])
    assert all(task.status is WAITS for task in stuck)


def test_the_user_is_warned_once_of_an_infeasible_request():
    """The user learns which resources are missing, once and not once per task."""
    c = one_node(cpus=1)
    said = [action for _ in range(3) for action in c.submit_task(NOW, a_task(c, cpus=4)) if type(action) is Say]
    assert len(said) == 1 and said[0].level == "WARNING" and "'CPU': 4.0" in said[0].text


def test_infeasible_tasks_run_when_a_large_enough_node_joins():
    """The scheduler looks at the class again, and starts as many of its tasks as fit."""
    c = one_node(cpus=1)
    stuck = [submitted(c, cpus=4) for _ in range(3)]
    add_node(c, cpus=8)
    assert [task.status for task in stuck] == [LEASED, LEASED, WAITS]


def test_a_cancelled_task_in_a_queue_is_passed_over():
    """The next task of the class gets the worker."""
    c = one_node(cpus=1)
    first, worker = running_task(c)
    cancelled, second = submitted(c), submitted(c)
    c.cancel(NOW, cancelled, False, False)
    finish(c, first)
    assert worker.task is second


def test_spare_idle_workers_are_stopped():
    """The node keeps one per CPU and a few more. The worker that has been idle longest is stopped first."""
    c = one_node(cpus=1)
    running = [running_task(c, cpus=0) for _ in range(20)]
    stopped = [action for task, _ in running for action in finish(c, task) if type(action) is StopWorker]
    assert stopped and stopped[0].worker is running[0][1] and stopped[0].worker.status is WorkerStatus.DEAD
    assert len(node(c).idle) + len(stopped) == 20


def test_an_actors_constructor_is_not_taken_by_a_worker_that_ends_a_task():
    """An actor that holds a CPU is in the same class as a task that needs one.

    The worker of the task used to run the constructor, and the actor had no worker of its own.
    """
    c = one_node(cpus=1)
    task, worker = running_task(c)
    actor = an_actor(c, holds_cpus=1)
    finish(c, task)
    assert worker.status is WorkerStatus.IDLE and actor.worker is not worker and actor.worker.actor is actor


def test_tasks_without_cpus_share_a_few_threads():
    """No more workers may be starting than there are CPUs. The other tasks wait for one of these, or for one that
    blocks."""
    c = one_node(cpus=2)
    tasks = [submitted(c, cpus=0) for _ in range(10)]
    assert sum(task.status is LEASED for task in tasks) == 2
    started(c, tasks[0])
    assert sum(task.status is LEASED for task in tasks) == 3


# ---------------------------------------------------------------- resources


def test_fractions_of_a_cpu_add_up_exactly():
    """Ten tenths are exactly one CPU, because amounts are counted in whole units."""
    c = one_node(cpus=1)
    tasks = [running_task(c, cpus=0.1)[0] for _ in range(10)]
    assert node(c).available["CPU"] == 0 and submitted(c, cpus=0.1).status is WAITS
    for task in tasks:
        finish(c, task)
    assert submitted(c, cpus=0.9).status is LEASED


def test_every_resource_is_returned_however_a_task_ends():
    """It may return, raise, crash or be cancelled by force."""
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
    """Two tasks never get the same GPU."""
    c = one_node(cpus=4, GPU=3)
    (_, first), (second_task, second) = running_task(c, GPU=1), running_task(c, GPU=2)
    assert first.devices == {"GPU": (0,)} and second.devices == {"GPU": (1, 2)}
    finish(c, second_task)
    assert running_task(c, GPU=1)[1].devices == {"GPU": (1,)}


def test_parts_of_gpus_fill_one_before_the_next_is_touched():
    """Two halves share a GPU, so a task that needs a whole one still finds one."""
    c = one_node(cpus=4, GPU=2)
    assert [running_task(c, GPU=0.5)[1].devices for _ in range(2)] == [{"GPU": (0,)}] * 2
    assert running_task(c, GPU=1)[1].devices == {"GPU": (1,)}


def test_every_accelerator_is_counted_by_device():
    """A demand for several accelerators gets devices of each; a resource that is none has only an amount."""
    c = one_node(cpus=8, GPU=1, TPU=4, NPU=1, chips=3)
    task, first = running_task(c, GPU=1, TPU=2, chips=2)
    _, second = running_task(c, TPU=1, NPU=0.5)
    assert first.devices == {"GPU": (0,), "TPU": (0, 1)} and second.devices == {"TPU": (2,), "NPU": (0,)}
    assert running_task(c, NPU=0.5)[1].devices == {"NPU": (0,)}
    finish(c, task)
    assert running_task(c, TPU=2)[1].devices == {"TPU": (0, 1)}


def test_two_halves_of_different_gpus_are_not_a_whole_one():
    """Their sum would be enough, but no single GPU is free."""
    c = one_node(cpus=8, GPU=2)
    running = [running_task(c, GPU=0.6)[0], running_task(c, GPU=0.6)[0]]
    wanted = submitted(c, GPU=1)
    drop(c, *running[0].returns)
    assert wanted.status is WAITS
    finish(c, running[0])
    assert wanted.status is LEASED and wanted.worker.devices == {"GPU": (0,)}


# ---------------------------------------------------------------- nodes


def test_nodes_are_filled_up_to_a_half_before_the_next():
    """Ray's hybrid policy: first the submitter's node, then the others in order, then the least used."""
    c = several_nodes(4, 4)
    assert [running_task(c)[0].node.number for _ in range(8)][:4] == [1, 1, 2, 2]
    assert free(c, 1) == free(c, 2) == 0


def test_a_task_goes_to_the_node_with_most_of_its_arguments():
    """If that node has room, no bytes need to be moved."""
    c = several_nodes(4, 4)
    value = a_value(c, LARGE, strategy=("NODE_AFFINITY", node(c, 2).hex, False))
    assert submitted(c, deps=(value,)).node is node(c, 2)


def test_spread_takes_the_nodes_in_turn():
    """It does so even if the first node has room for all tasks."""
    c = several_nodes(8, 8, 8)
    assert sorted(submitted(c, strategy=("SPREAD",)).node.number for _ in range(6)) == [1, 1, 2, 2, 3, 3]


def test_hard_affinity_waits_for_its_node():
    """Room on another node does not help."""
    c = several_nodes(2, 1)
    here = ("NODE_AFFINITY", node(c, 2).hex, False)
    first, _ = running_task(c, strategy=here)
    second = submitted(c, strategy=here)
    assert first.node is node(c, 2) and second.status is WAITS
    finish(c, first)
    assert second.node is node(c, 2)


def test_hard_affinity_to_a_node_that_does_not_exist_fails():
    """It fails at once, with Ray's error."""
    c = one_node()
    task = submitted(c, strategy=("NODE_AFFINITY", "f" * 56, False))
    assert task.status is FAILED and task.failure.error_type == "TASK_UNSCHEDULABLE_ERROR"
    actor = an_actor(c, strategy=("NODE_AFFINITY", "f" * 56, False))
    assert actor.status is ActorStatus.DEAD and actor.failure.error_type == "ACTOR_UNSCHEDULABLE_ERROR"


def test_tasks_with_hard_affinity_fail_when_their_node_dies():
    """All tasks in the queue fail. They used to wait forever."""
    c = several_nodes(1, 1)
    here = ("NODE_AFFINITY", node(c, 2).hex, False)
    running_task(c, strategy=here)
    waiting = [submitted(c, strategy=here) for _ in range(3)]
    c.remove_node(NOW, node(c, 2))
    assert [task.failure.error_type for task in waiting] == ["TASK_UNSCHEDULABLE_ERROR"] * 3


def test_soft_affinity_goes_elsewhere_when_its_node_is_gone():
    """Soft affinity is a preference, not a condition."""
    c = several_nodes(1, 1)
    wish = ("NODE_AFFINITY", node(c, 2).hex, True)
    assert submitted(c, strategy=wish).node is node(c, 2)
    c.remove_node(NOW, node(c, 2))
    assert submitted(c, strategy=wish).node is node(c, 1)


def test_a_task_that_waits_for_its_preferred_node_goes_elsewhere_when_that_node_dies():
    """It moves at once. It used to wait until the next event."""
    c = several_nodes(1, 1)
    wish = ("NODE_AFFINITY", node(c, 2).hex, True)
    actor = an_actor(c, holds_cpus=1, strategy=wish)
    waiting = submitted(c, strategy=wish)
    assert actor.node is node(c, 2) and waiting.worker is None
    c.remove_node(NOW, node(c, 2))
    assert waiting.node is node(c, 1)


@pytest.mark.parametrize("operator, values, number", [("in", ("a", "b"), 2), ("not_in", ("b",), 1), ("exists", (), 2)])
def test_a_label_selector_restricts_the_nodes(operator, values, number):
    """The three operators choose nodes with one of the values, without the value, or with the label."""
    c = one_node(cpus=2)
    add_node(c, cpus=2, labels={"zone": "b"})
    assert submitted(c, selector=(("zone", operator, values),)).node is node(c, number)


def test_soft_labels_are_preferred_and_hard_ones_required():
    """A task waits if no node has its hard labels, until such a node joins."""
    c = one_node(cpus=2, labels={"zone": "a"})
    add_node(c, cpus=1, labels={"zone": "a", "disk": "ssd"})
    hard, soft = (("zone", "in", ("a",)),), (("disk", "in", ("ssd",)),)
    assert submitted(c, strategy=("NODE_LABEL", hard, soft)).node is node(c, 2)
    assert submitted(c, strategy=("NODE_LABEL", hard, soft)).node is node(c, 1)
    waiting = submitted(c, strategy=("NODE_LABEL", (("zone", "in", ("z",)),), ()))
    assert waiting.status is WAITS
    assert add_node(c, labels={"zone": "z"}) is waiting.node


# ---------------------------------------------------------------- lending a CPU


def test_a_worker_that_waits_lends_its_cpu():
    """The child runs on the parent's CPU, and the parent resumes after it."""
    c = one_node(cpus=1)
    parent, worker = running_task(c)
    child = submitted(c, owner=worker, parent=parent.hex)
    assert child.status is WAITS
    assert c.blocked(NOW, worker) == [StartWorker(child.worker)] and worker.status is WorkerStatus.BLOCKED
    started(c, child)
    finish(c, child)
    c.unblocked(NOW, worker)
    assert worker.status is WorkerStatus.LEASED and free(c) == 0 and worker.lent == 0


def test_a_worker_resumes_without_its_cpu_if_another_task_has_it():
    """It might wait forever for the CPU. No count becomes negative, and in the end the CPU is free again."""
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
    """It did not get its CPU back after the first wait.

    The second wait used to lend the CPU again, so that there was one CPU too many.
    """
    c = one_node(cpus=1)
    _, worker = running_task(c)
    c.blocked(NOW, worker)
    running_task(c)
    c.unblocked(NOW, worker)
    c.blocked(NOW, worker)
    assert free(c) == 0 and submitted(c).status is WAITS


def test_a_worker_that_dies_while_it_waits_returns_what_it_has_not_lent():
    """Its CPU was returned before, when it was lent."""
    c = one_node(cpus=2, fast=1)
    _, worker = running_task(c, fast=1)
    c.blocked(NOW, worker)
    assert free(c) == 2 and free(c, name="fast") == 0
    crash(c, worker)
    assert free(c) == 2 and free(c, name="fast") == 1


def test_a_task_that_fails_in_its_turn_may_end_an_actor_whose_cpu_goes_to_the_next_task():
    """A dispatch within a dispatch.

    The outer one, in which the task failed, used to take the next task out of its queue without running it.
    """
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
    """It is the same class however often, and in whatever order of its resources, the demand is made."""
    c = one_node()
    assert finished_task(c, cpus=1).spec.scheduling_class is finished_task(c, cpus=1).spec.scheduling_class
    a, b = {"CPU": UNIT, "GPU": UNIT}, {"GPU": UNIT, "CPU": UNIT}
    assert c.scheduler.scheduling_class(a, a) is c.scheduler.scheduling_class(b, b)
