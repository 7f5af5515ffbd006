"""Programs from a seed: the rules of `rules/`, expanded at random.

A rule's text has slots:

    $word       a term: one of its alternatives, expanded in turn (values.txt, parts.txt, arguments.txt)
    $kind       a variable of a kind (a function, a reference, an actor ...): one that the program has, or a new one, whose
                defining statement is written first (objects.txt)
    $+kind      the name of the variable that this statement defines
    $u          a name that no other program uses

The lines of what stands for a slot are indented as the slot's line is.
A digit at a slot's end (`$value1`) makes it stand for the same text throughout its statement.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from tests.differential.program import Program, Statement
from tests.differential.rules import AREAS, OBJECTS, SHALLOW, TERMS

SLOT = re.compile(r"\$(\+?)([a-z_]+)(\d?)")
DEEPEST = 4
REUSE = 0.75
"""How often a variable that is there is taken, not a new one."""


class Writer:
    """Writes one program. Everything random comes from one generator, which the seed starts."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.variables: dict[str, list[str]] = {}
        self.statements: list[Statement] = []
        self.needs: set[str] = set()
        self._count = 0
        self._depth = 0

    def program(self, length: int, areas: Sequence[str]) -> Program:
        """A program of about so many statements about these areas, and those that these need."""
        # Few areas per program: its statements are then about each other.
        chosen = self.chance.choices(areas, [AREAS[a].weight for a in areas], k=3)
        for _ in range(length):
            area = self.chance.choice(chosen)
            self.write(area, self.chance.choice(AREAS[area].statements))
            self.needs |= AREAS[area].needs
        return Program(f"random-{self.seed}", tuple(self.statements), frozenset(self.needs))

    def write(self, kind: str, rule: str) -> None:
        """Add the statement that a rule makes, after those that define what it uses."""
        fixed: dict[str, str] = {}
        defined: list[tuple[str, str]] = []
        text = self._expand(rule, fixed, defined)
        self.statements.append(Statement(kind, text))
        for variable_kind, name in defined:
            self.variables.setdefault(variable_kind, []).append(name)

    def _expand(self, rule: str, fixed: dict[str, str], defined: list[tuple[str, str]]) -> str:
        def slot(found: re.Match[str]) -> str:
            is_new, word, digit = found.groups()
            if digit and word + digit in fixed:
                return fixed[word + digit]
            indent = re.match(" *", rule[: found.start()].rpartition("\n")[2])
            text = self._slot(word, bool(is_new), fixed, defined).replace(
                "\n", "\n" + (indent.group() if indent else "")
            )
            if digit:
                fixed[word + digit] = text
            return text

        return SLOT.sub(slot, rule)

    def _slot(self, word: str, is_new: bool, fixed: dict[str, str], defined: list[tuple[str, str]]) -> str:
        if is_new:
            name = self._name(word)
            defined.append((word, name))
            return name
        if word == "u":
            return f"{self._name('u')}_{re.sub('[^a-z0-9]', '_', self.seed)}"
        if word in OBJECTS:
            return self._variable(word)
        alternatives = self._alternatives(word)
        self._depth += 1
        try:
            return self._expand(self.chance.choice(alternatives), fixed, defined)
        finally:
            self._depth -= 1

    def _alternatives(self, word: str) -> Sequence[str]:
        if self._depth >= DEEPEST and word in SHALLOW:
            word = SHALLOW[word]
        return TERMS[word]

    def _variable(self, kind: str) -> str:
        known = self.variables.get(kind, [])
        if known and self.chance.random() < REUSE:
            return self.chance.choice(known)
        depth, self._depth = self._depth, 0
        self.write(f"define.{kind}", self.chance.choice(OBJECTS[kind]))
        self._depth = depth
        return self.variables[kind][-1]

    def _name(self, word: str) -> str:
        self._count += 1
        return f"{word}{self._count}"


def generate(seed: int | str, length: int = 8, areas: Sequence[str] = tuple(AREAS)) -> Program:
    """The program of a seed: the same for the same seed, on every Python and every machine."""
    return Writer(str(seed)).program(length, areas)
