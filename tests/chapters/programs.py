"""The example programs, and what each one's docstring says that it prints. Used by the tests, and by `ray_check`.

A docstring ends with `Prints:` and the indented output. `Only on miniray:` before it begins a paragraph with the reason why
the program is not run on Ray.
"""
from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"

MINIRAY_IMPORT = (re.compile(r"^import miniray as ray$", re.M), "import ray"), (re.compile(r"^from miniray\b", re.M), "from ray")
"""How the import of an example is changed to make it a program for Ray."""


@dataclass(frozen=True)
class Program:
    """One example. `name` is its path under examples/."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(EXAMPLES).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def docstring(self) -> str:
        return ast.get_docstring(ast.parse(self.text)) or ""

    @property
    def idea(self) -> str:
        """The first sentence of the docstring, which is its first line."""
        return self.docstring.partition("\n")[0]

    @property
    def prints(self) -> str:
        """What it should print. ValueError when the docstring does not say."""
        _, found, output = self.docstring.partition("\nPrints:\n\n")
        if not found:
            raise ValueError(f"{self.name}: the docstring does not end with `Prints:` and the output")
        return textwrap.dedent(output).rstrip("\n") + "\n"

    @property
    def only_on_miniray(self) -> str:
        """Why it is not run on Ray; nothing when it is."""
        found = re.search(r"^Only on miniray: (.*?)\n\n", self.docstring, re.M | re.S)
        return " ".join(found[1].split()) if found else ""

    @property
    def says_import_ray(self) -> bool:
        """Whether it is a Ray program as it stands, to be run on miniray through the alias."""
        return self.path.parent.name == "ray_programs"

    def for_ray(self) -> str:
        """The program with its import changed."""
        text = self.text
        for pattern, replacement in () if self.says_import_ray else MINIRAY_IMPORT:
            text = pattern.sub(replacement, text)
        return text


def programs() -> list[Program]:
    """All of them, in the order in which they are to be read."""
    return [Program(path) for folder in (EXAMPLES, EXAMPLES / "ray_programs") for path in sorted(folder.glob("*.py"))]
