"""The book's pictures, drawn from the code: state machines from their tables, the house from its imports."""
from __future__ import annotations

import ast
import pathlib

from miniray.core import transitions

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = {"task_status": transitions.TASK_MOVES, "actor_status": transitions.ACTOR_MOVES,
          "placement_group_status": transitions.PLACEMENT_GROUP_MOVES, "worker_status": transitions.WORKER_MOVES}
FLOORS = {"api": "", "util": "util", "runtime": "runtime", "core": "core", "observe": "observe", "cli": "cli", "testing": "testing"}


def draw(name: str) -> str:
    """A mermaid diagram. LookupError for a name that there is none of."""
    if name in TABLES:
        return _states(TABLES[name])
    if name == "house":
        return _house()
    if name == "core":
        return _core()
    raise LookupError(f"there is no picture {name!r}")


def _states(table: dict) -> str:
    lines = ["stateDiagram-v2"]
    first = next(iter(table))
    lines.append(f"    [*] --> {first.name}")
    for status, moves in table.items():
        lines += [f"    {status.name} --> {to.name}" for to in moves]
        if not moves:
            lines.append(f"    {status.name} --> [*]")
    return "\n".join(lines) + "\n"


def _floor(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT / "miniray").parts
    return parts[0] if len(parts) > 1 and parts[0] in FLOORS else "api"


def _imports(path: pathlib.Path) -> set[str]:
    """Full names of the miniray modules that a file imports when it is imported itself."""
    package = ("miniray", *path.relative_to(ROOT / "miniray").parts[:-1])
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            base = ".".join(package[:len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return {name for name in found if name.startswith("miniray")}


def _house() -> str:
    edges = set()
    for path in (ROOT / "miniray").rglob("*.py"):
        here = _floor(path)
        for name in _imports(path):
            part = name.split(".")[1] if name.count(".") else ""
            there = part if part in FLOORS else "api" if part not in ("", "ids", "exceptions") else None
            if there is not None and there != here:
                edges.add((here, there))
    return "graph TD\n" + "".join(f"    {a} --> {b}\n" for a, b in sorted(edges))


def _core() -> str:
    modules = sorted(path for path in (ROOT / "miniray/core").glob("*.py") if path.stem not in ("__init__", "invariants"))
    names = {path.stem for path in modules}
    lines = []
    for path in modules:
        used = {name.split(".")[2] for name in _imports(path) if name.startswith("miniray.core.")} & names
        lines += [f"    {path.stem} --> {other}" for other in sorted(used - {path.stem})]
    return "graph TD\n" + "\n".join(lines) + "\n"
