"""A call that does not fit a signature is refused with the texts of inspect; a call that fits is checked quickly."""

import functools
import inspect
import timeit

import pytest

from miniray.options.signatures import checker, constructor_checker, is_async, is_generator


def plain(a, b, c=3):
    pass


def everything(a, /, b, *rest, key, other=1, **extra):
    pass


def keywords(*, key, other=1):
    pass


def star(*rest):
    pass


def extra(a, /, **more):
    pass


def nothing():
    pass


CALLS = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3), {}),
    ((1, 2, 3, 4), {}),
    ((), {"a": 1}),
    ((), {"a": 1, "b": 2}),
    ((), {"b": 1, "c": 2}),
    ((1,), {"b": 2}),
    ((1,), {"c": 2}),
    ((1,), {"a": 1}),
    ((1, 2), {"b": 2}),
    ((1, 2), {"c": 2}),
    ((1, 2), {"z": 1}),
    ((1, 2, 3), {"c": 1}),
    ((), {"key": 1}),
    ((1,), {"key": 1}),
    ((1, 2), {"key": 1}),
    ((1, 2, 3, 4), {"key": 1, "z": 2}),
    ((1,), {"b": 2, "key": 1}),
    ((1, 2), {"key": 1, "a": 5}),
    ((1, 2), {"other": 1}),
    ((), {"other": 1}),
    ((), {"key": 1, "other": 2}),
    ((1,), {"z": 1}),
    ((), {"z": 1}),
]


@pytest.mark.parametrize("function", [plain, everything, keywords, star, extra, nothing])
def test_the_answer_is_that_of_inspect(function):
    """For every kind of parameter, and every way to pass it: which calls fit, and the text for those that do not."""
    check, signature = checker(function), inspect.signature(function)
    for args, kwargs in CALLS:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as expected:
            with pytest.raises(TypeError) as caught:
                check(args, kwargs)
            assert str(caught.value) == str(expected)
        else:
            assert check(args, kwargs) is None


def test_the_texts_are_those_of_ray():
    """There are four possible mistakes, with four texts."""
    check = checker(plain)
    for args, kwargs, text in [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3, 4), {}, "too many positional arguments"),
        ((1, 2), {"z": 1}, "got an unexpected keyword argument 'z'"),
        ((1, 2), {"a": 1}, "multiple values for argument 'a'"),
    ]:
        with pytest.raises(TypeError) as caught:
            check(args, kwargs)
        assert str(caught.value) == text


def test_the_error_does_not_show_the_frames_of_inspect():
    """No other exception is chained to it: the mistake is at the caller's line."""
    with pytest.raises(TypeError) as caught:
        checker(nothing)((1,), {})
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


class Base:
    def __init__(self, x, y=0):
        pass

    def method(self, a, *, key=1):
        pass

    def takes_any(*args):
        pass

    def forgot():
        pass

    @staticmethod
    def static(a):
        pass

    @classmethod
    def of_class(cls, a):
        pass


def fits(check, *args, **kwargs):
    try:
        check(args, kwargs)
    except TypeError:
        return False
    return True


def test_the_first_parameter_of_a_method_is_skipped():
    """Whatever it is called: so `def takes_any(*args)` takes no arguments, as in Ray."""
    check = checker(Base.method, skip_first=True)
    assert fits(check, 1) and fits(check, a=1, key=2)
    assert not fits(check) and not fits(check, 1, 2)
    check = checker(Base.takes_any, skip_first=True)
    assert fits(check) and not fits(check, 1)


def test_a_missing_self_is_found_only_when_the_method_runs():
    """As in Ray: a call without arguments passes this check."""
    assert fits(checker(Base.forgot, skip_first=True))


def test_static_class_and_bound_methods_have_no_parameter_to_skip():
    """All their parameters are the caller's."""
    for function in Base.static, Base.of_class, Base(1).method:
        assert fits(checker(function), 1) and not fits(checker(function))


def test_a_class_takes_the_arguments_of_its_constructor():
    """The constructor may be the class's own or inherited; that of a built-in base does not count."""

    class Child(Base):
        pass

    class Bare:
        pass

    class Mapping(dict):
        pass

    for cls in Base, Child:
        assert fits(constructor_checker(cls), 1, y=2) and not fits(constructor_checker(cls))
    for cls in Bare, Mapping:
        assert fits(constructor_checker(cls)) and not fits(constructor_checker(cls), 1)


def wrapping(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def test_other_callables_are_checked_against_their_signature():
    """A wrapper takes what the wrapped function takes; a partial takes the rest; a built-in declares its signature."""
    assert not fits(checker(wrapping(plain)), 1)
    assert fits(checker(functools.partial(plain, 1)), 2) and not fits(checker(functools.partial(plain, 1)))
    assert fits(checker(len), []) and not fits(checker(len))

    def renamed(*args):
        pass

    renamed.__signature__ = inspect.Signature()
    assert not fits(checker(renamed), 1)

    class Holder:
        half = functools.partialmethod(plain, b=2)

    assert fits(checker(Holder.half, skip_first=True), c=1)


def test_generators_and_coroutines_are_distinguished():
    """A wrapper of a generator function is a plain function, for inspect and for Ray."""

    def generator():
        yield

    async def coroutine():
        pass

    async def async_generator():
        yield

    assert [is_generator(f) for f in (plain, generator, coroutine, async_generator)] == [False, True, False, True]
    assert [is_async(f) for f in (plain, generator, coroutine, async_generator)] == [False, False, True, True]
    assert not is_generator(wrapping(generator))


def test_a_call_that_fits_costs_far_less_than_binding_it():
    """`.remote()` checks every call. The check takes at most a fifth of the time of `bind`, and usually a fiftieth."""
    check, signature, args = checker(plain), inspect.signature(plain), (1, 2)
    bound = min(timeit.repeat(lambda: signature.bind(*args), number=200, repeat=5))
    checked = min(timeit.repeat(lambda: check(args, {}), number=200, repeat=5))
    assert checked < bound / 5
