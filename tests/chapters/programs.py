"""The example programs, with the output that each docstring states. The tests use them, and so does `ray_check`.

The docstring of a program ends with `Prints:` and the indented output. A paragraph `Only on miniray:` before it gives
the reason why the program does not run on Ray.
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

MINIRAY_IMPORT = (
    (re.compile(r"^import miniray as ray$", re.M), "import ray"),
    (re.compile(r"^from miniray\b", re.M), "from ray"),
)
"""The changes to its imports that make an example a program for Ray: patterns and replacements."""


@dataclass(frozen=True)
class Program:
    """One example. `name` is its path below examples/."""

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
        """The output that the docstring states. Raises ValueError if there is none."""
        _, found, output = self.docstring.partition("\nPrints:\n\n")
        if not found:
            raise ValueError(f"{self.name}: the docstring does not end with `Prints:` and the output")
        return textwrap.dedent(output).rstrip("\n") + "\n"

    @property
    def only_on_miniray(self) -> str:
        """The reason why the program does not run on Ray; empty if it does."""
        found = re.search(r"^Only on miniray: (.*?)\n\n", self.docstring, re.M | re.S)
        return " ".join(found[1].split()) if found else ""

    @property
    def says_import_ray(self) -> bool:
        """Whether the program imports `ray`, and so runs on miniray under the alias."""
        return self.path.parent.name == "ray_programs"

    def for_ray(self) -> str:
        """The program's text, changed to import `ray`."""
        text = self.text
        for pattern, replacement in () if self.says_import_ray else MINIRAY_IMPORT:
            text = pattern.sub(replacement, text)
        return text


def programs() -> list[Program]:
    """All example programs, in reading order."""
    return [Program(path) for folder in (EXAMPLES, EXAMPLES / "ray_programs") for path in sorted(folder.glob("*.py"))]
