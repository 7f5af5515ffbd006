"""The pictures of the book, drawn from the code: state machines from their tables, layers and calls from the source."""

from __future__ import annotations

import ast
import pathlib

from miniray.core import transitions
from tests.tidy.layers import LAYERS, layer_of
from tests.tidy.source import MINIRAY, NAMES

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = {
    "task_status": transitions.TASK_MOVES,
    "object_status": transitions.OBJECT_MOVES,
    "actor_status": transitions.ACTOR_MOVES,
    "placement_group_status": transitions.PLACEMENT_GROUP_MOVES,
    "worker_status": transitions.WORKER_MOVES,
}


def draw(name: str) -> str:
    """A picture as a mermaid diagram. Raises LookupError for an unknown name."""
    if name in TABLES:
        return _states(TABLES[name])
    if name == "house":
        return _house()
    if name == "core":
        return _core()
    if name == "reference_counts":
        return _reference_counts()
    if name == "readings":
        return _readings()
    if name == "failures":
        return _calls(("again", "fail", "attempt_failed", "_unbuildable", "rebuild", "died", "owner_gone", "end"))
    if name == "store_counters":
        return _store_counters()
    if name == "reasons":
        return _reasons()
    if name == "forms":
        return _forms()
    raise LookupError(f"there is no picture {name!r}")


def _states(table: transitions.Moves) -> str:
    """States and moves. The arrow of a move shows the events that make it."""
    lines = ["stateDiagram-v2"]
    first = next(iter(table))
    lines.append(f"    [*] --> {first.name}")
    for status, moves in table.items():
        lines += [f"    {status.name} --> {to.name}: {', '.join(events)}" for to, events in moves.items()]
        if not moves:
            lines.append(f"    {status.name} --> [*]")
    return "\n".join(lines) + "\n"


def _imports(path: pathlib.Path) -> set[str]:
    """The full names of the miniray modules that a file imports at its top level."""
    package = ("miniray", *path.relative_to(ROOT / "miniray").parts[:-1])
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return {name for name in found if name.startswith("miniray")}


def _house() -> str:
    """The layers of tests/tidy/layers.py, from the top down. An arrow shows that a layer imports another."""
    edges = set()
    for module in MINIRAY:
        for imported in module.imports_of(NAMES):
            here, there = layer_of(module.name), layer_of(imported)
            if here != there:
                edges.add((here, there))
    order = list(LAYERS)
    lines = [
        f"    {a} --> {b}"
        for a, b in sorted(edges, key=lambda edge: (-order.index(edge[0]), -order.index(edge[1])))
        if not _reached_indirectly(a, b, edges)
    ]
    return "graph TD\n" + "\n".join(lines) + "\n"


def _reached_indirectly(a: str, b: str, edges: set[tuple[str, str]]) -> bool:
    """Whether a reaches b through a third layer. The picture omits such an arrow."""
    seen, todo = set(), [there for here, there in edges if here == a and there != b]
    while todo:
        layer = todo.pop()
        if layer == b:
            return True
        if layer not in seen:
            seen.add(layer)
            todo += [there for here, there in edges if here == layer]
    return False


def _core() -> str:
    modules = sorted(
        path for path in (ROOT / "miniray/core").glob("*.py") if path.stem not in ("__init__", "invariants")
    )
    names = {path.stem for path in modules}
    lines = []
    for path in modules:
        used = {name.split(".")[2] for name in _imports(path) if name.startswith("miniray.core.")} & names
        lines += [f"    {path.stem} --> {other}" for other in sorted(used - {path.stem})]
    return "graph TD\n" + "\n".join(lines) + "\n"


def _functions() -> list[tuple[str, ast.FunctionDef]]:
    """Every function and method of the core, with its name as `module.name`."""
    return [
        (f"{path.stem}.{node.name}", node)
        for path in sorted((ROOT / "miniray/core").glob("*.py"))
        if path.stem != "invariants"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]


def _reference_counts() -> str:
    """Which functions of the core increment or decrement which reference count."""
    counts = ("refs", "uses", "held", "lineage")
    edges = set()
    for name, function in _functions():
        for node in ast.walk(function):
            if (
                isinstance(node, ast.AugAssign)
                and isinstance(node.target, ast.Attribute)
                and node.target.attr in counts
            ):
                edges.add((node.target.attr, name, "+1" if isinstance(node.op, ast.Add) else "-1"))
    return "graph LR\n" + "".join(
        f'    {name} -->|"{sign}"| {count}\n'
        for count, name, sign in sorted(edges, key=lambda e: (counts.index(e[0]), e[2], e[1]))
    )


TEXT_HELPERS = ("amounts", "escape")  # modules of observe that only make text


def _readings() -> str:
    """Which part of observe/ (state, timeline, explain, ...) reads which module of the core."""
    edges = set()
    for path in (ROOT / "miniray/observe").rglob("*.py"):
        parts = path.relative_to(ROOT / "miniray/observe").with_suffix("").parts
        kind = parts[0]
        if kind in ("__init__", *TEXT_HELPERS):
            continue
        for name in _imports(path):
            if name.startswith("miniray.core.") and (ROOT / f"miniray/core/{name.split('.')[2]}.py").exists():
                edges.add((kind, f"core.{name.split('.')[2]}"))
            elif name.startswith("miniray.observe.") and name.split(".")[2] not in (kind, *TEXT_HELPERS):
                edges.add((kind, name.split(".")[2]))
    return "graph LR\n" + "".join(f"    {a} --> {b}\n" for a, b in sorted(edges))


def _calls(names: tuple[str, ...]) -> str:
    """Which functions of the core call which of these, by their plain names."""
    edges = {
        (name.split(".")[-1], called)
        for name, function in _functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and (called := getattr(node.func, "attr", "")) in names
        and called != name.split(".")[-1]
    }
    return "graph LR\n" + "".join(
        f"    {a} --> {b}\n" for a, b in sorted(edges, key=lambda e: (names.index(e[1]), e[0]))
    )


def _store_counters() -> str:
    """Which functions of the object store increment which counter."""
    edges = set()
    for name, function in _functions():
        for node in ast.walk(function):
            if (
                name.startswith("object_store.")
                and isinstance(node, ast.AugAssign)
                and isinstance(node.target, ast.Subscript)
                and getattr(node.target.value, "attr", "") == "counters"
            ):
                edges.add((name.split(".")[1], ast.literal_eval(node.target.slice)))
    return "graph LR\n" + "".join(f"    {a} --> {b}\n" for a, b in sorted(edges) if not b.endswith("_bytes"))


def _reasons() -> str:
    """The reasons that `state.explain` gives for a waiting task, by the stage that the task has reached."""
    stages = ("task", "arguments", "scheduling", "busy_nodes", "actor_to_come", "ending_actor", "mailbox", "running")
    files = [ROOT / "miniray/observe/explain" / name for name in ("links.py", "resource_links.py")]
    body = [node for path in files for node in ast.parse(path.read_text(encoding="utf-8")).body]
    edges = set()
    for function in (node for node in body if isinstance(node, ast.FunctionDef)):
        stage = function.name.lstrip("_").removeprefix("of_")
        for node in ast.walk(function) if stage in stages else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "link_from":
                edges |= {
                    (stage, part.value)
                    for part in ast.walk(node.args[1])
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                }
        if function.name == "calls_ahead":  # the reasons for a call in its actor's queue
            edges |= {
                ("mailbox", part.value)
                for node in ast.walk(function)
                if isinstance(node, ast.Return)
                for part in ast.walk(node.value.elts[0])
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
    return "graph LR\n" + "".join(f"    {a} --> {b}\n" for a, b in sorted(edges))


def _forms() -> str:
    """Which functions of `values.serialization`, starting at `serialize`, store a value in which form."""
    tree = ast.parse((ROOT / "miniray/values/serialization.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    forms = ("COPY", "PLAIN", "PICKLED", "BY_VALUE")
    edges, reached = set(), ["serialize"]
    for name in reached:  # grows in the loop
        for node in ast.walk(functions[name]):
            called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if called == "Serialized":
                edges |= {
                    (name, part.id)
                    for part in ast.walk(node.args[-1])
                    if isinstance(part, ast.Name) and part.id in forms
                }
            elif called in ("_store", "_store_plain", "_to_bytes", "_is_immutable"):
                edges.add((name, called))
                reached += [called] if called not in reached else []
    return "graph LR\n" + "".join(f"    {a} --> {b}\n" for a, b in sorted(edges))
