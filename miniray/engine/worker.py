"""The part of `--engine ray` that Ray's workers need too: `import miniray` imports Ray, and Ray's metrics get a
`timer`.

Like `testing.finder`, this module is sent to the workers by value, so it imports nothing else from miniray.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable
from typing import Any

from ..testing.finder import Alias

READ_IN_PROCESS = ("value", "snapshot", "quantile")  # methods of miniray's metrics that read the numbers in the process


def only_in_miniray(name: str) -> ModuleNotFoundError:
    """The error for a module that Ray does not have."""
    return ModuleNotFoundError(
        f"No module named {name!r}: this program runs with --engine ray, so `miniray` is Ray, which has no such "
        "module. Run the program with --engine miniray, or without this module.",
        name=name,
    )


class Timer:
    """Observes the duration in ms of a block, or of each call of a function, in a histogram, even if it raises."""

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
    """Add `timer` to Ray's Histogram, and errors in place of the functions that Ray lacks: those that read a metric."""
    metrics = importlib.import_module("ray.util.metrics")
    metrics.Histogram.timer = lambda self, tags=None: Timer(self, tags)
    for name in READ_IN_PROCESS:
        if not hasattr(metrics.Metric, name):
            setattr(metrics.Metric, name, _refused(f"{name}() of a metric"))
    for name in ("export_text", "snapshot", "unregister"):
        if not hasattr(metrics, name):
            setattr(metrics, name, _refused(f"miniray.util.metrics.{name}()"))


def _refused(what: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{what} exists only in miniray, which keeps its metrics in the process, and this program runs with "
            "--engine ray. Ray exports its metrics to Prometheus."
        )

    return refuse


def prepare_worker() -> None:
    """Make `import miniray` import Ray in this worker too. Ray calls it before the worker's first task."""
    Alias("miniray", "ray", only_in_miniray).install()
    teach_metrics()


def prepare_worker_and(then: Callable[[], Any] | None) -> Callable[[], None]:
    """A setup hook for Ray's workers: `prepare_worker`, followed by the program's own hook, if it has one."""

    def prepare() -> None:
        prepare_worker()
        if then is not None:
            then()

    return prepare
