"""A profile in the format of speedscope (https://www.speedscope.app/file-format-schema.json): one of its profiles for
each task name, and in each the stacks with the seconds for which they were seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..._version import __version__
from ...observe.escape import escaped
from .samples import Place, Samples, Stack

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
WAITING = "[waiting]"  # the innermost frame of a stack that waits, so that speedscope shows waiting as a bar of its own


def speedscope(profile: Samples) -> Iterator[str]:
    """Yield the file. Its first profile has everything, each name as the outermost frame; then comes one for each name,
    the heaviest first."""
    frames: dict[Any, int] = {}
    listed: list[dict[str, Any]] = []

    def frame(key: Any, **facts: Any) -> int:
        if key not in frames:
            frames[key] = len(listed)
            listed.append(facts)
        return frames[key]

    def place(one: Place) -> int:
        return frame(one, name=escaped(one[0]), file=escaped(one[1]), line=one[2])

    def sampled(title: str, stacks: list[Stack], named: bool) -> dict[str, Any]:
        samples, weights = [], []
        for stack in stacks:
            whole = [frame(stack.name, name=escaped(stack.name))] if named else []
            whole += map(place, stack.places)
            for seconds, more in ((stack.running_s, []), (stack.waiting_s, [frame(WAITING, name=WAITING)])):
                if seconds > 0:
                    samples.append(whole + more)
                    weights.append(round(seconds, 6))
        return {
            "type": "sampled",
            "name": escaped(title),
            "unit": "seconds",
            "startValue": 0,
            "endValue": round(sum(weights), 6),
            "samples": samples,
            "weights": weights,
        }

    names = profile.by_name()
    profiles = [sampled("all", profile.stacks, True), *(sampled(name, names[name], False) for name in names)]
    yield json.dumps(
        {
            "$schema": SCHEMA,
            "name": "miniray profile",
            "exporter": f"miniray@{__version__}",
            "activeProfileIndex": 0,
            "shared": {"frames": listed},
            "profiles": profiles,
        }
    )
