"""inspect_serializability: what it answers, and what its report tells."""

import io
import threading

import pytest

from miniray.values.inspect_serializability import FailureTuple, inspect_serializability

LOCK = threading.Lock()


class Holder:
    """An object that holds what cannot be sent."""

    def __init__(self):
        self.fine, self.lock = 1, LOCK


def uses_lock():
    """By a global; sent by value in the tests, since it is wrapped there."""
    return LOCK


def inspect(value, **options):
    """The answer, and the report."""
    report = io.StringIO()
    good, failures = inspect_serializability(value, print_file=report, **options)
    return good, failures, report.getvalue()


@pytest.mark.parametrize("value", [1, [1, {"a": (2,)}], lambda: 1, Holder, None])
def test_what_can_be_sent_has_no_failures(value):
    """Importable classes are sent by name, whatever they hold."""
    good, failures, report = inspect(value)
    assert good is True and failures == set()
    assert report.startswith("=") and "Checking Serializability of" in report


def test_the_attribute_that_fails_is_named():
    """obj is the part, path the names that lead to it, parent what holds it."""
    holder = Holder()
    good, failures, report = inspect(holder, name="holder")
    (failure,) = failures
    assert good is False
    assert failure.obj is LOCK and failure.path == ("holder", "lock") and failure.parent is holder
    assert "Serializing 'lock'" in report and ".lock is <unlocked" in report


def test_the_variable_of_a_closure_that_fails_is_named():
    """Of a function, its globals and its closure are looked at."""
    held = Holder()

    def closes_over():
        return held

    _, failures, report = inspect(closes_over)
    (failure,) = failures
    assert failure.obj is LOCK and failure.path == ("held", "lock") and failure.parent is held
    assert repr(failure).startswith("FailTuple(lock [path=held -> lock, obj=")
    assert "closure variable 'held' of closes_over -> .lock is" in report


def test_the_depth_bounds_the_search():
    """At depth 1 only the first level is looked at; at depth 0 only the value itself."""
    held = Holder()

    def closes_over():
        return held

    assert {failure.path for failure in inspect(closes_over, name="f", depth=1)[1]} == {("f", "held")}
    assert {failure.path for failure in inspect(closes_over, name="f", depth=0)[1]} == {("f",)}


def test_a_list_is_reported_as_a_whole_but_the_report_leads_inside():
    """The answer is Ray's, which does not look into containers."""
    value = [1, {"k": LOCK}]
    _, failures, report = inspect(value)
    (failure,) = failures
    assert failure.obj is value and failure.path == () and failure.parent is None
    assert "[1]['k'] is <unlocked" in report


def test_a_failure_has_the_fields_of_rays():
    """Programs read them by name."""
    failure = FailureTuple(1, ("a", "b"), 2)
    assert (failure.obj, failure.path, failure.parent) == (1, ("a", "b"), 2)
    assert repr(failure) == "FailTuple(b [path=a -> b, obj=1, parent=2])"
