"""The layers: imports only point down, the core only decides, and the standard library is enough."""

import ast
import sys

from tests.tidy.layers import LAYERS, layer_of
from tests.tidy.source import MINIRAY, NAMES, listed

BANNED_IN_CORE = {
    "threading",
    "_thread",
    "queue",
    "concurrent",
    "multiprocessing",
    "asyncio",
    "contextvars",  # threads: the core is told who calls
    "time",
    "datetime",  # time is an argument
    "secrets",
    "uuid",  # chance is an argument too
    "io",
    "os",
    "pathlib",
    "tempfile",
    "shutil",
    "socket",
    "subprocess",
    "signal",
    "sys",
    "pickle",
    "copyreg",
    "marshal",
    "inspect",
    "importlib",  # the core sees neither the user's values nor the user's code
    "logging",
    "warnings",
}
CALLS_BANNED_IN_CORE = {
    "open",
    "print",
    "input",
    "exec",
    "eval",
    "id",
    "hash",  # both differ from run to run, and so would an order that depends on them
}
OF_OPENTELEMETRY = {"miniray.telemetry.tracing.bridge", "miniray.util.tracing.setup_local_tmp_tracing"}
CORE = [m for m in MINIRAY if layer_of(m.name) == "core"]


def test_every_module_imports_its_own_layer_and_lower_ones():
    """This includes imports for type checkers and inside functions, where an upward import would go unnoticed."""
    order = list(LAYERS)
    found = [
        f"{m.name} ({layer_of(m.name)}) imports {name} ({layer_of(name)})"
        for m in MINIRAY
        for name in m.imports_of(NAMES)
        if order.index(layer_of(name)) > order.index(layer_of(m.name))
    ]
    assert not found, listed(sorted(found))


def test_no_modules_import_each_other_in_a_circle():
    """This includes circles through other modules, and imports inside functions."""
    found = [" -> ".join(sorted(circle)) for circle in circles({m.name: m.imports_of(NAMES) for m in MINIRAY})]
    assert not found, listed(found)


def test_no_packages_import_each_other_in_a_circle():
    """Two packages that need each other would be one package. A file at the top counts as a package."""
    packages: dict[str, set[str]] = {}
    for m in MINIRAY:
        for name in m.imports_of(NAMES):
            if package_of(name) != package_of(m.name):
                packages.setdefault(package_of(m.name), set()).add(package_of(name))
    found = [" -> ".join(sorted(circle)) for circle in circles(packages)]
    assert not found, listed(found)


def package_of(name: str) -> str:
    """The package directly below miniray that contains a module, or the module itself if it is a file at the top."""
    return ".".join(name.split(".")[:2])


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The groups of nodes that can reach each other."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for following in graph.get(todo.pop(), ()):
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return seen

    reached = {name: reach(name) for name in graph}
    found = {
        tuple(sorted(other for other in reached[name] if name in reached.get(other, ())))
        for name in graph
        if name in reached[name]
    }
    return [list(circle) for circle in found]


def test_every_layer_has_modules():
    """The list of layers names only modules that exist."""
    names = {m.name for m in MINIRAY}
    found = [root for roots in LAYERS.values() for root in roots if f"miniray.{root}".rstrip(".") not in names]
    assert not found, listed(found)


def test_the_core_only_decides():
    """core/ has no threads, locks, clocks, files, pickles or logs: an event comes in, and actions come out."""
    imports = [
        m.at(line, f"imports {name}") for m in CORE for line, name in m.imports if name.split(".")[0] in BANNED_IN_CORE
    ]
    calls = [m.at(line, f"calls {name}") for m in CORE for line, name in m.calls() if name in CALLS_BANNED_IN_CORE]
    assert not imports + calls, listed(imports + calls)


def test_the_core_has_no_random_generator_of_its_own():
    """core/ may name only the class Random, as the type of the generator that it is given."""
    imports = [
        m.at(line, f"imports {name}")
        for m in CORE
        for line, name in m.imports
        if name.split(".")[0] == "random" and name not in ("random", "random.Random")
    ]
    uses = [
        m.at(node.lineno, f"uses random.{node.attr}")
        for m in CORE
        for node in m.nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "random"
        and node.attr != "Random"
    ]
    assert not imports + uses, listed(imports + uses)


def test_nothing_sleeps():
    """Every wait in miniray goes through a runtime's `park`, and ends with an event.

    A sleep would be a poll or a guess.
    """
    found = [m.at(line, name) for m in MINIRAY for line, name in m.calls() if name in ("time.sleep", "sleep")]
    assert not found, listed(found)


def test_the_standard_library_is_enough():
    """Only the tools may import more: the pytest plugin needs pytest, and the engine needs Ray. And two modules that are
    imported when the program uses OpenTelemetry itself."""
    known = set(sys.stdlib_module_names) | {"miniray", "__future__"}
    found = [
        m.at(line, name)
        for m in MINIRAY
        for line, name in m.imports
        if name.split(".")[0] not in known | ({"pytest", "ray"} if layer_of(m.name) == "tools" else set())
        if not (name.startswith("opentelemetry.") and m.name in OF_OPENTELEMETRY)
    ]
    assert not found, listed(found)
