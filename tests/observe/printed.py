"""Helpers for tests of the logs: run a task, capture the driver's output, read a log."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import miniray
from miniray.observe.logs.reading import get_log


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    """The driver's stdout, redirected to a buffer after `init` has replaced it."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        yield out


def log(**which: Any) -> str:
    """A whole log as one text. which: the arguments of get_log."""
    return "".join(get_log(**which))


def run(function: Callable[[], Any], **options: Any) -> Any:
    """Run a function as a task and wait for its result."""
    return miniray.get(miniray.remote(function).options(**options).remote())
