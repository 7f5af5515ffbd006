"""The quick part: a mutant's code takes the place of the original's, and only tests that reach the change run."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants import quick
from tests.mutants.mutate import mutants
from tests.mutants.quick import Quick, exchange, last_line, statement, traced

SOURCE = """\
LIMIT = 3

class Shelf:
    def __init__(self, books):
        self.books = books

    @property
    def is_full(self):
        return any(len(self.books) > LIMIT for _ in self.books)

def first(shelf):
    if (
        shelf.books
        and shelf.books[0]
    ):
        return 1
    return 2
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of a project in a temporary folder."""
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    path = tmp_path / "miniray/core/shelf.py"
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("shelf_of_a_test", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["shelf_of_a_test"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["shelf_of_a_test"]


def with_line(text: str):
    """The mutant of the source that has this line."""
    [found] = [one for one in mutants("miniray/core/shelf.py", SOURCE) if f"+{text}" in one.diff]
    return found


def test_the_code_of_a_mutant_takes_the_place_of_the_original(shelf):
    """This includes a property and the generator in it. A caller that holds the function calls the mutant."""
    full = shelf.Shelf([1, 2, 3])
    assert not full.is_full
    change = exchange(with_line("        return any((len(self.books) >= LIMIT) for _ in self.books)"))
    assert change is not None
    change()
    assert full.is_full


def test_a_mutant_outside_every_function_is_beyond_the_quick_part(shelf):
    """Other modules may have a copy of a constant: everything must be imported with it."""
    assert exchange(with_line("LIMIT = 4")) is None


def test_a_test_counts_if_it_reaches_the_changed_statement(shelf):
    """The statement begins before the line that is changed."""
    change = with_line("        and shelf.books[1]")
    assert (statement(change), last_line(change)) == (12, 14)
    with traced() as lines:
        shelf.first(shelf.Shelf([]))
    reached = lines["miniray/core/shelf.py"]
    assert {13, 17} <= reached and reached.isdisjoint({14, 16})


def test_the_tests_that_have_noticed_most_come_first():
    """Then the shortest. A test that reaches other lines only does not run."""
    [one, *_] = mutants("m.py", "def f():\n    return a < b\n")
    part = Quick([(1, one)], None, print)

    class Item:
        def __init__(self, nodeid: str) -> None:
            self.nodeid = nodeid

    part.items = [Item(name) for name in ("long", "short", "other", "known", "search")]  # type: ignore[misc]
    for name, cpu_s, lines in (("long", 2.0, {2}), ("short", 1.0, {1, 2}), ("other", 0.1, {1}), ("known", 3.0, {2})):
        part.reach[name] = quick.Reach(cpu_s, cpu_s, {"m.py": lines})
    part.reach["search"] = quick.Reach(9.0, 9.0, None)
    part.kills["known"] = 1
    assert [part.items[at].nodeid for at in part.order(one)] == ["known", "short", "long", "search"]
