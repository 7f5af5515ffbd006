"""Functions and classes that have captured too much, and references that a program pickles by itself."""

from __future__ import annotations

import pytest

import miniray as ray
from miniray import cloudpickle
from miniray.calls import definitions
from miniray.process import context
from miniray.exceptions import OufOfBandObjectRefSerializationException


@pytest.fixture(params=[False, True], ids=["threaded", "local_mode"], autouse=True)
def session(request):
    """A session in each runtime."""
    ray.init(num_cpus=2, local_mode=request.param)
    yield
    ray.shutdown()


def capturing(value):
    """A remote function and an actor class that have captured a value."""

    @ray.remote
    def function():
        return len(value)

    @ray.remote
    class Actor:
        def method(self):
            return len(value)

    return function, Actor


def test_a_large_definition_causes_one_warning(capsys):
    """At its first use in the session. Arguments may be as large as they like."""
    for remote in capturing(bytes(definitions.WARN_BYTES)):
        remote.remote()
        remote.remote()
        text = capsys.readouterr().out
        assert text.count("is very large (9 MiB)") == 1 and "ray.put()" in text
    large = bytes(definitions.WARN_BYTES + 1)
    assert ray.get(ray.remote(lambda data: len(data)).remote(large)) == len(large)
    for remote in capturing(bytes(definitions.WARN_BYTES - 10_000)):
        remote.remote()
    assert "very large" not in capsys.readouterr().out


def test_a_definition_above_the_limit_is_refused(monkeypatch):
    """Each time. The variable is Ray's; other definitions are not affected."""
    monkeypatch.setenv("FUNCTION_SIZE_ERROR_THRESHOLD", str(11 << 20))
    function, actor = capturing(bytes(12 << 20))
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"remote function .*\.function is too large \(12 MiB > FUNCTION_SIZE_ERROR_THR.*=11 MiB"
        ):
            function.remote()
        with pytest.raises(ValueError, match="actor Actor is too large"):
            actor.remote()
    function, actor = capturing(bytes(10 << 20))
    assert ray.get([function.remote(), actor.remote().method.remote()]) == [10 << 20, 10 << 20]


def test_out_of_band_references_can_be_refused(monkeypatch):
    """By Ray's variable: in closures, and where the program pickles. Values that the session stores are allowed."""
    monkeypatch.setenv("RAY_allow_out_of_band_object_ref_serialization", "0")
    ref = ray.put([1, 2])
    for remote in capturing(ref):
        with pytest.raises(OufOfBandObjectRefSerializationException):
            remote.remote()
    with pytest.raises(OufOfBandObjectRefSerializationException):
        cloudpickle.dumps({"inside": [ref]})
    assert ray.get(ray.get(ray.remote(lambda refs: refs[0]).remote([ref]))) == [1, 2]
    assert ray.get(ray.get(ray.put([ref]))) == [[1, 2]]


def test_a_pinned_reference_is_released_by_the_end_of_the_session():
    """It is counted once, however often it is pickled, and the next session knows nothing of it."""
    data = [cloudpickle.dumps(ray.put(number)) for number in range(3)]
    ref = ray.put("four")
    data += [cloudpickle.dumps(ref) for _ in range(3)]
    assert [ray.get(cloudpickle.loads(one)) for one in data] == [0, 1, 2, "four", "four", "four"]
    context.running().drain()
    assert ref._record.refs == 2
    ray.shutdown()
    ray.init(num_cpus=1)
    with pytest.raises(ray.exceptions.GetTimeoutError):
        ray.get(cloudpickle.loads(data[0]), timeout=0.01)
