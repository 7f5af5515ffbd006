"""The conformance cases start when the session's tests are known, and are asked for their answers at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.beside import AGAIN, ALONE, BESIDE, Answers, seed_of

TEST = "test_the_answer_is_the_recorded_one"
started = pytest.StashKey[Answers]()


def is_case(item: pytest.Item) -> bool:
    """Whether this test asks for the answer to a case."""
    return isinstance(item, pytest.Function) and item.originalname == TEST


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The cases come last: most of their answers are there by then."""
    items.sort(key=is_case)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the cases that will be asked for."""
    wanted = [
        (item.callspec.params["mode"], Path(item.callspec.params["path"]))
        for item in session.items
        if isinstance(item, pytest.Function) and is_case(item) and not item.get_closest_marker("skip")
    ]
    if not wanted or session.config.option.collectonly:
        return
    children = ALONE if all(map(is_case, session.items)) else BESIDE
    again = [(mode + AGAIN, path) for mode, path in wanted if seed_of(mode) is not None]
    option = session.config.getoption
    session.stash[started] = Answers(
        [*wanted, *again], children, option("--switch-interval"), option("--through-alias")
    )


@pytest.fixture(scope="session")
def answers(request: pytest.FixtureRequest) -> Answers:
    """The answers to the cases that this session has collected."""
    return request.session.stash[started]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the cases that still run, if the session ends before they do."""
    if started in session.stash:
        session.stash[started].stop()
