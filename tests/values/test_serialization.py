"""Values in and out: how each kind of value is copied, which values are refused and with which text, and sizes."""

import array
import collections
import enum
import io
import math
import pickle
import threading
import types

import pytest

from miniray import cloudpickle
from miniray.values import serialization
from miniray.values.serialization import (
    Serialized,
    contain,
    deregister_serializer,
    deserialize,
    register_serializer,
    serialize,
    size_of,
)


class Pair:
    """An importable class, which is sent by name."""

    def __init__(self, a, b):
        self.a, self.b = a, b


class Reference:
    """A stand-in for an ObjectRef: pickling it calls `contain` with its record."""

    def __init__(self, record):
        self.record, self.noted = record, None

    def __reduce__(self):
        self.noted = contain(self.record)
        return str, ("a reference",)


class Buffer:
    """A stand-in for a numpy array: pickle gets its memory separately from the stream."""

    def __init__(self, memory):
        self.memory = memory

    def __reduce_ex__(self, protocol):
        return Buffer, (pickle.PickleBuffer(self.memory),)


def turn(value):
    """Return what a task would receive for this value."""
    return deserialize(serialize(value))


# --- Copies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [5, 2**80, 1.5, "text", b"bytes", None, True, 1j, ..., (1, ("a", None)), frozenset({1, "a"})]
)
def test_an_immutable_value_is_stored_as_it_is(value):
    """It cannot be told from a copy, and pickling would cost more than everything else."""
    assert serialize(value) is value
    assert turn(value) is value


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        set(),
        [1, 2, 3],
        {"a": 1},
        {1, 2},
        [1, [2, {"k": [3]}]],
        {"a": {"b": [None, 1.5, b"x", 2**80]}},
        [(1, (2,))],
        {(1, 2): "tuple key"},
        {frozenset({1}): [1]},
        ([1], {"a": 2}),
        collections.deque([1], maxlen=3),
        collections.Counter("aab"),
        collections.OrderedDict(b=1, a=2),
        range(3),
        slice(1, 2),
        NotImplemented,
        array.array("i", [1, 2]),
        [NotImplemented, [1]],
        {"\ud800": "a surrogate"},
        [[["deep"]] * 3] * 3,
    ],
)
def test_each_read_gives_a_fresh_equal_value_of_the_same_type(value):
    """For every form in which a value is stored."""
    stored = serialize(value)
    first, second = deserialize(stored), deserialize(stored)
    assert first == second == value
    assert type(first) is type(value)
    if type(value) in (list, dict, set):
        assert first is not second and first is not value


def test_a_stored_value_is_a_snapshot():
    """Later changes of the original, and changes of a copy, do not reach the next copy."""
    original = {"list": [1], "set": {1}, "nested": {"deep": [[1]]}}
    stored = serialize(original)
    original["list"].append(2)
    original["nested"]["deep"][0].append(2)
    first = deserialize(stored)
    assert first == {"list": [1], "set": {1}, "nested": {"deep": [[1]]}}
    first["list"].clear()
    first["nested"]["deep"][0].clear()
    assert deserialize(stored) == {"list": [1], "set": {1}, "nested": {"deep": [[1]]}}


def test_plain_lists_and_dicts_lose_inner_sharing_as_in_ray():
    """Ray packs them with msgpack, which has no references."""
    row = [0]
    back = turn([row, row, {"a": row}])
    assert back[0] is not back[1] and back[0] is not back[2]["a"]
    back = turn([[row, row], Pair(1, 2)])
    assert back[0][0] is not back[0][1]


def test_a_value_that_is_pickled_keeps_its_inner_sharing():
    """Tuples, sets and objects are pickled, alone or inside a list, together with any list inside them."""
    row, shared, members = [0], Pair(1, 2), {1}
    first, second = turn((row, row))
    assert first is second
    back = turn([shared, shared, members, members, (row,), row])
    assert back[0] is back[1] and back[2] is back[3]
    assert back[4][0] is not back[5]
    back = turn(Pair(row, row))
    assert back.a is back.b


def test_a_list_that_contains_itself_can_be_sent():
    """Such a list cannot be stored as a plain value, so it is pickled."""
    loop = [1]
    loop.append({"up": [loop]})
    back = turn(loop)
    assert back[1]["up"][0] is back and back[0] == 1


def test_a_bytearray_becomes_bytes_unless_pickle_carries_it():
    """Alone and in plain lists and dicts it becomes bytes; in a tuple or an object it keeps its type."""
    assert turn(bytearray(b"ab")) == b"ab" and type(turn(bytearray(b"ab"))) is bytes
    assert turn(memoryview(b"ab")) == b"ab"
    assert [type(item) for item in turn([b"a", bytearray(b"b"), memoryview(b"c")])] == [bytes] * 3
    assert type(turn({"k": [bytearray(b"b")]})["k"][0]) is bytes
    assert type(turn((bytearray(b"b"),))[0]) is bytearray
    assert type(turn(Pair(bytearray(b"b"), 1)).a) is bytearray
    assert turn((memoryview(b"abcd")[::2],)) == (b"ac",)
    with pytest.raises(BufferError):
        serialize(memoryview(b"abcd")[::2])


def test_subclasses_of_builtin_types_keep_their_class():
    """Only values of the exact types are stored as plain values."""

    class Level(enum.IntEnum):
        LOW = 1

    back = turn([Level.LOW, True, collections.Counter("a"), collections.OrderedDict(a=[1])])
    assert back[0] is Level.LOW and back[1] is True
    assert type(back[2]) is collections.Counter and type(back[3]) is collections.OrderedDict


def test_nan_can_be_sent():
    """It is not equal to itself, so no check may compare values."""
    assert math.isnan(turn([float("nan")])[0])


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        ({1: 2}.keys(), [1]),
        ({1: [2]}.values(), [[2]]),
        ({1: 2}.items(), [(1, 2)]),
        (collections.OrderedDict(a=1).keys(), ["a"]),
        (collections.OrderedDict(a=1).values(), [1]),
        (collections.OrderedDict(a=1).items(), [("a", 1)]),
    ],
)
def test_a_view_of_a_dict_is_sent_with_the_items_it_shows(view, shown):
    """Pickle refuses views; cloudpickle, and so Ray, accepts them."""
    back = turn(view)
    assert list(back) == shown and type(back) is type(view)


def test_special_objects_are_sent_as_by_cloudpickle():
    """A module by its name, proxies and properties by their parts, a module that cannot be imported by its contents."""
    assert turn(types) is types
    assert turn(types.MappingProxyType({1: 2})) == {1: 2}
    assert turn(property(len)).fget is len
    for kind in (type(None), type(...), types.FunctionType, types.GeneratorType):
        assert turn(kind) is kind
    made = types.ModuleType("made_up")
    made.value = [1]
    back = turn(made)
    assert back.value == [1] and back is not made and back.__name__ == "made_up"


# --- Buffers ------------------------------------------------------------------------------------------------------


def test_a_buffer_is_copied_once_and_then_shared_by_every_copy():
    """The sender may go on writing into its memory. All readers see the same memory, which is read-only."""
    memory = bytearray(b"abc")
    stored = serialize([Buffer(memory), Buffer(memory)])
    memory[:] = b"xyz"
    first, second = deserialize(stored), deserialize(stored)
    assert bytes(first[0].memory) == b"abc"
    assert first[0].memory is second[0].memory
    assert memoryview(first[0].memory).readonly
    assert stored.size >= 6


def test_bytes_are_never_copied():
    """No program can change them."""
    data = b"x" * 1000
    assert serialize(data) is data
    assert serialize(Buffer(data)).buffers[0] is data


# --- Sizes --------------------------------------------------------------------------------------------------------


def test_sizes_are_exact_for_bytes_and_estimates_otherwise():
    """The store compares their sum with its capacity."""
    assert size_of(b"x" * 1000) == 1000
    assert size_of("x" * 1000) == 1000
    assert 1000 <= size_of(("x" * 1000, 1)) <= 1050
    assert size_of(serialize([1] * 1000)) == 8000
    assert 1000 <= size_of(serialize({"k": "x" * 1000})) <= 1050
    stored = serialize(Pair(1, [b"x" * 500]))
    assert size_of(stored) == len(stored.data) > 500


# --- Errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (threading.Lock(), "it is a _thread.lock"),
        ([1, {"deep": (threading.Lock(),)}], "[1]['deep'][0] is"),
        ({"k": Pair(1, [threading.Lock()])}, "['k'].b[0] is"),
        ((n for n in range(3)), "it is a generator"),
        ({1: [1], 2: len, 3: threading.Event()}, "[3]._cond._lock is"),
        (collections.deque([1, threading.Lock()]), "[1] is"),
        (Pair.__init__.__get__(Pair(threading.Lock(), 1)), ".a is"),
    ],
)
def test_the_error_gives_the_path_to_the_culprit(value, place):
    """TypeError, as in Ray, with the path into the value and the text of pickle's error."""
    with pytest.raises(TypeError) as caught:
        serialize(value, "the argument", "f")
    text = str(caught.value)
    assert text.startswith("Could not serialize the argument ") and " for a task or actor f: " in text
    assert place in text and "cannot pickle" in text and "inspect_serializability" in text
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_culprit_whose_repr_fails_is_still_reported():
    """The text shows the error of pickle, not that of the repr."""

    class Silent:
        def __repr__(self):
            raise RuntimeError("no repr")

        def __reduce__(self):
            raise TypeError("no pickle")

    with pytest.raises(TypeError, match="whose repr raises RuntimeError.*no pickle"):
        serialize([Silent()])


@pytest.mark.parametrize("error", [ValueError("mine"), KeyError("mine"), pickle.PicklingError("mine")])
def test_other_errors_of_a_hook_are_raised_unchanged(error):
    """Ray adds a text to a TypeError only."""

    class Refusing:
        def __getstate__(self):
            raise error

    with pytest.raises(type(error)) as caught:
        serialize([Refusing()])
    assert caught.value is error


def test_a_value_nested_too_deeply_is_a_pickling_error():
    """It is not a RecursionError, and the process does not crash."""
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(pickle.PicklingError):
        serialize(deep)
    while deep:  # taken apart step by step, so that freeing it does not recurse
        deep = deep.pop()


def test_an_exception_that_cannot_be_rebuilt_fails_when_it_is_read():
    """Its __init__ takes two arguments but its args hold one, and pickle calls it with one."""

    class Fragile(Exception):
        def __init__(self, code, detail):
            super().__init__(code)

    stored = serialize(Fragile(1, 2))
    with pytest.raises(TypeError):
        deserialize(stored)


def test_a_file_is_sent_as_its_text_or_refused(tmp_path):
    """A readable text file is sent with its position. A binary, closed or write-only file is refused."""
    path = tmp_path / "note.txt"
    with open(path, "w") as file, pytest.raises(pickle.PicklingError):
        serialize(file)
    path.write_text("one\ntwo\n")
    with open(path) as file:
        file.readline()
        back = turn(file)
        assert type(back) is io.StringIO and back.read() == "two\n" == file.read()
    with pytest.raises(pickle.PicklingError):
        serialize(file)
    with open(path, "rb") as file, pytest.raises(TypeError):
        serialize(file)


# --- References inside values -------------------------------------------------------------------------------------


def test_a_stored_value_lists_each_reference_inside_it_once():
    """References are compared by the identity of their records, wherever in the value they are."""
    first, second = object(), object()
    reference = Reference(first)
    stored = serialize([reference, {"k": (Reference(second), Reference(first))}, reference])
    assert set(map(id, stored.contained)) == {id(first), id(second)}
    assert len(stored.contained) == 2
    assert serialize([1, [2]]).contained == ()


def test_a_reference_that_the_program_pickles_is_not_listed():
    """`contain` then returns False, so that the reference can react."""
    reference = Reference(object())
    pickle.dumps(reference)
    assert reference.noted is False
    cloudpickle.dumps(reference)
    assert reference.noted is False
    serialize(reference)
    assert reference.noted is True


def test_a_hook_may_call_serialize():
    """Each run lists its own references, even if the inner run fails."""
    outer, inner = object(), object()
    inside = []

    class Putting:
        def __reduce__(self):
            inside.append(serialize([Reference(inner)]))
            with pytest.raises(TypeError):
                serialize([Reference(inner), threading.Lock()])
            return int, ()

    stored = serialize([Putting(), Reference(outer)])
    assert stored.contained == (outer,)
    assert inside[0].contained == (inner,)


def test_threads_do_not_mix_up_their_references():
    """Two threads serialize at once, and each waits for the other in the middle of its value."""
    meeting = threading.Barrier(2)

    class Waiting:
        def __reduce__(self):
            meeting.wait()
            return int, ()

    found = {}

    def run(record):
        found[record] = serialize([Waiting(), Reference(record), Waiting()]).contained

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": ("a",), "b": ("b",)}


# --- Serializers of the user --------------------------------------------------------------------------------------


def test_a_registered_serializer_is_used_until_it_is_deregistered():
    """For instances of exactly that class. Its deserializer is sent along, by value if necessary."""

    class Guarded:
        def __init__(self, value):
            self.value, self.lock = value, threading.Lock()

    register_serializer(Guarded, serializer=lambda guarded: guarded.value, deserializer=lambda n: Guarded(n * 10))
    try:
        assert turn([Guarded(2)])[0].value == 20
    finally:
        deregister_serializer(Guarded)
    with pytest.raises(TypeError):
        serialize(Guarded(3))
    deregister_serializer(Guarded)


# --- miniray.cloudpickle ------------------------------------------------------------------------------------------


def test_cloudpickle_makes_bytes_that_plain_pickle_reads():
    """The bytes hold everything, including the definition of a local class and the memory of a buffer."""

    class Local:
        def __init__(self, n):
            self.n = n

    for protocol in (None, 2, 5):
        data = cloudpickle.dumps([Local(1), lambda x: x + 1], protocol)
        for back in (cloudpickle.loads(data), pickle.loads(data)):
            assert type(back[0]) is Local and back[0].n == 1 and back[1](1) == 2
    file = io.BytesIO()
    cloudpickle.dump(Buffer(b"abc"), file)
    file.seek(0)
    assert bytes(cloudpickle.load(file).memory) == b"abc"
    buffers = []
    data = cloudpickle.dumps(Buffer(b"abc"), buffer_callback=buffers.append)
    assert len(buffers) == 1 and b"abc" not in data
    assert bytes(cloudpickle.loads(data, buffers=buffers).memory) == b"abc"


def test_programs_can_derive_from_the_pickler_class():
    """Its constructor has the arguments of cloudpickle's."""
    file = io.BytesIO()
    cloudpickle.CloudPickler(file).dump(lambda: 7)
    assert pickle.loads(file.getvalue())() == 7
    assert cloudpickle.Pickler is cloudpickle.CloudPickler


def test_a_module_registered_by_value_is_copied_although_it_could_be_imported():
    """register_pickle_by_value, as in cloudpickle."""
    module = types.ModuleType("settings_of_this_test")
    exec("LEVEL = [1]\ndef level(): return LEVEL\n", vars(module))
    with pytest.raises(ValueError, match="import"):
        cloudpickle.register_pickle_by_value(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, module.__name__, module)
        assert turn(module.level) is module.level
        cloudpickle.register_pickle_by_value(module)
        assert turn(module.level) is not module.level
        assert turn(module.level)() is not module.LEVEL
        cloudpickle.unregister_pickle_by_value(module)
        assert turn(module.level) is module.level
    with pytest.raises(ValueError, match="registered"):
        cloudpickle.unregister_pickle_by_value(module)


def test_a_serialized_value_can_be_read_on_many_threads_at_once():
    """It never changes."""
    stored = serialize([Pair([1], {2}), {"k": [3]}])
    assert isinstance(stored, Serialized)
    results = []
    read = lambda: results.extend(deserialize(stored) for _ in range(50))
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 200 and all(back[0].a == [1] and back[1] == {"k": [3]} for back in results)


@pytest.mark.parametrize("count", [1, 7, 64, 1000, 100_000])
def test_the_memory_of_arrays_is_aligned_wherever_they_are_inside_a_value(count):
    """Ray aligns arrays that are sent on their own. Here all are, and a stored array that is sent on is not copied."""
    numpy = pytest.importorskip("numpy")
    stored = serialize({"a": [numpy.arange(count)], "b": (numpy.ones((count, 3), "i2"), numpy.empty((0, 4)))})
    value = deserialize(stored)
    arrays = [*value["a"], *value["b"]]
    assert all(array.ctypes.data % 64 == 0 and not array.flags.writeable for array in arrays)
    assert value["a"][0].tolist() == list(range(count)) and value["b"][1].shape == (0, 4)


def test_memory_that_was_aligned_before_is_shared():
    """The memory of a class variable goes into the definition of its class, and from there into every value."""
    numpy = pytest.importorskip("numpy")
    (block,) = serialize(numpy.arange(1000)).buffers
    (again,) = serialize([pickle.PickleBuffer(block)]).buffers
    assert numpy.shares_memory(numpy.asarray(block), numpy.asarray(again))


def test_the_size_of_a_list_of_numbers_is_that_of_its_items():
    """`serialize` has a quicker way for a list of numbers: the stored form must be the one that `_store_plain` makes."""
    for numbers in ([], [1], [1, 2.5, True, None], list(range(100))):
        stored, by_the_rule = serialize(numbers), serialization._store_plain(numbers)
        assert stored.data is not numbers
        for name in type(stored).__slots__:
            assert getattr(stored, name) == getattr(by_the_rule, name)
