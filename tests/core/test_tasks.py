"""A task from its submission to its last outcome: arguments, attempts, retries, cancellation."""

from __future__ import annotations

import pytest

from miniray.core.actions import CallLater, InterruptTask, KillWorker, StartWorker, Wake
from miniray.core.records import FAILED, PENDING, READY, Failure, Waiter
from miniray.core.task_manager import INTERRUPT_GRACE_S
from miniray.core.transitions import TaskStatus, WorkerStatus
from tests.core.builders import (
    a_call,
    a_task,
    a_value,
    add_node,
    crash,
    drop,
    finish,
    LARGE,
    living_actor,
    NOW,
    one_node,
    put,
    raise_in,
    run_call,
    running_task,
    several_nodes,
    SMALL,
    started,
    submitted,
)

WAITS_FOR_ARGUMENTS, WAITS, LEASED = (
    TaskStatus.PENDING_ARGS_AVAIL,
    TaskStatus.PENDING_NODE_ASSIGNMENT,
    TaskStatus.SUBMITTED_TO_WORKER,
)
FINISHED, TASK_FAILED = TaskStatus.FINISHED, TaskStatus.FAILED


# ---------------------------------------------------------------- outcomes


def test_a_task_that_returns_is_finished_and_its_value_is_ready():
    """Its worker becomes idle, and the waiter is woken."""
    c = one_node()
    task, worker = running_task(c)
    waiter = Waiter(1, "driver")
    c.wait_for(NOW, waiter, task.returns)
    assert finish(c, task) == [Wake(waiter)]
    assert task.status is FINISHED and task.returns[0].status is READY and worker.status is WorkerStatus.IDLE


def test_a_task_without_returns_leaves_no_object():
    """num_returns=0: there is nothing to store."""
    c = one_node()
    task, _ = running_task(c, returns=0)
    finish(c, task)
    assert task.status is FINISHED and not c.objects


def test_one_of_several_returns_may_fail_alone():
    """A value that could not be stored becomes an error; the other values are stored."""
    c = one_node()
    task, worker = running_task(c, returns=3)
    for obj, value in zip(task.returns, ("a", Failure("TASK_EXECUTION_EXCEPTION", "cannot be pickled"), "c")):
        obj.value = value
    c.task_finished(NOW, worker, task, (SMALL, 0, SMALL))
    assert [obj.status for obj in task.returns] == [READY, FAILED, READY]


def test_every_return_of_a_failed_task_holds_the_error():
    """The program gets the same error whichever return it asks for."""
    c = one_node()
    task, _ = running_task(c, returns=2)
    raise_in(c, task)
    assert task.status is TASK_FAILED
    assert all(obj.status is FAILED and obj.value is task.failure for obj in task.returns)


def test_each_step_of_a_task_has_its_own_time():
    """From submission to the stored value; the second task has to wait for the CPU."""
    c = one_node(cpus=1)
    first, _ = running_task(c)
    task = submitted(c, now=2.0)
    finish(c, first, now=3.0)
    task.t_started = 4.0
    finish(c, task, now=6.0)
    assert (task.t_created, task.t_ready, task.t_leased, task.t_started, task.t_finished) == (2.0, 2.0, 3.0, 4.0, 6.0)


# ---------------------------------------------------------------- arguments


def test_a_task_waits_for_its_arguments():
    """It gets no worker before its last argument has a value; then it runs on the worker that made this value."""
    c = one_node(cpus=2)
    (left, _), (right, last) = running_task(c), running_task(c)
    task = submitted(c, deps=(left.returns[0], right.returns[0]))
    assert task.status is WAITS_FOR_ARGUMENTS and task.pending == 2
    finish(c, left)
    assert task.status is WAITS_FOR_ARGUMENTS
    assert finish(c, right) == [] and last.task is task


def test_an_argument_given_twice_counts_twice():
    """f(x, x) waits for one object and counts as two uses of it."""
    c = one_node(cpus=1)
    producer, _ = running_task(c)
    x = producer.returns[0]
    task = submitted(c, deps=(x, x))
    assert task.pending == 2 and x.uses == 2
    finish(c, producer)
    finish(c, task)
    assert x.uses == 0


def test_a_failed_argument_fails_the_task_without_running_it():
    """Its error is the argument's error, with the argument's failure as the cause. This continues through a chain."""
    c = one_node(cpus=1)
    producer, _ = running_task(c)
    middle = submitted(c, deps=producer.returns)
    last = submitted(c, deps=middle.returns)
    raise_in(c, producer, error_type="TASK_EXECUTION_EXCEPTION")
    assert middle.status is last.status is TASK_FAILED and middle.t_leased == last.t_leased == 0
    assert last.failure.error_type == "TASK_EXECUTION_EXCEPTION" and last.failure.cause is middle.failure
    assert middle.failure.cause is producer.failure


def test_a_task_that_is_submitted_with_a_failed_argument_fails_at_once():
    """The error is known already, so there is nothing to wait for."""
    c = one_node()
    producer, _ = running_task(c)
    raise_in(c, producer)
    assert submitted(c, deps=producer.returns).status is TASK_FAILED


def test_a_chain_of_failures_of_any_length_needs_no_stack():
    """5,000 tasks, each an argument of the next. The first fails: this would overflow the stack if it were
    recursion."""
    c = one_node(cpus=1, checked=False)
    first, _ = running_task(c)
    task = first
    for _ in range(5_000):
        task = submitted(c, deps=task.returns)
    raise_in(c, first)
    assert task.status is TASK_FAILED


# ---------------------------------------------------------------- retries


def test_a_task_is_retried_after_a_crash_as_often_as_its_options_allow():
    """max_retries=2: three attempts in all; then the crash is the task's error."""
    c = one_node(cpus=1)
    task = submitted(c, retries=2)
    for attempt in range(3):
        assert task.attempt == attempt and task.status is LEASED
        crash(c, started(c, task))
    assert task.status is TASK_FAILED and task.failure.error_type == "WORKER_DIED" and len(task.history) == 2


def test_a_task_without_retries_fails_after_a_crash():
    """No worker is started for another attempt."""
    c = one_node(cpus=1)
    task, worker = running_task(c)
    assert crash(c, worker) == [KillWorker(worker)] and task.status is TASK_FAILED


def test_a_task_is_retried_after_an_exception_only_if_its_options_allow_it():
    """The runtime decides whether retry_exceptions allows it; the core decides whether attempts are left."""
    c = one_node(cpus=1)
    retried, _ = running_task(c, retries=1)
    raise_in(c, retried, retry=True)
    assert retried.status is LEASED and retried.attempt == 1
    raise_in(c, retried, retry=True)
    assert retried.status is TASK_FAILED
    once, _ = running_task(c, retries=1)
    raise_in(c, once, retry=False)
    assert once.status is TASK_FAILED and once.attempt == 0


def test_retries_without_a_limit_do_not_run_out():
    """max_retries=-1: after twenty crashes the task still runs."""
    c = one_node(cpus=1)
    task = submitted(c, retries=-1)
    for _ in range(20):
        crash(c, started(c, task))
    assert task.attempt == 20 and task.status is LEASED


def test_each_attempt_keeps_its_own_worker_and_times():
    """The task's record describes the last attempt; the earlier ones are in its history."""
    c = one_node(cpus=1)
    task, first = running_task(c, retries=1)
    crash(c, first, now=2.0)
    started(c, task, now=3.0)
    finish(c, task, now=4.0)
    (attempt,) = task.history
    assert (attempt.number, attempt.worker, attempt.t_finished, attempt.failure.error_type) == (
        0,
        first,
        2.0,
        "WORKER_DIED",
    )
    assert task.attempt == 1 and task.worker is not first and task.t_created == 2.0


def test_an_attempt_does_not_end_before_it_started():
    """The worker notes times without the core's lock. The event that kills it may have read the clock earlier."""
    c = one_node()
    crashed, worker = running_task(c, retries=1)
    crashed.t_started, crashed.t_ended = 3.0, 3.5
    c.worker_died(2.0, worker, Failure("WORKER_DIED", "it crashed", about=worker))
    cancelled, _ = running_task(c)
    cancelled.t_started = 5.0
    c.cancel(4.0, cancelled, True, False)
    assert (crashed.history[0].t_finished, cancelled.t_finished) == (3.5, 5.0)


def test_a_late_report_of_a_dead_worker_is_ignored():
    """A worker finishes a task after the core declared it dead: the retry continues, and only its result counts."""
    c = one_node(cpus=1)
    task, worker = running_task(c, retries=1)
    actions = crash(c, worker)
    assert actions == [KillWorker(worker), StartWorker(task.worker)] and task.attempt == 1
    assert c.task_finished(2.0, worker, task, (SMALL,)) == []
    assert c.task_failed(2.0, worker, task, Failure("TASK_EXECUTION_EXCEPTION"), False) == []
    assert task.status is LEASED and task.returns[0].status is PENDING


def test_a_worker_that_starts_after_it_was_declared_dead_is_ignored():
    """The report of its thread arrives too late."""
    c = one_node(cpus=1)
    task = submitted(c)
    worker = task.worker
    crash(c, worker)
    assert c.worker_started(NOW, worker) == [] and worker.status is WorkerStatus.DEAD


# ---------------------------------------------------------------- cancellation


def test_a_task_that_waits_for_arguments_is_cancelled_at_once():
    """It does not run when its argument arrives later."""
    c = one_node(cpus=1)
    producer, _ = running_task(c)
    task = submitted(c, deps=producer.returns)
    c.cancel(NOW, task, False, False)
    assert task.status is TASK_FAILED and task.failure.error_type == "TASK_CANCELLED"
    finish(c, producer)
    assert task.status is TASK_FAILED and task.worker is None


def test_a_task_in_a_queue_is_cancelled_at_once():
    """The queue skips it later."""
    c = one_node(cpus=1)
    running_task(c)
    task = submitted(c)
    assert c.cancel(NOW, task, False, False) == []
    assert task.status is TASK_FAILED


def test_a_running_task_is_interrupted():
    """Its code may catch the interrupt; if it then returns a value, the value counts."""
    c = one_node(cpus=1)
    task, worker = running_task(c)
    assert c.cancel(NOW, task, False, False) == [InterruptTask(worker, task), CallLater(NOW + INTERRUPT_GRACE_S)]
    assert task.status is LEASED
    finish(c, task)
    assert task.status is FINISHED
    assert c.timer(NOW + INTERRUPT_GRACE_S) == [] and not c.task_manager.interrupted


def test_a_cancelled_task_is_not_retried():
    """The interrupt is the task's error, although it has retries left."""
    c = one_node(cpus=1)
    task, _ = running_task(c, retries=3)
    c.cancel(NOW, task, False, False)
    raise_in(c, task, retry=True)
    assert task.status is TASK_FAILED and task.failure.error_type == "TASK_CANCELLED"


def test_a_cancelled_task_in_code_that_cannot_be_interrupted_is_given_up():
    """After INTERRUPT_GRACE_S the core gives up its worker; another worker runs the next task."""
    c = one_node(cpus=1)
    task, worker = running_task(c)
    following = submitted(c)
    c.cancel(NOW, task, False, False)
    assert c.timer(NOW + INTERRUPT_GRACE_S / 2) == [] and task.status is LEASED
    actions = c.timer(NOW + INTERRUPT_GRACE_S)
    assert actions == [KillWorker(worker), StartWorker(following.worker)]
    assert task.failure.error_type == "TASK_CANCELLED" and following.status is LEASED


def test_a_forced_cancellation_ends_the_worker():
    """The task fails at once, and is not retried."""
    c = one_node(cpus=1)
    task, worker = running_task(c, retries=3)
    assert c.cancel(NOW, task, True, False) == [KillWorker(worker)]
    assert task.status is TASK_FAILED and worker.status is WorkerStatus.DEAD


def test_a_finished_task_cannot_be_cancelled():
    """It keeps its value."""
    c = one_node()
    task, _ = running_task(c)
    finish(c, task)
    assert c.cancel(NOW, task, True, True) == [] and task.status is FINISHED and task.returns[0].status is READY


def test_giving_up_a_task_may_end_other_tasks_that_were_to_be_given_up():
    """A parent and its child are in code that cannot be interrupted: the child fails with its owner. The core used to
    look for the child once more."""
    c = one_node(cpus=2)
    parent, owner = running_task(c)
    child, _ = running_task(c, owner=owner, parent=parent.hex)
    c.cancel(NOW, parent, False, False)
    c.cancel(NOW, child, False, False)
    c.timer(NOW + INTERRUPT_GRACE_S)
    assert parent.status is child.status is TASK_FAILED and not c.task_manager.interrupted


def test_a_recursive_cancellation_reaches_grandchildren():
    """It reaches tasks that run and tasks that wait, but not the task of another caller. The parent comes first: when its
    `get` ended with the error of the cancelled child, the parent used to see that error in place of its interrupt."""
    c = one_node(cpus=3)
    parent, parents_worker = running_task(c)
    child, childs_worker = running_task(c, parent=parent.hex, owner=parents_worker)
    unrelated, _ = running_task(c)
    grandchild = submitted(c, parent=child.hex, owner=childs_worker)
    actions = c.cancel(NOW, parent, False, True)
    interrupted = [action.task for action in actions if type(action) is InterruptTask]
    assert grandchild.status is TASK_FAILED and interrupted == [parent, child] and not unrelated.cancel_requested


def test_a_recursive_cancellation_by_force_kills_the_workers_of_all_descendants():
    """As in Ray: none of them sees an interrupt. A grandchild used to see one, and to run its `except` clause."""
    c = one_node(cpus=3)
    parent, parents_worker = running_task(c)
    child, childs_worker = running_task(c, parent=parent.hex, owner=parents_worker)
    grandchild, last_worker = running_task(c, parent=child.hex, owner=childs_worker)
    actions = c.cancel(NOW, parent, True, True)
    assert not [action for action in actions if type(action) is InterruptTask]
    for task, worker in (parent, parents_worker), (child, childs_worker), (grandchild, last_worker):
        assert task.status is TASK_FAILED and task.failure.error_type == "TASK_CANCELLED"
        assert worker.status is WorkerStatus.DEAD


def test_a_plain_cancellation_leaves_the_children_alone():
    """recursive=False: the child still runs."""
    c = one_node(cpus=2)
    parent, worker = running_task(c)
    child, _ = running_task(c, parent=parent.hex, owner=worker)
    c.cancel(NOW, parent, False, False)
    assert not child.cancel_requested and child.status is LEASED


# ---------------------------------------------------------------- owners


def test_everything_that_a_dead_worker_owned_fails():
    """Its child tasks fail, the workers that run them end, and the values that it put are lost."""
    c = one_node(cpus=3)
    parent, owner = running_task(c)
    running, runner = running_task(c, owner=owner, parent=parent.hex)
    waiting = submitted(c, owner=owner, parent=parent.hex, deps=running.returns)
    value = put(c, owner=owner)
    crash(c, owner)
    assert running.failure.error_type == waiting.failure.error_type == "OWNER_DIED"
    assert runner.status is WorkerStatus.DEAD
    assert value.status is FAILED and value.value.error_type == "OWNER_DIED"


def test_a_small_result_outlives_its_owner_if_somebody_has_a_reference():
    """As in Ray, where a process that receives a reference asks the owner for a small result at once. A large result is
    lost, and so is a small one that only another value refers to."""
    c = one_node(cpus=4)
    _, owner = running_task(c)
    small, large, inside = (submitted(c, owner=owner) for _ in range(3))
    for task, size in ((small, SMALL), (large, LARGE), (inside, SMALL)):
        started(c, task)
        finish(c, task, size)
    outer = put(c, contained=(inside.returns[0],))
    drop(c, inside.returns[0])
    crash(c, owner)
    assert small.returns[0].status is READY and outer.status is READY
    assert [task.returns[0].value.error_type for task in (large, inside)] == ["OWNER_DIED"] * 2


def test_a_call_whose_owner_dies_while_it_runs_frees_its_actor():
    """The call runs to its end, but its value is lost already: only its owner would have passed the value on."""
    c = one_node(cpus=2)
    actor = living_actor(c)
    parent, owner = running_task(c)
    call = a_call(c, actor, owner=owner)
    worker = started(c, call)
    crash(c, owner)
    assert call.returns[0].value.error_type == "OWNER_DIED"
    c.task_finished(NOW, worker, call, (SMALL,))
    assert call.status is FINISHED and call.returns[0].value.error_type == "OWNER_DIED"
    run_call(c, a_call(c, actor))


def test_a_value_outlives_an_idle_worker_that_owns_it():
    """When an idle worker is retired, the values that it owns stay."""
    c = one_node(cpus=1)
    running = [running_task(c, cpus=0) for _ in range(20)]
    owner = running[0][1]
    value = put(c, owner=owner)
    for task, _ in running:
        finish(c, task)
    assert owner.status is WorkerStatus.DEAD and value.status is READY


# ---------------------------------------------------------------- reports that do not count


@pytest.mark.parametrize("end", [finish, raise_in])
def test_a_report_of_a_task_that_another_worker_runs_changes_nothing(end):
    """Only a report by the worker of the current attempt counts."""
    c = one_node(cpus=2)
    (task, _), (other_task, other_worker) = running_task(c), running_task(c)
    before = repr(task), repr(other_worker), dict(c.nodes[1].available)
    assert c.task_finished(NOW, other_worker, task, (SMALL,)) == []
    assert c.task_failed(NOW, other_worker, task, Failure("TASK_EXECUTION_EXCEPTION"), False) == []
    assert (repr(task), repr(other_worker), dict(c.nodes[1].available)) == before
    end(c, task)
    end(c, other_task)


def test_a_second_report_of_the_same_attempt_is_refused():
    """The worker already runs its next task. Such a report is a bug of the runtime, so it is an error."""
    c = one_node(cpus=1)
    first, worker = running_task(c)
    second = submitted(c)
    finish(c, first)
    assert c.task_manager.is_current(worker, second) and worker.task is second
    with pytest.raises(AssertionError):
        c.task_finished(NOW, worker, first, (SMALL,))


def test_the_program_may_drop_a_result_before_it_is_ready():
    """The object is removed when its task has ended."""
    c = one_node()
    task, _ = running_task(c)
    drop(c, *task.returns)
    assert len(c.objects) == 1
    finish(c, task)
    assert not c.objects


def test_arguments_are_released_when_their_task_ends():
    """Both those that are arguments themselves and those inside other arguments."""
    c = one_node()
    argument, inside = a_value(c), a_value(c)
    task = a_task(c, deps=(argument,), contained=(inside,))
    c.submit_task(NOW, task)
    drop(c, argument, inside)
    assert argument.number in c.objects and inside.number in c.objects
    started(c, task)
    finish(c, task)
    assert set(c.objects) == {task.returns[0].number} and task.args is None


# ---------------------------------------------------------------- nodes


def test_a_task_on_a_node_that_dies_is_retried_on_another():
    """If it has retries left; otherwise the death of the node is its error."""
    c = several_nodes(2, 2)
    prefer_second = ("NODE_AFFINITY", c.nodes[2].hex, True)
    retried, once = submitted(c, strategy=prefer_second, retries=1), submitted(c, strategy=prefer_second)
    workers = started(c, retried), started(c, once)
    actions = c.remove_node(NOW, c.nodes[2])
    assert [action for action in actions if type(action) is KillWorker] == [KillWorker(worker) for worker in workers]
    assert retried.node is c.nodes[1] and once.failure.error_type == "NODE_DIED"


def test_a_node_dies_once():
    """It has no workers left, and removing it again changes nothing."""
    c = several_nodes(1, 1)
    task, _ = running_task(c, strategy=("NODE_AFFINITY", c.nodes[2].hex, False))
    finish(c, task)
    c.remove_node(NOW, c.nodes[2])
    assert not c.nodes[2].idle and not c.nodes[2].workers and c.nodes[2].t_died == NOW
    assert c.remove_node(NOW, c.nodes[2]) == []


def test_tasks_wait_if_there_is_no_node():
    """Even the last node may be removed; the task runs on the next node that joins."""
    c = one_node()
    c.remove_node(NOW, c.nodes[1])
    task = submitted(c)
    assert task.status is WAITS
    joined = add_node(c)
    assert task.node is joined
