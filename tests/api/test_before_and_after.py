"""Use before init, bad arguments of init, and references that outlive their session: the answers of Ray 2.60."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import miniray
from miniray import util
from miniray.exceptions import ActorHandleNotFoundError, RaySystemError
from miniray.util.multiprocessing import Pool
from miniray.util.queue import Queue


@pytest.fixture(autouse=True)
def no_session() -> Iterator[None]:
    """Each test starts and ends without a session."""
    miniray.shutdown()
    yield
    miniray.shutdown()


@miniray.remote
def echo(x: Any) -> Any:
    return x


@miniray.remote
def stream() -> Iterator[int]:
    yield 1
    yield 2


@miniray.remote
class Counter:
    def __init__(self) -> None:
        self.n = 0

    def add(self) -> int:
        self.n += 1
        return self.n


# ---------------------------------------------------------------- before init


@pytest.mark.parametrize(
    "use",
    [
        lambda: miniray.get([]),
        lambda: miniray.put(1),
        lambda: miniray.wait([]),
        lambda: echo.remote(1),
        lambda: Counter.remote(),
        miniray.get_runtime_context,
        miniray.get_gpu_ids,
        util.list_named_actors,
        util.get_current_placement_group,
        util.placement_group_table,
        lambda: Queue(),
        lambda: Pool(1),
        lambda: util.placement_group([{"CPU": 1}]),
        lambda: echo.bind(1).execute(),
    ],
)
def test_the_first_use_starts_a_session(use: Any):
    """The session has the defaults of init."""
    use()
    assert miniray.is_initialized()


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda: miniray.get(5), ValueError),
        (lambda: miniray.wait(5), TypeError),
        (lambda: miniray.kill(None), ValueError),
        (lambda: miniray.cancel(None), TypeError),
        (lambda: miniray.get_actor("nobody"), ValueError),
        (lambda: miniray.get_actor(""), ValueError),
        (lambda: echo.remote(1, 2), TypeError),
        (lambda: Counter.remote(1), TypeError),
        (lambda: util.get_placement_group("nobody"), ValueError),
    ],
)
def test_a_first_use_that_fails_starts_a_session_too(use: Any, error: type[Exception]):
    """As in Ray, the session starts before the arguments are checked."""
    with pytest.raises(error):
        use()
    assert miniray.is_initialized()


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (miniray.nodes, RaySystemError),
        (miniray.cluster_resources, RaySystemError),
        (miniray.available_resources, RaySystemError),
        (miniray.timeline, RuntimeError),
        (lambda: echo.options(num_cpus=-1), ValueError),
        (lambda: Counter.options(name=5), TypeError),
        (lambda: echo(1), TypeError),
        (lambda: Counter(), TypeError),
        (lambda: miniray.remote(num_cpus=-1)(echo._function), ValueError),
        (lambda: miniray.ObjectRef(b"short"), ValueError),
        (miniray.actor.exit_actor, TypeError),
    ],
)
def test_these_raise_and_start_no_session(use: Any, error: type[Exception]):
    """Some only read a session's state, and others check options where they are given."""
    with pytest.raises(error):
        use()
    assert not miniray.is_initialized()


@pytest.mark.parametrize(
    "use",
    [
        miniray.is_initialized,
        miniray.shutdown,
        lambda: echo.options(num_cpus=1),
        lambda: Counter.options(name="x"),
        lambda: util.ActorPool([]),
        lambda: echo.bind(1),
        lambda: miniray.ObjectRef(b"x" * 28),
        lambda: miniray.ObjectRef.nil(),
        lambda: miniray.cloudpickle.dumps(lambda: 1),
        lambda: util.inspect_serializability(1),
        util.get_node_ip_address,
        lambda: pickle.loads(pickle.dumps(miniray.ObjectRef(b"x" * 28))),
    ],
)
def test_these_need_no_session(use: Any):
    """They work without a session, and start none."""
    use()
    assert not miniray.is_initialized()


# ---------------------------------------------------------------- init

BAD_ARGUMENTS_OF_INIT = """
num_cpus=-1 | ValueError
num_cpus="two" | AssertionError
num_cpus=1.5 | ValueError
num_cpus=[1] | AssertionError
num_gpus=-1 | ValueError
num_gpus="x" | TypeError
num_gpus=0.5 | ValueError
resources=[1] | AttributeError
resources={"CPU": 1} | AssertionError
resources={"GPU": 1} | AssertionError
resources={"a": -1} | ValueError
resources={"a": "x"} | AssertionError
resources={"a": 1.5} | ValueError
labels=5 | AttributeError
object_store_memory="x" | TypeError
object_store_memory=-1 | ValueError
namespace=5 | TypeError
namespace="" | ValueError
namespace=b"x" | TypeError
runtime_env=5 | AttributeError
runtime_env="x" | AttributeError
runtime_env={"env_vars": {"A": 1}} | TypeError
nonsense=1 | RuntimeError
num_cpu=1 | RuntimeError
address=5 | TypeError
address="nonsense" | ValueError
_temp_dir=5 | TypeError
_temp_dir="relative" | ValueError
_system_config=5 | TypeError
num_nodes=0 | ValueError
num_nodes="x" | ValueError
on_deadlock="shrug" | ValueError
address="127.0.0.1:1" | ConnectionError
logging_level="LOUD" | ValueError
"""


@pytest.mark.parametrize("line", BAD_ARGUMENTS_OF_INIT.strip().splitlines())
def test_a_bad_argument_of_init_starts_nothing(line: str):
    """The error names the argument. It is Ray's, except the last five: Ray does not check, or waits for a cluster."""
    argument, error = line.split(" | ")
    name = argument.split("=")[0]
    with pytest.raises(Exception) as raised:
        eval(f"miniray.init({argument})")
    assert type(raised.value).__name__ == error
    named = ["a"] if name == "resources" and '"a"' in argument else [name, "127.0.0.1:1"]
    assert any(word in str(raised.value) for word in named)
    assert not miniray.is_initialized()
    assert miniray.init(num_cpus=1) and miniray.get(echo.remote(1)) == 1


# ---------------------------------------------------------------- after shutdown


@pytest.fixture
def old() -> dict[str, Any]:
    """Objects that a program may still hold after the shutdown of their session."""
    miniray.init(num_cpus=2, log_to_driver=False)
    ref, result, actor, items = miniray.put([1]), echo.remote(2), Counter.remote(), stream.remote()
    miniray.get([result, actor.add.remote(), next(items)])
    group = util.placement_group([{"CPU": 1}])
    miniray.get(group.ready())
    held = {
        "ref": ref,
        "result": result,
        "actor": actor,
        "method": actor.add,
        "items": items,
        "group": group,
        "queue": Queue(),
        "context": miniray.get_runtime_context(),
        "variant": echo.options(num_cpus=0),
    }
    miniray.shutdown()
    return held


async def awaited(ref: Any) -> Any:
    return await ref


OF_THE_OLD_SESSION = [
    ("get", lambda old: miniray.get(old["ref"]), ValueError),
    ("get of a list", lambda old: miniray.get([old["ref"]]), ValueError),
    ("get with a timeout", lambda old: miniray.get(old["result"], timeout=1), ValueError),
    ("wait", lambda old: miniray.wait([old["ref"]], timeout=1), ValueError),
    ("an argument", lambda old: echo.remote(old["ref"]), ValueError),
    ("await", lambda old: asyncio.run(awaited(old["ref"])), ValueError),
    ("future", lambda old: old["ref"].future().result(1), ValueError),
    ("a method", lambda old: old["actor"].add.remote(), Exception),
    ("a bound method", lambda old: old["method"].remote(), Exception),
    ("kill", lambda old: miniray.kill(old["actor"]), ActorHandleNotFoundError),
    ("cancel", lambda old: miniray.cancel(old["result"]), TypeError),
    ("a stream", lambda old: next(old["items"]), ValueError),
    ("a group", lambda old: old["group"].wait(1), Exception),
    ("a group's ready", lambda old: old["group"].ready(), ValueError),
    ("a queue", lambda old: old["queue"].get(timeout=1), Exception),
    ("a context", lambda old: old["context"].get_job_id(), RuntimeError),
    ("a context's node", lambda old: old["context"].get_node_id(), RuntimeError),
]


@pytest.mark.parametrize(
    ("what", "use", "error"), OF_THE_OLD_SESSION, ids=lambda value: value if isinstance(value, str) else ""
)
def test_objects_of_an_ended_session_say_so(old: dict[str, Any], what: str, use: Any, error: type[Exception]):
    """The next session raises. It neither waits forever nor confuses the old objects with its own."""
    miniray.init(num_cpus=2, log_to_driver=False)
    new = miniray.put("new")  # the old session has used its number
    with pytest.raises(error):
        use(old)
    assert miniray.get(new) == "new" and miniray.get(echo.remote(3)) == 3


def test_without_a_session_they_say_so_too(old: dict[str, Any]):
    """A future and the next item of a stream need a session. (Ray raises AttributeError.)"""
    with pytest.raises((RuntimeError, ValueError)):
        next(old["items"])
    with pytest.raises((RuntimeError, ValueError)):
        old["ref"].future()


def test_functions_classes_and_ids_outlive_a_session(old: dict[str, Any]):
    """Remote functions, their variants, actor classes, ids and texts do not belong to the session."""
    ref, actor = old["ref"], old["actor"]
    assert (
        len(ref.hex()) == 56
        and ref == ref
        and hash(ref) == hash(ref)
        and "Counter" in repr(actor)
        and "add" in dir(actor)
    )
    assert pickle.loads(pickle.dumps(ref)).hex() == ref.hex()
    miniray.init(num_cpus=2, log_to_driver=False)
    assert miniray.get([echo.remote(1), old["variant"].remote(2), Counter.remote().add.remote()]) == [1, 2, 1]


def test_a_second_shutdown_does_nothing(old: dict[str, Any]):
    """Afterwards a session can be started as usual."""
    miniray.shutdown()
    miniray.shutdown()
    assert not miniray.is_initialized()
    miniray.init(num_cpus=1)
    assert miniray.get(echo.remote(1)) == 1
