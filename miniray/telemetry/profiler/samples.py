"""A profile: what the sampler saw, reduced to the program's frames, by task name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...observe.amounts import count
from ...observe.stacks.frames import programs_part
from .sampler import Node, Sampler

RUNNING, WAITING = "running", "waiting"
Place = tuple[str, str, int]  # a function: its name, its file, and the line in which it begins


class Stack:
    """A stack that the sampler has seen. name: of the task, of a thread of the driver, or "driver". places: the
    program's functions, the outermost first. samples: how often it was seen. running_s, waiting_s: for how long.
    ids: those of the task, the actor and the worker that it was seen in, each None if there was none, or several.
    last_us: when it was last seen, in microseconds since the epoch. lines: seconds by number of the innermost line."""

    __slots__ = ("name", "places", "samples", "running_s", "waiting_s", "ids", "last_us", "lines")

    def __init__(self, name: str, places: tuple[Place, ...]):
        self.name, self.places = name, places
        self.samples = self.last_us = 0
        self.ids: list[str | None] = [None, None, None]
        self.running_s = self.waiting_s = 0.0
        self.lines: dict[int, float] = {}

    @property
    def seconds(self) -> float:
        """For how long it was seen, running or waiting."""
        return self.running_s + self.waiting_s


class Samples:
    """What a profile has seen.

    hz: samples a second. began, seconds: when, in seconds since the epoch, and for how long. samples: how often the
    sampler has looked. spent_s: the time of a CPU that the sampler has used. stacks: the heaviest first. notes: what is
    missing, one sentence each.
    """

    def __init__(self, hz: float):
        self.hz = hz
        self.stacks: list[Stack] = []
        self.began = self.seconds = self.spent_s = 0.0
        self.samples = 0
        self.notes: list[str] = []

    def take(self, sampler: Sampler) -> None:
        """Take over what a sampler has seen, which has stopped."""
        self.began, self.seconds = sampler.began + sampler.epoch, sampler.ended - sampler.began
        self.samples, self.spent_s = sampler.samples, sampler.spent_s
        self.stacks = _reduced(sampler)
        if sampler.full:
            self.notes.append(
                f"{count(sampler.full, 'sample')} had calls that did not fit into the memory of the profile"
            )
        if sampler.problem is not None:
            self.notes.append(f"the sampler ended early: {sampler.problem!r}")

    def by_name(self) -> dict[str, list[Stack]]:
        """The stacks of each name, the heaviest name first."""
        found: dict[str, list[Stack]] = {}
        for stack in self.stacks:
            found.setdefault(stack.name, []).append(stack)
        return dict(sorted(found.items(), key=lambda item: -sum(stack.seconds for stack in item[1])))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each stack and state, in the columns of the table `stack_samples`: id, timestamp_us (when it was
        last seen), task_id, actor_id and worker_id (None for the driver, and if there were several), name, state
        ("running" or "waiting"), stack (function names with semicolons between them, the outermost first), samples."""
        found: list[dict[str, Any]] = []
        for stack in self.stacks:
            for state, share in ((RUNNING, stack.running_s), (WAITING, stack.waiting_s)):
                samples = round(stack.samples * share / stack.seconds) if stack.seconds else 0
                if samples:
                    found.append(
                        {
                            "id": len(found) + 1,
                            "timestamp_us": stack.last_us,
                            "task_id": stack.ids[0],
                            "actor_id": stack.ids[1],
                            "worker_id": stack.ids[2],
                            "name": stack.name,
                            "state": state,
                            "stack": ";".join(place[0].replace(";", ":") for place in stack.places),
                            "samples": samples,
                        }
                    )
        return found

    def asdict(self) -> dict[str, Any]:
        """The samples as plain data, from which `from_dict` makes it again."""
        facts = {key: getattr(self, key) for key in ("hz", "began", "seconds", "spent_s", "samples", "notes")}
        return {**facts, "stacks": [{slot: getattr(one, slot) for slot in Stack.__slots__} for one in self.stacks]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Samples:
        """The samples that `asdict` described, also after a way through JSON."""
        made = cls(data["hz"])
        for key in ("began", "seconds", "spent_s", "samples", "notes"):
            setattr(made, key, data[key])
        for one in data["stacks"]:
            stack = Stack(one["name"], tuple((place[0], place[1], place[2]) for place in one["places"]))
            for slot in ("samples", "running_s", "waiting_s", "ids", "last_us"):
                setattr(stack, slot, one[slot])
            stack.lines = {int(line): seconds for line, seconds in one["lines"].items()}
            made.stacks.append(stack)
        return made


def _reduced(sampler: Sampler) -> list[Stack]:
    """The stacks of a sampler's trees without the frames that are not the program's, the heaviest first."""
    merged: dict[tuple[str, tuple[Place, ...]], Stack] = {}
    for name, root in sampler.roots.items():
        for path, node in _leaves(root):
            codes = [one.code for one in path if one.code is not None]
            kept = programs_part(codes)
            if not kept and not node.ran:
                continue  # a thread of a worker that waits for work
            places = tuple(_place(codes[n]) for n in kept)
            stack = merged.get((name, places))
            if stack is None:
                stack = merged[name, places] = Stack(name, places)
                stack.ids = list(node.ids)
            _add(stack, node, sampler.epoch, bool(kept) and kept[-1] == len(codes) - 1)
    return sorted(merged.values(), key=lambda stack: -stack.seconds)


def _place(code: Any) -> Place:
    return getattr(code, "co_qualname", code.co_name), code.co_filename, code.co_firstlineno


def _add(stack: Stack, node: Node, epoch: float, innermost: bool) -> None:
    """Add what a node saw. innermost: its function is the innermost one that is shown, so its lines count."""
    stack.samples += node.samples
    stack.running_s += node.ran
    stack.waiting_s += node.waited if stack.places else 0.0  # without a call of the program it is idle
    stack.last_us = max(stack.last_us, int((node.last + epoch) * 1e6))
    stack.ids = [id if id == other else None for id, other in zip(stack.ids, node.ids)]
    if innermost:
        for line, seconds in node.lines.items():
            stack.lines[line] = stack.lines.get(line, 0.0) + seconds


def _leaves(root: Node) -> Iterator[tuple[list[Node], Node]]:
    """Each node that was the innermost call, with the path to it. Without recursion: a stack may be deep."""
    path: list[Node] = []
    todo: list[tuple[int, Node]] = [(0, root)]
    while todo:
        depth, node = todo.pop()
        del path[depth:]
        path.append(node)
        if node.samples:
            yield path, node
        todo += [(depth + 1, child) for child in node.children.values()]
