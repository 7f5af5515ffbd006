"""Fault plans: faults that strike a simulated program, decided by the seed."""

from __future__ import annotations

import pathlib
import shlex
import time

import pytest

import miniray as ray
from miniray.testing import ExplorationFailure, FaultPlan, explore, faults, simulate, sometimes
from miniray.testing.exploring.simulation import Run

ROOT = pathlib.Path(__file__).resolve().parents[2]


# ---------------------------------------------------------------- faults


@ray.remote(max_restarts=-1, max_task_retries=-1)
class Ledger:
    """Remembers entries, unless it is restarted."""

    def __init__(self) -> None:
        self.entries: list[int] = []

    def add(self, entry: int) -> int:
        """Append."""
        self.entries.append(entry)
        return len(self.entries)

    def all(self) -> list[int]:
        """The entries."""
        return self.entries


@ray.remote
def writes(ledger, base):
    """Three entries, in order."""
    ray.get([ledger.add.remote(base + number) for number in range(3)])


def two_writers():
    """The entries of each writer keep their order."""
    ledger = Ledger.remote()
    ray.get([writes.remote(ledger, 10), writes.remote(ledger, 20)])
    entries = ray.get(ledger.all.remote())
    assert [e for e in entries if e < 20] == [10, 11, 12]
    assert [e for e in entries if e >= 20] == [20, 21, 22]
    sometimes(entries[0] == 20, "the second came first")


def test_delayed_messages_are_reordered_between_callers_only():
    """And only with that fault does a writer's message overtake half of the time."""
    assert explore(two_writers, seeds=range(60), faults=FaultPlan(delay=0.5)).sometimes["the second came first"] > 5


def test_a_crash_is_shrunk_to_the_fault_that_matters(monkeypatch):
    """The plan strikes many times; the failure needs one. The command repeats the fault, too."""
    with pytest.raises(ExplorationFailure) as caught:
        explore(two_writers, faults=FaultPlan(crash=0.3, slow=0.5))
    failure = caught.value
    assert len(failure.faults.only) == 1
    assert "crash: Ledger.a" in failure.story
    for word in shlex.split(failure.replay):
        name, equals, value = word.partition("=")
        if equals:
            monkeypatch.setenv(name, value)
    with pytest.raises(AssertionError):
        explore(two_writers, faults=FaultPlan(crash=0.3, slow=0.5))


def test_a_crash_strikes_only_where_the_program_can_survive_it():
    """Unless the plan is fatal."""

    @ray.remote(max_retries=0)
    def once() -> int:
        return 1

    def program() -> None:
        assert ray.get(once.remote()) == 1

    explore(program, seeds=range(20), faults=FaultPlan(crash=1.0))
    with pytest.raises(ExplorationFailure) as caught:
        explore(program, seeds=range(20), faults=FaultPlan(crash=1.0, fatal=True))
    assert isinstance(caught.value.__cause__, ray.exceptions.WorkerCrashedError)


def test_lost_nodes_and_objects_are_rebuilt():
    """A node that is lost comes back; values are rebuilt from their lineage."""

    @ray.remote(max_retries=-1)
    def big(x: int) -> bytes:
        return bytes([x]) * 200_000

    @ray.remote(max_retries=-1)
    def first(value: bytes) -> int:
        return value[0]

    def program() -> None:
        ray.init(num_cpus=2, num_nodes=3)
        assert ray.get([first.remote(big.remote(x)) for x in range(6)]) == list(range(6))
        time.sleep(60)
        assert len([node for node in ray.nodes() if node["Alive"]]) == 3

    plan = FaultPlan(lose_node=0.3, lose_object=0.3, slow=0.3, clock_jump=0.1)
    explore(program, seeds=range(40), faults=plan)


def test_a_full_store_refuses_a_put():
    """One put of three, here."""

    def program() -> int:
        refused = 0
        for _ in range(30):
            try:
                ray.put(bytes(200_000))
            except ray.exceptions.ObjectStoreFullError:
                refused += 1
        return refused

    assert 3 < simulate(program, 1, FaultPlan(full_store=0.3)) < 20


def test_faults_at_exact_points():
    """`at` takes the faults of `testing.faults`, and they also work inside the program."""

    @ray.remote(max_retries=2)
    def train() -> int:
        return ray.get_runtime_context().get_task_id() is not None

    def program() -> None:
        assert ray.get(train.remote())
        with faults.crash_worker("train") as crash:
            assert ray.get(train.remote())
        assert crash.count == 1

    run = Run(program, 1, faults=FaultPlan(at=(lambda: faults.crash_worker(attempt=0),))).go()
    assert run.error is None
    assert len(run.struck) == 1
