"""Nothing is claimed in the book that is not run here."""
from __future__ import annotations

import importlib
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.ahead import ahead, programs
from tests.chapters import book

PAGES = book.pages()


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Callable[[pathlib.Path], subprocess.CompletedProcess]]:
    """What became of a page, each of which is run in a process of its own."""
    def play(page: pathlib.Path) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-m", "tests.chapters.book", str(page)], cwd=book.ROOT, text=True,
                              capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
    with ahead(request.session, "test_a_page_does_what_it_says", play, programs()) as found:
        yield found


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(book.ROOT / "chapters")) for p in PAGES])
def test_a_page_does_what_it_says(page, played):
    """Every block runs, prints what the page shows, and every excerpt and picture is the code's own of today."""
    done = played(page)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(book.ROOT / "chapters")) for p in PAGES])
def test_what_a_page_names_is_there(page):
    """Links lead to files, and what stands in backticks as a module of miniray can be imported."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    missing = []
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
            missing.append(target)
    for name in re.findall(r"`(miniray(?:\.\w+)+)`", text):
        if not _is_there(name):
            missing.append(name)
    for path in re.findall(r"`((?:miniray|tests|examples|chapters)/[\w/.]+)`", text):
        if not (book.ROOT / path).exists():
            missing.append(path)
    assert not missing, missing


def test_no_solution_stands_open_beside_its_exercise():
    """Whoever reads the questions would have read the answers: they are folded, until one asks for them."""
    fold = re.compile(r"^<details>\n<summary>Solutions.*</summary>\n(.*)^</details>\n", re.M | re.S)
    for page in PAGES:
        _, found, exercises = page.read_text(encoding="utf-8").partition("\n## Exercises\n")
        questions, *folded = fold.split(exercises)
        assert not found or folded, f"{page} has no solutions"
        assert "```" not in questions and not "".join(folded[1:]).strip(), f"{page} shows a solution"


def _is_there(name: str) -> bool:
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
    """In a line for characters, alone for lines; everything else is compared to the letter."""
    assert book.matches("a ... c\n...\nend\n", "a b c\nmore\nlines\nend\n")
    assert not book.matches("a\nb\n", "a\nc\n")
    assert not book.matches("a\n", "a\nb\n")


def test_an_excerpt_is_found_by_its_name():
    """Functions, methods and constants, without their indentation."""
    text = book.source_of("miniray/core/transitions.py:move")
    assert text.startswith("def move(record")
    with pytest.raises(LookupError):
        book.source_of("miniray/core/transitions.py:nothing")
    assert pathlib.Path(book.ROOT / "miniray").is_dir()
