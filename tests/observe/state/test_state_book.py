"""`miniray.state`: plain dicts, every column filled, one row per task; and `explain` on a live session."""

import threading

import pytest

import miniray as ray
from miniray import state
from miniray.observe.state import book
from miniray.observe.state.query import RayStateApiException
from miniray.observe.state.ray_rows import StateResource
from miniray.util import state as rays
from tests.observe.still_session import StillSession


def rows(session, resource, *filters, limit=None):
    return book.book_rows(session, StateResource(resource), list(filters), limit)


@pytest.fixture
def session():
    """A live session with two CPUs."""
    ray.init(num_cpus=2, log_to_driver=False)
    yield
    ray.shutdown()


# ---------------------------------------------------------------- tasks


def test_a_task_has_one_row_however_many_attempts_it_took():
    """The row shows the last attempt, and num_attempts counts all of them."""
    session = StillSession(CPU=1)
    task = session.task("flaky", retries=1)
    session.start(task)
    session.fail(task, retry=True)
    session.start(task)
    session.finish(task)
    (row,) = rows(session, "tasks")
    assert (row["name"], row["state"], row["num_attempts"], row["error_type"]) == ("flaky", "FINISHED", 2, None)
    assert row["duration_ms"] == (task.t_ended - task.t_started) * 1000
    assert row["task_id"] == task.hex and row["worker_id"] == task.worker.hex and row["node_id"] == task.node.hex


def test_the_time_of_each_step():
    """Milliseconds since the epoch, None for a step that has not come. The duration of a running task grows."""
    session = StillSession(CPU=1)
    session.start(session.task("runs"))
    session.task("waits")
    runs, waits = rows(session, "tasks")
    steps = ["creation_time_ms", "ready_time_ms", "submitted_time_ms", "start_time_ms"]
    times = [runs[step] for step in steps]
    assert times == sorted(times) and runs["end_time_ms"] is None and times[0] > session.epoch * 1000
    assert [waits[step] is None for step in steps] == [False, False, True, True] and waits["duration_ms"] == 0.0
    before = runs["duration_ms"]
    session.tick()
    assert rows(session, "tasks")[0]["duration_ms"] == before + 1000


def test_every_task_row_has_the_columns_that_filters_know():
    """The row is written out in one place, the columns for filters in another; the two agree."""
    session = StillSession(CPU=1)
    session.done()
    assert list(rows(session, "tasks")[0]) == list(book.BOOK_TASKS)
    (row,) = rows(session, "tasks")
    assert {
        name: read(next(iter(session.cluster.tasks.values())), book.Look(session))
        for name, read in book.BOOK_TASKS.items()
    } == row


def test_there_is_no_limit_by_default():
    """All rows are listed, also more than a hundred. A limit applies to the rows that passed the filters."""
    session = StillSession(CPU=1)
    for i in range(150):
        session.done(f"t{i % 2}")
    assert len(rows(session, "tasks")) == 150
    found = rows(session, "tasks", ("name", "=", "T1"), limit=3)
    assert [row["name"] for row in found] == ["t1"] * 3 and [row["task_id"] for row in found] == sorted(
        row["task_id"] for row in found
    )


def test_a_filter_may_name_any_column():
    """A value that is not text is compared with ==; None matches an empty cell."""
    session = StillSession(CPU=1)
    session.done("good")
    bad = session.task("bad")
    session.start(bad)
    session.fail(bad)

    def names(*filters):
        return [row["name"] for row in rows(session, "tasks", *filters)]

    assert names(("error_type", "=", None)) == ["good"] and names(("error_type", "!=", None)) == ["bad"]
    assert names(("num_attempts", "=", 1), ("required_resources", "=", {"CPU": 1.0})) == ["good", "bad"]
    assert names(("error_message", "!=", "x")) == ["good", "bad"]
    with pytest.raises(RayStateApiException, match="tasks have no column 'nope'; they have task_id, name"):
        names(("nope", "=", 1))
    for bad_filter in ("name=a", [("name", "<", 1)], [("name",)]):
        with pytest.raises(ValueError):
            book.book_rows(session, StateResource.TASKS, bad_filter)
    with pytest.raises(ValueError):
        book.book_rows(session, StateResource.TASKS, limit="many")
    with pytest.raises(RayStateApiException):
        book.book_rows(session, StateResource.TASKS, limit=-1)


def test_dropped_records_are_a_warning():
    """The answer has the remaining rows."""
    session = StillSession(record_limit=1, CPU=1)
    for i in range(3):
        task = session.done(f"t{i}")
        task.returns[0].refs = 0
        session.cluster.references.check(session.tick(), task.returns[0])
    with pytest.warns(UserWarning, match="2 more tasks are missing: they were dropped"):
        assert len(rows(session, "tasks")) == 1


# ---------------------------------------------------------------- the other tables


def test_the_row_of_an_actor():
    """Calls that wait, calls that run, calls that have run; the cause of death."""
    session = StillSession(CPU=1)
    actor = session.living_actor(max_restarts=1)
    for name in ("a", "b", "c"):
        session.call(actor, name)
    first = next(iter(actor.calls.values()))
    session.start(first)
    (row,) = rows(session, "actors")
    assert (row["mailbox_backlog"], row["calls_in_flight"], row["tasks_executed"], row["death_cause"]) == (
        2,
        1,
        0,
        None,
    )
    session.finish(first)
    assert [rows(session, "actors")[0][key] for key in ("mailbox_backlog", "calls_in_flight", "tasks_executed")] == [
        1,
        1,
        1,
    ]
    session.cluster.kill_actor(session.tick(), actor)
    (row,) = rows(session, "actors")
    assert row["state"] == "DEAD" and row["death_cause"] == "it was killed by `ray.kill`" and row["num_restarts"] == 0


def test_the_row_of_an_object():
    """Its maker and its references. produced_by is a task's id, the driver's for a put."""
    session = StillSession(CPU=1)
    task = session.done("make")
    value = session.put(1_000_000)
    session.task("take", value, cpus=9)
    made, put, handle = rows(session, "objects")
    assert (made["produced_by"], made["state"], made["refs"], made["object_size"]) == (task.hex, "READY", 1, 8)
    assert (put["produced_by"], put["object_size"], put["pending_task_uses"]) == ("f" * 40 + "01000000", 1_000_000, 1)
    assert put["node_id"] == made["node_id"] == session.cluster.nodes[1].hex and put["locations"] == [put["node_id"]]
    assert [row["call_site"] for row in (made, put, handle)] == ["(task call) make", "(put object)", "(task call) take"]
    assert handle["state"] == "PENDING" and handle["node_id"] is None


def test_a_worker_row_for_every_thread():
    """The row has the thread's ident, the task that it runs and the number of tasks that it has run."""
    session = StillSession(CPU=1)
    task = session.done("one")
    worker = task.worker
    found = {row["worker_type"]: row for row in rows(session, "workers")}
    assert (found["WORKER"]["state"], found["WORKER"]["tasks_executed"], found["WORKER"]["task_id"]) == (
        "IDLE",
        1,
        None,
    )
    assert (
        found["WORKER"]["thread_id"] == worker.handle.ident
        and found["DRIVER"]["thread_id"] == threading.main_thread().ident
    )


def test_the_summary_of_objects_has_the_stores():
    """Use, capacity and counters over all nodes, and the number of reconstructions."""
    session = StillSession(CPU=1, store_bytes=1_500_000)
    session.spilled()
    found = book.book_objects(session)
    assert (found["num_objects"], found["used_bytes"], found["capacity_bytes"]) == (2, 1_000_000, 1_500_000)
    assert (
        found["counters"]["spilled"] == 1 and found["num_reconstructions"] == 0 and found["spilled_bytes"] == 1_000_000
    )
    assert found["state_counts"] == {"SPILLED": 1, "READY": 1}


def test_summaries_of_tasks_and_actors():
    """Each task counts once; attempts are counted separately."""
    session = StillSession(CPU=2)
    actor = session.living_actor()
    session.call(actor), session.call(actor)
    flaky = session.task("flaky", retries=1)
    session.start(flaky)
    session.fail(flaky, retry=True)
    tasks, actors = book.book_tasks(session), book.book_actors(session)
    assert (tasks["num_tasks"], tasks["num_attempts"], tasks["summary"]["flaky"]["num_attempts"]) == (4, 5, 2)
    assert actors["summary"]["Keeper"] == {
        "class_name": "Keeper",
        "num_actors": 1,
        "state_counts": {"ALIVE": 1},
        "num_restarts": 0,
        "mailbox_backlog": 1,
        "calls_in_flight": 1,
    }


def test_one_row_by_its_id():
    """Upper case is accepted. None for an id without a record, or of another resource."""
    session = StillSession(CPU=1)
    task, actor, value = session.done("one"), session.living_actor(), session.put()
    get = book.book_row
    assert get(session, StateResource.TASKS, task.hex.upper())["name"] == "one"
    assert get(session, StateResource.ACTORS, actor.hex)["class_name"] == "Keeper"
    assert get(session, StateResource.OBJECTS, value.hex)["object_size"] == 8
    assert get(session, StateResource.NODES, session.cluster.nodes[1].hex)["is_head_node"]
    for resource in StateResource:
        if resource is not StateResource.RUNTIME_ENVS:
            assert get(session, resource, "zz") is None
    assert get(session, StateResource.TASKS, actor.hex) is None


# ---------------------------------------------------------------- the doors


def test_both_doors_have_the_same_functions():
    """The book's door has every function that Ray's has."""
    missing = {name for name in rays.__all__ if name != "StateApiClient"} - set(state.__all__)
    assert not missing
    assert all(callable(getattr(state, name)) for name in state.__all__)


def test_without_a_session_every_function_raises_connection_error():
    """Behind both doors."""
    for door in (state, rays):
        for name in door.__all__:
            if name.startswith(("list_", "summarize_")) and name != "list_logs":
                with pytest.raises(ConnectionError, match="Could not find any running Ray instance"):
                    getattr(door, name)()
    with pytest.raises(ConnectionError):
        state.explain("0" * 48)
    with pytest.raises(ConnectionError):
        rays.StateApiClient()


def test_tables_are_current_when_get_returns(session):
    """The row of a task has its final state as soon as `get` has returned the result."""
    double = ray.remote(lambda n: 2 * n)
    for n in range(5):
        ref = double.options(name=f"double {n}").remote(n)
        ray.get(ref)
        row = state.get_task(ref.task_id().hex())
        assert (row["state"], row["name"]) == ("FINISHED", f"double {n}") and row["duration_ms"] >= 0
        assert rays.get_task(ref.task_id().hex()).state == "FINISHED"
    assert state.summarize_tasks()["num_tasks"] == len(state.list_tasks()) == len(rays.list_tasks()) == 5


def test_explain_takes_references_handles_groups_and_ids(session):
    """Whatever has an id can be explained."""

    class Keeper:
        def ping(self):
            return 1

    keeper = ray.remote(Keeper).remote()
    assert ray.get(keeper.ping.remote()) == 1
    huge = ray.remote(num_cpus=50)(lambda: None).options(name="huge").remote()
    group = ray.util.placement_group([{"CPU": 9}], name="wide")
    assert state.explain(keeper).reason == "alive" and state.explain(keeper).kind == "actor"
    assert str(state.explain(huge)).startswith("task huge needs 50 CPU")
    assert state.explain(huge.task_id().hex()).reason == state.explain(group).reason == "infeasible"
    assert state.explain(group.ready()).reason == "infeasible"
    assert state.explain(ray.put(1)).asdict()["reason"] == "ready"


def test_a_timeout_says_why(session):
    """The message ends with the sentence of `explain`."""
    huge = ray.remote(num_cpus=50)(lambda: None).options(name="huge").remote()
    with pytest.raises(ray.exceptions.GetTimeoutError, match="task huge needs 50 CPU, and no node has that much"):
        ray.get(huge, timeout=0.01)


@pytest.mark.slow
def test_a_get_that_can_never_return_raises_if_the_session_says_so():
    """With on_deadlock="raise" it raises DeadlockError after a second, with the reason."""
    with ray.init(num_cpus=1, on_deadlock="raise", log_to_driver=False):
        huge = ray.remote(num_cpus=50)(lambda: None).options(name="huge").remote()
        with pytest.raises(ray.exceptions.DeadlockError, match="task huge needs 50 CPU.*nothing else runs"):
            ray.get(huge)
