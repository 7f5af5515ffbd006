"""Work that is done ahead: started in parallel for all collected tests; each test waits for its own result only."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

PROGRAMS = 4  # at a time, even on two CPUs: the programs wait more than they compute


def programs() -> Executor:
    """A pool for functions that start a process and wait for it."""
    return ThreadPoolExecutor(PROGRAMS, "ahead")


def processors() -> Executor:
    """A pool of one process per CPU, for functions that compute. The functions must be importable."""
    return ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"))


@contextmanager
def ahead(
    session: pytest.Session, test: str, run: Callable[[Any], Any], pool: Executor
) -> Iterator[Callable[[Any], Any]]:
    """Start `run(value)` in the pool for every value with which the collected tests named `test` are parametrized.

    Yields a function that returns the result for a value. Under pytest-xdist nothing is started ahead, because every
    one of its processes collects all tests: the function then calls `run(value)` itself.
    """
    started: dict[Any, Future[Any]] = {}
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for item in session.items:
            if isinstance(item, pytest.Function) and item.originalname == test:
                for value in item.callspec.params.values():
                    started[value] = pool.submit(run, value)

    def result(value: Any) -> Any:
        return started[value].result() if value in started else run(value)

    yield result
    pool.shutdown(cancel_futures=True)
