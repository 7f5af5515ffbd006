"""A worker has a rule written out, for results that need no pickling. Here the copy is compared with the rule itself."""

from __future__ import annotations

from typing import Any

import pytest

import miniray as ray
from miniray.runtime import worker

RESULTS: list[Any] = [7, [1], None, ValueError(), 0.5, "text", True, ray.put, -1]


@ray.remote
def give(number: int) -> Any:
    """Return or raise a result, or return a list with a reference in place of the function `put`."""
    result = RESULTS[number]
    if isinstance(result, ValueError):
        raise result
    return [ray.put(0)] if result is ray.put else result


def told(ref: Any) -> tuple[Any, ...]:
    """What the core was told about a task's result."""
    try:
        value = ray.get(ref)
    except ValueError as error:
        value = type(error).__name__
    obj = ref._record
    assert 0 < obj.task.t_started <= obj.task.t_ended <= obj.t_ready
    return type(value), str(value) * (not obj.contained), obj.status, obj.size, len(obj.contained), obj.task.status


def test_a_result_that_needs_no_pickling_is_reported_as_any_other(monkeypatch: pytest.MonkeyPatch):
    """`run_attempt` against `outcome_of_return`. One worker gives all results, and uses one outcome again and again."""
    found = []
    for sizes in worker.SIZES, {}:
        monkeypatch.setattr(worker, "SIZES", sizes)
        ray.init(num_cpus=1, log_to_driver=False)
        found.append([told(ref) for ref in [give.remote(number) for number in range(len(RESULTS))]])
        ray.shutdown()
    assert found[0] == found[1] and found[0][0][:2] == (int, "7")
