"""Faults on purpose: each strikes when it is told to, writes an event, and leaves no trace afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import miniray as ray
from miniray.runtime import async_worker, local_mode, worker
from miniray.process import context
from miniray.testing import faults
from tests.runtime.several_nodes import LARGE, Gate, blob, cluster, core, until


@pytest.fixture
def session() -> Iterator[None]:
    """A session with two CPUs."""
    ray.init(num_cpus=2, log_to_driver=False)
    yield
    ray.shutdown()


@ray.remote
def double(x: int) -> int:
    """A task that returns twice its argument."""
    return 2 * x


@ray.remote(num_cpus=0)
class Log:
    """An actor that keeps lines in the order of their arrival."""

    def __init__(self) -> None:
        self.lines: list = []

    def add(self, line: object) -> int:
        """Add a line. Returns the number of lines."""
        self.lines.append(line)
        return len(self.lines)


@ray.remote(max_restarts=2, max_task_retries=2)
class Counter:
    """An actor that counts its calls since its last restart."""

    def __init__(self) -> None:
        self.n = 0

    def add(self) -> int:
        """One more."""
        self.n += 1
        return self.n


@ray.remote(max_restarts=2, max_task_retries=2)
class AsyncCounter:
    """The same as an async actor."""

    def __init__(self) -> None:
        self.n = 0

    async def add(self) -> int:
        """One more."""
        self.n += 1
        return self.n


# ---------------------------------------------------------------- crash_worker


def test_the_worker_of_the_next_task_crashes(session):
    """By default the fault strikes once: the second attempt succeeds."""
    with faults.crash_worker("double") as crash:
        ref = double.remote(1)
        assert ray.get(ref) == 2 and crash.count == 1
        assert ray.get(double.remote(2)) == 4 and crash.count == 1
    task = ref._record.task
    assert task.attempt == 1 and task.history[0].failure.error_type == "WORKER_DIED"
    assert task.history[0].worker.exit_type == "SYSTEM_ERROR"


def test_only_tasks_of_the_name_and_attempts_of_the_number_crash(session):
    """The name is the function's, unless options(name=) sets another; attempts count from 0."""
    other = double.options(name="other")
    with faults.crash_worker("other", attempt=1, times=None) as crash:
        assert ray.get([double.remote(1), other.remote(1)]) == [2, 2] and crash.count == 0
        with faults.crash_worker("other", attempt=0) as first:
            ref = other.remote(2)
            assert ray.get(ref) == 4
    assert (first.count, crash.count, ref._record.task.attempt) == (1, 1, 2)


def test_a_task_whose_worker_always_crashes_fails_in_the_end(session):
    """It fails after its first attempt and max_retries more."""
    with faults.crash_worker("double", times=None) as crash:
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            ray.get(double.options(max_retries=2).remote(1))
    assert crash.count == 3


def test_the_worker_crashes_before_the_first_line_or_after_the_last(session):
    """With after=True the task has had its effect when the worker crashes, and the next attempt repeats the effect."""
    log = Log.remote()

    @ray.remote
    def work(log):
        return ray.get(log.add.remote("worked"))

    with faults.crash_worker("work"):
        assert ray.get(work.remote(log)) == 1
    with faults.crash_worker("work", after=True):
        assert ray.get(work.remote(log)) == 3


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("kind", "name"), [(Counter, "Counter"), (AsyncCounter, "AsyncCounter")])
def test_an_actors_worker_crashes_in_a_call_or_in_its_constructor(session, kind, name, after):
    """The actor restarts without its state."""
    actor = kind.remote()
    assert ray.get([actor.add.remote(), actor.add.remote()]) == [1, 2]
    with faults.crash_worker(f"{name}.add", after=after) as crash:
        assert ray.get(actor.add.remote()) == 1 and crash.count == 1
    with faults.crash_worker(f"{name}.__init__", after=after) as crash:
        assert ray.get(kind.remote().add.remote()) == 1 and crash.count == 1


def test_a_generators_worker_crashes_before_its_first_item_or_after_its_last(session):
    """The consumer gets each item once, although the generator runs twice."""

    @ray.remote(num_returns="streaming")
    def stream():
        for number in range(3):
            yield number

    for after in (False, True):
        with faults.crash_worker("stream", after=after) as crash:
            assert [ray.get(ref) for ref in stream.remote()] == [0, 1, 2] and crash.count == 1


def test_faults_of_one_kind_add_up(session):
    """Each of two faults strikes once."""
    with faults.crash_worker("double") as first, faults.crash_worker("double") as second:
        assert ray.get(double.remote(1)) == 2
    assert first.count == second.count == 1


def test_workers_crash_in_local_mode_too():
    """The task is retried as on a thread."""
    ray.init(local_mode=True)
    try:
        with faults.crash_worker("double") as crash:
            assert ray.get(double.remote(1)) == 2
        assert crash.count == 1
    finally:
        ray.shutdown()


# ---------------------------------------------------------------- kill_worker


def test_the_worker_of_a_running_task_is_killed(session):
    """The task is retried. When it has finished, there is no worker to kill, and the fault does not strike."""
    gate = Gate.remote()

    @ray.remote
    def hold(gate):
        ray.get(gate.wait.remote())
        return "done"

    ref = hold.remote(gate)
    assert until(lambda: ref._record.task.t_started > 0)
    with faults.kill_worker(ref) as kill:
        ray.get(gate.open.remote())
        assert ray.get(ref) == "done" and kill.count == 1 and ref._record.task.attempt == 1
    with pytest.warns(faults.FaultNeverStruckWarning, match="no worker ran the task"):
        with faults.kill_worker(ref) as kill:
            assert ray.get(ref) == "done" and kill.count == 0


def test_the_worker_of_an_actor_is_killed(session):
    """This counts as a crash, so the actor may restart."""
    actor = Counter.remote()
    assert ray.get([actor.add.remote(), actor.add.remote()])[1] == 2
    with faults.kill_worker(actor) as kill:
        assert ray.get(actor.add.remote()) == 1 and kill.count == 1


def test_a_task_in_an_endless_loop_is_ended(session):
    """The worker's thread is interrupted in the user's code."""

    @ray.remote(max_retries=0)
    def spin(log):
        ray.get(log.add.remote("spins"))
        while True:
            pass

    log = Log.remote()
    ref = spin.remote(log)
    assert until(lambda: faults.finished("Log.add")(core()))
    with faults.kill_worker(ref), pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(ref)


# ---------------------------------------------------------------- remove_node


def test_a_node_dies_at_once_or_when_a_condition_holds():
    """The condition is checked after every event of the core."""
    with cluster() as nodes:
        first, second = nodes.add_node(num_cpus=1), nodes.add_node(num_cpus=1)
        with faults.remove_node(first) as at_once:
            assert at_once.count == 1 and not first.record.alive
        with faults.remove_node(second.node_id, when=faults.finished("double", 3)) as later:
            ray.get([double.remote(n) for n in range(2)])
            assert later.count == 0 and second.record.alive
            ray.get(double.remote(2))
            assert later.count == 1 and not second.record.alive


def test_a_node_dies_while_it_runs_tasks():
    """It dies when its second task has started; its tasks run again on another node."""
    with cluster() as nodes:
        node = nodes.add_node(num_cpus=2, resources={"here": 2})

        @ray.remote(resources={"here": 1}, num_cpus=1)
        def where(log):
            ray.get(log.add.remote(1))
            return ray.get_runtime_context().get_node_id()

        log = Log.remote()
        with faults.remove_node(
            node, when=lambda tables: node.record.alive and faults.started("where", 2)(tables)
        ) as fault:
            refs = [where.remote(log) for _ in range(2)]
            assert until(lambda: fault.count == 1)
        other = nodes.add_node(num_cpus=2, resources={"here": 2})
        assert set(ray.get(refs)) <= {node.node_id, other.node_id} and other.node_id in ray.get(refs)


def test_an_error_in_a_condition_is_raised_at_the_end_of_the_block():
    """The session goes on, and the fault does not strike."""
    with cluster() as nodes:
        node = nodes.add_node()
        with pytest.raises(ZeroDivisionError):
            with faults.remove_node(node, when=lambda tables: 1 / 0):
                assert ray.get(double.remote(1)) == 2
        assert node.record.alive


def test_an_unknown_node_and_the_head_node_cannot_be_removed(session):
    """Both raise ValueError."""
    with pytest.raises(ValueError, match="no living node"):
        faults.remove_node("0" * 56)
    with pytest.raises(ValueError, match="driver"):
        faults.remove_node(ray.get_runtime_context().get_node_id())


# ---------------------------------------------------------------- lose_object


def test_a_value_is_lost_as_soon_as_it_exists(session):
    """This holds for a finished task's value, and for one that the task has yet to create. Both are rebuilt."""
    for wait_first in (True, False):
        ref = blob.remote()
        if wait_first:
            ray.wait([ref])
        with faults.lose_object(ref) as fault:
            assert len(ray.get(ref)) == LARGE
        assert fault.count == 1


def test_a_value_is_lost_when_a_condition_holds(session):
    """The value is stored, then a condition comes true and the value is lost, then `get` rebuilds it."""
    ref = blob.remote()
    with faults.lose_object(ref, when=faults.finished("double")) as fault:
        ray.wait([ref])
        assert fault.count == 0
        assert ray.get(double.remote(1)) == 2 and fault.count == 1
        assert len(ray.get(ref)) == LARGE and ref._record.task.attempt == 1


def test_a_small_value_cannot_be_lost(session):
    """It is in no object store, so the fault does not strike."""
    ref = double.remote(1)
    with pytest.warns(faults.FaultNeverStruckWarning, match="the value is small"):
        with faults.lose_object(ref) as fault:
            assert ray.get(ref) == 2
    assert fault.count == 0


# ---------------------------------------------------------------- all faults


def test_each_time_a_fault_strikes_it_writes_an_event(session):
    """The events have the kind "fault" and the record that was struck, in order."""
    with faults.crash_worker("double") as crash, faults.full_store() as full:
        ref = double.remote(1)
        ray.get(ref)
    lines = [event for event in core().events if event.kind == "fault"]
    assert lines == [*full.hits, *crash.hits] and crash.hits[0].about is ref._record.task
    assert lines[1].text == "crash_worker: the worker of double, attempt 0"


@pytest.mark.filterwarnings("ignore::miniray.testing.faults.FaultNeverStruckWarning")
def test_the_last_fault_removes_its_hooks(session):
    """Afterwards the runtime is as it was before the first fault."""
    ref = blob.remote()
    plain = worker.call_of
    with faults.crash_worker("nobody"), faults.fail_spill(), faults.lose_object(ref), faults.full_store():
        assert worker.call_of is not plain and context.running().spill.before_write and core().after_event
    assert worker.call_of is async_worker.call_of is local_mode.call_of is plain
    assert context.running().spill.before_write is None and not core().after_event
    assert not context.running().head.store.full


def test_faults_need_a_session():
    """Without one they raise RuntimeError."""
    for cause in (faults.crash_worker, faults.fail_spill, faults.full_store):
        with pytest.raises(RuntimeError):
            cause()


def test_the_same_faults_give_the_same_attempts(session):
    """A program under the same faults makes the same number of attempts of each task."""

    @ray.remote
    def link(x, name):
        return x + 1

    def run() -> list[int]:
        refs, x = [], ray.put(0)
        for number in range(12):
            x = link.options(name=f"link {number}").remote(x, number)
            refs.append(x)
        assert ray.get(x) == 12
        return [ref._record.task.attempt for ref in refs]

    def faulty() -> list[int]:
        with (
            faults.crash_worker("link 3"),
            faults.crash_worker("link 7", times=2),
            faults.crash_worker("link 9", after=True),
        ):
            return run()

    assert run() == [0] * 12
    assert faulty() == faulty() == [0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0, 0]
