"""What people overlook: silent excepts, leftover notes, missing docstrings, long lines and files, unused files."""

import ast
import importlib
import inspect
import io
import re
import tokenize
from collections.abc import Iterator

from tests.tidy.source import EVERYTHING, EXAMPLES, MINIRAY, ROOT, TESTS, Module, listed

LONGEST = 600
WIDEST = 130
"""Aim at 120 characters, so that the source fits beside a chapter. A string that should not be split may be longer."""
LONG_FOR_A_REASON: dict[str, str] = {
    "miniray/core/cluster.py": "the only entry to the core: every event, one short method after the other",
    "miniray/core/invariants.py": "every rule between the tables, on the page to read before changing the core",
    "miniray/core/records.py": "all records of the core, on the page that readers open most often",
    "miniray/exceptions.py": "the whole error tree, one short class after the other: an error is easy to find",
}
FOUND_BY_NAME = {
    "miniray.__main__": "python -m miniray",
    "miniray.testing.plugin": "the pytest11 entry point in pyproject.toml",
    "miniray.experimental.state.api": "Ray's older path to the state API",
    "miniray.util.state.api": "Ray's own path to the state API's functions",
    "miniray.util.state.common": "Ray's own path to the row classes",
    "miniray.util.state.exception": "Ray's own path to the state API's error",
    "miniray.util.tracing.setup_local_tmp_tracing": "the tracing hook in Ray's documentation",
}
"""Modules that are found by their name and need no import in this repository."""


def test_no_error_is_swallowed():
    """A bare except, or one with an empty body, hides the next mistake. contextlib.suppress says what it ignores."""
    found = []
    for m in EVERYTHING:
        for node in m.nodes:
            if isinstance(node, ast.ExceptHandler):
                if node.type is None:
                    found.append(m.at(node.lineno, "bare except"))
                if all(
                    isinstance(s, ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
                    for s in node.body
                ):
                    found.append(m.at(node.lineno, "except that does nothing"))
    assert not found, listed(found)


def test_no_leftover_note_or_breakpoint():
    """Open questions belong to the decisions, not into the source."""
    note = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = []
    for m in EVERYTHING:
        for token in tokenize.generate_tokens(io.StringIO(m.text).readline) if note.search(m.text) else ():
            if token.type == tokenize.COMMENT and note.search(token.string):
                found.append(m.at(token.start[0], token.string))
        if m in MINIRAY:
            found += [m.at(line, name) for line, name in m.calls() if name in ("breakpoint", "pdb.set_trace")]
    assert not found, listed(found)


def test_no_code_runs_under_a_lock_that_is_not_re_entrant():
    """Any allocation may start the collector, and any statement a signal handler. They run code of the program on this
    thread, and it may come back to the same statement. Plain locks are for threads to sleep on; the lock around the
    core has its own way (see `runtime.core_lock`).
    """
    found = []
    for m in MINIRAY:
        plain = set()
        for node in m.nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
                if ast.unparse(node.value.func) in ("_thread.allocate_lock", "_allocate_lock", "threading.Lock"):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    plain |= {ast.unparse(target) for target in targets}
        for node in m.nodes:
            if isinstance(node, ast.With):
                found += [m.at(node.lineno, text) for i in node.items if (text := ast.unparse(i.context_expr)) in plain]
    assert not found, listed(found)


def test_lines_fit_on_a_screen():
    """No line is longer than the limit."""
    found = [
        m.at(number, f"{len(line)} characters")
        for m in EVERYTHING
        for number, line in enumerate(m.text.splitlines(), 1)
        if len(line) > WIDEST
    ]
    assert not found, listed(found)


def test_long_files_have_a_reason():
    """The list above names each file over 600 lines with its reason, and no other file."""
    long = {str(m.path.relative_to(ROOT)) for m in EVERYTHING if m.text.count("\n") > LONGEST}
    found = sorted(long - LONG_FOR_A_REASON.keys())
    assert not found, listed(found)
    assert sorted(name for name in LONG_FOR_A_REASON.keys() - long if (ROOT / name).exists()) == []


def without_docstring(m: Module) -> Iterator[str]:
    """The public names of a module without a docstring.

    A method inherits the docstring of the method that it overrides.
    """
    if not ast.get_docstring(m.tree) and m.text.strip():
        yield m.at(1, "the module")
    for node in m.tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node) and not is_a_variant(node):
            yield m.at(node.lineno, node.name)
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if (
                    not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef))
                    or method.name.startswith("_")
                    or ast.get_docstring(method)
                    or is_a_variant(method)
                ):
                    continue
                there = getattr(importlib.import_module(m.name), node.name)
                if not inspect.getdoc(getattr(there, method.name)):
                    yield m.at(method.lineno, f"{node.name}.{method.name}")


def is_a_variant(named: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether it is a property's setter or deleter, or one signature of an overload: the docstring is elsewhere."""
    return any(
        isinstance(d, ast.Attribute)
        and d.attr in ("setter", "deleter")
        or isinstance(d, ast.Name)
        and d.id == "overload"
        for d in named.decorator_list
    )


def test_every_public_name_has_a_docstring():
    """A docstring is a contract: every public module, class, function and method has one."""
    found = [line for m in MINIRAY for line in without_docstring(m)]
    assert not found, listed(found)


def test_every_file_is_used():
    """Each module is a command, is found by its name, or is imported by a module, test, example or chapter."""
    wanted = set(FOUND_BY_NAME) | {m.name for m in MINIRAY if m.name.startswith("miniray.cli.")}
    for importer in [*MINIRAY, *TESTS, *EXAMPLES]:
        for _, name in importer.imports:
            name = f"mini{name}" if name.startswith("ray.") else name  # under the alias
            parts = name.split(".")
            wanted |= {".".join(parts[:n]) for n in range(1, len(parts) + 1)} - {importer.name}
    # Conformance cases import submodules through their context, and the pages of the book import them in their
    # listings.
    for case in (ROOT / "tests/conformance").rglob("*.py"):
        text = case.read_text(encoding="utf-8")
        wanted |= {f"miniray.{name}" for name in re.findall(r'ctx\.sub\("([\w.]+)"\)', text)}
    for page in [*ROOT.glob("*.md"), *(ROOT / "chapters").rglob("*.md")]:
        for name in re.findall(r"(?:from|import) ((?:mini)?ray[\w.]*)", page.read_text(encoding="utf-8")):
            wanted.add(name if name.startswith("mini") else "mini" + name)
    found = [m.name for m in MINIRAY if m.path.name != "__init__.py" and m.name not in wanted]
    assert not found, listed(found)
