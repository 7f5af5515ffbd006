"""Delta debugging: the smallest part of a program that still shows a difference."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Callable

from tests.differential.program import Program, Statement


def shrink(program: Program, still: Callable[[Program], bool], most: int = 30) -> Program:
    """Leave out statements, then lines in those that remain, while `still(program)` is true; it is asked at most so often.

    Zeller's ddmin: halves, quarters, and so on to single ones."""
    budget = [most]

    def ask(statements: list[Statement]) -> bool:
        if budget[0] <= 0 or not statements:
            return False
        budget[0] -= 1
        return still(program.with_statements(statements))

    kept = minimal(list(program.statements), ask)
    for index in range(len(kept)):
        kept[index] = with_fewer_lines(kept, index, ask)
    return program.with_statements(kept)


def slice_of(program: Program) -> Program:
    """The last statement and those that define the names it uses, and so on: a good guess that needs no session."""
    *before, last = program.statements
    kept, wanted = [last], names_used(last.text) - names_defined(last.text)
    for statement in reversed(before):
        if wanted & (defined := names_defined(statement.text)):
            kept.append(statement)
            wanted = wanted - defined | names_used(statement.text) - defined
    return program.with_statements(kept[::-1])


def names_used(text: str) -> set[str]:
    """Every name that the text reads, at whatever depth."""
    nodes = ast.walk(ast.parse(text))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def names_defined(text: str) -> set[str]:
    """The names that the text binds at its top level."""
    symbols = symtable.symtable(text, "<statement>", "exec").get_symbols()
    return {s.get_name() for s in symbols if s.is_assigned() or s.is_imported() or s.is_namespace()}


def with_fewer_lines(statements: list[Statement], index: int, ask: Callable[[list[Statement]], bool]) -> Statement:
    """One of the statements, without the lines that it does not need."""
    before, old, after = statements[:index], statements[index], statements[index + 1 :]

    def holds(lines: list[str]) -> bool:
        return compiles(lines) and ask([*before, Statement(old.kind, "\n".join(lines)), *after])

    return Statement(old.kind, "\n".join(minimal(old.text.split("\n"), holds)))


def compiles(lines: list[str]) -> bool:
    """Whether these lines are Python: most parts of a statement are not, and need no session to find out."""
    try:
        compile("\n".join(lines), "<part>", "exec")
    except SyntaxError:
        return False
    return True


def minimal(parts: list, holds: Callable[[list], bool]) -> list:
    """A part of the list that still holds, of which no single piece can be left out (unless `holds` gave up)."""
    pieces = 2
    while len(parts) >= 2:
        size = max(1, len(parts) // pieces)
        for start in range(0, len(parts), size):
            rest = parts[:start] + parts[start + size :]
            if rest and holds(rest):
                parts, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if size == 1:
                break
            pieces = min(len(parts), pieces * 2)
    return parts
