"""The answer and the report of inspect_serializability."""

import io
import threading

import pytest

from miniray.values.inspect_serializability import FailureTuple, inspect_serializability

LOCK = threading.Lock()


class Holder:
    """An object that holds a lock, which cannot be sent."""

    def __init__(self):
        self.fine, self.lock = 1, LOCK


def inspect(value, **options):
    """Return the answer and the report."""
    report = io.StringIO()
    good, failures = inspect_serializability(value, print_file=report, **options)
    return good, failures, report.getvalue()


@pytest.mark.parametrize("value", [1, [1, {"a": (2,)}], lambda: 1, Holder, None])
def test_a_value_that_can_be_sent_has_no_failures(value):
    """An importable class is sent by name, whatever it holds."""
    good, failures, report = inspect(value)
    assert good is True and failures == set()
    assert report.startswith("=") and "Checking Serializability of" in report


def test_the_attribute_that_fails_is_named():
    """obj is the part, path the names that lead to it, and parent the object that holds it."""
    holder = Holder()
    good, failures, report = inspect(holder, name="holder")
    (failure,) = failures
    assert good is False
    assert failure.obj is LOCK and failure.path == ("holder", "lock") and failure.parent is holder
    assert "Serializing 'lock'" in report and ".lock is <unlocked" in report


def test_the_variable_of_a_closure_that_fails_is_named():
    """The search covers the globals and the closure of a function."""
    held = Holder()

    def closes_over():
        return held

    _, failures, report = inspect(closes_over)
    (failure,) = failures
    assert failure.obj is LOCK and failure.path == ("held", "lock") and failure.parent is held
    assert repr(failure).startswith("FailTuple(lock [path=held -> lock, obj=")
    assert "closure variable 'held' of closes_over -> .lock is" in report


def test_the_depth_bounds_the_search():
    """Depth 1 covers the first level only, and depth 0 only the value itself."""
    held = Holder()

    def closes_over():
        return held

    assert {failure.path for failure in inspect(closes_over, name="f", depth=1)[1]} == {("f", "held")}
    assert {failure.path for failure in inspect(closes_over, name="f", depth=0)[1]} == {("f",)}


def test_the_answer_names_a_list_and_the_report_the_path_inside():
    """The answer is that of Ray, which does not search containers."""
    value = [1, {"k": LOCK}]
    _, failures, report = inspect(value)
    (failure,) = failures
    assert failure.obj is value and failure.path == () and failure.parent is None
    assert "[1]['k'] is <unlocked" in report


def test_a_failure_has_the_fields_of_rays():
    """Programs read these fields by name."""
    failure = FailureTuple(1, ("a", "b"), 2)
    assert (failure.obj, failure.path, failure.parent) == (1, ("a", "b"), 2)
    assert repr(failure) == "FailTuple(b [path=a -> b, obj=1, parent=2])"
