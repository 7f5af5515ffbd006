"""The source files of the repository, parsed once, with what each of them imports and calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Module:
    """One Python file. `name` is the name under which it is imported: `miniray.core.scheduler`."""

    path: Path

    @cached_property
    def name(self) -> str:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def package(self) -> str:
        """The package to which a relative import with one dot refers."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed source. Raises SyntaxError for syntax that is newer than Python 3.10."""
        return ast.parse(self.text, str(self.path), feature_version=(3, 10))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree. The walk is done once, since most rules check all nodes."""
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """(line, full name) of each import, including imports inside functions. `from a import b` gives `a.b`."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parts = self.package.split(".")
                    base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [base])])
                found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
        return found

    def imports_of(self, names: set[str]) -> set[str]:
        """Those of these modules that this one imports, including imports for type checkers and inside functions."""
        found = set()
        for _, name in self.imports:
            while name and name not in names:
                name = name.rpartition(".")[0]
            found.add(name)
        return found - {"", self.name}

    def calls(self) -> Iterator[tuple[int, str]]:
        """(line, name) of each call of a plain or dotted name: `print`, `time.sleep`."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and (name := dotted(node.func)):
                yield node.lineno, name

    def at(self, line: int, what: str) -> str:
        """A finding as text, with its file and line."""
        return f"{self.path.relative_to(ROOT)}:{line}: {what}"


def dotted(node: ast.expr) -> str:
    """The text `a.b.c` of an expression that is a dotted name; otherwise the empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := dotted(node.value)):
        return f"{base}.{node.attr}"
    return ""


def modules(folder: str) -> list[Module]:
    """Every module below a folder of the repository, except the conformance cases: they stay as they ran on Ray."""
    cases = {ROOT / "tests/conformance/cases", ROOT / "tests/conformance/wanted"}
    return [Module(path) for path in sorted((ROOT / folder).rglob("*.py")) if not cases & set(path.parents)]


MINIRAY = modules("miniray")
NAMES = {module.name for module in MINIRAY}
TESTS = modules("tests")
EXAMPLES = modules("examples")
EVERYTHING = [*MINIRAY, *TESTS, *EXAMPLES]


def forget() -> None:
    """Drop what was read and parsed."""
    for module in EVERYTHING:
        for name in ("text", "tree", "nodes", "imports"):
            vars(module).pop(name, None)


def listed(findings: list[str]) -> str:
    """The message of an assertion: all findings, one per line."""
    return f"{len(findings)} found\n" + "\n".join(findings)
