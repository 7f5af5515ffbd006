"""Graphs of calls: which calls are made, how often and in which order, and which arguments can be bound."""

from __future__ import annotations

import collections
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import miniray
from miniray.dag import ClassMethodNode, ClassNode, FunctionNode, InputNode, MultiOutputNode


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    miniray.init(num_cpus=4, log_to_driver=False)
    yield
    miniray.shutdown()


@miniray.remote
def add(a: Any, b: Any = 0) -> Any:
    return a + b


@miniray.remote
def seen(value: Any) -> Any:
    """The argument as the task received it, with the values of its references."""
    return kinds(value)


def kinds(value: Any) -> Any:
    if isinstance(value, miniray.ObjectRef):
        return "ref", miniray.get(value)
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [kinds(item) for item in value]
    return kinds(vars(value)) if hasattr(value, "__dict__") else value


@miniray.remote(num_cpus=0)
class Log:
    def __init__(self, start: int = 0) -> None:
        self.total, self.added = start, []

    def add(self, k: int) -> int:
        self.total += k
        self.added.append(k)
        return self.total

    def get(self) -> list[int]:
        return self.added

    @miniray.method(num_returns=2)
    def two(self) -> tuple[int, int]:
        return 1, 2


class Box:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


def run(node: Any, *args: Any, **kwargs: Any) -> Any:
    return miniray.get(node.execute(*args, **kwargs))


def test_nodes_are_found_inside_values():
    """The task receives them as references, as in any call. The bound values themselves do not change."""
    one = add.bind(1)
    for value, arrived in [
        ([one], [("ref", 1)]),
        ((2, one), [2, ("ref", 1)]),
        ({"a": [one]}, {"a": [("ref", 1)]}),
        (Box(one), {"inside": ("ref", 1)}),
        (Box([Box(one)]), {"inside": [{"inside": ("ref", 1)}]}),
    ]:
        assert run(seen.bind(value)) == arrived
        assert run(seen.bind(value)) == arrived


def test_values_without_nodes_are_passed_unchanged():
    """This includes values that contain themselves."""
    cycle: list[Any] = [1]
    cycle.append(cycle)

    @miniray.remote
    def length(value: Any) -> int:
        return len(value)

    Point = collections.namedtuple("Point", "x y")
    assert run(length.bind(cycle)) == 2
    assert run(seen.bind(Point(1, add.bind(1)))) == [1, ("ref", 1)]


def test_a_shared_node_is_called_once_in_an_execution():
    """The next execution calls it again."""
    log = Log.remote()
    step = log.add.bind(1)
    graph = add.bind(step, step)
    assert (run(graph), run(graph)) == (2, 4)
    assert miniray.get(log.get.remote()) == [1, 1]


def test_a_deep_graph_needs_no_deep_stack():
    """(Ray raises a PicklingError at a depth of about 400.)"""
    node = add.bind(0)
    for _ in range(1500):
        node = add.bind(node, 1)
    assert run(node) == 1500


def test_arguments_are_checked_when_the_graph_is_executed():
    """This holds for functions. The arguments of a living actor's method are checked in bind."""
    too_many = add.bind(1, 2, 3)
    with pytest.raises(TypeError):
        too_many.execute()
    with pytest.raises(TypeError):
        Log.remote().add.bind()


def test_options_are_bound_too():
    """A node has the options of the variant that bound it."""
    assert run(add.options(num_cpus=2, name="named").bind(1, 2)) == 3
    node = add.options(num_returns=2).bind([1], [2])
    assert len(node.execute()) == 2
    assert node.get_options()["num_returns"] == 2 and node.get_args() == ([1], [2]) and node.get_kwargs() == {}


def test_a_node_has_neither_bind_nor_remote():
    """It has execute() instead."""
    for name in "bind", "remote", "nonsense":
        with pytest.raises(AttributeError):
            getattr(add.bind(1), name)


def test_one_input_as_a_whole_and_in_parts():
    """An index, a key or an attribute is a part of the only argument, or one of the arguments of execute."""
    with InputNode() as x:
        whole, first, key, attribute = seen.bind(x), seen.bind(x[0]), seen.bind(x["key"]), seen.bind(x.inside)
        second = seen.bind(x[1])
    assert run(whole, [1]) == [1]
    assert run(first, [7, 8]) == 7 and run(second, 7, 8) == 8
    assert run(key, {"key": 5}) == 5 == run(key, key=5)
    assert run(attribute, Box(3)) == 3 == run(attribute, inside=3)
    assert x.inside is x.inside and x[0] is x[0]


@pytest.mark.parametrize(
    ("part", "args", "kwargs", "error"),
    [
        ("x[1]", (), {}, IndexError),
        ("x[1]", (7,), {}, TypeError),
        ("x.key", (), {"other": 1}, KeyError),
        ("x.key", ({"key": 1},), {}, AttributeError),
        ("x['key']", ({},), {}, KeyError),
    ],
)
def test_a_missing_part_of_the_input(part: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: type[Exception]):
    """execute raises the error of the input itself."""
    with InputNode() as x:
        node = add.bind(eval(part, {"x": x}))
    with pytest.raises(error):
        node.execute(*args, **kwargs)


def test_a_graph_has_one_input():
    """It is created by a with statement, takes no arguments, and is indexed by integers and strings."""
    with InputNode() as one, InputNode() as other:
        both = add.bind(one, other)
    for wrong in both, add.bind(InputNode()):
        with pytest.raises(AssertionError):
            wrong.execute(1)
    with pytest.raises(AssertionError):
        one[1.5]
    with pytest.raises(ValueError):
        InputNode(1)
    with pytest.raises(AttributeError):
        one.part.of_a_part.bind(1)


def test_unused_arguments_are_ignored():
    """As in Ray, a graph without an InputNode accepts arguments."""
    assert run(add.bind(1), 5) == 1


def test_each_execution_creates_the_bound_actor():
    """Its calls run in the order in which they were bound, even those that the result does not need."""
    actor = Log.bind(1)
    first, second = actor.add.bind(1), actor.add.bind(2)
    added = actor.get.bind()
    assert run(added) == [1, 2] == run(added)
    assert (run(first), run(second)) == (2, 4)
    assert isinstance(actor.execute(), miniray.actor.ActorHandle)
    assert (type(actor), type(first)) == (ClassNode, ClassMethodNode)


def test_a_bound_class_has_the_methods_of_its_class():
    """Its methods can only be bound, and its constructor cannot depend on an input."""
    actor = Log.bind()
    for name in "nonsense", "bind", "remote":
        with pytest.raises(AttributeError):
            getattr(actor, name)
    with pytest.raises(AttributeError, match="bind"):
        actor.add.remote(1)
    with InputNode() as x, pytest.raises(ValueError):
        Log.bind(x.start)
    assert run(actor.add.options(name="named").bind(3)) == 3


def test_a_method_with_several_returns_gives_several_nodes():
    """The nodes share one call."""
    one, two = Log.remote().two.bind()
    assert run(two) == 2
    assert run(add.bind(one, two)) == 3
    assert run(MultiOutputNode([one, two])) == [1, 2]
    assert run(Log.bind().two.bind()) == [1, 2]


def test_several_outputs_come_in_a_list():
    """A value that is not a node is returned unchanged."""
    assert run(MultiOutputNode((add.bind(1), add.bind(2)))) == [1, 2]
    assert MultiOutputNode([5]).execute() == [5]
    with pytest.raises(ValueError):
        MultiOutputNode(add.bind(1))


def test_a_graph_can_be_passed_to_a_task():
    """A task can execute a graph that another has built."""

    @miniray.remote
    def execute(graph: list[Any]) -> Any:
        return run(graph[0])

    shared = add.bind(1)
    assert miniray.get(execute.remote([add.bind(shared, shared)])) == 2
    assert type(pickle.loads(pickle.dumps(InputNode()))) is InputNode
    assert type(shared) is FunctionNode
