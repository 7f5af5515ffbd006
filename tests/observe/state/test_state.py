"""Ray's state API on the core's tables: rows, filters, limits, refusals. Recorded cases compare it with Ray itself."""

import dataclasses
import json
import pickle
import warnings
from collections import Counter

import pytest

from miniray.core.records import Failure
from miniray.observe.state import ray_tables as state
from miniray.observe.state.query import GetApiOptions, ListApiOptions, RayStateApiException, SummaryApiOptions
from miniray.observe.state.ray_rows import SCHEMAS, JobState, StateResource, SummaryResource, TaskState
from tests.observe.still_session import StillSession


def rows(session, resource="tasks", *filters, complete=True, explain=False, **options):
    return state.list_rows(
        session, StateResource(resource), ListApiOptions(filters=list(filters), **options), complete, explain
    )


def names(session, *filters, **options):
    return [row.name for row in rows(session, "tasks", *filters, **options)]


# ---------------------------------------------------------------- rows of tasks


def test_the_states_of_a_task_in_turn():
    """A task is RUNNING from the moment when its function is entered, which the worker records without the lock."""
    session = StillSession(CPU=1)
    first, second = session.task("first"), session.task("second")
    third = session.task("third", second.returns[0])

    def states():
        return {row.name: row.state for row in rows(session)}

    assert states() == {
        "first": "SUBMITTED_TO_WORKER",
        "second": "PENDING_NODE_ASSIGNMENT",
        "third": "PENDING_ARGS_AVAIL",
    }
    session.start(first)
    assert states()["first"] == "RUNNING"
    session.finish(first)
    assert states()["first"] == "FINISHED"
    session.start(second)
    session.fail(second)
    assert states() == {"first": "FINISHED", "second": "FAILED", "third": "FAILED"}
    assert third.failure is not None


def test_a_task_whose_argument_failed_looks_as_if_it_had_run():
    """In Ray the worker finds the error while it unpacks the arguments, so there is a RUNNING event."""
    session = StillSession(CPU=1)
    bad = session.task("bad")
    session.task("after", bad.returns[0])
    session.start(bad)
    session.fail(bad)
    (after,) = rows(session, "tasks", ("name", "=", "after"), detail=True)
    assert [event["state"] for event in after.events] == [
        "PENDING_ARGS_AVAIL",
        "PENDING_NODE_ASSIGNMENT",
        "SUBMITTED_TO_WORKER",
        "RUNNING",
        "FAILED",
    ]
    assert after.start_time_ms == after.end_time_ms and after.error_type == "TASK_EXECUTION_EXCEPTION"
    assert after.error_message == "User exception:\nValueError: no"


def test_each_attempt_has_a_row():
    """Attempts are numbered from 0; each row has its own worker, times and error."""
    session = StillSession(CPU=1)
    task = session.task("flaky", retries=2)
    session.task("other", cpus=5)
    session.start(task)
    session.cluster.worker_died(session.tick(), task.worker, Failure("WORKER_DIED", "its thread ended"))
    session.start(task)
    session.fail(task, retry=True)
    session.start(task)
    session.finish(task)
    found = rows(session, "tasks", ("name", "=", "flaky"), detail=True)
    assert [(row.attempt_number, row.state, row.error_type) for row in found] == [
        (0, "FAILED", "WORKER_DIED"),
        (1, "FAILED", "TASK_EXECUTION_EXCEPTION"),
        (2, "FINISHED", None),
    ]
    assert len({row.worker_id for row in found}) == 2
    starts = [row.start_time_ms for row in found]
    assert starts == sorted(starts) and starts[0] >= session.epoch * 1000
    assert state.get_rows(session, StateResource.TASKS, task.hex) == found


def test_rows_come_in_the_order_of_their_ids():
    """Ids are compared as text. Those of creation tasks begin with f, so these rows come last."""
    session = StillSession(CPU=4)
    actor = session.living_actor()
    session.call(actor)
    for i in range(5):
        session.task(f"t{i}")
    ids = [row.task_id for row in rows(session)]
    assert ids == sorted(ids) and ids[-1].startswith("f" * 16)
    objects = [row.object_id for row in rows(session, "objects")]
    assert objects == sorted(objects)


def test_times_in_rows_are_whole_milliseconds_since_the_epoch():
    """As in Ray, times are ints; in events they are floats."""
    session = StillSession(CPU=1)
    task = session.done()
    (row,) = rows(session, detail=True)
    assert row.creation_time_ms == int((session.epoch + task.t_created) * 1000)
    assert [type(event["created_ms"]) for event in row.events] == [float] * 5
    assert row.events[-1]["created_ms"] == row.end_time_ms


def test_the_call_in_which_an_actor_ends_itself_has_finished():
    """As in Ray, although its caller gets an error. The calls behind it have failed."""
    session = StillSession(CPU=1)
    actor = session.living_actor()
    leaving, behind = session.call(actor, "leave"), session.call(actor, "behind")
    worker = session.start(leaving)
    session.cluster.actor_exited(session.tick(), worker, worker.task, "exit_actor() was called")
    found = {row.name: (row.state, row.error_type) for row in rows(session, "tasks", ("type", "=", "ACTOR_TASK"))}
    assert found == {"Keeper.leave": ("FINISHED", None), "Keeper.behind": ("FAILED", "ACTOR_DIED")}
    assert behind.failure is leaving.failure


def test_all_threads_of_an_actor_are_one_worker():
    """Its calls name the worker that ran the constructor, and only that worker has a row."""
    session = StillSession(CPU=1)
    actor = session.living_actor(limit=3)
    calls = [session.call(actor, f"c{i}") for i in range(3)]
    for call in calls:
        session.start(call)
    assert len({call.worker for call in calls}) == 3
    assert {row.worker_id for row in rows(session, "tasks", ("type", "=", "ACTOR_TASK"))} == {actor.worker.hex}
    assert [row.worker_id for row in rows(session, "workers")] == [actor.worker.hex, "01000000" + "f" * 48]


def test_resources_in_a_placement_group_are_named_after_the_group():
    """And after the bundle's index too, if the task asked for one bundle."""
    session = StillSession(CPU=2)
    group = session.group({"CPU": 1})
    session.task("anywhere", strategy=("PLACEMENT_GROUP", group.number, -1))
    session.task("first", strategy=("PLACEMENT_GROUP", group.number, 0))
    found = {row.name: row for row in rows(session, detail=True)}
    anywhere = {f"bundle_group_{group.hex}": 0.001, f"CPU_group_{group.hex}": 1.0}
    assert found["anywhere"].required_resources == anywhere
    assert found["first"].required_resources == anywhere | {
        f"bundle_group_0_{group.hex}": 0.001,
        f"CPU_group_0_{group.hex}": 1.0,
    }
    assert found["first"].placement_group_id == group.hex


# ---------------------------------------------------------------- other tables


def test_a_dead_actor_keeps_its_node_in_its_row():
    """Node and pid stay; the cause of death tells whether the actor had started."""
    session = StillSession(CPU=1)
    lived, unborn = session.living_actor("Lived"), session.actor("Unborn", cpus=7)
    for actor in (lived, unborn):
        session.cluster.kill_actor(session.tick(), actor)
    found = {row.class_name: row for row in rows(session, "actors", detail=True)}
    assert (found["Lived"].node_id, found["Unborn"].node_id) == (session.cluster.nodes[1].hex, None)
    assert found["Lived"].pid > 0 and found["Unborn"].pid == 0
    causes = {name: row.death_cause["actor_died_error_context"] for name, row in found.items()}
    assert {name: (cause["reason"], cause["never_started"]) for name, cause in causes.items()} == {
        "Lived": ("RAY_KILL", False),
        "Unborn": ("RAY_KILL", True),
    }
    creations = {row.name: row.error_type for row in rows(session, "tasks", ("state", "=", "FAILED"))}
    assert creations == {"Unborn.__init__": "WORKER_DIED"}


def test_why_actors_died_has_a_reason_for_each_way():
    """Its node died, its worker crashed, or its constructor raised."""
    session = StillSession(CPU=2)
    other = session.node(CPU=5)
    crashed, broken = session.living_actor("Crashed"), session.actor("Broken")
    session.start(broken.creation)
    session.fail(broken.creation, "ValueError: born broken")
    session.cluster.worker_died(session.tick(), crashed.worker, Failure("WORKER_DIED", "its thread ended"))
    session.living_actor("OnOther", cpus=5)
    session.cluster.remove_node(session.tick(), other)
    causes = {row.class_name: row.death_cause for row in rows(session, "actors", detail=True)}
    assert "born broken" in causes["Broken"]["creation_task_failure_context"]["formatted_exception_string"]
    assert causes["Crashed"]["actor_died_error_context"]["reason"] == "WORKER_DIED"
    assert "SYSTEM_ERROR" in causes["Crashed"]["actor_died_error_context"]["error_message"]
    assert causes["OnOther"]["actor_died_error_context"]["reason"] == "NODE_DIED"


def test_objects_are_listed_while_somebody_holds_them():
    """The result of a running task is not listed if nobody refers to it; nor is a placement group's own object."""
    session = StillSession(CPU=2)
    unwanted, held = session.task("unwanted"), session.put(100)
    session.group({"CPU": 1})
    unwanted.returns[0].refs = 0
    assert [(row.object_id, row.object_size) for row in rows(session, "objects")] == [(held.hex, 100)]
    held.refs, held.uses = 0, 1
    assert [row.reference_type for row in rows(session, "objects")] == ["USED_BY_PENDING_TASK"]
    held.uses, held.held = 0, 2
    assert [row.reference_type for row in rows(session, "objects")] == ["CAPTURED_IN_OBJECT"]


def test_a_handle_is_an_object_of_its_actors_creation():
    """As in Ray, it shows the status of the creation task until that task has finished."""
    session = StillSession(CPU=1)
    actor = session.actor()
    (row,) = rows(session, "objects")
    assert row.object_id == "f" * 16 + actor.hex + "01000000" and row.reference_type == "ACTOR_HANDLE"
    assert row.task_status == "PENDING_NODE_ASSIGNMENT"
    session.start(actor.creation)
    session.finish(actor.creation)
    assert rows(session, "objects")[0].task_status == "NIL"
    assert state.get_rows(session, StateResource.OBJECTS, row.object_id)[0].object_id == row.object_id


def test_a_dead_worker_keeps_its_row():
    """The row tells how the worker ended. The driver has a row too."""
    session = StillSession(CPU=1)
    task = session.task()
    worker = session.start(task)
    session.cluster.worker_died(session.tick(), worker, Failure("WORKER_DIED", "its thread ended"))
    found = rows(session, "workers", detail=True)
    assert [(row.worker_type, row.is_alive, row.exit_type, row.exit_detail) for row in found] == [
        ("WORKER", False, "SYSTEM_ERROR", "its thread ended"),
        ("DRIVER", True, None, None),
    ]
    assert found[0].end_time_ms > found[0].start_time_ms


def test_a_dead_node_keeps_its_row():
    """The row has the message of its removal."""
    session = StillSession(CPU=1)
    session.cluster.remove_node(session.tick(), session.node(CPU=3), "the test took it")
    assert [(row.is_head_node, row.state, row.state_message) for row in rows(session, "nodes")] == [
        (True, "ALIVE", None),
        (False, "DEAD", "the test took it"),
    ]


def test_events_of_the_cluster():
    """A fresh cluster has no events; later ones are listed in order."""
    session = StillSession(CPU=1)
    assert rows(session, "cluster_events") == []
    node = session.node(CPU=1)
    session.cluster.remove_node(session.tick(), node, "gone")
    found = rows(session, "cluster_events", detail=True)
    assert [(row.severity, row.custom_fields["kind"]) for row in found] == [
        ("INFO", "node_joined"),
        ("ERROR", "node_died"),
    ]
    assert found[0].custom_fields["id"] == node.hex and len({row.event_id for row in found}) == 2


def test_runtime_environments_that_were_used():
    """Each environment has one row, with the number of unfinished tasks that use it."""
    session = StillSession(CPU=1)
    assert rows(session, "runtime_envs") == []
    for i in range(2):
        session.task(f"t{i}").spec.runtime_env = {"env_vars": {"A": "1"}}
    session.task("other").spec.runtime_env = {}
    (row,) = rows(session, "runtime_envs", detail=True)
    assert (row.runtime_env, row.success, row.ref_cnt) == ({"env_vars": {"A": "1"}}, True, 2)


def test_the_job_is_the_driver():
    """Its type and status are enums that equal their texts."""
    session = StillSession(CPU=1)
    (job,) = rows(session, "jobs", ("status", "=", "running"))
    assert isinstance(job, JobState) and job.type == "DRIVER" and str(job.status) == "RUNNING"
    assert json.loads(json.dumps(job.asdict()))["status"] == "RUNNING"
    assert rows(session, "jobs", ("submission_id", "!=", "x")) == [job]
    assert state.get_rows(session, StateResource.JOBS, job.job_id) is None


# ---------------------------------------------------------------- filters and limits


def test_a_missing_cell_matches_no_filter():
    """Not even "!=": the error_type of a task that did not fail, the exit_type of a living worker. None is a value."""
    session = StillSession(CPU=1)
    bad = session.task("bad")
    session.start(bad)
    session.fail(bad)
    session.done("good")
    assert names(session, ("error_type", "!=", "X")) == ["bad"]
    assert names(session, ("actor_id", "!=", "00" * 16)) == ["bad", "good"]
    assert rows(session, "workers", ("exit_type", "!=", "X")) == []
    assert rows(session, "nodes", ("node_id", "!=", "x")) != []


def test_an_unknown_column_is_refused_when_the_first_row_reaches_its_filter():
    """So it is not refused for an empty table, nor behind a filter that no row passes."""
    session = StillSession(CPU=1)
    assert names(session, ("nope", "=", "x")) == []
    session.done()
    with pytest.raises(RayStateApiException, match="filter column nope is not supported"):
        names(session, ("nope", "=", "x"))
    assert names(session, ("name", "=", "nobody"), ("nope", "=", "x")) == []


def test_ids_in_filters_must_be_ids():
    """Tasks check them for both predicates, actors and nodes for "=" only, other resources not at all."""
    session = StillSession(CPU=1)
    session.done()
    session.living_actor()
    for column in ("task_id", "actor_id", "job_id"):
        for value in ("zz", "abc", "abcd1234ab"):
            for predicate in ("=", "!="):
                with pytest.raises(RayStateApiException):
                    names(session, (column, predicate, value))
    with pytest.raises(RayStateApiException, match="length 16, got 1"):
        rows(session, "actors", ("actor_id", "=", "ab"))
    assert len(rows(session, "actors", ("actor_id", "!=", "ab"))) == 1
    assert rows(session, "placement_groups", ("placement_group_id", "=", "zz")) == []


def test_numbers_in_filters():
    """They may be ints or text. A float or a word is refused; a bool column takes the words for a bool only."""
    session = StillSession(CPU=1)
    session.done()
    assert (
        names(session, ("ATTEMPT_NUMBER", "=", "0")) == ["work"] and names(session, ("attempt_number", "!=", 0)) == []
    )
    for value in (1.0, True, "two"):
        with pytest.raises(RayStateApiException):
            names(session, ("attempt_number", "=", value))
    assert (
        len(rows(session, "workers", ("is_alive", "=", "1")))
        == len(rows(session, "workers", ("is_alive", "=", True)))
        == 2
    )
    assert names(session, ("name", "=", 3)) == []


def test_two_different_values_for_one_column_are_a_warning():
    """No row can have both, so the answer is empty."""
    session = StillSession(CPU=1)
    with pytest.warns(UserWarning, match="multiple '=' filters"):
        assert names(session, ("name", "=", "a"), ("name", "=", "b")) == []
    # NaN is unequal to itself, and still one value: it is refused like any other that is no whole number.
    with pytest.raises(RayStateApiException, match="int type column"):
        rows(session, "workers", ("pid", "=", float("nan")))


def test_the_shape_of_options():
    """Validation is Ray's: a whole number in several forms, a bool as a word, filters as any iterable of triples."""
    assert (
        ListApiOptions(limit="3").limit == ListApiOptions(limit=3.0).limit == 3
        and ListApiOptions(limit=True).limit == 1
    )
    assert ListApiOptions(detail="yes").detail and not ListApiOptions(detail=0).detail
    assert ListApiOptions(filters=(["a", "=", 1],)).filters == [("a", "=", 1)]
    for bad in (
        {"limit": None},
        {"limit": 2.5},
        {"timeout": "soon"},
        {"detail": 3},
        {"detail": None},
        {"filters": "a=b"},
        {"filters": 3},
        {"filters": [("a", "=", None)]},
        {"filters": [("a", "=")]},
        {"filters": [(1, "=", 2)]},
        {"filters": [("a", ">", 2)]},
        {"filters": {"a": "b"}},
    ):
        with pytest.raises(ValueError):
            ListApiOptions(**bad)
    for options in (GetApiOptions, SummaryApiOptions):
        with pytest.raises(ValueError):
            options(timeout=2.5)


def test_limits():
    """The limit keeps the first rows; with explain a warning counts the rest. A limit above the largest is an error,
    unless missing rows are accepted."""
    session = StillSession(CPU=1)
    for i in range(3):
        session.done(f"t{i}")
    assert names(session, limit=2) == ["t0", "t1"] and names(session, limit=0) == []
    for limit in (-1, 10_001):
        with pytest.raises(RayStateApiException):
            names(session, limit=limit)
    assert len(rows(session, limit=10**9, complete=False)) == 3
    with pytest.warns(UserWarning, match=r"Limit last 2 entries \(Total 3\)"):
        rows(session, limit=2, explain=True)


def test_a_limited_list_is_the_head_of_the_whole_list(monkeypatch):
    """Also with retries, and with constructors, which come last. It looks at the tasks that it returns only."""
    session = StillSession(CPU=9)
    for i in range(3):
        session.done(f"t{i}")
        session.call(session.living_actor())
        task = session.task(f"retried{i}", retries=3)
        session.start(task)
        session.fail(task, retry=True)
    whole = rows(session)
    assert [rows(session, limit=n) for n in range(len(whole) + 2)] == [whole[:n] for n in range(len(whole) + 2)]
    looks = Counter()
    shown = state.TABLES[StateResource.TASKS].entries
    monkeypatch.setattr(state.TABLES[StateResource.TASKS], "entries", lambda c: looks.update(all=1) or shown(c))
    assert rows(session, limit=4) == whole[:4] and not looks
    assert rows(session, limit=len(whole)) == whole and looks["all"] == 1
    session.cluster.history.in_order = False  # a task has come back, so its place in the table is not its place here
    assert rows(session, limit=4) == whole[:4] and looks["all"] == 2


def test_the_largest_limit_can_be_raised(monkeypatch):
    """Ray's environment variable sets it."""
    monkeypatch.setenv("RAY_MAX_LIMIT_FROM_API_SERVER", "20000")
    assert names(StillSession(CPU=1), limit=20_000) == []


def test_dropped_tasks_are_never_passed_over_in_silence():
    """They are an error, as in Ray; or a warning, if the caller accepts missing rows."""
    session = StillSession(record_limit=2, CPU=1)
    for i in range(5):
        session.done(f"t{i}").returns[0].refs = 1
    for task in list(session.cluster.tasks.values()):
        task.returns[0].refs = 0
        session.cluster.references.check(session.tick(), task.returns[0])
    dropped = session.cluster.dropped["tasks"]
    assert dropped == 3
    with pytest.raises(RayStateApiException, match="3 were dropped because their table was full"):
        rows(session)
    with pytest.raises(RayStateApiException):
        state.summary(session, SummaryResource.TASKS)
    with pytest.warns(UserWarning, match="Failed to retrieve all 5 tasks"):
        assert len(rows(session, complete=False)) == 2


# ---------------------------------------------------------------- one call, one lock


@pytest.mark.parametrize("resource", [resource.value for resource in StateResource])
def test_one_call_takes_the_lock_once(resource):
    """A list or a get takes one snapshot, so no two rows contradict each other."""
    session = StillSession(CPU=2)
    session.call(session.living_actor())
    session.done()
    session.put()
    session.group({"CPU": 1})
    before = session.times_locked
    rows(session, resource, detail=True)
    assert session.times_locked == before + 1
    if resource not in ("runtime_envs",):
        state.get_rows(
            session, StateResource(resource), "0" * {"actors": 32, "tasks": 48, "nodes": 56}.get(resource, 8)
        )
        assert session.times_locked == before + 2


def test_a_row_shows_one_moment():
    """A later event does not show, although the rows of tasks are built after the lock is released."""
    session = StillSession(CPU=2)
    task = session.task("live")
    session.start(task)
    entries = state.TABLES[StateResource.TASKS].entries(session.cluster)
    session.finish(task)
    assert [state.task_state(entry) for entry in entries] == ["RUNNING"]
    assert rows(session)[0].state == "FINISHED"


def test_only_the_rows_that_are_returned_are_built(monkeypatch):
    """The limit is applied before a row is made."""
    session = StillSession(CPU=1)
    for i in range(20):
        session.done(f"t{i}")
    made = Counter()
    monkeypatch.setitem(state.TASKS, "func_or_class_name", lambda task, look: made.update(rows=1))
    assert len(rows(session, "tasks", ("name", "!=", "t3"), limit=4)) == 4
    assert made["rows"] == 4


# ---------------------------------------------------------------- row classes


def test_a_row_is_a_dataclass_of_rays_columns():
    """Columns are read by name or key; rows can be compared, changed and pickled, and cannot be hashed."""
    session = StillSession(CPU=1)
    session.done()
    (row,) = rows(session)
    assert row["name"] == row.name == row.get("name") == "work" and row.get("nope") is None and row.get("nope", 7) == 7
    with pytest.raises(AttributeError):
        row["nope"]
    with pytest.raises(TypeError):
        hash(row)
    row["name"], row.note = "mine", 3
    assert row.asdict()["name"] == "mine" and repr(row).startswith("TaskState(task_id='")
    assert pickle.loads(pickle.dumps(row)) == row != rows(session)[0]
    assert list(row.asdict()) == [f.name for f in dataclasses.fields(TaskState)]
    assert row.language is None and rows(session, detail=True)[0].language == "PYTHON"


def test_every_table_can_fill_its_columns():
    """The columns are those of the row class in the same order, because a row is built from them by position."""
    for resource, table in state.TABLES.items():
        assert list(table.columns) == SCHEMAS[resource].list_columns(), resource
        assert {name for name, column in table.columns.items() if column.filterable} == SCHEMAS[
            resource
        ].filterable_columns()


# ---------------------------------------------------------------- summaries


def test_the_summary_counts_attempts_by_name():
    """Those of tasks, of calls, and of the constructors of actors."""
    session = StillSession(CPU=2)
    actor = session.living_actor()
    call = session.call(actor)
    session.start(call)
    flaky = session.task("flaky", retries=1)
    session.start(flaky)
    session.fail(flaky, retry=True)
    session.start(flaky)
    session.done("flaky")
    found = state.summary(session, SummaryResource.TASKS)["cluster"]
    assert found == {
        "summary": {
            "Keeper.__init__": {
                "func_or_class_name": "Keeper.__init__",
                "type": "ACTOR_CREATION_TASK",
                "state_counts": {"FINISHED": 1},
            },
            "Keeper.go": {"func_or_class_name": "Keeper.go", "type": "ACTOR_TASK", "state_counts": {"RUNNING": 1}},
            "flaky": {
                "func_or_class_name": "flaky",
                "type": "NORMAL_TASK",
                "state_counts": {"FAILED": 1, "RUNNING": 1, "FINISHED": 1},
            },
        },
        "total_tasks": 3,
        "total_actor_tasks": 1,
        "total_actor_scheduled": 1,
        "summary_by": "func_name",
    }


def test_the_summary_agrees_with_the_rows():
    """Also about names that contain an actor's repr."""
    session = StillSession(CPU=2)
    actor = session.living_actor()
    actor.repr_name = "K<1>"
    for name in ("a", "b", "a"):
        session.call(actor, name)
    session.start(next(iter(actor.calls.values())))
    found = state.summary(session, SummaryResource.TASKS)["cluster"]["summary"]
    assert {
        (name, one): count for name, entry in found.items() for one, count in entry["state_counts"].items()
    } == Counter((row.name, row.state) for row in rows(session))
    assert "K<1>.a" in found and "Keeper.a" in found


def test_an_empty_cluster_has_empty_summaries():
    """All totals are zero, as in Ray."""
    session = StillSession(CPU=1)
    for resource in SummaryResource:
        found = state.summary(session, resource)["cluster"]
        assert found["summary"] == {} and not any(value for key, value in found.items() if key.startswith("total"))


def test_a_plain_list_warns_of_nothing():
    """No resource has a warning without a reason."""
    session = StillSession(CPU=1)
    session.done()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for resource in StateResource:
            rows(session, resource.value, explain=resource is not StateResource.OBJECTS)


def test_the_rows_of_tasks_whose_owner_has_crashed():
    """As in Ray, where nobody is left to report the end of those that had no worker."""
    session = StillSession(CPU=2)
    owner = session.living_actor().worker
    runs = session.task("runs", owner=owner)
    session.start(runs)
    for name, deps in (("waits for a CPU", ()), ("waits for an argument", runs.returns)):
        session.task(name, *deps, owner=owner, cpus=2)
    session.cluster.worker_died(session.tick(), owner, Failure("WORKER_DIED", "it crashed"))
    found = {row.name: (row.state, row.error_type) for row in rows(session, "tasks", ("type", "=", "NORMAL_TASK"))}
    assert found == {
        "runs": ("FAILED", "WORKER_DIED"),
        "waits for a CPU": ("PENDING_NODE_ASSIGNMENT", None),
        "waits for an argument": ("PENDING_ARGS_AVAIL", None),
    }
