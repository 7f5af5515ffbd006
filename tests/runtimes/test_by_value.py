"""What travels by value: functions, classes and enums without an importable name, and the spaces that keep their
copies apart.
"""

import abc
import collections
import dataclasses
import enum
import functools
import gc
import pickle
import threading
import typing
import weakref
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from miniray.runtime import spaces
from miniray.runtime.context import current
from miniray.runtime.serialization import Space, capture, contain, deserialize, serialize

COUNT = 0
LIMIT = 1


def turn(value):
    """What the driver would get back for value."""
    return deserialize(serialize(value))


@contextmanager
def inside(space):
    """Run the block as code of the worker with this space."""
    token = current.set(SimpleNamespace(space=space))
    try:
        yield
    finally:
        current.reset(token)


def call(space, function, *values):
    """Do what a worker does for one task: load the function, load the arguments, call, store the result."""
    captured = capture(function)
    stored = [serialize(value) for value in values]
    with inside(space):
        loaded = captured.load(space)
        result = serialize(loaded(*[deserialize(value) for value in stored]))
    return deserialize(result)


@pytest.fixture
def space():
    return Space()


# ------------------------------------------------------------------------------------------------------------ functions


def test_a_function_keeps_all_that_belongs_to_it():
    """As copies: a change of a mutable default is not seen on the other side."""
    def original(a, b=[1], *, c={"x": 1}) -> "int":     # noqa: B006
        "The docs."
        return a, b, c

    original.extra = [2]
    back = turn(original)
    assert back(0) == (0, [1], {"x": 1}) and back.extra == [2]
    assert (back.__name__, back.__qualname__, back.__module__) == (original.__name__, original.__qualname__, __name__)
    assert back.__doc__ == "The docs." and back.__annotations__ == {"return": "int"}
    assert back is not original and back.__defaults__[0] is not original.__defaults__[0]


def test_only_the_globals_that_a_function_uses_are_copied():
    """Also those that a function nested in it uses; setting one of them changes the copy's only."""
    def uses():
        def nested():
            global COUNT
            COUNT += 1
            return COUNT
        return nested

    back = turn(uses)
    assert {name for name in back.__globals__ if not name.startswith("__")} == {"COUNT"}
    assert back()() == 1 and COUNT == 0


def test_functions_of_one_value_share_their_copied_globals():
    """Those of two values do not."""
    def add():
        global COUNT
        COUNT += 1

    def read():
        return COUNT

    add_copy, read_copy = turn((add, read))
    add_copy()
    assert read_copy() == 1
    assert turn(read)() == 0 and COUNT == 0


def test_two_closures_over_one_variable_part_company():
    """As with cloudpickle: each copy has a cell of its own."""
    n = 0

    def add():
        nonlocal n
        n += 1
        return n

    def read():
        return n

    add_copy, read_copy = turn((add, read))
    assert add_copy() == 1 and read_copy() == 0 and n == 0


def test_recursion_survives_through_cells_and_through_globals():
    """Alone and mutual; the copy calls the copy."""
    def factorial(n):
        return 1 if n == 0 else n * factorial(n - 1)

    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    assert turn(factorial)(5) == 120
    assert turn(even)(4) is True
    namespace = {"__name__": "nowhere"}
    exec("def count(n): return [] if n == 0 else [n] + count(n - 1)", namespace)
    back = turn(namespace["count"])
    assert back(2) == [2, 1] and back.__globals__["count"] is back


def test_a_variable_without_a_value_yet_stays_without_one():
    """An empty cell is no reason to fail."""
    def early():
        return late

    back = turn(early)
    with pytest.raises(NameError):
        back()
    late = 1
    assert turn(early)() == late


def test_many_kinds_of_functions_travel():
    """Lambdas, generators, coroutines, partials, bound methods, wrapped ones."""
    class Counter:
        def __init__(self):
            self.n = 1

        def add(self, k):
            self.n += k
            return self.n

        @classmethod
        def kind(cls):
            return cls

        @staticmethod
        def twice(x):
            return 2 * x

    def wrap(function):
        @functools.wraps(function)
        def wrapper(*args):
            return "wrapped", function(*args)
        return wrapper

    def items():
        yield from (1, 2)

    async def later():
        return 1

    counter = Counter()
    assert turn(lambda x: x + 1)(1) == 2
    assert list(turn(items)()) == [1, 2]
    assert pytest.raises(StopIteration, turn(later)().send, None).value.value == 1
    assert turn(functools.partial(lambda a, b: a - b, 5))(2) == 3
    assert turn(counter.add)(2) == 3 and counter.n == 1
    assert turn(Counter.kind)() is Counter and turn(counter.kind)() is Counter
    assert turn(Counter.twice)(2) == 4
    assert turn(wrap(lambda x: x))(1) == ("wrapped", 1)
    assert turn("x".upper)() == "X" and turn(str.upper)("x") == "X"


def test_an_importable_function_travels_by_name():
    """It is the same object everywhere."""
    assert turn(functools.reduce) is functools.reduce
    assert turn(turn) is turn
    assert capture(turn).load(Space()) is turn


def test_what_main_defines_travels_by_value(monkeypatch):
    """Another process would have another __main__."""
    def function():
        return 1

    function.__qualname__ = function.__name__
    function.__module__ = "__main__"
    monkeypatch.setattr("__main__.function", function, raising=False)
    assert turn(function) is not function and turn(function)() == 1


def test_code_with_constants_that_no_compiler_makes_travels_too():
    """As tools leave it behind that patch code."""
    def function():
        return "a constant"

    odd = [1]
    function.__code__ = function.__code__.replace(
        co_consts=tuple(odd if constant == "a constant" else constant for constant in function.__code__.co_consts))
    assert turn(function)() == [1] and turn(function)() is not odd


# -------------------------------------------------------------------------------------------------------------- classes


class Kinds:
    """Classes of many makes, none of which can be imported: they are made by a method's call."""

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


def test_an_instance_goes_home_to_its_class():
    """By way of a worker, or of a mere put."""
    _, Derived = Kinds.make()
    value = Derived(3)
    assert type(turn(value)) is Derived and turn(value) == value
    assert turn(Derived) is Derived
    back = call(Space(), lambda x: x, value)
    assert type(back) is Derived and back == value and back is not value


def test_a_worker_has_one_working_copy_of_each_class(space):
    """super(), properties, class methods, nested classes, abstract methods: all of it in the copy's own family."""
    Base, Derived = Kinds.make()

    def look(value, cls):
        value.double = 10
        return (type(value) is cls is Derived, cls.own() is cls, cls.kind() is cls, value.name(), value.n,
                cls.Inner.value, isinstance(value, Base), cls.__mro__[1] is Base)

    assert call(space, look, Derived(1), Derived) == (True, True, True, "derived of base", 5, 3, True, True)
    with pytest.raises(TypeError, match="abstract"):
        call(space, lambda: Base())
    seen = call(space, lambda value: id(type(value)), Derived(1))
    assert seen == call(space, lambda value: id(type(value)), Derived(2)) != id(Derived)
    assert seen != call(Space(), lambda value: id(type(value)), Derived(1))


def test_a_class_variable_changed_in_one_space_changes_nowhere_else():
    """Neither in another space nor in the driver."""
    _, Derived = Kinds.make()

    def spoil(value):
        type(value).registry.append("spoilt")
        type(value).count = getattr(type(value), "count", 0) + 1
        return type(value).registry, type(value).count

    assert call(Space(), spoil, Derived()) == (["shared", "spoilt"], 1)
    assert call(Space(), spoil, Derived()) == (["shared", "spoilt"], 1)
    assert Derived.registry == ["shared"] and not hasattr(Derived, "count")


def test_a_changed_class_arrives_as_it_is_now(space):
    """Its attributes, those of its bases, a list in them, a global its methods use: all that was changed since the
    last time.
    """
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
    """The memory of the first is free again when the third is made, and so may be its id."""
    class Changing:
        pass

    for round_ in range(20):
        Changing.method = eval(f"lambda self: {round_}")
        assert call(space, lambda value: value.method(), Changing()) == round_
        Changing.method = None
        Changing.method = eval("lambda self: -1")
        Changing.method = None


def test_an_arriving_value_sets_the_copy_of_its_class_back_as_in_ray(space):
    """The definition comes with each value, and overwrites what the worker changed; the driver's original stays as it
    is.
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
    """What a method of the class does to a global, the function sees."""
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


def test_a_class_made_in_a_worker_becomes_one_class_of_the_drivers(space):
    """However often an instance of it is read; and it finds the worker's original when it goes back."""
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
    """In the driver and in the worker; aliases, flags and mixed-in types too. Only what __init__ has set on them is
    lost.
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
        return (red is Colour.RED, Colour((2, "b")) is Colour.AZURE, red.shout(), both == Rights.READ | Rights.WRITE,
                text is Text.A, text.upper(), listed[0] is red, list(Colour.__members__), red, both)

    result = call(space, look, Colour.RED, Rights.READ | Rights.WRITE, Text.A, [Colour.RED])
    assert result[:-2] == (True, True, "RED!", True, True, "A", True, ["RED", "BLUE", "AZURE"])
    assert result[-2] is Colour.RED and result[-1] == Rights.READ | Rights.WRITE
    assert turn({Colour.RED: [Text.A]}) == {Colour.RED: [Text.A]}
    with pytest.raises(AttributeError, match="mass"):
        call(space, lambda planet: planet.mass, Planet.EARTH)


def test_classes_that_the_library_makes_travel(space):
    """Dataclasses, named tuples, typed dicts, protocols, generics, slots, metaclasses, exceptions."""
    @dataclasses.dataclass(frozen=True)
    class Order:
        name: str
        lines: list = dataclasses.field(default_factory=list)

    @dataclasses.dataclass(slots=True)
    class Slim:
        x: int = 1

    class Slotted:
        __slots__ = ("a", "__private")

        def __init__(self):
            self.a, self.__private = 1, 2

        def both(self):
            return self.a, self.__private

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
        return (order == Order("o", [1]), dataclasses.replace(order, name="p").name, dataclasses.asdict(order),
                dataclasses.fields(order)[0].default is dataclasses.MISSING, slim == Slim(5), hasattr(slim, "__dict__"),
                slotted.both(), point._replace(y=3) == Point(1, 3), row == Row(1), row._fields, box.put(1),
                Options(depth=1), Options.__total__, Named.__name__, WithMeta.twice(), T.__bound__ is int)

    result = call(space, look, Order("o", [1]), Slim(5), Slotted(), Point(1), Row(1), Box())
    assert result == (True, "p", {"name": "o", "lines": [1]}, True, True, False, (1, 2), True, True, ("a", "b"), 1,
                      {"depth": 1}, False, "Named", 8, True)
    for value in (Order("o"), Slim(2), Point(1), Row(1)):
        assert turn(value) == value and type(call(space, lambda x: x, value)) is type(value)
    assert turn(Box[int]) == Box[int] and turn(T) is T and turn(typing.Optional[T]) == typing.Optional[T]
    assert call(space, lambda: Options) is Options
    back = call(space, lambda: Broken("text"))
    assert type(back) is Broken and back.args == ("text",)


def test_a_virtual_subclass_stays_one(space):
    """The registry of an abstract class is part of its definition."""
    class Shape(abc.ABC):       # noqa: B024
        pass

    class Round:
        pass

    Shape.register(Round)
    assert call(space, lambda value: isinstance(value, Shape), Round())


def test_a_class_that_cannot_be_sent_is_named():
    """The way leads through the class to the attribute."""
    class Holding:
        guard = threading.Lock()

    with pytest.raises(TypeError, match=r"its class .*Holding -> attribute 'guard' of .*Holding is .*lock"):
        serialize(Holding())
    with pytest.raises(TypeError, match=r"Could not serialize the actor class .*Holding.__init__: attribute 'guard'"):
        capture(Holding)


def test_a_class_that_a_worker_finds_by_an_imported_module_is_its_own_there(space, monkeypatch):
    """Threads share modules: a class by value that a worker reaches without any load is not taken for another
    space's.
    """
    class Shared:
        pass

    monkeypatch.setattr(spaces, "Shared_of_this_test", Shared, raising=False)
    with inside(space):
        stored = serialize(Shared())
    assert type(call(Space(), lambda x: x, Shared())) is Shared
    with inside(space):
        assert type(deserialize(stored)) is Shared


# ------------------------------------------------------------------------------------------------------------- captures


def test_a_function_is_captured_once_and_loaded_once_in_each_space():
    """Later changes of what it closes over do not reach it; each space has a copy with a state of its own."""
    start = [1]

    def add():
        start.append(len(start))
        return start

    captured = capture(add)
    start.append("later")
    one, other = Space(), Space()
    assert captured.load(one) is captured.load(one)
    assert captured.load(one)() == [1, 1] and captured.load(one)() == [1, 1, 2]
    assert captured.load(other)() == [1, 1]
    assert captured.size > 0


def test_a_capture_that_fails_names_the_variable():
    """At the capture, not at the definition."""
    lock = threading.Lock()

    def guarded():
        with lock:
            return [1]

    with pytest.raises(TypeError) as caught:
        capture(guarded)
    assert "Could not serialize the function" in str(caught.value)
    assert "closure variable 'lock' of guarded is <unlocked _thread.lock" in str(caught.value)


class Reference:
    """Stands for an ObjectRef."""

    def __init__(self, record):
        self.record = record

    def __reduce__(self):
        contain(self.record)
        return Reference, (self.record,)


def test_references_in_a_closure_and_in_a_class_are_contained():
    """In the capture that holds them, and in every value of the class, though its definition is made once only."""
    class Holding:
        reference = Reference("in the class")

    reference = Reference("in the closure")
    assert capture(lambda: reference).contained == ("in the closure",)
    assert [serialize(Holding()).contained for _ in range(2)] == [("in the class",)] * 2
    with inside(Space()):
        copy = deserialize(serialize(Holding()))
        assert serialize(copy).contained == ("in the class",)


def test_threads_that_load_the_same_thing_at_once_get_the_same_thing(space):
    """Both build it, since user code cannot run under a lock; then the first one's copy is everybody's."""
    meeting = threading.Barrier(2)
    builds = []

    class Meeting:
        """Holds up the loading of a definition that it is in, until the other thread has come as far."""

        def __reduce__(self):
            return meet, ()

    def meet():
        builds.append(1)
        if len(builds) <= 2:
            meeting.wait()
        return "met"

    globals()["_meet_for_this_test"] = meet
    meet.__module__, meet.__qualname__ = __name__, "_meet_for_this_test"
    try:
        class Built:
            hold_up = Meeting()

        stored = serialize(Built())
        captured = capture(lambda: Built)
        values, functions = [], []

        def load():
            with inside(space):
                values.append(deserialize(stored))
                functions.append(captured.load(space))

        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        del globals()["_meet_for_this_test"]
    assert type(values[0]) is type(values[1])
    assert functions[0] is functions[1] and functions[0]() is type(values[0])
    assert len(builds) >= 2


def test_nothing_is_left_of_a_class_that_is_gone():
    """Neither the original nor a copy nor a definition stays in any table."""
    space = Space()

    def use():
        class Local:
            registry = [1]

            def own(self):
                return Local

        stored, captured = serialize(Local()), capture(lambda: Local)
        with inside(space):
            copy = deserialize(stored)
            assert captured.load(space)() is type(copy)
        return weakref.ref(Local), weakref.ref(type(copy))

    gc.collect()
    before = len(spaces._tracked)
    original, copy = use()
    gc.collect()
    assert original() is None and copy() is None
    assert len(spaces._tracked) == before
    assert len(space._classes) == 0 and len(space._loaded) == 0


def test_a_space_that_is_gone_takes_its_copies_along():
    """The capture that outlives it does not hold them."""
    captured = capture(lambda: 1)
    space = Space()
    copy = weakref.ref(captured.load(space))
    del space
    gc.collect()
    assert copy() is None


def test_a_copied_class_is_refused_by_plain_pickle(space):
    """Inside a worker too, pickle itself only knows names."""
    _, Derived = Kinds.make()
    with pytest.raises((pickle.PicklingError, AttributeError)):
        call(space, lambda value: pickle.dumps(value), Derived())
