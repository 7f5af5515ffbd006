"""What a run has found: distinct causes, each with its smallest program, and how fast new ones still come."""

from __future__ import annotations

import pathlib
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.differential.compare import Difference, Signature
from tests.differential.program import Program


@dataclass
class Cause:
    """One cause: the first program that showed it, shrunk."""

    program: Program
    difference: Difference


@dataclass
class Report:
    """Collects differences by signature, from any thread. `folder` holds a file for each cause, and CAUSES.md with all."""

    folder: pathlib.Path
    started: float = field(default_factory=time.monotonic)
    programs: int = 0
    statements: int = 0
    differences: int = 0
    unstable: int = 0
    known: Counter[str] = field(default_factory=Counter)
    causes: dict[Signature, Cause] = field(default_factory=dict)
    seen: Counter[Signature] = field(default_factory=Counter)
    first: dict[Signature, int] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def count(self, signature: Signature) -> bool:
        """Note a difference. True if its cause has been found before, or is on the portability page."""
        with self.lock:
            self.differences += 1
            if signature.known:
                self.known[signature.known] += 1
                return True
            self.seen[signature] += 1
            self.first.setdefault(signature, self.programs)
            return signature in self.causes

    def add(self, program: Program, difference: Difference) -> None:
        """A new cause, with its shrunk program."""
        with self.lock:
            self._add(program, difference)

    def _add(self, program: Program, difference: Difference) -> None:
        if difference.signature in self.causes:
            return
        self.causes[difference.signature] = Cause(program, difference)
        name = re.sub("[^A-Za-z0-9]+", "_", str(difference.signature))[:70]
        path = self.folder / "programs" / f"{len(self.causes):03d}_{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        ours = f"miniray ({difference.signature.mode}):\n{indented(difference.actual)}"
        outputs = f'"""\nRay:\n{indented(difference.expected)}\n{ours}"""\n'
        path.write_text(outputs.replace("\\", "\\\\") + program.script(), encoding="utf-8")
        self.write()

    def curve(self, per: int = 250) -> list[tuple[int, int]]:
        """(programs run, new causes among the last `per` of them), oldest first."""
        return [
            (end, sum(end - per < max(1, self.first[cause]) <= end for cause in self.causes))
            for end in range(per, self.programs + per, per)
        ]

    def text(self) -> str:
        """The report as a page: the numbers, the curve, then each cause, the most frequent first."""
        lines = [
            "# Differences between Ray and miniray",
            "",
            f"{self.programs} programs ({self.statements} statements) in {time.monotonic() - self.started:.0f} s: "
            f"{self.differences} differences, {len(self.causes)} distinct causes that no page explains; "
            f"{self.unstable} answers that vary on one side were set aside.",
            "",
            "The setting of a zoo's program is left out here: it stands in tests/differential/zoo, and in programs/.",
            "",
            "On the portability page, and not listed here: "
            + ("; ".join(f'"{phrase}" ({times})' for phrase, times in self.known.most_common()) or "nothing"),
            "",
            "New causes per 250 programs: " + ", ".join(f"{new} (to {end})" for end, new in self.curve()),
        ]
        for number, (signature, cause) in enumerate(
            sorted(self.causes.items(), key=lambda item: -self.seen[item[0]]), 1
        ):
            lines += [
                "",
                f"## {number}. {signature}",
                "",
                f"Seen {self.seen[signature]} times; first in program {self.first[signature]} ({cause.program.name}).",
                "```python",
                shown(cause),
                "```",
                "Ray:",
                "```text",
                *cause.difference.expected,
                "```",
                f"miniray ({signature.mode}):",
                "```text",
                *cause.difference.actual,
                "```",
            ]
        return "\n".join(lines) + "\n"

    def write(self) -> None:
        """Rewrite the page."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.lock:
            (self.folder / "CAUSES.md").write_text(self.text(), encoding="utf-8")


def shown(cause: Cause) -> str:
    """The statements of a program that tell a reader what it is about."""
    last = cause.program.statements[cause.difference.statement]
    parts = [
        s for s in cause.program.statements if not s.kind.endswith(": setting") or s.kind.startswith("interpreter.")
    ]
    if last.kind.startswith("interpreter."):
        parts = [s for s in parts if s.kind == f"{last.kind.partition(':')[0]}: setting" or s is last]
    return "\n".join(f"# {s.kind}\n{s.text}" for s in parts)


def indented(lines: list[str]) -> str:
    """Lines as a block."""
    return "".join(f"    {line}\n" for line in lines) or "    nothing\n"
