"""A program: statements in order, each a few lines of Python that run at the top level of `__main__`, one by one.

A statement has a kind, which is how differences are told apart. Its lines may refer to what earlier statements define. If it
fails, its error is a line of its answer and the next statement runs; so any part of a program is a program, and can be shrunk.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
from dataclasses import asdict, dataclass, field
from typing import Any

PRELUDE = pathlib.Path(__file__).with_name("prelude.py")


@dataclass(frozen=True)
class Statement:
    """Some lines of Python, and what they try: `actor.names`, `zoo.value.Decimal as result`."""

    kind: str
    text: str


@dataclass(frozen=True)
class Program:
    """Statements, and where they can run. `needs`: "dashboard" (a session with one), "threads" (not in local_mode), "fresh" (a
    session of its own, since it changes what its workers keep)."""

    name: str
    statements: tuple[Statement, ...]
    needs: frozenset[str] = field(default_factory=frozenset)

    @property
    def text(self) -> str:
        """The whole program, without its prelude."""
        return "".join(f"# {s.kind}\n{s.text}\n" for s in self.statements)

    @property
    def key(self) -> str:
        """The same for the same text and needs: under it an answer is kept."""
        return hashlib.sha256(
            f"{sorted(self.needs)}{PRELUDE.read_text(encoding='utf-8')}{self.text}".encode()
        ).hexdigest()[:24]

    def script(self) -> str:
        """A file that runs by itself, on Ray as it is, on miniray under `python -m miniray run`."""
        return (
            f"# {self.name}\nimport ray\n\n{PRELUDE.read_text(encoding='utf-8')}\n\n"
            f"ray.init(num_cpus=2, log_to_driver=False)\n{self.text}"
        )

    def to_json(self) -> str:
        """For the process that runs it."""
        return json.dumps({**asdict(self), "needs": sorted(self.needs)})

    @staticmethod
    def from_json(text: str) -> Program:
        """What `to_json` wrote."""
        found: dict[str, Any] = json.loads(text)
        statements = tuple(Statement(**s) for s in found["statements"])
        return Program(found["name"], statements, frozenset(found["needs"]))

    def with_statements(self, statements: list[Statement]) -> Program:
        """The same program with other statements: some of them left out."""
        return Program(self.name, tuple(statements), self.needs)
