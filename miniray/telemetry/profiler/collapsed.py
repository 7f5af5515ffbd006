"""A profile as collapsed stacks, one line each: `name;outer;inner;[waiting] 12`. Brendan Gregg's flamegraph.pl,
speedscope and inferno read them. The number counts samples."""

from __future__ import annotations

from collections.abc import Iterator

from ...observe.escape import escaped
from .samples import WAITING, Samples


def collapsed(profile: Samples) -> Iterator[str]:
    """Yield the lines. A stack that only waits ends in `[waiting]`, so that waiting is a bar of its own."""
    for row in profile.rows():
        words = [part(row["name"]), *row["stack"].split(";")]
        if row["state"] == WAITING:
            words.append("[waiting]")
        yield f"{';'.join(escaped(word) for word in words if word)} {row['samples']}\n"


def part(text: str) -> str:
    """A name as a part of a line: without the separator."""
    return text.replace(";", ":")
