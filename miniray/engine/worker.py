"""`--engine ray`, as far as it is needed in Ray's workers too: `import miniray` is `import ray`, and what of miniray's
metrics Ray can be given.

Like `finder` it imports nothing of miniray, for it is sent to the workers by value.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable
from typing import Any

from ..testing.finder import Alias

READ_HERE = ("value", "snapshot", "quantile")  # what miniray's metrics can be asked in the process


def only_in_miniray(name: str) -> ModuleNotFoundError:
    """For a part of miniray that Ray does not have."""
    return ModuleNotFoundError(
        f"No module named {name!r}: this program runs with --engine ray, so `miniray` is Ray, which has no such part. "
        "Run it with --engine miniray, or without that part.",
        name=name,
    )


class Timer:
    """Observe how many milliseconds a block, or each call of a function, takes, also when it raises."""

    def __init__(self, histogram: Any, tags: dict[str, str] | None):
        self._histogram, self._tags = histogram, tags
        self._started: list[float] = []

    def __enter__(self) -> "Timer":
        self._started.append(time.perf_counter())
        return self

    def __exit__(self, *error: Any) -> None:
        self._histogram.observe((time.perf_counter() - self._started.pop()) * 1000, self._tags)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with Timer(self._histogram, self._tags):
                return function(*args, **kwargs)

        return timed


def teach_metrics() -> None:
    """Ray's Histogram gets `timer`; what only a process that has all the numbers can answer says so."""
    metrics = importlib.import_module("ray.util.metrics")
    metrics.Histogram.timer = lambda self, tags=None: Timer(self, tags)
    for name in READ_HERE:
        if not hasattr(metrics.Metric, name):
            setattr(metrics.Metric, name, _refused(f"{name}() of a metric"))
    for name in ("export_text", "snapshot", "unregister"):
        if not hasattr(metrics, name):
            setattr(metrics, name, _refused(f"miniray.util.metrics.{name}()"))


def _refused(what: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{what} reads or changes numbers in the process, which only miniray has there; this "
            "program runs with --engine ray. Ray exports its metrics to Prometheus."
        )

    return refuse


def prepare_worker() -> None:
    """In a worker of Ray's, before it runs anything: `import miniray` gives Ray there too."""
    Alias("miniray", "ray", only_in_miniray).install()
    teach_metrics()


def prepare_worker_and(then: Callable[[], Any] | None) -> Callable[[], None]:
    """The same, followed by the program's own setup hook."""

    def prepare() -> None:
        prepare_worker()
        if then is not None:
            then()

    return prepare
