"""What Python keeps per process, thread or context, read and written from every place, and what later readers see.

One program per thing of `zoo/interpreter.txt`: how to read, write and restore it, and what must be defined first. Each place of
`zoo/places.txt` reads it, writes it, and reads it again in a later call: a task, an actor, an async actor, a threaded actor, a
thread that a task starts. After each, the driver looks whether its own has changed; in the end the driver writes, and tasks
and actors, old and new, look.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.differential.program import Program, Statement
from tests.differential.rules import table

ACTORS = {
    "actor": "Actor.remote()",
    "async actor": "Async.remote()",
    "threaded actor": "Actor.options(max_concurrency=2).remote()",
}
PLACES = table("zoo/places.txt")


def programs() -> Iterator[Program]:
    """One program for each thing."""
    for thing in table("zoo/interpreter.txt"):
        found = list(statements(thing.about == "process", thing.alternatives))
        yield Program(
            f"interpreter-zoo-{thing.name}",
            tuple(Statement(f"interpreter.{thing.name}: {place}", text) for place, text in found),
        )


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
    for kind, make in ACTORS.items():
        one = kind.replace(" ", "_")
        yield kind, f"{one} = {make}"
        for place in PLACES:
            # Which thread of several runs a later call is chance.
            by_chance = place.name == "in a later call" and kind == "threaded actor" and not per_process
            if place.about == "actor" and not by_chance:
                yield f"{kind} {place.name}", filled(place.alternatives[0], {"$one": one, "$make": make})
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
