"""What tests ask for while others run: started at once for all of them, and picked up by each."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

PROGRAMS = 4  # that run at a time: they wait more than they compute


def programs() -> Executor:
    """For functions that start a process and wait for it."""
    return ThreadPoolExecutor(PROGRAMS, "ahead")


def processors() -> Executor:
    """For functions that compute: each of its processes has a CPU. They are found by their names there."""
    return ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"))


@contextmanager
def ahead(
    session: pytest.Session, test: str, run: Callable[[Any], Any], pool: Executor
) -> Iterator[Callable[[Any], Any]]:
    """A function that gives `run(value)` for each value that the collected tests named `test` are parametrized with.

    Not ahead where pytest-xdist deals the tests out: there each is run when it is asked for, since every one of its processes
    knows them all.
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
