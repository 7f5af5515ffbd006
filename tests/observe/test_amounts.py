"""Numbers in texts: one of something is in the singular, with its verb."""

import pytest

from miniray.observe import amounts
from miniray.telemetry.export.exporter import NOUNS, _were


def test_the_noun_and_the_verb_follow_the_number():
    assert [amounts.count(number, "sample") for number in (0, 1, 2, 1234)] == [
        "0 samples",
        "1 sample",
        "2 samples",
        "1,234 samples",
    ]
    assert amounts.count_verb(1, "older task", "is") == "1 older task is"
    assert amounts.count_verb(12, "older task", "has") == "12 older tasks have"
    assert amounts.rows_are(1, "tasks") == "1 row of tasks is" and amounts.rows_are(0, "") == "0 rows are"
    assert amounts.rows_are("some", "tasks") == "some rows of tasks are"


@pytest.mark.parametrize("signal", NOUNS)
def test_the_counts_of_the_export_too(signal):
    for one, more in NOUNS[signal]:
        assert _were(1, one, more) == f"1 {one} was" and _were(1000, one, more) == f"1,000 {more} were"
