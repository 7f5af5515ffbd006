"""Reads the tables of this folder: the rules of the grammar in `rules/`, the kinds of the zoos in `zoo/`.

A table is sections of alternatives. An alternative starts with "- "; its further lines are indented by two:

    name (anything about it):
    - one alternative
    - another,
      of two lines
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass

HERE = pathlib.Path(__file__).parent
HEAD = re.compile(r"([\w. ]+?)(?: \((.*)\))?:")


@dataclass(frozen=True)
class Section:
    """One section of a table: its name, what stands in brackets behind it, its alternatives."""

    name: str
    about: str
    alternatives: tuple[str, ...]


def table(path: str) -> list[Section]:
    """The sections of a file, in order."""
    found: list[tuple[str, str, list[str]]] = []
    for line in (HERE / path).read_text(encoding="utf-8").splitlines():
        if line.startswith("-"):
            found[-1][2].append(line[2:])
        elif line.startswith("  "):
            found[-1][2][-1] += "\n" + line[2:]
        elif head := HEAD.fullmatch(line):
            found.append((head[1], head[2] or "", []))
        elif line and not line.startswith("#"):
            raise ValueError(f"{path}: {line!r} is neither a section nor an alternative")
    return [Section(name, about, tuple(alternatives)) for name, about, alternatives in found]


@dataclass(frozen=True)
class Area:
    """Statements about one part of the API. `weight`: how often programs are about it; `needs`: see `Program`."""

    statements: tuple[str, ...]
    weight: float
    needs: frozenset[str]


def area(section: Section) -> Area:
    """`(weight 0.5, needs threads)` as an area."""
    weight, _, needs = section.about.partition(", needs ")
    return Area(section.alternatives, float(weight.removeprefix("weight ")), frozenset(needs.split()))


TERMS = {s.name: s.alternatives for name in ("values", "parts", "arguments") for s in table(f"rules/{name}.txt")}
"""What may stand for a term."""

OBJECTS = {s.name: s.alternatives for s in table("rules/objects.txt")}
"""Kinds of variables, with the statements that define one."""

AREAS = {s.name: area(s) for s in table("rules/statements.txt")}
"""What programs ask, by area of the API."""

SHALLOW = {"value": "leaf", "body": "plain_body"}
"""What stands for a term when the text is deep enough."""
