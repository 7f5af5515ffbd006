"""Placement groups: refused arguments, handles, removed groups; and the scheduling strategies."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import miniray
from miniray import util
from miniray.util.placement_group import PlacementGroup
from miniray.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
    PlacementGroupSchedulingStrategy,
)


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    miniray.init(num_cpus=3, log_to_driver=False)
    yield
    miniray.shutdown()


@pytest.fixture
def group() -> Iterator[PlacementGroup]:
    made = util.placement_group([{"CPU": 1}, {"CPU": 0.5}])
    yield made
    util.remove_placement_group(made)


@pytest.mark.parametrize(
    "bundles",
    [
        [],
        None,
        {},
        ({"CPU": 1},),
        "CPU",
        [{}],
        [{"CPU": 0}],
        [{"CPU": 1}, {}],
        ["CPU"],
        [{1: 1}],
        [{"": 1}],
        [{"CPU": "1"}],
        [{"CPU": None}],
        [{"CPU": -1}],
        [{"CPU": float("nan")}],
    ],
)
def test_bundles_are_dicts_that_reserve_something(bundles: Any):
    """Anything else raises ValueError. (Ray accepts a negative amount, and the group then waits forever.)"""
    with pytest.raises(ValueError):
        util.placement_group(bundles)


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "TIGHT"},
        {"strategy": 5},
        {"lifetime": "weekend"},
        {"bundle_label_selector": []},
        {"bundle_label_selector": {}},
        {"bundle_label_selector": [{"a": 1}]},
        {"bundle_label_selector": [{"-a": "b"}]},
        {"bundle_label_selector": ["a"]},
        {"_soft_target_node_id": "ab"},
        {"topology_strategy": {"zone": "PACK"}},
        {"topology_strategy": {"ray.io/node-id": "TIGHT"}},
        {"topology_strategy": []},
        {"topology_strategy": {}, "strategy": "PACK"},
    ],
)
def test_bad_options_are_refused(options: dict[str, Any]):
    """They raise ValueError, and no group is created."""
    before = len(util.placement_group_table())
    with pytest.raises(ValueError):
        util.placement_group([{"CPU": 1}], **options)
    assert len(util.placement_group_table()) == before


@pytest.mark.parametrize("strategy", [[], {}, ["PACK"]])
def test_a_strategy_without_a_hash_is_a_type_error(strategy: Any):
    """As in Ray."""
    with pytest.raises(TypeError, match="unhashable"):
        util.placement_group([{"CPU": 1}], strategy=strategy)


@pytest.mark.parametrize(
    ("options", "strategy"),
    [
        ({}, "PACK"),
        ({"strategy": None}, "PACK"),
        ({"strategy": "SPREAD"}, "SPREAD"),
        ({"topology_strategy": {}}, "PACK"),
        ({"topology_strategy": {"ray.io/node-id": "STRICT_PACK"}}, "STRICT_PACK"),
    ],
)
def test_pack_is_the_default_strategy(options: dict[str, Any], strategy: str):
    """A topology strategy over nodes is another way to give the strategy."""
    made = util.placement_group([{"CPU": 1}], **options)
    assert util.placement_group_table(made)["strategy"] == strategy
    util.remove_placement_group(made)


def test_bundle_specs_are_the_requested_bundles(group: PlacementGroup):
    """They are floats, in the order of the request. A handle without a cache looks them up."""
    assert group.bundle_specs == [{"CPU": 1.0}, {"CPU": 0.5}]
    bare = PlacementGroup(group.id)
    assert bare.bundle_specs == group.bundle_specs and bare.bundle_count == 2


def test_an_amount_of_zero_reserves_nothing():
    """Even if no node has the resource. The table does not show it."""
    made = util.placement_group([{"CPU": 1, "unobtainium": 0}])
    assert made.wait(1)
    assert made.bundle_specs == [{"CPU": 1.0, "unobtainium": 0.0}]
    assert util.placement_group_table(made)["bundles"] == {0: {"CPU": 1.0}}
    util.remove_placement_group(made)


def test_handles_are_equal_by_id(group: PlacementGroup):
    """A pickled copy, and the value of ready(), are handles to the same group."""
    copy = pickle.loads(pickle.dumps(group))
    assert copy == group == miniray.get(group.ready()) and len({copy, group}) == 1
    assert group != group.id and group != PlacementGroup.empty()


def test_the_empty_handle_is_ready_at_once():
    """The empty handle stands for no group."""
    empty = PlacementGroup.empty()
    assert empty.is_empty and empty == PlacementGroup.empty()
    assert miniray.get(empty.ready()) == empty
    assert empty.wait(0) is False
    util.remove_placement_group(empty)


def test_a_name_finds_a_group_until_it_is_removed():
    """After that, the name can be used again."""
    named = util.placement_group([{"CPU": 1}], name="mine")
    assert util.get_placement_group("mine") == named
    util.remove_placement_group(named)
    for name in "mine", "", None:
        with pytest.raises(ValueError):
            util.get_placement_group(name)
    again = util.placement_group([{"CPU": 1}], name="mine")
    assert again != named
    util.remove_placement_group(again)


def test_remove_needs_a_group():
    """None raises AssertionError. A removed group is left alone."""
    with pytest.raises(AssertionError):
        util.remove_placement_group(None)
    made = util.placement_group([{"CPU": 1}])
    util.remove_placement_group(made)
    util.remove_placement_group(made)
    assert util.placement_group_table(made)["state"] == "REMOVED"


def test_ready_of_a_group_that_was_never_placed_fails_when_it_is_removed():
    """It does not matter whether ready() is called before or after the removal."""
    group = util.placement_group([{"CPU": 99}])
    early = group.ready()
    util.remove_placement_group(group)
    for ref in early, group.ready():
        with pytest.raises(miniray.exceptions.TaskPlacementGroupRemoved):
            miniray.get(ref)
    with pytest.raises(Exception, match="does not exist"):
        group.wait(0)


def test_a_task_knows_its_group(group: PlacementGroup):
    """It gets a handle that knows the bundles. Outside a group there is none."""

    @miniray.remote
    def mine() -> Any:
        current = util.get_current_placement_group()
        return current, current.bundle_specs

    for options in (
        {"scheduling_strategy": PlacementGroupSchedulingStrategy(group)},
        {"placement_group": group, "placement_group_bundle_index": 0},
    ):
        assert miniray.get(mine.options(**options).remote()) == (group, group.bundle_specs)
    assert util.get_current_placement_group() is None


def test_the_function_keeps_the_name_of_its_module():
    """`util.placement_group` is still the function after the module has been imported by its full name."""
    import miniray.util.placement_group  # noqa: F401  the import might set the name to the module

    assert callable(util.placement_group)
    assert util.placement_group([{"CPU": 1}], lifetime="detached").wait(1)


def test_node_affinity_needs_a_valid_node_id():
    """The id can be a text or a NodeID. The private options must fit `soft`."""
    node = miniray.nodes()[0]["NodeID"]
    assert NodeAffinitySchedulingStrategy(miniray.NodeID.from_hex(node), soft=True).node_id == node
    for wrong in "ab", "not hex", "", "f" * 56:
        with pytest.raises(ValueError):
            NodeAffinitySchedulingStrategy(wrong, soft=False)
    with pytest.raises(AttributeError):
        NodeAffinitySchedulingStrategy(None, soft=False)
    with pytest.raises(ValueError):
        NodeAffinitySchedulingStrategy(node, soft=False, _spill_on_unavailable=True)
    with pytest.raises(ValueError):
        NodeAffinitySchedulingStrategy(node, soft=True, _fail_on_unavailable=True)


def test_label_conditions_are_checked():
    """They are a dict from keys to the four operators, with at least one condition."""
    for wrong in {}, None, [1], {1: Exists()}, {"a": "b"}, {"a": Exists}:
        with pytest.raises(ValueError):
            NodeLabelSchedulingStrategy(wrong)
    for operator in In, NotIn:
        for values in (), (1,):
            with pytest.raises(ValueError):
                operator(*values)
    assert NodeLabelSchedulingStrategy(None, soft={"zone": DoesNotExist()}).hard == {}


def test_a_label_strategy_picks_a_node():
    """The node must meet the hard conditions; if none does, the task waits."""
    node = miniray.nodes()[0]["NodeID"]

    @miniray.remote(num_cpus=0)
    def run() -> str:
        return "ran"

    for met in (
        NodeLabelSchedulingStrategy({"ray.io/node-id": In(node)}),
        NodeLabelSchedulingStrategy({}, soft={"zone": In("x")}),
    ):
        assert miniray.get(run.options(scheduling_strategy=met).remote()) == "ran"
    unmet = run.options(scheduling_strategy=NodeLabelSchedulingStrategy({"zone": In("x")})).remote()
    assert miniray.wait([unmet], timeout=0) == ([], [unmet])
