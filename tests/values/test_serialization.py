"""Values in and out: what is copied and how, what is refused and in which words, what a stored value tells of
itself.
"""

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
    """An importable class, which travels by name."""

    def __init__(self, a, b):
        self.a, self.b = a, b


class Reference:
    """Stands for an ObjectRef: pickling it tells of its record, and so does each of its copies."""

    def __init__(self, record):
        self.record, self.noted = record, None

    def __reduce__(self):
        self.noted = contain(self.record)
        return str, ("a reference",)


class Buffer:
    """Stands for a numpy array: its memory leaves out of band."""

    def __init__(self, memory):
        self.memory = memory

    def __reduce_ex__(self, protocol):
        return Buffer, (pickle.PickleBuffer(self.memory),)


def turn(value):
    """What a task would get for value."""
    return deserialize(serialize(value))


# ------------------------------------------------------------------------------------------------------- what is copied


@pytest.mark.parametrize(
    "value", [5, 2**80, 1.5, "text", b"bytes", None, True, 1j, ..., (1, ("a", None)), frozenset({1, "a"})]
)
def test_what_is_immutable_is_stored_as_it_is(value):
    """Nobody can tell it from a copy, and pickling it would cost more than all the rest."""
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
def test_a_value_comes_back_equal_of_the_same_type_and_fresh_each_time(value):
    """Whichever way it is stored."""
    stored = serialize(value)
    first, second = deserialize(stored), deserialize(stored)
    assert first == second == value
    assert type(first) is type(value)
    if type(value) in (list, dict, set):
        assert first is not second and first is not value


def test_a_stored_value_is_a_snapshot():
    """Neither a later change of the original nor one of a copy shows in the next copy."""
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
    """Ray packs them with msgpack, which knows no references."""
    row = [0]
    back = turn([row, row, {"a": row}])
    assert back[0] is not back[1] and back[0] is not back[2]["a"]
    back = turn([[row, row], Pair(1, 2)])
    assert back[0][0] is not back[0][1]


def test_whatever_goes_through_pickle_keeps_its_sharing():
    """Tuples, sets and objects do, alone or inside a list; a list inside them is theirs."""
    row, shared, members = [0], Pair(1, 2), {1}
    first, second = turn((row, row))
    assert first is second
    back = turn([shared, shared, members, members, (row,), row])
    assert back[0] is back[1] and back[2] is back[3]
    assert back[4][0] is not back[5]
    back = turn(Pair(row, row))
    assert back.a is back.b


def test_a_cycle_survives():
    """What holds itself cannot be plain, so pickle follows it."""
    loop = [1]
    loop.append({"up": [loop]})
    back = turn(loop)
    assert back[1]["up"][0] is back and back[0] == 1


def test_a_bytearray_becomes_bytes_unless_pickle_carries_it():
    """By itself and in plain lists and dicts it does; in a tuple or an object it keeps its type."""
    assert turn(bytearray(b"ab")) == b"ab" and type(turn(bytearray(b"ab"))) is bytes
    assert turn(memoryview(b"ab")) == b"ab"
    assert [type(item) for item in turn([b"a", bytearray(b"b"), memoryview(b"c")])] == [bytes] * 3
    assert type(turn({"k": [bytearray(b"b")]})["k"][0]) is bytes
    assert type(turn((bytearray(b"b"),))[0]) is bytearray
    assert type(turn(Pair(bytearray(b"b"), 1)).a) is bytearray
    assert turn((memoryview(b"abcd")[::2],)) == (b"ac",)
    with pytest.raises(BufferError):
        serialize(memoryview(b"abcd")[::2])


def test_subclasses_of_builtin_types_stay_what_they_are():
    """Only exact types are plain: a named int or a counting dict has a meaning of its own."""

    class Level(enum.IntEnum):
        LOW = 1

    back = turn([Level.LOW, True, collections.Counter("a"), collections.OrderedDict(a=[1])])
    assert back[0] is Level.LOW and back[1] is True
    assert type(back[2]) is collections.Counter and type(back[3]) is collections.OrderedDict


def test_not_a_number_survives():
    """It is not equal to itself, which no check may rely on."""
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
def test_the_view_of_a_dict_travels_with_what_it_shows(view, shown):
    """Pickle refuses it; cloudpickle, and so Ray, does not."""
    back = turn(view)
    assert list(back) == shown and type(back) is type(view)


def test_special_objects_travel_as_with_cloudpickle():
    """Modules by name, proxies and properties by their parts, an unknown module by its contents."""
    assert turn(types) is types
    assert turn(types.MappingProxyType({1: 2})) == {1: 2}
    assert turn(property(len)).fget is len
    for kind in (type(None), type(...), types.FunctionType, types.GeneratorType):
        assert turn(kind) is kind
    made = types.ModuleType("made_up")
    made.value = [1]
    back = turn(made)
    assert back.value == [1] and back is not made and back.__name__ == "made_up"


# ---------------------------------------------------------------------------------------------------------------
# buffers


def test_a_buffer_is_copied_once_and_then_shared_by_every_copy():
    """The writer may go on writing; the readers see one piece of memory, read-only."""
    memory = bytearray(b"abc")
    stored = serialize([Buffer(memory), Buffer(memory)])
    memory[:] = b"xyz"
    first, second = deserialize(stored), deserialize(stored)
    assert bytes(first[0].memory) == b"abc"
    assert first[0].memory is second[0].memory
    assert memoryview(first[0].memory).readonly
    assert stored.size >= 6


def test_bytes_are_never_copied():
    """Nobody can change them."""
    data = b"x" * 1000
    assert serialize(data) is data
    assert serialize(Buffer(data)).buffers[0] is data


# ---------------------------------------------------------------------------------------------------------------- sizes


def test_sizes_are_exact_for_bytes_and_near_for_the_rest():
    """They are what a store's capacity is counted in."""
    assert size_of(b"x" * 1000) == 1000
    assert size_of("x" * 1000) == 1000
    assert 1000 <= size_of(("x" * 1000, 1)) <= 1050
    assert size_of(serialize([1] * 1000)) == 8000
    assert 1000 <= size_of(serialize({"k": "x" * 1000})) <= 1050
    stored = serialize(Pair(1, [b"x" * 500]))
    assert size_of(stored) == len(stored.data) > 500


# --------------------------------------------------------------------------------------------------------------- errors


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
def test_the_text_of_a_refusal_leads_to_the_culprit(value, place):
    """TypeError, as in Ray, with the way into the value and pickle's own words."""
    with pytest.raises(TypeError) as caught:
        serialize(value, "the argument", "f")
    text = str(caught.value)
    assert text.startswith("Could not serialize the argument ") and " for a task or actor f: " in text
    assert place in text and "cannot pickle" in text and "inspect_serializability" in text
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_culprit_whose_repr_fails_is_reported_all_the_same():
    """The error that is shown is pickle's, not that of the repr."""

    class Silent:
        def __repr__(self):
            raise RuntimeError("no repr")

        def __reduce__(self):
            raise TypeError("no pickle")

    with pytest.raises(TypeError, match="whose repr raises RuntimeError.*no pickle"):
        serialize([Silent()])


@pytest.mark.parametrize("error", [ValueError("mine"), KeyError("mine"), pickle.PicklingError("mine")])
def test_other_errors_of_a_hook_come_out_unchanged(error):
    """Ray dresses up TypeError only."""

    class Refusing:
        def __getstate__(self):
            raise error

    with pytest.raises(type(error)) as caught:
        serialize([Refusing()])
    assert caught.value is error


def test_what_is_nested_too_deeply_is_a_pickling_error():
    """Not a RecursionError, and not a crash."""
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(pickle.PicklingError):
        serialize(deep)
    while deep:  # taken down step by step, so that its end does not recurse either
        deep = deep.pop()


def test_an_exception_that_cannot_be_rebuilt_fails_when_it_is_read():
    """Its __init__ takes two arguments, its args hold one: pickle calls it with one."""

    class Fragile(Exception):
        def __init__(self, code, detail):
            super().__init__(code)

    stored = serialize(Fragile(1, 2))
    with pytest.raises(TypeError):
        deserialize(stored)


def test_files_travel_as_their_text_or_not_at_all(tmp_path):
    """Readable text does, at its position; what is only written to, binary or closed is refused."""
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


# ---------------------------------------------------------------------------------------------------- references inside


def test_a_stored_value_lists_each_reference_inside_it_once():
    """By the identity of its record, wherever in the value it is."""
    first, second = object(), object()
    reference = Reference(first)
    stored = serialize([reference, {"k": (Reference(second), Reference(first))}, reference])
    assert set(map(id, stored.contained)) == {id(first), id(second)}
    assert len(stored.contained) == 2
    assert serialize([1, [2]]).contained == ()


def test_a_reference_pickled_by_hand_is_not_contained():
    """contain answers False then, and whoever asked can do something about it."""
    reference = Reference(object())
    pickle.dumps(reference)
    assert reference.noted is False
    cloudpickle.dumps(reference)
    assert reference.noted is False
    serialize(reference)
    assert reference.noted is True


def test_a_hook_may_serialize_something_itself():
    """Each run has its own references, also when the inner one fails."""
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
    """Two runs at once on two threads, each stopped in the middle of a value."""
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


# ------------------------------------------------------------------------------------------------ the user's
# serialisers


def test_a_registered_serializer_is_used_until_it_is_taken_back():
    """For values of exactly that class; its deserializer travels along, by value if need be."""

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


# ------------------------------------------------------------------------------------------------- miniray.cloudpickle


def test_cloudpickle_makes_bytes_that_plain_pickle_reads():
    """Everything is written out in them, also the definition of a local class and the memory of a buffer."""

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


def test_a_pickler_class_that_programs_can_derive_from():
    """With the arguments that cloudpickle's has."""
    file = io.BytesIO()
    cloudpickle.CloudPickler(file).dump(lambda: 7)
    assert pickle.loads(file.getvalue())() == 7
    assert cloudpickle.Pickler is cloudpickle.CloudPickler


def test_a_module_registered_by_value_is_copied_though_it_could_be_imported():
    """register_pickle_by_value, as cloudpickle has it."""
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
    """It never changes once it is made."""
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
