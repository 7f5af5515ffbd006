"""Functions by value: which of their parts are copied, which are shared, and which functions are sent by name."""

import functools

import pytest

from miniray.values.serialization import Space, capture
from tests.runtime.worker_stand_in import turn

COUNT = 0
LIMIT = 1


def test_a_function_is_sent_with_all_its_parts():
    """They are copies: a change of a mutable default does not reach the other side."""

    def original(a, b=[1], *, c={"x": 1}) -> "int":  # noqa: B006
        "The docs."
        return a, b, c

    original.extra = [2]
    back = turn(original)
    assert back(0) == (0, [1], {"x": 1}) and back.extra == [2]
    assert (back.__name__, back.__qualname__, back.__module__) == (original.__name__, original.__qualname__, __name__)
    assert back.__doc__ == "The docs." and back.__annotations__ == {"return": "int"}
    assert back is not original and back.__defaults__[0] is not original.__defaults__[0]


def test_only_the_globals_that_a_function_uses_are_copied():
    """Including those that a nested function uses. The copy sets its own global only."""

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
    """Functions of two values do not."""

    def add():
        global COUNT
        COUNT += 1

    def read():
        return COUNT

    add_copy, read_copy = turn((add, read))
    add_copy()
    assert read_copy() == 1
    assert turn(read)() == 0 and COUNT == 0


def test_two_closures_over_one_variable_no_longer_share_it():
    """As with cloudpickle: each copy has its own cell."""
    n = 0

    def add():
        nonlocal n
        n += 1
        return n

    def read():
        return n

    add_copy, read_copy = turn((add, read))
    assert add_copy() == 1 and read_copy() == 0 and n == 0


def test_the_copy_of_a_recursive_function_calls_the_copy():
    """Through cells and through globals, and for two functions that call each other."""

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


def test_a_closure_variable_may_have_no_value_yet():
    """The copy has an empty cell too."""

    def early():
        return late

    back = turn(early)
    with pytest.raises(NameError):
        back()
    late = 1
    assert turn(early)() == late


def test_many_kinds_of_functions_can_be_sent():
    """Lambdas, generators, coroutines, partials, bound methods, wrapped functions."""

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


def test_an_importable_function_is_sent_by_name():
    """It is the same object everywhere."""
    assert turn(functools.reduce) is functools.reduce
    assert turn(turn) is turn
    assert capture(turn).load(Space()) is turn


def test_a_function_of_main_is_sent_by_value(monkeypatch):
    """Another process has another __main__."""

    def function():
        return 1

    function.__qualname__ = function.__name__
    function.__module__ = "__main__"
    monkeypatch.setattr("__main__.function", function, raising=False)
    assert turn(function) is not function and turn(function)() == 1


def test_code_with_constants_that_no_compiler_makes_can_be_sent():
    """Tools that patch code produce such constants."""

    def function():
        return "a constant"

    odd = [1]
    function.__code__ = function.__code__.replace(
        co_consts=tuple(odd if constant == "a constant" else constant for constant in function.__code__.co_consts)
    )
    assert turn(function)() == [1] and turn(function)() is not odd
