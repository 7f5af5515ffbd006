"""Every page of the book runs, and its links and names exist."""

from __future__ import annotations

import importlib
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.ahead import ahead, programs
from tests.chapters import book, tables

PAGES = book.pages()


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Callable[[pathlib.Path], subprocess.CompletedProcess]]:
    """A function that returns the finished process of a page. Each page runs in its own process."""

    def play(page: pathlib.Path) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "tests.chapters.book", str(page)],
            cwd=book.ROOT,
            text=True,
            capture_output=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )

    with ahead(request.session, "test_a_page_does_what_it_says", play, programs()) as found:
        yield found


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(book.ROOT / "chapters")) for p in PAGES])
def test_a_page_does_what_it_says(page, played):
    """Every block prints what the page shows, and every excerpt and picture matches the current code."""
    done = played(page)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(book.ROOT / "chapters")) for p in PAGES])
def test_the_links_and_names_of_a_page_exist(page):
    """Links lead to files. Names and paths of miniray in backticks exist."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    missing = []
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
            missing.append(target)
    for name in re.findall(r"`(miniray(?:\.\w+)+)`", text):
        if not _exists(name):
            missing.append(name)
    for path in re.findall(r"`((?:miniray|tests|examples|chapters)/[\w/.]+)`", text):
        if not (book.ROOT / path).exists():
            missing.append(path)
    assert not missing, missing


def test_the_page_of_tables_is_made_from_the_schema():
    """`make refresh` updates it."""
    assert (book.ROOT / tables.PAGE).read_text(encoding="utf-8") == tables.page()


def test_every_solution_is_folded():
    """A reader of the exercises sees a solution only after unfolding it."""
    fold = re.compile(r"^<details>\n<summary>Solutions.*</summary>\n(.*)^</details>\n", re.M | re.S)
    for page in PAGES:
        _, found, exercises = page.read_text(encoding="utf-8").partition("\n## Exercises\n")
        questions, *folded = fold.split(exercises)
        assert not found or folded, f"{page} has no solutions"
        assert "```" not in questions and not "".join(folded[1:]).strip(), f"{page} shows a solution"


def _exists(name: str) -> bool:
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:split]))
        except ImportError:
            continue
        try:
            for part in parts[split:]:
                found = getattr(found, part)
        except AttributeError:
            return False
        return True
    return False


def test_three_dots_stand_for_anything():
    """Inside a line they stand for characters, and alone for lines. All other text must be equal."""
    assert book.matches("a ... c\n...\nend\n", "a b c\nmore\nlines\nend\n")
    assert not book.matches("a\nb\n", "a\nc\n")
    assert not book.matches("a\n", "a\nb\n")


def test_an_excerpt_is_found_by_its_name():
    """This holds for functions, methods and constants; the source has no indentation. An unknown name is an error."""
    assert book.source_of("miniray/core/transitions.py:move").startswith("def move(record")
    assert book.source_of("tests/chapters/book.py:Block.option").startswith("def option(self, ")
    assert book.source_of("tests/chapters/book.py:FENCE").startswith("FENCE = re.compile(")
    with pytest.raises(LookupError):
        book.source_of("miniray/core/transitions.py:nothing")
