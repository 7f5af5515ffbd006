"""The names in the lines of `bad_calls_core` and `bad_calls_util`, and a program that compares them with Ray.

python -m tests.api.bad_arguments ray          prints the lines for which real Ray raises another error
"""

from __future__ import annotations

import copy
import functools
import importlib
import pickle
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.api import bad_calls_core
from tests.util import bad_calls_util


class BadCall(NamedTuple):
    """One line: `before` must pass, and `call` must raise an error of the class `error` with `word` in its text."""

    before: str
    call: str
    error: str
    word: str

    def raised(self, names: dict[str, Any]) -> BaseException | None:
        """Return the error that the call raises, or None. names: the globals of the call, which it does not change."""
        scope = dict(names)
        exec(self.before, scope)
        try:
            eval(self.call, scope)
        except BaseException as error:
            return error
        return None


def bad_calls() -> Iterator[BadCall]:
    """All lines."""
    for line in (bad_calls_core.CALLS + bad_calls_util.CALLS).splitlines():
        if line and not line.startswith("#"):
            call, error, word = line.rsplit(" |", 2)
            before, _, last = call.rpartition("; ")
            yield BadCall(before, last, error.strip(), word.strip())


def names(ray: Any) -> dict[str, Any]:
    """The globals that a line may use. A session with 8 CPUs must be running."""

    def sub(name: str) -> Any:
        return importlib.import_module(f"{ray.__name__}.{name}")

    strategies, placement_groups = sub("util.scheduling_strategies"), sub("util.placement_group")
    found = {**_functions(ray), **_actors(ray)}
    group = ray.util.placement_group([{"CPU": 1}])
    a = found["A"].remote()
    taken = found["A"].options(name="taken").remote()
    same = ray.util.placement_group([{"CPU": 0.01}], name="same")
    ray.get([group.ready(), same.ready(), a.m.remote(), taken.m.remote()])
    full = sub("util.queue").Queue(maxsize=1)
    full.put(0)
    closed = socket.socket()
    closed.close()

    def killed() -> Any:
        actor = found["A"].remote()
        ray.get(actor.m.remote())
        ray.kill(actor)
        return actor

    def removed_group() -> Any:
        gone = ray.util.placement_group([{"CPU": 0.01}])
        ray.get(gone.ready())
        ray.util.remove_placement_group(gone)
        return gone

    return {
        **found,
        "ray": ray,
        "a": a,
        "taken": taken,
        "same": same,
        "group": group,
        "full": full,
        "killed": killed,
        "removed_group": removed_group,
        "never": found["hang"].remote(),
        "ref": ray.put(1),
        "other": ray.put(2),
        "q": sub("util.queue").Queue(),
        "socket": closed,
        "context": ray.get_runtime_context(),
        "pool": sub("util.multiprocessing").Pool(1),
        "NODE": "ab" * 28,
        "util": ray.util,
        "queue": sub("util.queue"),
        "multiprocessing": sub("util.multiprocessing"),
        "PlacementGroup": placement_groups.PlacementGroup,
        "in_group": strategies.PlacementGroupSchedulingStrategy,
        "on_node": strategies.NodeAffinitySchedulingStrategy,
        "labelled": strategies.NodeLabelSchedulingStrategy,
        "In": strategies.In,
        "NotIn": strategies.NotIn,
        "Exists": strategies.Exists,
        "functools": functools,
        "pickle": pickle,
        "copy": copy,
    }


def _functions(ray: Any) -> dict[str, Any]:
    lock = threading.Lock()
    remote = ray.remote

    def hang() -> None:
        threading.Event().wait(900)

    def gen() -> Iterator[int]:
        yield 1
        yield 2

    def bad_stream() -> Iterator[int]:
        yield 1
        raise ValueError("x")

    def fails() -> None:
        raise KeyError("k")

    def closes_over_lock() -> Any:
        return lock

    def returns_lock() -> Any:
        return threading.Lock()

    def plain(x: Any) -> Any:
        return x

    def plain_method(self: Any) -> int:
        return 1

    async def coroutine_function() -> int:
        return 1

    return {
        "f": remote(lambda x: x),
        "two": remote(lambda a, b: (a, b)),
        "keyword_only": remote(lambda *, key: key),
        "defaults": remote(lambda a, b=2: (a, b)),
        "variadic": remote(lambda *args: args),
        "positional_only": remote(lambda x, /: x),
        "hang": remote(num_cpus=0)(hang),
        "gen": remote(gen),
        "bad_stream": remote(bad_stream),
        "fails": remote(fails),
        "closes_over_lock": remote(closes_over_lock),
        "returns_lock": remote(returns_lock),
        "lock": lock,
        "plain": plain,
        "plain_method": plain_method,
        "coroutine_function": coroutine_function,
    }


def _actors(ray: Any) -> dict[str, Any]:
    class A:
        def __init__(self) -> None:
            self.field = 1

        def m(self) -> int:
            return 1

        def add(self, x: int) -> int:
            return x

        def hang(self) -> None:
            threading.Event().wait(30)

        def boom(self) -> None:
            raise KeyError("k")

        @staticmethod
        def static(x: int) -> int:
            return x

        @classmethod
        def klass(cls) -> int:
            return 1

        @property
        def prop(self) -> int:
            return 1

        @ray.method(num_returns=2)
        def two_returns(self) -> tuple[int, int]:
            return 1, 2

    class NeedsOne:
        def __init__(self, x: int) -> None:
            self.x = x

        def m(self) -> int:
            return self.x

    class AsyncA:
        async def m(self) -> int:
            return 1

    class UndeclaredGroup:
        @ray.method(concurrency_group="io")
        def m(self) -> int:
            return 1

    class Plain:
        def m(self) -> int:
            return 1

    class Callable:
        def __call__(self) -> int:
            return 1

        def method_of(self) -> int:
            return 1

    class Unbuildable:
        def __reduce__(self) -> Any:
            return len, (5,)

    actor = ray.remote(num_cpus=0)
    return {
        "A": actor(A),
        "NeedsOne": actor(NeedsOne),
        "AsyncA": actor(AsyncA),
        "UndeclaredGroup": actor(UndeclaredGroup),
        "Plain": Plain,
        "Callable": Callable,
        "Unbuildable": Unbuildable,
    }


def main() -> None:
    """Compare the lines with the errors that a package raises."""
    ray = importlib.import_module(sys.argv[1])
    ray.init(num_cpus=8, log_to_driver=False, **({"include_dashboard": False} if ray.__name__ == "ray" else {}))
    known = names(ray)
    for call in bad_calls():
        error = call.raised(known)
        if type(error).__name__ != call.error:
            print(f"{call.before}; {call.call}: {type(error).__name__}, not {call.error}: {error}")
    ray.shutdown()


if __name__ == "__main__":
    main()
