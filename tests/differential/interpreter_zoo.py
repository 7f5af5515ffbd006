"""What Python keeps per process, thread or context, read and written from every place, and what later readers see.

The things stand in `zoo/interpreter.txt`: how to read, write and restore it, and what must be defined first. Each place of
`zoo/places.txt` reads it, writes it, and reads it again in a later call: a task, an actor, an async actor, a threaded actor, a
thread that a task starts. After each, the driver looks whether its own has changed; in the end the driver writes, and tasks
and actors, old and new, look.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.differential.program import Program, Statement
from tests.differential.rules import table

ACTORS = ("actor", "async actor", "threaded actor")
PLACES = table("zoo/places.txt")
PER_PROGRAM = 5


def programs() -> Iterator[Program]:
    """Some things to a program: they share its actors, each of which is a process on Ray."""
    (shared,) = (place.alternatives[0] for place in PLACES if place.about == "shared")
    things = table("zoo/interpreter.txt")
    for start in range(0, len(things), PER_PROGRAM):
        some = things[start : start + PER_PROGRAM]
        body = [
            Statement(f"interpreter.{thing.name}: {place}", text)
            for thing in some
            for place, text in statements(thing.about == "process", thing.alternatives)
        ]
        yield Program(f"interpreter-zoo-{some[0].name}", (Statement("interpreter: setting", shared), *body))


def statements(per_process: bool, parts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(place, statement) for a thing: how to read, write, restore it, and what must be defined first."""
    read, write, restore, *names = parts
    slots = {
        "$names": "".join(names),
        "$read": read,
        "$write": indented(write),
        "$restore": indented(restore or "pass"),
    }
    for place in PLACES:
        if place.about in ("setting", "first"):
            yield place.name, filled(place.alternatives[0], slots)
    for kind in ACTORS:
        for place in PLACES:
            # Which thread of several runs a later call is chance.
            by_chance = place.name == "in a later call" and kind == "threaded actor" and not per_process
            if place.about == "actor" and not by_chance:
                yield f"{kind} {place.name}", filled(place.alternatives[0], {"$one": kind.replace(" ", "_")})
    for place in PLACES:
        if place.about == "last":
            yield place.name, place.alternatives[0]


def filled(text: str, slots: dict[str, str]) -> str:
    """A text with something in each slot."""
    for slot, what in slots.items():
        text = text.replace(slot, what)
    return text


def indented(text: str) -> str:
    """Lines for the body of a function; the first stands where the slot does."""
    return text.replace("\n", "\n    ")
