"""The marker `simulate`: how a test that has it is run, see `plugin`."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

ARGUMENTS = (
    "seeds",
    "strategy",
    "faults",
    "max_steps",
    "max_virtual_s",
    "depth",
    "max_schedules",
    "shrink",
    "quiet",
    "watchdog_s",
)


class NeverMetWarning(UserWarning):
    """No run of a simulated test met a condition of `sometimes`."""


_explored = pytest.StashKey[bool]()  # whether `explore` has run the test


def explore_test(item: pytest.Function, function: Any, arguments: dict[str, Any]) -> None:
    """Run the function of a test under many schedules, as its marker says."""
    from .exploring.exploration import ExplorationFailure, explore
    from .exploring.simulation import globals_of

    for name in item.fixturenames:
        if name.startswith("miniray_cluster"):
            pytest.fail(
                f"{item.nodeid} has the marker simulate and the fixture {name}, which starts a session outside of the "
                "simulation: leave out the fixture, and start the session in the test",
                pytrace=False,
            )
    item.stash[_explored] = True
    given = _arguments(item)

    def program() -> Any:
        return function(**arguments)

    program.__qualname__ = item.name
    try:
        found = explore(program, globals_=globals_of(function), **given)
    except ExplorationFailure as failure:
        _put_in_place_of_its_cause(failure)
        raise
    if found.never and found.runs > 1:
        warnings.warn(
            f"{item.nodeid}: none of {found.runs} runs met {', '.join(map(repr, found.never))}",
            NeverMetWarning,
            stacklevel=1,
        )


def _put_in_place_of_its_cause(failure: BaseException) -> None:
    """Let the failure of an exploration stand where the error stood that a run raised.

    So a report shows the line of the test, and then the failure's text, which includes the error's. Of its own, the
    failure has frames of pytest and miniray only, which would be shown between the two.
    """
    from .exploring.error_text import of_every_error

    error = failure.__cause__
    if error is not None and of_every_error(error, "__traceback__") is not None:
        failure.__traceback__ = of_every_error(error, "__traceback__")
        failure.__context__ = of_every_error(error, "__context__")
        failure.__cause__ = of_every_error(error, "__cause__")
        failure.__suppress_context__ = of_every_error(error, "__suppress_context__")


def _arguments(item: pytest.Function) -> dict[str, Any]:
    """The arguments of `explore` from a test's marker. Fails the test if they are wrong."""
    from .exploring import arguments
    from .exploring.fault_plan import check_faults

    marker = item.get_closest_marker("simulate")
    assert marker is not None
    given: dict[str, Any] = dict(marker.kwargs)
    problem = ""
    unknown = [name for name in given if name not in ARGUMENTS]
    if unknown:
        problem = f"it has no argument {unknown[0]!r}; its arguments are {', '.join(ARGUMENTS)}"
    elif len(marker.args) > 1 or marker.args and "seeds" in given:
        problem = f"it takes one argument without a name, the seeds, not {', '.join(map(repr, marker.args))}"
    elif marker.args:
        given["seeds"] = marker.args[0]
    try:
        if "seeds" in given:
            given["seeds"] = arguments.seeds_of(given["seeds"])
        if not problem:
            check_faults(given.get("faults"))
            others = {name: value for name, value in given.items() if name not in ("seeds", "faults")}
            arguments.check_exploration(**others)
    except (TypeError, ValueError) as error:
        problem = problem or str(error)
    if problem:
        pytest.fail(f"the marker simulate of {item.nodeid} is wrong: {problem}", pytrace=False)
    only = item.config.getoption("simulate_seed")
    if only is not None:
        given.update(seeds=[only], quiet=False, watchdog_s=0)
    return given


@contextmanager
def exploring(item: pytest.Item) -> Iterator[None]:
    """The block runs a test with the marker `simulate`: let `explore` run it, or fail the test.

    pytest does not call the method of a TestCase itself: unittest does. So the method is replaced by one that explores.
    """
    item.stash[_explored] = False
    method: Any = None
    if _is_of_unittest(item):
        function: Any = item
        method = function.obj
        function.obj = _exploring_method(function, method)
    try:
        yield
    finally:
        if method is not None:
            function.obj = method
    if not item.stash[_explored] and not getattr(item, "_excinfo", None):  # unittest notes what a test raises there
        pytest.fail(
            f"the marker simulate had no effect on {item.nodeid}: it needs a test function or a test's method, and no "
            "other plugin that runs the test",
            pytrace=False,
        )


def _is_of_unittest(item: pytest.Item) -> bool:
    case = getattr(sys.modules.get("unittest"), "TestCase", None)
    return case is not None and isinstance(getattr(item, "instance", None), case)


def _exploring_method(item: Any, method: Any) -> Any:
    @functools.wraps(method)
    def explore() -> None:
        outcome = getattr(item.instance, "_outcome", None)
        if outcome is not None:
            outcome.result_supports_subtests = False  # then a failure in a `subTest` fails the run
        explore_test(item, method, {})

    del explore.__wrapped__  # it is no coroutine function, though the method may be one
    return explore
