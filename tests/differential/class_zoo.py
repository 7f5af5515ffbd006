"""Every kind of class, function, error and value that Python can make, along every route that Ray carries a value.

The kinds stand in `zoo/`: how each is defined, how one is made, how it is used as `v`. The routes stand in `zoo/routes.txt`:
each kind is an argument, a result, a `put` value, in a closure, in
an actor's state, made inside a task, and put to use there; a class is an actor's class as well, and an error is raised.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.differential.program import Program, Statement
from tests.differential.rules import HERE, table

PER_PROGRAM = 5

(SETTING,) = table("zoo/class_setting.txt")
ROUTES = table("zoo/routes.txt")


def statements(kind: str, name: str, definition: str, make: str, use: str) -> list[Statement]:
    """All routes of one kind. Each route says which kind it is about, so that it stands when others are left out."""
    variable = f"v_{name}"
    found = [Statement(f"zoo.{name}: define", f"{definition}\n{variable} = {make}".lstrip("\n"))]
    for route in ROUTES:
        if route.about in ("every", kind) or route.about == "used" and use:
            text = (
                route.alternatives[0].replace("$make", f"({make})").replace("$use", use or "1").replace("$name", name)
            )
            found.append(Statement(f"zoo.{name}: {route.name}", f"v = {variable}\n{text}"))
    return found


def all_kinds() -> Iterator[tuple[str, str, str, str, str]]:
    """(kind, name, definition, how one is made, how it is used), in order."""
    for kind, file in {"class": "classes", "function": "functions", "error": "errors"}.items():
        for section in table(f"zoo/{file}.txt"):
            yield kind, section.name, *padded(section.alternatives)
    for line in (HERE / "zoo/simple_values.txt").read_text(encoding="utf-8").splitlines():
        name, _, make = line.partition(" = ")
        yield "value", name, "", make, ""
    for section in table("zoo/values.txt"):
        yield "value", section.name, *padded(section.alternatives)


def padded(texts: tuple[str, ...]) -> tuple[str, str, str]:
    """Definition, making and use; not every kind has a use."""
    definition, make, *use = texts
    return definition, make, use[0] if use else ""


def programs() -> Iterator[Program]:
    """The whole zoo, some kinds to a program."""
    kinds = list(all_kinds())
    setting = Statement("zoo: setting", SETTING.alternatives[0])
    for start in range(0, len(kinds), PER_PROGRAM):
        some = kinds[start : start + PER_PROGRAM]
        body = [s for kind in some for s in statements(*kind)]
        yield Program(f"class-zoo-{some[0][1]}", (setting, *body))
