"""Lineage: a value that was lost with its node is rebuilt if the program allows it; otherwise an error says why."""

from __future__ import annotations

import pytest

import miniray as ray
from miniray.testing import faults
from tests.runtime.several_nodes import LARGE, blob, cluster, core, settle, until


@ray.remote(resources={"b": 0.01}, num_cpus=0)
def make(number: int = 0, *inputs: bytes) -> bytes:
    """A large value on the node with the resource b."""
    return bytes([number]) * LARGE


@ray.remote(resources={"b": 0.01}, num_cpus=0)
def first(value: bytes) -> int:
    """The first byte of a value, read on the node with b, so that no other node gets a copy."""
    return value[0]


@ray.remote(resources={"b": 0.1}, num_cpus=0)
class Maker:
    """An actor on the node with b. Its results are large."""

    def __init__(self) -> None:
        self.calls = 0

    def make(self) -> bytes:
        """A value that begins with the number of calls since the constructor ran."""
        self.calls += 1
        return bytes([self.calls]) * LARGE


class Lost:
    """A cluster whose node b can be replaced; everything on it is lost."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.node = nodes.add_node(num_cpus=1, resources={"b": 1})

    def node_b(self) -> None:
        """Remove the node and add another in its place."""
        self.nodes.remove_node(self.node)
        self.node = self.nodes.add_node(num_cpus=1, resources={"b": 1})


@pytest.fixture
def lose():
    """One cluster per test: a head node and the node b."""
    with cluster() as nodes:
        yield Lost(nodes)


def there(*refs) -> None:
    """Wait until the values are ready, without fetching them."""
    ray.wait(list(refs), num_returns=len(refs), fetch_local=False)


# ---------------------------------------------------------------- rebuilt


def test_a_lost_result_is_rebuilt_when_it_is_wanted(lose):
    """Not earlier: a value that nobody asks for costs nothing."""
    wanted, other = make.remote(1), make.remote(2)
    there(wanted, other)
    lose.node_b()
    assert ray.get(wanted)[0] == 1
    assert (wanted._record.task.attempt, other._record.task.attempt) == (1, 0)
    assert core().task_manager.num_reconstructions == 1


def test_its_lost_arguments_are_rebuilt_too(lose):
    """Recursively, even values to which no reference has existed for a long time."""
    ref = make.remote(1)
    for number in range(2, 6):
        ref = make.remote(number, ref)
    there(ref)
    lose.node_b()
    assert ray.get(ref)[0] == 5
    assert core().task_manager.num_reconstructions == 5


def test_a_chain_of_two_thousand_is_rebuilt(lose):
    """The chain is longer than Python's stack is deep."""
    ref = make.remote(0)
    for _ in range(2_000):
        ref = make.remote(1, ref)
    there(ref)
    lose.node_b()
    assert ray.get(first.remote(ref)) == 1


def test_a_task_that_waits_for_a_lost_argument_gets_it(lose):
    """It had not been started when its argument was lost."""
    value = make.remote(3)
    there(value)
    with faults.lose_object(value):
        assert ray.get(first.remote(value)) == 3


def test_one_of_several_results_is_rebuilt(lose):
    """The other results have copies on another node and stay as they are."""

    @ray.remote(resources={"b": 0.01}, num_cpus=0, num_returns=2)
    def two():
        return b"l" * LARGE, b"r" * LARGE

    left, right = two.remote()
    assert ray.get(right)[:1] == b"r"  # now there is a copy on the head node
    lose.node_b()
    assert ray.get(left)[:1] == b"l" and ray.get(right)[:1] == b"r"
    assert left._record.task.attempt == 1


def test_a_put_that_a_lost_result_needs_is_kept(lose):
    """It could not be rebuilt, so it is kept although nobody refers to it. It is released together with the result."""
    put = ray.put(bytes([7]) * LARGE)
    result = make.remote(7, put)
    there(result)
    del put
    lose.node_b()
    assert ray.get(result)[0] == 7
    del result
    settle()
    assert not core().objects


def test_a_small_value_that_a_lost_result_needs_is_kept(lose):
    """For the same reason as a put: the task that made it has been forgotten."""

    @ray.remote
    def small():
        return b"small"

    value = small.remote()
    result = make.remote(7, value)
    there(result)
    del value
    lose.node_b()
    assert ray.get(result)[0] == 7


def test_an_actors_result_is_rebuilt_if_its_calls_may_be_retried(lose):
    """The actor is restarted on another node, and the call runs again."""
    maker = Maker.options(max_restarts=-1, max_task_retries=-1).remote()
    refs = [maker.make.remote() for _ in range(3)]
    there(*refs)
    lose.node_b()
    assert [value[0] for value in ray.get(refs)] == [1, 2, 3]
    assert refs[0]._record.task.actor.restarts == 1


def test_an_actor_that_nobody_holds_comes_back_for_a_lost_result(lose):
    """As in Ray. This counts as a restart, and the actor ends again afterwards."""
    maker = Maker.options(max_restarts=1, max_task_retries=-1).remote()
    ref = maker.make.remote()
    there(ref)
    actor = ref._record.task.actor
    del maker
    settle()
    assert actor.status.name == "DEAD"
    lose.node_b()
    assert ray.get(first.remote(ref)) == 1
    assert until(lambda: actor.status.name == "DEAD") and actor.restarts == 1
    lose.node_b()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(ref)


def test_a_call_runs_again_before_calls_that_wait_for_its_value(lose):
    """One of the calls that wait holds up all calls behind it, so the repeated call goes to the front."""

    @ray.remote(max_restarts=-1, max_task_retries=-1, num_cpus=0, resources={"b": 0.1})
    class Chain:
        def link(self, before=None):
            return LARGE * bytes([1 if before is None else before[0] + 1])

    chain = Chain.remote()
    links = [chain.link.remote()]
    there(links[0])
    with faults.lose_object(links[0]):
        for _ in range(3):
            links.append(chain.link.remote(links[-1]))
        assert ray.get(first.remote(links[-1])) == 4


def test_items_of_a_stream_are_rebuilt(lose):
    """The generator runs once more; items that were not lost stay."""

    @ray.remote(resources={"b": 0.01}, num_cpus=0, num_returns="streaming")
    def stream():
        for number in range(3):
            yield bytes([number]) * LARGE

    generator = stream.remote()
    taken = [next(generator), next(generator)]
    there(*taken)
    until(lambda: generator._stream.ended)
    lose.node_b()
    assert [ray.get(ref)[0] for ref in (*taken, *generator)] == [0, 1, 2]


# ---------------------------------------------------------------- it cannot be rebuilt


def test_without_retries_it_is_lost(lose):
    """max_retries=0 forbids another attempt; so does an actor's max_task_retries=0, which is the default."""
    refs = [make.options(max_retries=0).remote(), Maker.remote().make.remote()]
    there(*refs)
    lose.node_b()
    for ref in refs:
        with pytest.raises(ray.exceptions.ObjectReconstructionFailedError, match="RETRIES_DISABLED"):
            ray.get(ref)


def test_retries_are_used_up_by_losses(lose):
    """Each rebuild counts as a retry."""
    ref = make.options(max_retries=1).remote(4)
    assert ray.get(first.remote(ref)) == 4
    lose.node_b()
    assert ray.get(first.remote(ref)) == 4
    lose.node_b()
    with pytest.raises(ray.exceptions.ObjectReconstructionFailedError, match="MAX_ATTEMPTS_EXCEEDED"):
        ray.get(ref)


def test_a_task_with_a_lost_argument_fails_with_its_loss(lose):
    """The error is a RayTaskError and an ObjectLostError at the same time."""
    ref = make.options(max_retries=0).remote()
    there(ref)
    lose.node_b()
    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(first.remote(ref))
    assert isinstance(caught.value, ray.exceptions.ObjectReconstructionFailedError)


def test_a_put_that_is_lost_is_lost():
    """No task could make it again. The error is ObjectLostError itself."""
    with cluster():
        ref = ray.put(bytes(LARGE))
        with faults.lose_object(ref), pytest.raises(ray.exceptions.ObjectLostError) as caught:
            ray.get(ref)
        assert type(caught.value) is ray.exceptions.ObjectLostError


def test_objects_of_a_dead_worker_are_lost_with_it(lose):
    """Its puts and the results of tasks that it submitted are lost, even if their values are on another node."""

    @ray.remote(resources={"b": 0.1}, num_cpus=0)
    class Owner:
        def own(self):
            child = blob.remote()
            ray.get(child)
            return [ray.put(bytes(LARGE)), child]

    owner = Owner.remote()
    refs = ray.get(owner.own.remote())
    ray.kill(owner)
    for ref in refs:
        with pytest.raises(ray.exceptions.OwnerDiedError):
            ray.get(ref)


def test_a_rebuild_that_fails_leaves_the_other_results_alone(lose):
    """The lost result has the error; the others keep their values."""

    @ray.remote(resources={"b": 0.01}, num_cpus=0, num_returns=2, max_retries=3)
    def once(log):
        if ray.get(log.add.remote()) > 1:
            raise ValueError("the second time")
        return b"l" * LARGE, b"small"

    @ray.remote(num_cpus=0)
    class Log:
        def __init__(self):
            self.n = 0

        def add(self):
            self.n += 1
            return self.n

    log = Log.remote()
    large, small = once.remote(log)
    there(large, small)
    lose.node_b()
    with pytest.raises(ValueError, match="the second time"):
        ray.get(large)
    assert ray.get(small) == b"small"


# ---------------------------------------------------------------- lineage ends


def kept() -> int:
    """The number of finished tasks that keep their arguments."""
    return sum(task.args is not None for task in core().tasks.values() if task.t_finished)


def test_lineage_is_kept_while_something_could_be_lost(lose):
    """A large value keeps the arguments of the task that made it, and these keep theirs. All are released with the last
    value."""
    ref = make.remote(0)
    for number in range(1, 5):
        ref = make.remote(number, ref)
    there(ref)
    assert kept() == 5
    del ref
    settle()
    assert kept() == 0 and not core().objects


def test_small_results_keep_no_lineage():
    """Small results stay with their owner and cannot be lost."""
    with cluster():

        @ray.remote
        def add(a, b):
            return a + b

        ref = add.remote(1, 2)
        for _ in range(5):
            ref = add.remote(ref, 1)
        assert ray.get(ref) == 8 and kept() == 0


def test_a_task_that_may_not_run_again_keeps_no_lineage(lose):
    """max_retries=0."""
    ref = make.options(max_retries=0).remote()
    there(ref)
    assert kept() == 0
