"""The mutants themselves: which mistakes are made and which never are, the choice by a seed, and the list of equivalent ones."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.mutate import MISTAKES, choose, mutants
from tests.mutants.run import EQUIVALENT, Outcome, equivalents, rate, report, sources


def variants(source: str) -> set[str]:
    """What the lines of a source are turned into."""
    return {"\n".join(line[1:].strip() for line in one.diff if line[0] == "+") for one in mutants("m.py", source)}


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("x = a < b", {"x = (a <= b)", "x = (a >= b)"}),
        ("x = a is None", {"x = (a is not None)"}),
        ("x = a and b", {"x = (a or b)", "x = a", "x = b"}),
        ("x = not a", {"x = a"}),
        ("x = a + b", {"x = (a - b)"}),
        ("x = 1", {"x = 2", "x = 0"}),
        ("x = True", {"x = False"}),
        ("x = 'FAILED'", {"x = 'NOT_FAILED'"}),
        ("x += y", {"x -= y", "pass"}),
        ("f(a, b, c)", {"pass", "f(a, c, b)"}),
        ("x.y = z", {"pass"}),
        ("x.y, z = 'a b', w", {"z = w"}),
        ("x = a if b else c", {"x = a", "x = c", "x = (c if b else a)"}),
        ("if a:\n    f(b)", {"if True:", "if False:", "if (not a):", "pass"}),
        ("while a:\n    break", {"while False:", "pass"}),
        ("x = [a for a in b if a]", {"x = ([a for a in b])"}),
        ("x = min(a)", {"x = max(a)"}),
        ("x.append(a)", {"x.insert(0, a)", "pass"}),
        ("x = list(a)", {"x = a"}),
        ("x = a[b:]", {"x = a[b + 1:]"}),
        ("def f():\n    return a", {"return"}),
        ("raise a", {"pass"}),
    ],
)
def test_each_mistake_is_made_once(source, wanted):
    """Every mistake that the operators know, and none that leaves the source as it is."""
    assert variants(source) == wanted


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring of 1 < 2."""',
        "def f(x: int | None) -> bool:\n    ...",
        "class A:\n    def __repr__(self):\n        return 1",
        "def story(self):\n    return [1 < 2]",
        "assert x is not None, 'a message'",
        "x = f'{a + b}'",
        "def f():\n    return None",
        "x = 'a sentence'",
        "if TYPE_CHECKING:\n    import a",
        "class A:\n    __slots__ = ('x', 'y')",
        "@dataclass(slots=True)\nclass A(B[1]):\n    x: int",
    ],
)
def test_texts_for_people_and_for_type_checkers_are_left_alone(source):
    """A test that notices such a change would only repeat the text."""
    assert not variants(source)


def test_a_mutant_changes_one_place_and_keeps_the_lines_around_it():
    """The columns of the tree are bytes: other letters before the place do not move it."""
    source = "# one\nx = 'ä ö', a < b  # two\ny = a\n"
    assert mutants("m.py", source)[0].source == "# one\nx = 'ä ö', (a <= b)  # two\ny = a\n"


def test_every_mutant_can_be_compiled_and_differs():
    """One that is no Python is noticed by nobody's test; every kind of mistake is among those of the project."""
    some = ("wakeups.py", "worker_pool.py", "object_store.py", "explanation.py")
    chosen = choose({path: source for path, source in sources().items() if path.endswith(some)}, 200, seed=0)
    for one in chosen:
        assert ast.dump(ast.parse(one.source)) != ast.dump(ast.parse(one.original)), one.diff
    assert len({one.kind for one in chosen}) >= len(MISTAKES) - 1  # slices are rare


def test_a_seed_chooses_the_same_mutants_every_time():
    """And another seed others. What is chosen in one module does not depend on the others."""
    source = {"a.py": "x = a < b < c < d\n" * 10, "b.py": "x = a + b - c * d\n" * 30}
    first = choose(source, 8, seed=1)
    assert first == choose(source, 8, seed=1) != choose(source, 8, seed=2)
    changed = choose({**source, "a.py": "y = 1\n" * 10}, 8, seed=1)
    assert [one for one in first if one.path == "b.py"] == [one for one in changed if one.path == "b.py"]


def test_larger_modules_have_more_mutants():
    """In proportion to their lines, and as many as were asked for."""
    found = choose({"a.py": "x = a < b\n" * 10, "b.py": "x = a < b\n" * 30}, 8, seed=1)
    assert [one.path for one in found] == ["a.py"] * 2 + ["b.py"] * 6


def test_a_mutant_keeps_its_name_when_other_lines_move():
    """So that the list of equivalent ones need not be written again with every change."""
    before, after = "def f():\n    return a < b\n", "import a\n\ndef f():\n        return a < b\n"
    assert [one.key for one in mutants("m.py", before)] == [one.key for one in mutants("m.py", after)]


def test_the_entries_of_the_list_are_read():
    """A heading with the module and the function, the change, and the reason."""
    one = mutants("m.py", "def f():\n    return a < b\n")[0]
    text = "# Title\n\n## m.py, f\n\n```diff\n" + "\n".join(one.diff) + "\n```\n\nA reason.\n\n## n.py, g\n"
    assert equivalents(text) == {one.key: "A reason."}


def test_every_entry_of_the_list_has_a_reason():
    """As many entries as headings: none is passed over because it was written differently."""
    text = EQUIVALENT.read_text(encoding="utf-8")
    found = equivalents(text)
    assert len(found) == text.count("\n## ") and all(found.values())


def test_the_rate_counts_mutants_that_change_something():
    """One that runs into the time limit was noticed; an equivalent one does not count."""
    source = "".join(f"x{at} = a < b\n" for at in range(5))
    words = ["killed", "timed out", "killed", "survived", "equivalent"]
    fates = [(number, one, Outcome(word)) for number, (one, word) in enumerate(zip(mutants("m.py", source), words))]
    lines = list(report(fates))
    assert rate({"killed": 2, "timed out": 1, "survived": 1, "equivalent": 9}) == 75
    assert lines[-1].split() == ["all", "2", "1", "1", "1", "75", "%"]
    assert lines[0].startswith("\n#3 survived: m.py:2") and lines[1:3] == ["-x1 = a < b", "+x1 = (a >= b)"]
