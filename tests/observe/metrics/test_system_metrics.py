"""Ray's metrics about itself: from records to the samples that Ray's dashboards ask for."""

import os
import re
import shutil
import subprocess

import pytest

import miniray as ray
from miniray.observe.metrics import registry
from miniray.process import context
from miniray.util import placement_group
from miniray.util.metrics import Counter, Gauge, export_page, export_text

SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@ray.remote(num_cpus=0)
class Plain:
    def ping(self):
        pass


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(registry, "system_metrics_provider", registry.of_the_session)
    with ray.init(num_cpus=2, resources={"widget": 2}):
        yield


def samples(text=None):
    """(name, labels, value) of each sample."""
    found = []
    for line in (export_text() if text is None else text).splitlines():
        if not line.startswith("#"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            found.append((name, dict(LABEL.findall(labels or "")), float(value)))
    return found


def total(name, text=None, **wanted):
    """The sum of the samples with these labels, as a dashboard adds them up; None if there is none."""
    values = [
        value
        for found, labels, value in samples(text)
        if found == name and all(labels.get(key) == text for key, text in wanted.items())
    ]
    return sum(values) if values else None


def test_tasks_are_counted_by_state_as_the_owner_and_the_worker_see_them(session):
    entered, leave = ray.util.queue.Queue(), ray.util.queue.Queue()

    @ray.remote(num_cpus=0)
    def held(entered, leave):
        entered.put(None)
        leave.get()

    @ray.remote
    def quick(fail):
        if fail:
            raise ValueError

    ray.get([quick.remote(False), quick.remote(False)])
    ray.wait([quick.remote(True)])
    running = held.remote(entered, leave)
    entered.get()
    text = export_text()
    for state, number in (("FINISHED", 2), ("FAILED", 1), ("PENDING_ARGS_AVAIL", 0), ("SUBMITTED_TO_WORKER", 0)):
        assert total("ray_tasks", text, Name="quick", State=state, Source="owner", IsRetry="0", JobId="") == number
    assert total("ray_tasks", text, Name="held", State="SUBMITTED_TO_WORKER", Source="owner") == 1
    assert total("ray_tasks", text, Name="held", State="SUBMITTED_TO_WORKER", Source="executor") == -1
    live = [
        value
        for name, labels, value in samples(text)
        if name == "ray_tasks" and labels["Name"] == "held" and labels["State"].startswith("RUNNING")
    ]
    assert sum(live) == 1, "running, or waiting in a get"
    leave.put(None)
    ray.get(running)
    assert total("ray_tasks", Name="held", State="FINISHED") == 1


def test_a_retry_is_counted_beside_the_attempt_that_failed(session):
    """Recorded from Ray: the first attempt is FAILED with IsRetry 0, the second FINISHED with IsRetry 1."""
    tries = ray.util.queue.Queue()

    @ray.remote(max_retries=3, retry_exceptions=True)
    def flaky(tries):
        tries.put(None)
        if tries.qsize() < 2:
            raise ValueError

    ray.get(flaky.remote(tries))
    assert total("ray_tasks", Name="flaky", State="FAILED", IsRetry="0") == 1
    assert total("ray_tasks", Name="flaky", State="FINISHED", IsRetry="1") == 1
    assert total("ray_tasks", Name="flaky", State="FINISHED", IsRetry="0") is None


def test_a_dropped_record_stays_counted(session):
    """FINISHED and FAILED only grow: Ray's dashboards take their maximum over two weeks."""

    @ray.remote
    def work(fail=False):
        if fail:
            raise ValueError

    @ray.remote
    def other():
        pass

    cluster = context.session.cluster
    cluster.history.limit = 3
    for call in [work.remote(), other.remote(), work.remote(True), *[work.remote() for _ in range(10)]]:
        ray.wait([call])
        del call
    ray.get(work.remote())
    assert cluster.dropped["tasks"] > 5
    assert total("ray_tasks", Name="work", State="FINISHED") == 12
    assert total("ray_tasks", Name="work", State="FAILED") == 1
    assert total("ray_tasks", Name="other", State="FINISHED") == 1
    reported, stored = (total(f"ray_gcs_task_manager_task_events_{name}") for name in ("reported", "stored"))
    assert reported - stored == total("ray_gcs_task_manager_task_events_dropped", Type="STATUS_EVENT") > 0


def test_actors_are_counted_for_the_gcs_and_for_the_executors(session):
    alive, dead = Plain.remote(), Plain.remote()
    ray.get([alive.ping.remote(), dead.ping.remote()])
    ray.kill(dead)
    text = export_text()
    assert total("ray_actors", text, Name="Plain", Source="gcs", State="ALIVE") == 1
    assert total("ray_actors", text, Name="Plain", Source="gcs", State="DEAD") == 1
    assert total("ray_actors", text, Name="Plain", Source="executor", State="ALIVE_IDLE") == 1
    assert total("ray_actors", text, Name="Plain", Source="executor", State="ALIVE_RUNNING_TASKS") == 0
    assert total("ray_gcs_actors_count", text, State="Created") == total(
        "ray_gcs_actors_count", text, State="Destroyed"
    )
    assert total("ray_scheduler_placement_time_ms_count", text, WorkloadType="Actor") == 2


def test_resources_objects_and_groups_are_exported(session):
    group = ray.util.placement_group([{"widget": 1}])
    ray.get(group.ready())
    big = ray.put(b"x" * 1_000_000)

    @ray.remote(resources={"nothing has this": 1})
    def impossible():
        pass

    never = impossible.remote()
    text = export_text()
    assert total("ray_resources", text, Name="widget", State="USED") == 1
    assert total("ray_resources", text, Name="CPU") == 2, "what is free and what is used are the whole"
    assert not [labels for name, labels, _ in samples(text) if "node:" in labels.get("Name", "")]
    assert total("ray_placement_groups", text, State="CREATED") == 1
    assert total("ray_object_store_memory", text, Location="MMAP_SHM") == 1_000_000
    assert total("ray_owned_objects", text, State="InPlasma", WorkerId="01000000" + "f" * 48) == 1
    assert total("ray_owned_objects", text, State="PendingCreation") == 1
    assert total("ray_scheduler_unscheduleable_tasks", text, Reason="Infeasible") == 1
    assert total("ray_object_store_dist_sum", text) == 1_000_000
    assert total("autoscaler_active_nodes", text, NodeType="head") == 1
    del big, never


def test_a_crashed_worker_is_counted_by_what_it_ran(session):
    @ray.remote(max_retries=0)
    def crash():
        import os

        os._exit(1)

    ray.wait([crash.remote()])
    kind = "Raylet.UnexpectedTaskFailure.Total"
    assert total("ray_node_manager_unexpected_worker_failure_total", Name="crash", Type=kind) == 1
    assert total("ray_unintentional_worker_failures_total") == 1


def test_every_sample_names_its_session(session):
    """Ray's dashboards filter by SessionName, and take the names from the speed of the network."""
    Counter("mine").inc()

    @ray.remote
    class Owner:
        def set(self):
            Gauge("theirs").set(1)
            return ray.get_runtime_context().get_worker_id()

    worker_id = ray.get(Owner.remote().set.remote())
    text = export_text()
    name = ray.get_runtime_context().get_session_name()
    assert re.fullmatch(r"session_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_\d{6}_\d+", name)
    assert all(labels["SessionName"] == name for _, labels, _ in samples(text))
    assert total("ray_node_network_receive_speed", text, SessionName=name) is not None
    (mine,) = [labels for found, labels, _ in samples(text) if found == "ray_mine_total"]
    (theirs,) = [labels for found, labels, _ in samples(text) if found == "ray_theirs"]
    assert mine["WorkerId"] == "01000000" + "f" * 48 and theirs["WorkerId"] == worker_id
    assert mine["NodeAddress"] == theirs["NodeAddress"] == "127.0.0.1"
    assert mine["Version"] == ray.__ray_version__ and mine["Component"] == "core_worker"


def test_hostile_names_of_tasks_are_escaped(session):
    @ray.remote
    def work():
        pass

    name = '"} 1\n\\evil{\x1b[31m\u202e'
    ray.get(work.options(name=name).remote())
    for accept in ("text/plain", "application/openmetrics-text"):
        kind, text = export_page(accept)
        text.encode()
        assert total("ray_tasks", text, State="FINISHED", Name=r"\"} 1\n\\evil{\\x1b[31m\\u202e") == 1


def test_without_a_session_there_are_none():
    assert registry.of_the_session(None) == []


# What promtool says about a page of Ray 2.60 itself, of the metrics that are here, too. It also says of Ray's labels
# that they are in camel case. The units of a name are Ray's, and so are the gauges called `..._total` and `..._count`.
OF_RAYS_NAMES = {
    "metric names should not contain abbreviated units": {
        "ray_component_rss_mb",
        "ray_component_uss_mb",
        "ray_gcs_placement_group_creation_latency_ms",
        "ray_gcs_placement_group_scheduling_latency_ms",
        "ray_job_duration_s",
        "ray_scheduler_placement_time_ms",
        "ray_worker_register_time_ms",
    },
    'non-histogram and non-summary metrics should not have "_count" suffix': {
        "ray_gcs_actors_count",
        "ray_gcs_placement_group_count",
        "ray_node_cpu_count",
        "ray_node_disk_io_read_count",
        "ray_node_disk_io_write_count",
    },
    'non-counter metrics should not have "_total" suffix': {
        "ray_node_mem_total",
        "ray_scheduler_failed_worker_startup_total",
        "ray_spill_manager_request_total",
    },
}


def test_promtool_says_of_a_sessions_page_what_it_says_of_rays(session):
    promtool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool (of Debian's package prometheus) is not installed; PROMTOOL names it")
    group = placement_group([{"CPU": 0.5}])
    ray.get(group.ready())
    actor = Plain.remote()
    ray.get([actor.ping.remote(), ray.remote(lambda: None).remote()])
    checked = subprocess.run([promtool, "check", "metrics"], input=export_text().encode(), capture_output=True)
    said = [line.partition(" ") for line in (checked.stdout + checked.stderr).decode().splitlines()]
    names = {(name, what) for name, _, what in said if "camelCase" not in what}
    assert names and names <= {(name, what) for what, theirs in OF_RAYS_NAMES.items() for name in theirs}
