"""What tests of the logs have in common: a task's run, what it printed on the driver, and what its log holds."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import miniray
from miniray.observe.logs.reading import get_log


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    """What is written to the driver's stdout, redirected after init."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        yield out


def log(**which: Any) -> str:
    """A log as one text."""
    return "".join(get_log(**which))


def run(function: Callable[[], Any], **options: Any) -> Any:
    """Run a function as a task and wait for its result."""
    return miniray.get(miniray.remote(function).options(**options).remote())
