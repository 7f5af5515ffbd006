"""Programs that run while the tests before theirs do, a few at a time, each in a process of its own."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

AT_A_TIME = 4                   # they wait more than they compute


@contextmanager
def ahead(session: pytest.Session, test: str, run: Callable[[Any], Any]) -> Iterator[Callable[[Any], Any]]:
    """A function that gives `run(value)` for each value that the collected tests named `test` are parametrized with.

    All of them are started at once. Not where pytest-xdist deals the tests out: there each is run when it is asked for, since
    every one of its processes knows them all.
    """
    pool = ThreadPoolExecutor(AT_A_TIME, "ahead")
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
