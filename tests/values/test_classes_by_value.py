"""Classes and enums by value: the copy in each space, changes of the original, and the many kinds of classes."""

import abc
import collections
import dataclasses
import enum
import gc
import pathlib
import pickle
import subprocess
import sys
import threading
import typing

import pytest

from miniray.values import spaces
from miniray.values.serialization import Space, capture, deserialize, dumps, serialize
from tests.runtime.worker_stand_in import call, inside, turn

COUNT = 0
LIMIT = 1


@pytest.fixture
def space():
    """The space of a worker."""
    return Space()


class Kinds:
    """Makes classes that cannot be imported, because a method defines them."""

    @staticmethod
    def make():
        class Base(abc.ABC):
            registry = ["shared"]

            def __init__(self, n=0):
                self.n = n

            def __eq__(self, other):
                return type(other) is type(self) and vars(other) == vars(self)

            __hash__ = None

            @abc.abstractmethod
            def name(self):
                return "base"

        class Derived(Base):
            def name(self):
                return "derived of " + super().name()

            @property
            def double(self):
                return 2 * self.n

            @double.setter
            def double(self, value):
                self.n = value // 2

            @classmethod
            def kind(cls):
                return cls

            @staticmethod
            def own():
                return Derived

            class Inner:
                value = 3

        return Base, Derived


def test_an_instance_that_comes_back_has_its_original_class():
    """After a task, and after a put."""
    _, Derived = Kinds.make()
    value = Derived(3)
    assert type(turn(value)) is Derived and turn(value) == value
    assert turn(Derived) is Derived
    back = call(Space(), lambda x: x, value)
    assert type(back) is Derived and back == value and back is not value


def test_a_worker_has_one_working_copy_of_each_class(space):
    """super(), properties, class methods, nested classes and abstract methods all refer to the copies."""
    Base, Derived = Kinds.make()

    def look(value, cls):
        value.double = 10
        return (
            type(value) is cls is Derived,
            cls.own() is cls,
            cls.kind() is cls,
            value.name(),
            value.n,
            cls.Inner.value,
            isinstance(value, Base),
            cls.__mro__[1] is Base,
        )

    assert call(space, look, Derived(1), Derived) == (True, True, True, "derived of base", 5, 3, True, True)
    with pytest.raises(TypeError, match="abstract"):
        call(space, lambda: Base())
    seen = call(space, lambda value: id(type(value)), Derived(1))
    assert seen == call(space, lambda value: id(type(value)), Derived(2)) != id(Derived)
    assert seen != call(Space(), lambda value: id(type(value)), Derived(1))


def test_a_class_variable_changed_in_one_space_changes_nowhere_else():
    """Not in another space, and not in the driver."""
    _, Derived = Kinds.make()

    def spoil(value):
        type(value).registry.append("spoilt")
        type(value).count = getattr(type(value), "count", 0) + 1
        return type(value).registry, type(value).count

    assert call(Space(), spoil, Derived()) == (["shared", "spoilt"], 1)
    assert call(Space(), spoil, Derived()) == (["shared", "spoilt"], 1)
    assert Derived.registry == ["shared"] and not hasattr(Derived, "count")


def test_a_class_that_was_changed_is_sent_again(space):
    """The change may be of an attribute, of a base's attribute, of a list in one, or of a global that a method uses."""
    global LIMIT
    Base, Derived = Kinds.make()
    Derived.limit = lambda self: LIMIT
    Derived.level = 1

    def look(value):
        return value.level, value.limit(), value.registry, getattr(value, "new", None)

    assert call(space, look, Derived()) == (1, 1, ["shared"], None)
    Derived.level = 2
    assert call(space, look, Derived()) == (2, 1, ["shared"], None)
    LIMIT = 3
    try:
        assert call(space, look, Derived()) == (2, 3, ["shared"], None)
    finally:
        LIMIT = 1
    Base.registry.append("more")
    assert call(space, look, Derived()) == (2, 1, ["shared", "more"], None)
    Base.new = "new"
    assert call(space, look, Derived()) == (2, 1, ["shared", "more"], "new")


def test_a_method_replaced_by_another_at_the_same_address_is_noticed(space):
    """The memory of the first may be reused for the third, and so may its id."""

    class Changing:
        pass

    for round_ in range(20):
        Changing.method = eval(f"lambda self: {round_}")
        assert call(space, lambda value: value.method(), Changing()) == round_
        Changing.method = None
        Changing.method = eval("lambda self: -1")
        Changing.method = None


def test_a_value_that_arrives_resets_the_copy_of_its_class_as_in_ray(space):
    """The definition comes with each value, and overwrites the worker's changes.

    The driver's original does not change.
    """

    class Level:
        n = 1

    def raise_it(value):
        type(value).n += 10
        return value.n, value

    assert call(space, raise_it, Level())[0] == 11
    assert call(space, raise_it, Level())[0] == 11
    assert Level.n == 1


def test_a_class_and_a_function_captured_together_share_their_globals(space):
    """If a method of the class changes a global, the function sees the change."""

    class Adding:
        def add(self):
            global COUNT
            COUNT += 1

    def add_two():
        Adding().add()
        Adding().add()
        return COUNT

    assert call(space, add_two) == 2
    assert COUNT == 0


def test_a_class_made_in_a_worker_becomes_one_class_in_the_driver(space):
    """However often an instance of it is read. An instance that is sent back has the worker's original class."""

    def make():
        class Made:
            def who(self):
                return Made

        return Made(), id(Made)

    captured = capture(make)
    with inside(space):
        value, worker_id = captured.load(space)()
        stored = serialize(value)
    first, second = deserialize(stored), deserialize(stored)
    assert type(first) is type(second) and first.who() is type(first)
    assert id(type(first)) != worker_id
    assert call(space, lambda x: id(type(x)), first) == worker_id


def test_enum_members_keep_their_identity(space):
    """In the driver and in the worker, with aliases, flags and mixed-in types.

    Only attributes set by __init__ are lost.
    """

    class Colour(enum.Enum):
        RED = 1
        BLUE = (2, "b")
        AZURE = (2, "b")

        def shout(self):
            return self.name + "!"

    class Rights(enum.Flag):
        READ = 1
        WRITE = 2

    class Text(str, enum.Enum):
        A = "a"

    class Planet(enum.Enum):
        EARTH = (5, 6)

        def __init__(self, mass, radius):
            self.mass = mass

    def look(red, both, text, listed):
        return (
            red is Colour.RED,
            Colour((2, "b")) is Colour.AZURE,
            red.shout(),
            both == Rights.READ | Rights.WRITE,
            text is Text.A,
            text.upper(),
            listed[0] is red,
            list(Colour.__members__),
            red,
            both,
        )

    result = call(space, look, Colour.RED, Rights.READ | Rights.WRITE, Text.A, [Colour.RED])
    assert result[:-2] == (True, True, "RED!", True, True, "A", True, ["RED", "BLUE", "AZURE"])
    assert result[-2] is Colour.RED and result[-1] == Rights.READ | Rights.WRITE
    assert turn({Colour.RED: [Text.A]}) == {Colour.RED: [Text.A]}
    with pytest.raises(AttributeError, match="mass"):
        call(space, lambda planet: planet.mass, Planet.EARTH)


def test_classes_made_by_the_standard_library_can_be_sent(space):
    """Dataclasses, named tuples, typed dicts, protocols, generics, slots, metaclasses, exceptions."""

    @dataclasses.dataclass(frozen=True)
    class Order:
        name: str
        lines: list = dataclasses.field(default_factory=list)

    @dataclasses.dataclass(slots=True)
    class Slim:
        x: int = 1

    class Slotted:
        __slots__ = ("a", "b")

        def __init__(self):
            self.a, self.b = 1, 2

        def both(self):
            return self.a, self.b

    Point = collections.namedtuple("Point", "x y", defaults=[0])

    class Row(typing.NamedTuple):
        a: int
        b: str = "b"

    class Options(typing.TypedDict, total=False):
        depth: int

    class Named(typing.Protocol):
        name: str

    T = typing.TypeVar("T", bound=int)

    class Box(typing.Generic[T]):
        def put(self, item: T) -> T:
            return item

    class Meta(type):
        def twice(cls):
            return cls.number * 2

    class WithMeta(metaclass=Meta):
        number = 4

    Broken = type("Broken", (ValueError,), {"__init__": lambda self, text: Exception.__init__(self, text)})

    def look(order, slim, slotted, point, row, box):
        return (
            order == Order("o", [1]),
            dataclasses.replace(order, name="p").name,
            dataclasses.asdict(order),
            dataclasses.fields(order)[0].default is dataclasses.MISSING,
            slim == Slim(5),
            hasattr(slim, "__dict__"),
            slotted.both(),
            point._replace(y=3) == Point(1, 3),
            row == Row(1),
            row._fields,
            box.put(1),
            Options(depth=1),
            Options.__total__,
            Named.__name__,
            WithMeta.twice(),
            T.__bound__ is int,
        )

    result = call(space, look, Order("o", [1]), Slim(5), Slotted(), Point(1), Row(1), Box())
    assert result == (
        True,
        "p",
        {"name": "o", "lines": [1]},
        True,
        True,
        True,
        (1, 2),
        True,
        True,
        ("a", "b"),
        1,
        {"depth": 1},
        False,
        "Named",
        8,
        True,
    )
    for value in (Order("o"), Point(1), Row(1)):  # a copy of Slim has a __dict__, which the original cannot take back
        assert turn(value) == value and type(call(space, lambda x: x, value)) is type(value)
    assert turn(Box[int]) == Box[int] and turn(T) is T and turn(typing.Optional[T]) == typing.Optional[T]
    assert call(space, lambda: Options) is Options
    back = call(space, lambda: Broken("text"))
    assert type(back) is Broken and back.args == ("text",)


def test_annotations_of_a_class_travel(space):
    """Since Python 3.14 a function evaluates them, which used to drag in what an abstract class cannot send."""
    name = "annotated_globals"
    source = """if True:
        import abc

        class Shape(abc.ABC):
            name: str
            sides: "list[int]" = ()

            @abc.abstractmethod
            def area(self): ...

        class Square(Shape):
            def __init__(self, side):
                self.side = side

            def area(self):
                return self.side**2

        class Later:
            partner: NotYet
    """
    if sys.version_info < (3, 14):
        source = "from __future__ import annotations\n" + source
    there: dict[str, typing.Any] = {"__name__": name}
    exec(source, there)

    def look(square):
        shape = type(square).__mro__[1]
        return square.area(), typing.get_type_hints(shape)["name"], sorted(shape.__annotations__)

    assert call(space, look, there["Square"](3)) == (9, str, ["name", "sides"])
    assert call(space, lambda cls: cls.__annotations__, there["Later"]) == {"partner": "NotYet"}
    later, there["NotYet"] = there["Later"], int
    expected = "NotYet" if sys.version_info < (3, 14) else int
    assert later.__annotations__ == {"partner": expected}
    assert call(Space(), lambda cls: cls.__annotations__, later) == {"partner": expected}


def test_a_virtual_subclass_stays_a_virtual_subclass(space):
    """The registry of an abstract class is part of its definition."""

    class Shape(abc.ABC):  # noqa: B024
        pass

    class Round:
        pass

    Shape.register(Round)
    assert call(space, lambda value: isinstance(value, Shape), Round())


def test_a_virtual_subclass_is_kept_until_its_first_instance_arrives(space):
    """A registry holds its classes weakly.

    The class that came with a function was sometimes freed before the argument came.
    """

    class Shape(abc.ABC):  # noqa: B024
        pass

    class Round:
        pass

    Shape.register(Round)
    is_shape, stored = capture(lambda value: isinstance(value, Shape)).load(space), serialize(Round())
    gc.collect()
    assert is_shape(space.load(stored.data, stored.buffers))


def test_a_class_that_cannot_be_sent_is_named():
    """The path leads through the class to the attribute."""

    class Holding:
        guard = threading.Lock()

    with pytest.raises(TypeError, match=r"its class .*Holding -> attribute 'guard' of .*Holding is .*lock"):
        serialize(Holding())
    with pytest.raises(TypeError, match=r"Could not serialize the actor class .*Holding.__init__: attribute 'guard'"):
        capture(Holding)


def test_a_class_that_a_worker_finds_in_a_shared_module_is_its_own(space, monkeypatch):
    """Threads share modules, so a worker can reach a class by value without loading it. It then sends it as its own."""

    class Shared:
        pass

    monkeypatch.setattr(spaces, "Shared_of_this_test", Shared, raising=False)
    with inside(space):
        stored = serialize(Shared())
    assert type(call(Space(), lambda x: x, Shared())) is Shared
    with inside(space):
        assert type(deserialize(stored)) is Shared


def test_a_copied_class_is_refused_by_plain_pickle(space):
    """Inside a worker too, pickle itself supports names only."""
    _, Derived = Kinds.make()
    with pytest.raises((pickle.PicklingError, AttributeError)):
        call(space, lambda value: pickle.dumps(value), Derived())


def test_a_type_variable_is_rebuilt_in_a_program_that_has_not_imported_typing():
    """miniray itself imports `typing` for type checkers only."""
    data = dumps(typing.TypeVar("Local", bound=int))
    program = f"""
import sys
from miniray.values.serialization import loads
assert "typing" not in sys.modules
variable = loads({data!r})
print(variable.__name__, variable.__bound__)
"""
    root = pathlib.Path(spaces.__file__).parents[2]
    done = subprocess.run([sys.executable, "-S", "-c", program], cwd=root, capture_output=True, text=True)
    assert done.stdout == "Local <class 'int'>\n", done.stderr
