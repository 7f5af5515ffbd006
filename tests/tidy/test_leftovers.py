"""What eyes forget: silent excepts, notes to oneself, names without a word, files too long or needed by nobody."""

import ast
import importlib
import inspect
import io
import re
import tokenize
from collections.abc import Iterator

from tests.tidy.source import EVERYTHING, EXAMPLES, MINIRAY, ROOT, TESTS, Module, listed

LONGEST = 600
WIDEST = 145
"""Aim at 120 characters, so that a chapter stands beside the source; a terminal's old wide mode is the bound."""
LONG_FOR_A_REASON: dict[str, str] = {
    "miniray/core/invariants.py": "every rule between the tables, on the page to read before changing the core",
    "miniray/core/records.py": "everything that the core keeps, on the one page that is opened most often",
    "miniray/exceptions.py": "the whole error tree, one short class after the other; split, nobody would find one",
}
FOUND_BY_NAME = {
    "miniray.__main__": "python -m miniray",
    "miniray.testing.plugin": "the pytest11 entry point in pyproject.toml",
    "miniray.util.state.common": "Ray's own path to the row classes",
    "miniray.util.state.exception": "Ray's own path to the error of a question that makes no sense",
}
"""Modules that are started by their name, not imported by a line of Python."""


def test_no_error_is_swallowed():
    """A bare except, or one whose body does nothing, hides the next mistake. contextlib.suppress names it."""
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


def test_no_note_to_oneself_is_left():
    """What is to be done is done, or stands on the page of decisions; no debugger is called."""
    note = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = []
    for m in EVERYTHING:
        for token in tokenize.generate_tokens(io.StringIO(m.text).readline) if note.search(m.text) else ():
            if token.type == tokenize.COMMENT and note.search(token.string):
                found.append(m.at(token.start[0], token.string))
        if m in MINIRAY:
            found += [m.at(line, name) for line, name in m.calls() if name in ("breakpoint", "pdb.set_trace")]
    assert not found, listed(found)


def test_lines_fit_on_a_screen():
    """Wider than the bound, a line wraps beside a chapter."""
    found = [
        m.at(number, f"{len(line)} characters")
        for m in EVERYTHING
        for number, line in enumerate(m.text.splitlines(), 1)
        if len(line) > WIDEST
    ]
    assert not found, listed(found)


def test_long_files_have_a_reason():
    """A file over 600 lines is named above with the reason, and the list names no other."""
    long = {str(m.path.relative_to(ROOT)) for m in EVERYTHING if m.text.count("\n") > LONGEST}
    found = sorted(long - LONG_FOR_A_REASON.keys())
    assert not found, listed(found)
    assert sorted(name for name in LONG_FOR_A_REASON.keys() - long if (ROOT / name).exists()) == []


def without_docstring(m: Module) -> Iterator[str]:
    """The public names of a module that say nothing of themselves. A method inherits the words of what it overrides."""
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
    """A property's setter or deleter, or one signature of an overload: the words stand at the property or the body."""
    return any(
        isinstance(d, ast.Attribute)
        and d.attr in ("setter", "deleter")
        or isinstance(d, ast.Name)
        and d.id == "overload"
        for d in named.decorator_list
    )


def test_every_public_name_has_a_docstring():
    """A docstring is the contract: no public module, class, function or method goes without one."""
    found = [line for m in MINIRAY for line in without_docstring(m)]
    assert not found, listed(found)


def test_no_file_is_there_for_nobody():
    """Each module is imported by another, by a test, an example or a chapter, is a command, or is started by name."""
    wanted = set(FOUND_BY_NAME) | {m.name for m in MINIRAY if m.name.startswith("miniray.cli.")}
    for importer in [*MINIRAY, *TESTS, *EXAMPLES]:
        for _, name in importer.imports():
            name = f"mini{name}" if name.startswith("ray.") else name  # under the alias
            parts = name.split(".")
            wanted |= {".".join(parts[:n]) for n in range(1, len(parts) + 1)} - {importer.name}
    # Programs ask their context for submodules, and pages import them in their listings.
    for case in (ROOT / "tests/conformance").rglob("*.py"):
        text = case.read_text(encoding="utf-8")
        wanted |= {f"miniray.{name}" for name in re.findall(r'ctx\.sub\("([\w.]+)"\)', text)}
    for page in [*ROOT.glob("*.md"), *(ROOT / "chapters").rglob("*.md")]:
        for name in re.findall(r"(?:from|import) ((?:mini)?ray[\w.]*)", page.read_text(encoding="utf-8")):
            wanted.add(name if name.startswith("mini") else "mini" + name)
    found = [m.name for m in MINIRAY if m.path.name != "__init__.py" and m.name not in wanted]
    assert not found, listed(found)
