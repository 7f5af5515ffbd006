"""The tidy tests share the parsed source, and drop it when the last of them has run."""

from collections.abc import Iterator

import pytest

from tests.tidy.source import forget


@pytest.fixture(scope="package", autouse=True)
def parsed_source_is_dropped() -> Iterator[None]:
    """A million nodes would slow down every later collection, and the end of pytest."""
    yield
    forget()
