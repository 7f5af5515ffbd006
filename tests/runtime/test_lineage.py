"""Lineage: what was lost with its node is made again, as far as the program allows it, and what cannot be says why."""

from __future__ import annotations

import pytest

import miniray as ray
from miniray.testing import faults
from tests.runtime.several_nodes import LARGE, blob, cluster, core, settle, until


@ray.remote(resources={"b": 0.01}, num_cpus=0)
def make(number: int = 0, *inputs: bytes) -> bytes:
    """A large value on the node that has b."""
    return bytes([number]) * LARGE


@ray.remote(resources={"b": 0.01}, num_cpus=0)
def first(value: bytes) -> int:
    """What the value begins with, looked at on the node that has b: no copy comes to another."""
    return value[0]


@ray.remote(resources={"b": 0.1}, num_cpus=0)
class Maker:
    """An actor whose results are large, on the node that has b."""

    def __init__(self) -> None:
        self.calls = 0

    def make(self) -> bytes:
        """Begins with how many calls it had in this life."""
        self.calls += 1
        return bytes([self.calls]) * LARGE


class Lost:
    """A cluster whose node b can be replaced: all that was on it is lost."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.node = nodes.add_node(num_cpus=1, resources={"b": 1})

    def node_b(self) -> None:
        """Another node takes its place."""
        self.nodes.remove_node(self.node)
        self.node = self.nodes.add_node(num_cpus=1, resources={"b": 1})


@pytest.fixture
def lose():
    """One cluster per test: a head, and the node b."""
    with cluster() as nodes:
        yield Lost(nodes)


def there(*refs) -> None:
    """Wait until the values are made, without fetching them."""
    ray.wait(list(refs), num_returns=len(refs), fetch_local=False)


# ---------------------------------------------------------------- made again


def test_a_lost_result_is_made_again_when_it_is_wanted(lose):
    """Not before: a value that nobody asks for costs nothing."""
    wanted, other = make.remote(1), make.remote(2)
    there(wanted, other)
    lose.node_b()
    assert ray.get(wanted)[0] == 1
    assert (wanted._record.task.attempt, other._record.task.attempt) == (1, 0)
    assert core().task_manager.num_reconstructions == 1


def test_what_it_was_made_from_is_made_again_too(lose):
    """Recursively, also what nobody has referred to for long."""
    ref = make.remote(1)
    for number in range(2, 6):
        ref = make.remote(number, ref)
    there(ref)
    lose.node_b()
    assert ray.get(ref)[0] == 5
    assert core().task_manager.num_reconstructions == 5


def test_a_chain_of_two_thousand_is_made_again(lose):
    """Deeper than Python's stack."""
    ref = make.remote(0)
    for _ in range(2_000):
        ref = make.remote(1, ref)
    there(ref)
    lose.node_b()
    assert ray.get(first.remote(ref)) == 1


def test_a_task_that_waits_for_a_lost_argument_gets_it(lose):
    """It had not been started when the argument went."""
    value = make.remote(3)
    there(value)
    with faults.lose_object(value):
        assert ray.get(first.remote(value)) == 3


def test_one_of_several_results_is_made_again(lose):
    """The others, which are on another node as well, stay as they are."""

    @ray.remote(resources={"b": 0.01}, num_cpus=0, num_returns=2)
    def two():
        return b"l" * LARGE, b"r" * LARGE

    left, right = two.remote()
    assert ray.get(right)[:1] == b"r"  # a copy is on the head now
    lose.node_b()
    assert ray.get(left)[:1] == b"l" and ray.get(right)[:1] == b"r"
    assert left._record.task.attempt == 1


def test_a_put_that_a_lost_result_needs_is_kept(lose):
    """It could not be made again, so it stays although nobody refers to it; it goes with the result."""
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
    """As a put: what made it has been forgotten."""

    @ray.remote
    def small():
        return b"small"

    value = small.remote()
    result = make.remote(7, value)
    there(result)
    del value
    lose.node_b()
    assert ray.get(result)[0] == 7


def test_an_actors_result_is_made_again_where_calls_may_be_retried(lose):
    """The actor lives anew on another node, and is asked once more."""
    maker = Maker.options(max_restarts=-1, max_task_retries=-1).remote()
    refs = [maker.make.remote() for _ in range(3)]
    there(*refs)
    lose.node_b()
    assert [value[0] for value in ray.get(refs)] == [1, 2, 3]
    assert refs[0]._record.task.actor.restarts == 1


def test_an_actor_that_nobody_holds_comes_back_for_a_lost_result(lose):
    """As in Ray; it counts as a restart, and it ends again afterwards."""
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


def test_a_call_is_made_again_before_those_that_wait_for_its_value(lose):
    """The calls behind it are held up by one of them: it goes in front."""

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


def test_items_of_a_stream_are_made_again(lose):
    """The generator runs once more; what was not lost stays."""

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


# ---------------------------------------------------------------- it cannot be made again


def test_without_retries_it_is_lost(lose):
    """max_retries=0 forbids another attempt; so does an actor's max_task_retries=0, which is the default."""
    refs = [make.options(max_retries=0).remote(), Maker.remote().make.remote()]
    there(*refs)
    lose.node_b()
    for ref in refs:
        with pytest.raises(ray.exceptions.ObjectReconstructionFailedError, match="RETRIES_DISABLED"):
            ray.get(ref)


def test_retries_are_used_up_by_losses(lose):
    """Each time it is made again counts."""
    ref = make.options(max_retries=1).remote(4)
    assert ray.get(first.remote(ref)) == 4
    lose.node_b()
    assert ray.get(first.remote(ref)) == 4
    lose.node_b()
    with pytest.raises(ray.exceptions.ObjectReconstructionFailedError, match="MAX_ATTEMPTS_EXCEEDED"):
        ray.get(ref)


def test_who_takes_a_lost_value_fails_with_its_loss(lose):
    """A RayTaskError that is the loss at the same time."""
    ref = make.options(max_retries=0).remote()
    there(ref)
    lose.node_b()
    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(first.remote(ref))
    assert isinstance(caught.value, ray.exceptions.ObjectReconstructionFailedError)


def test_a_put_that_is_lost_is_lost():
    """There is no task that could make it again: ObjectLostError itself."""
    with cluster():
        ref = ray.put(bytes(LARGE))
        with faults.lose_object(ref), pytest.raises(ray.exceptions.ObjectLostError) as caught:
            ray.get(ref)
        assert type(caught.value) is ray.exceptions.ObjectLostError


def test_what_a_dead_worker_owned_is_gone_with_it(lose):
    """Its puts, and the results of tasks that it submitted, also when their values are elsewhere."""

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
    """The lost one has the error, the others their values."""

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
    """How many finished tasks keep what they were called with."""
    return sum(task.args is not None for task in core().tasks.values() if task.t_finished)


def test_lineage_is_kept_while_something_could_be_lost(lose):
    """The arguments of what made a large value, and of what made those; with the last value all of it goes."""
    ref = make.remote(0)
    for number in range(1, 5):
        ref = make.remote(number, ref)
    there(ref)
    assert kept() == 5
    del ref
    settle()
    assert kept() == 0 and not core().objects


def test_small_results_keep_no_lineage():
    """They are with their owner and cannot be lost."""
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
