"""The words of an explanation: how a sentence calls records and amounts, and how it joins the steps of a chain.

A `Link` is one step, from one record to the next. Its name and phrase make a clause, "task a waits for its argument
from"; the next step continues the sentence: "task b, which needs 2 GPU, ...".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Union

from ...core.records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    UNIT,
    ActorRecord,
    ObjectRecord,
    PlacementGroupRecord,
    StreamRecord,
    TaskRecord,
    amounts,
)
from ..amounts import count
from ..state.lookup import object_id

Record = Union[TaskRecord, ActorRecord, PlacementGroupRecord, ObjectRecord, StreamRecord]
KINDS: dict[type, str] = {TaskRecord: "task", ActorRecord: "actor", PlacementGroupRecord: "placement_group"}
LINKS_SPOKEN = 6  # a sentence tells a longer chain by its first links and its last one
LINKS_KEPT = 1_000  # an explanation keeps so many links as data
HOLDERS_SPOKEN = 5  # a sentence names so many holders of a resource, or groups of holders that look alike


@dataclass(slots=True)
class Link:
    """One step of an explanation.

    name: what a sentence calls the record. reason: a short word. phrase: the predicate of the clause; if there is a
    `next`, the phrase ends where the name of `next` follows. details: the same as data. next: the record to ask next.
    names_next: whether the phrase ends with words for `next` already ("its constructor").
    """

    kind: str
    id: str
    name: str
    reason: str
    phrase: str
    details: dict[str, Any] = field(default_factory=dict)
    next: Record | None = None
    names_next: bool = False


@dataclass
class Explanation:
    """Why something does not go on. Its str() is the sentence.

    reason: a short word for the end of the chain, or "deadlock". kind, id, name: what was asked about. chain: each step
    as a dict with kind, id, name, reason, text and details. details: those of the last step, which is the cause.
    """

    reason: str
    sentence: str
    kind: str = ""
    id: str = ""
    name: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    chain: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        """What a notebook shows: the sentence, and the steps if there are several."""
        from ..notebook import cell, table  # only a notebook needs it

        rows = [{"": link["text"], "reason": link["reason"]} for link in self.chain]
        return f"<p>{cell(self.sentence, 2_000)}</p>" + (table(rows) if len(rows) > 1 else "")

    def asdict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self)


# ------------------------------------------------------------ from links to a sentence


def link_from(record: Record, reason: str, phrase: str, next: Record | None = None, **details: Any) -> Link:
    """The step from a record, under its own kind, id and name."""
    kind, id = identity(record)
    return Link(kind, id, name_of(record), reason, phrase, details, next)


def tell(record: Record, links: list[Link], reason: str, prefix: str = "") -> Explanation:
    """The explanation for a record.

    links: one or more, from the record on. If the last one has a `next`, the chain is a circle, and the sentence ends
    with the name of that record.
    """
    spoken = links if len(links) <= LINKS_SPOKEN else links[: LINKS_SPOKEN - 1]
    sentence = f"{prefix}{links[0].name} {links[0].phrase}"
    for before, link in zip(spoken, spoken[1:]):
        sentence += f" {link.phrase}" if before.names_next else f" {link.name}, which {link.phrase}"
    last = links[-1]
    if len(spoken) < len(links):
        left_out = len(links) - len(spoken) - 1
        sentence += f" {links[len(spoken)].name}; {count(left_out, 'step')} further on, {last.name} {last.phrase}"
    if last.next is not None:
        sentence += f" {name_of(last.next)}"
    chain = [
        {
            "kind": link.kind,
            "id": link.id,
            "name": link.name,
            "reason": link.reason,
            "text": f"{link.name} {link.phrase}",
            "details": link.details,
        }
        for link in links[:LINKS_KEPT]
    ]
    kind, id = identity(record)
    return Explanation(reason, sentence, kind, id, name_of(record), last.details, chain)


# ------------------------------------------------------------ names of records


def identity(record: Record) -> tuple[str, str]:
    """The kind of a record, and its id. A stream has the id of the object that becomes ready when the stream ends."""
    if isinstance(record, StreamRecord):
        return "object", record.task.returns[0].hex if record.task.returns else record.task.hex
    return KINDS.get(type(record), "object"), object_id(record) if isinstance(record, ObjectRecord) else record.hex


def name_of(record: Record) -> str:
    """What a sentence calls a record."""
    if isinstance(record, TaskRecord):
        if record.spec.kind == ACTOR_CREATION_TASK and record.actor is not None:
            return f"the constructor of {name_of(record.actor)}"
        return f"{'call' if record.spec.kind == ACTOR_TASK else 'task'} {record.spec.name}"
    if isinstance(record, ActorRecord):
        return f"actor {record.class_name.rpartition('.')[2]}" + (f" named {record.name!r}" if record.name else "")
    if isinstance(record, PlacementGroupRecord):
        return f"placement group {record.name!r}" if record.name else f"placement group {record.hex[-16:-8]}"
    if isinstance(record, StreamRecord):
        return f"the consumer of {name_of(record.task)}"
    return "a put object" if record.task is None else f"the result of {name_of(record.task)}"


def _several(number: int, name: str) -> str:
    """So many records that have the same name: `4 actors Shard`."""
    for noun in ("placement group", "actor", "task", "call"):
        if name.startswith(f"{noun} "):
            return f"{count(number, noun)}{name.removeprefix(noun)}"
    return f"{number} times {name}"


# ------------------------------------------------------------ amounts of resources


def spell(resources: dict[str, int]) -> str:
    """Amounts of resources: `2 CPU and 0.5 GPU`. Amounts of zero are left out."""
    said = [f"{amount:g} {name}" for name, amount in amounts(resources).items() if amount]
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1]))) if said else "no resources"


def spell_of(total: dict[str, int], names: Iterable[str]) -> str:
    """How much there is of each of these resources, also where it is zero."""
    return " and ".join(f"{total.get(name, 0) / UNIT:g} {name}" for name in names)


def spell_bundles(group: PlacementGroupRecord) -> str:
    """The bundles of a placement group: `2 bundles of 1 CPU each and 1 bundle of 4 CPU`."""
    alike: dict[str, int] = {}
    for bundle in group.bundles:
        said = spell(bundle.total)
        alike[said] = alike.get(said, 0) + 1
    return " and ".join(
        f"{count(number, 'bundle')} of {said}{' each' if number > 1 else ''}" for said, number in alike.items()
    )


def spell_holders(held: list[dict[str, Any]]) -> str:
    """Who holds a resource, the largest holders first: `task load holds 2 CPU, 4 actors Shard hold 1 CPU each`.

    held: a dict with holder (its name), id, resource and amount for everything that is held. What one holder has of one
    resource is added up; holders that have the same name and hold the same amount are counted.
    """
    if not held:
        return "they are being released at this moment"
    sums: dict[tuple[str, str, str], float] = {}
    for one in held:
        key = one["id"], one["holder"], one["resource"]
        sums[key] = sums.get(key, 0) + one["amount"]
    alike: dict[tuple[str, str, float], int] = {}
    for (_, name, resource), amount in sorted(sums.items(), key=lambda entry: -entry[1]):
        alike[name, resource, amount] = alike.get((name, resource, amount), 0) + 1
    said = [
        f"{name} holds {amount:g} {resource}"
        if number == 1
        else f"{_several(number, name)} hold {amount:g} {resource} each"
        for (name, resource, amount), number in alike.items()
    ]
    rest = sum(list(alike.values())[HOLDERS_SPOKEN:])
    more = [f"and {count(rest, 'other')} hold{'s' if rest == 1 else ''} the rest"] if rest else []
    return ", ".join([*said[:HOLDERS_SPOKEN], *more])
