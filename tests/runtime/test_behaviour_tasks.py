"""Tasks as a program sees them, in every runtime: one behaviour per test."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import miniray as ray
from miniray.core.transitions import WorkerStatus
from miniray.exceptions import GetTimeoutError, RayTaskError, TaskCancelledError, WorkerCrashedError
from miniray.process import context
from miniray.util.placement_group import placement_group, remove_placement_group
from miniray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.runtime.behaviour import Counter, double, fail


def test_a_task_returns_a_value(session: str):
    """`.remote()` returns a reference at once; `get` returns the value."""
    ref = double.remote(21)
    assert isinstance(ref, ray.ObjectRef) and ray.get(ref) == 42


def test_a_task_gets_copies_of_its_arguments(session: str):
    """The task's changes to them are not seen outside."""

    @ray.remote
    def change(values: list) -> list:
        values.append(3)
        return values

    mine = [1, 2]
    assert ray.get(change.remote(mine)) == [1, 2, 3] and mine == [1, 2]


def test_a_reference_among_the_arguments_arrives_as_its_value(session: str):
    """If it is at the top level. A chain of tasks needs no get in between."""
    assert ray.get(double.remote(double.remote(double.remote(1)))) == 8


def test_a_reference_inside_an_argument_stays_a_reference(session: str):
    """The task can call `get` if it needs the value."""

    @ray.remote
    def look(refs: list) -> tuple[bool, Any]:
        return isinstance(refs[0], ray.ObjectRef), ray.get(refs[0])

    assert ray.get(look.remote([double.remote(4)])) == (True, 8)


def test_keyword_arguments_and_defaults_are_as_in_a_call(session: str):
    """They may be references, too."""

    @ray.remote
    def three(a: int, b: int = 2, *, c: int = 3) -> tuple:
        return a, b, c

    assert ray.get(three.remote(1, c=double.remote(5))) == (1, 2, 10)


def test_arguments_that_do_not_fit_are_refused_at_once(session: str):
    """Nothing is submitted."""
    with pytest.raises(TypeError):
        double.remote(1, 2)
    with pytest.raises(TypeError):
        double.remote(y=1)


def test_a_task_may_return_several_references(session: str):
    """As many as num_returns; None for 0."""

    @ray.remote(num_returns=3)
    def parts() -> tuple:
        return 1, 2, 3

    first, second, third = parts.remote()
    assert ray.get([third, first, second]) == [3, 1, 2]
    assert double.options(num_returns=0).remote(1) is None


def test_an_error_comes_out_of_get_as_both_classes(session: str):
    """It is a RayTaskError and an instance of the class that was raised."""
    with pytest.raises(ValueError, match="it failed") as caught:
        ray.get(fail.remote())
    assert isinstance(caught.value, RayTaskError) and isinstance(caught.value.cause, ValueError)


def test_an_error_goes_down_a_chain(session: str):
    """A task that takes a failed value fails with its error, and never runs."""
    with pytest.raises(ValueError, match="the first"):
        ray.get(double.remote(double.remote(fail.remote("the first"))))


def test_get_of_several_raises_the_first_error(session: str):
    """In the order of the list."""
    refs = [double.remote(1), fail.remote("first"), fail.remote("second")]
    ray.wait(refs, num_returns=3)  # before they have all ended, get raises the error that comes first
    with pytest.raises(ValueError, match="first"):
        ray.get(refs)


@ray.remote
def fails_twice(path: str) -> int:
    """Succeeds at the third attempt. The attempts are counted in a file, since each worker has its own globals."""
    with open(path, "a+", encoding="ascii") as file:
        file.write("!")
        tries = file.tell()
    if tries < 3:
        raise OSError(f"not at try {tries}")
    return tries


def test_an_error_is_retried_if_the_options_allow_it(session: str, tmp_path: Any):
    """retry_exceptions, as often as max_retries allows."""
    assert ray.get(fails_twice.options(max_retries=2, retry_exceptions=[OSError]).remote(str(tmp_path / "tries"))) == 3


def test_an_error_is_not_retried_otherwise(session: str, tmp_path: Any):
    """By default an error of the program is not retried."""
    with pytest.raises(OSError, match="at try 1"):
        ray.get(fails_twice.options(max_retries=2).remote(str(tmp_path / "tries")))


@ray.remote
def dies_once(path: str) -> str:
    """Its worker dies at the first attempt."""
    if not os.path.exists(path):
        open(path, "w", encoding="ascii").close()
        os._exit(1)
    return "lived"


def test_a_task_whose_worker_dies_is_retried(session: str, tmp_path: Any):
    """Automatically, up to max_retries times."""
    assert ray.get(dies_once.options(max_retries=1).remote(str(tmp_path / "a"))) == "lived"
    with pytest.raises(WorkerCrashedError):
        ray.get(dies_once.options(max_retries=0).remote(str(tmp_path / "b")))


def test_tasks_make_tasks(session: str):
    """To any depth, even with fewer CPUs than there are levels."""

    @ray.remote
    def fibonacci(n: int) -> int:
        return n if n < 2 else sum(ray.get([fibonacci.remote(n - 1), fibonacci.remote(n - 2)]))

    assert ray.get(fibonacci.remote(7)) == 13


@ray.remote
def count(length: int, fails: bool = False) -> Iterator[int]:
    """A generator."""
    for x in range(length):
        yield x
    if fails:
        raise ValueError("after the last")


def test_a_generator_yields_references(session: str):
    """In order; then the iteration ends."""
    stream = count.remote(3)
    assert [ray.get(ref) for ref in stream] == [0, 1, 2]
    with pytest.raises(StopIteration):
        next(stream)
    assert ray.get(stream.completed()) is None


def test_the_error_of_a_generator_is_its_last_item(session: str):
    """The items before it have their values."""
    first, last = count.remote(1, fails=True)
    assert ray.get(first) == 0
    with pytest.raises(ValueError, match="after the last"):
        ray.get(last)


def test_wait_separates_ready_references_from_the_rest(session: str):
    """Both lists keep the order given. A failed task counts as ready. There are never more ready references than were
    asked for."""
    refs = [double.remote(1), fail.remote(), double.options(num_cpus=100).remote(3)]
    assert ray.wait(refs, num_returns=2, timeout=20) == (refs[:2], refs[2:])
    ready, rest = ray.wait(refs, num_returns=1)
    assert len(ready) == 1 and set(ready + rest) == set(refs)
    ray.cancel(refs[2])


def test_a_task_knows_where_it_runs(session: str):
    """Its ids, and the resources that it holds."""

    @ray.remote(num_cpus=2)
    def look() -> dict[str, Any]:
        here = ray.get_runtime_context()
        return {
            "task": here.get_task_id(),
            "job": here.get_job_id(),
            "node": here.get_node_id(),
            "worker": here.get_worker_id(),
            "actor": here.get_actor_id(),
            "held": here.get_assigned_resources(),
        }

    ref, here = look.remote(), ray.get_runtime_context()
    found = ray.get(ref)
    assert (
        found["task"] == ref.task_id().hex()
        and found["job"] == here.get_job_id()
        and found["node"] == here.get_node_id()
    )
    assert found["worker"] != here.get_worker_id() and found["actor"] is None and found["held"] == {"CPU": 2.0}


def test_resources_are_given_back(session: str):
    """After the last task all resources are free."""
    ray.get([double.options(num_cpus=3).remote(x) for x in range(5)])
    with context.running().locked() as cluster:
        assert all(node.available == node.total for node in cluster.nodes.values())


def test_tasks_run_in_a_placement_group(session: str):
    """Within the resources that the group has reserved. When the group is removed it returns them."""
    group = placement_group([{"CPU": 1}, {"CPU": 2}], strategy="PACK")
    assert group.wait(20) and ray.available_resources()["CPU"] == 1
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=1)
    assert ray.get(double.options(num_cpus=2, scheduling_strategy=strategy).remote(4)) == 8
    remove_placement_group(group)
    assert ray.available_resources()["CPU"] == 4


def test_a_task_that_waits_for_its_resources_can_be_cancelled(session: str):
    """It never runs."""
    ref = double.options(num_cpus=100).remote(1)
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref)


def test_cancelling_a_finished_task_changes_nothing(session: str):
    """The value is kept."""
    ref = double.remote(1)
    assert ray.get(ref) == 2
    ray.cancel(ref)
    assert ray.get(ref) == 2


def test_options_apply_to_one_call(session: str):
    """They do not change the function itself."""
    named = double.options(name="twice")
    assert ray.get(named.remote(1)) == 2
    with context.running().locked() as cluster:
        assert [task.spec.name for task in cluster.tasks.values()] == ["twice"]


# ---------------------------------------------------------------- what needs a second thread


@ray.remote
def sleeps() -> None:
    """Sleeps for a long time."""
    time.sleep(1000)


@ray.remote
def announces(here: int) -> None:
    """Writes to the pipe, then sleeps for a long time."""
    os.write(here, b"!")
    time.sleep(1000)


@pytest.fixture
def running(threaded: None) -> Iterator[ray.ObjectRef]:
    """The reference of a task that runs."""
    came, here = os.pipe()
    ref = announces.options(max_retries=0).remote(here)
    os.read(came, 1)
    yield ref
    os.close(came)
    os.close(here)


def test_a_running_task_is_cancelled(running: ray.ObjectRef):
    """KeyboardInterrupt is raised in it, wherever it waits."""
    ray.cancel(running)
    with pytest.raises(TaskCancelledError):
        ray.get(running, timeout=20)


def test_force_ends_the_worker(running: ray.ObjectRef):
    """The task fails as it does without force, as in Ray, but its worker is dead."""
    worker = running._record.task.worker
    ray.cancel(running, force=True)
    with pytest.raises(TaskCancelledError):
        ray.get(running, timeout=20)
    assert worker.status is WorkerStatus.DEAD


def test_get_and_wait_give_up_after_their_timeout(threaded: None):
    """The task itself goes on."""
    ref = sleeps.remote()
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0.001)
    assert ray.wait([ref], timeout=0) == ([], [ref])


def test_tasks_run_side_by_side(threaded: None):
    """As many as there are CPUs. These two tasks wait for each other."""
    pipes = [os.pipe() for _ in range(2)]

    @ray.remote
    def meet(mine: int, others: int) -> bytes:
        os.write(mine, b"!")
        return os.read(others, 1)

    refs = [meet.remote(pipes[0][1], pipes[1][0]), meet.remote(pipes[1][1], pipes[0][0])]
    assert ray.get(refs, timeout=20) == [b"!", b"!"]
    for pipe in pipes:
        os.close(pipe[0])
        os.close(pipe[1])


def test_each_thread_of_the_program_may_use_the_session(session: str):
    """Several threads at once."""
    found: list[int] = []
    counter = Counter.remote()

    def use() -> None:
        found.append(ray.get(double.remote(4)) + 0 * ray.get(counter.add.remote()))

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == [8, 8, 8, 8] and ray.get(counter.add.remote()) == 5
