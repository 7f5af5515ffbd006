"""Metrics of the program's finalisers, which the collector calls in the middle of anything."""

import gc
import itertools

import pytest

from miniray.observe.metrics import registry
from miniray.util.metrics import Counter, export_text, snapshot, unregister


class MakesMetrics:
    """A cycle whose finaliser makes a metric, and a series of another one."""

    made = itertools.count()

    def __init__(self, other):
        self.me, self.other = self, other

    def __del__(self):
        number = next(self.made)
        Counter(f"made_{number}").inc()
        self.other.inc(1, {"a": str(number)})


@pytest.mark.parametrize(
    "look",
    [
        lambda other: snapshot(),
        lambda other: other.snapshot(),
        lambda other: other.snapshot(all_workers=True),
        lambda other: export_text(),
        lambda other: registry.curves(0.0),
        lambda other: unregister("unknown"),
    ],
    ids=["snapshot", "snapshot of one", "snapshot of all workers", "export_text", "curves", "unregister"],
)
def test_a_finaliser_may_make_a_metric_while_others_are_listed(look):
    """The collector runs it in the middle of the loop over the tables: "dictionary changed size during iteration"."""
    other, thresholds = Counter("other", tag_keys=("a",)), gc.get_threshold()
    for number in range(20):
        Counter(f"metric_{number}").inc()
        other.inc(1, {"a": f"kept {number}"})
    try:
        for after in range(1, 80):
            MakesMetrics(other)
            gc.set_threshold(after, 1, 1)
            look(other)
            gc.set_threshold(*thresholds)
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert next(MakesMetrics.made) >= 79
