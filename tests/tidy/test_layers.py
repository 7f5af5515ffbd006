"""The house has floors: imports point down only, the core decides without doing, and nothing is needed but Python."""
import ast
import sys

from tests.tidy.source import MINIRAY, Module, listed

PURE = {"ids", "exceptions", "options", "signatures"}
"""On the ground floor: these import each other at most."""
UPPER_FLOORS = {"api", "session", "state", "remote_function", "actor", "runtime_context", "cluster_utils", "util",
                "experimental", "testing", "cli", "__main__"}
"""What a user's program, a test or a command line calls; nothing below may."""

BANNED_IN_CORE = {"threading", "_thread", "queue", "concurrent", "multiprocessing", "asyncio", "contextvars",  # who
                  "time", "datetime",  # when: time comes in as an argument
                  "secrets", "uuid",  # chance comes in too
                  "io", "os", "pathlib", "tempfile", "shutil", "socket", "subprocess", "signal", "sys",
                  "pickle", "copyreg", "marshal", "inspect", "importlib",  # the user's values and code
                  "logging", "warnings"}
CALLS_BANNED_IN_CORE = {"open", "print", "input", "exec", "eval",
                        "id", "hash"}  # they differ from run to run, and so does an order that leans on them


def room(imported: str) -> str:
    """The part of miniray that an imported name belongs to, `core` of `miniray.core.gcs`; nothing for others."""
    package, _, rest = imported.partition(".")
    return rest.split(".")[0] if package == "miniray" else ""


CORE = [m for m in MINIRAY if room(m.name) == "core"]
RUNTIME = [m for m in MINIRAY if room(m.name) == "runtime"]
OBSERVE = [m for m in MINIRAY if room(m.name) == "observe"]


def upward(modules: list[Module], allowed: set[str]) -> list[str]:
    """Imports of rooms of miniray that are not among the allowed ones."""
    return [m.at(line, f"imports {name}") for m in modules for line, name in m.imports()
            if name.split(".")[0] == "miniray" and room(name) not in allowed]


def test_the_core_imports_only_itself_ids_and_exceptions():
    """Not the runtimes, not what observes it, not the API."""
    found = upward(CORE, {"core", "ids", "exceptions"})
    assert not found, listed(found)


def test_the_ground_floor_imports_nothing_above_it():
    """ids, exceptions, options and signatures can be read, and tested, alone."""
    found = upward([m for m in MINIRAY if m.name.removeprefix("miniray.") in PURE], PURE)
    assert not found, listed(found)


def test_runtimes_and_readings_import_nothing_of_the_api():
    """A runtime carries out actions; a reading looks at tables. Neither calls what users call."""
    found = [m.at(line, f"imports {name}") for m in RUNTIME + OBSERVE for line, name in m.imports()
             if room(name) in UPPER_FLOORS]
    assert not found, listed(found)


def test_the_core_starts_waits_reads_and_says_nothing():
    """No thread, lock, clock, file, pickle or log in core/: it is told and it answers."""
    imports = [m.at(line, f"imports {name}") for m in CORE for line, name in m.imports()
               if name.split(".")[0] in BANNED_IN_CORE]
    calls = [m.at(line, f"calls {name}") for m in CORE for line, name in m.calls() if name in CALLS_BANNED_IN_CORE]
    assert not imports + calls, listed(imports + calls)


def test_the_core_draws_no_chance_of_its_own():
    """Only the class Random may be named there, as the type of the generator that is handed in."""
    imports = [m.at(line, f"imports {name}") for m in CORE for line, name in m.imports()
               if name.split(".")[0] == "random" and name not in ("random", "random.Random")]
    uses = [m.at(node.lineno, f"uses random.{node.attr}") for m in CORE for node in m.nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random"
            and node.attr != "Random"]
    assert not imports + uses, listed(imports + uses)


def test_nothing_sleeps():
    """Whoever waits, waits for something, through a runtime's park; a sleep is a poll or a guess."""
    found = [m.at(line, name) for m in MINIRAY for line, name in m.calls() if name in ("time.sleep", "sleep")]
    assert not found, listed(found)


def test_the_standard_library_is_enough():
    """Only testing/ may ask for more: it is a pytest plugin, and it runs programs on real Ray where there is one."""
    known = set(sys.stdlib_module_names) | {"miniray", "__future__"}
    found = [m.at(line, name) for m in MINIRAY for line, name in m.imports()
             if name.split(".")[0] not in known | ({"pytest", "ray"} if m.name.startswith("miniray.testing") else set())]
    assert not found, listed(found)
