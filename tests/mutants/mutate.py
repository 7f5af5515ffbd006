"""Mutants: a module with one small mistake in it. Which mistakes can be made, and the choice of some of them by a seed.

A mutant changes one node of the syntax tree, in the text of the source, so that the rest keeps its lines and comments. Texts for
people are left alone (docstrings, f-strings, sentences, `__repr__`), and so are annotations, decorators and assertions.
"""

from __future__ import annotations

import ast
import difflib
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import Any

Changed = ast.AST | str
"""What stands in the place of a node."""

OTHER_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
}
OTHER_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Add,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
OTHER_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "appendleft": "append", "popleft": "pop"}
COPIES = {"list", "tuple", "sorted", "reversed", "set", "dict"}  # calls that may be left out: their argument stays
WORD = re.compile(r"[A-Za-z]+(_[A-Za-z]+)*")  # a text that programs read
SPARED = {"__repr__", "__str__", "story"}


@dataclass(frozen=True)
class Mutant:
    """A source with one mistake. where: the function or class, with its dots. kind: which sort of mistake."""

    path: str
    line: int
    where: str
    kind: str
    original: str
    source: str

    @property
    def diff(self) -> list[str]:
        """The lines that differ: those of the original with a minus, then the mutant's with a plus."""
        lines = difflib.unified_diff(self.original.splitlines(), self.source.splitlines(), lineterm="", n=0)
        return [line for line in list(lines)[2:] if not line.startswith("@@")]

    @property
    def key(self) -> tuple[str, ...]:
        """What names this mutant when other lines of the module have moved."""
        return self.path, self.where, *(line[0] + line[1:].strip() for line in self.diff)


def mutants(path: str, source: str) -> list[Mutant]:
    """Every mutant of a module that differs from it and from the others, in the order of their lines."""
    data = source.encode()  # the tree counts columns in bytes
    starts = [0, *accumulate(len(line) for line in data.splitlines(keepends=True))]
    found: dict[str, Mutant] = {}
    for node, where in _walk(ast.parse(source), ""):
        for kind, place, changed in _changes(node):
            start = starts[place.lineno - 1] + place.col_offset
            end = starts[place.end_lineno - 1] + place.end_col_offset
            new = (data[:start] + _spell(changed).encode() + data[end:]).decode()
            if new not in found and _spell(changed) != _spell(place):
                found[new] = Mutant(path, place.lineno, where, kind, source, new)
    return sorted(found.values(), key=lambda one: one.line)


def choose(sources: dict[str, str], number: int, seed: int) -> list[Mutant]:
    """So many mutants of the modules (source by path), each module in proportion to its lines that are not blank.

    The choice within one module depends on the seed and on its own source only.
    """
    sizes = {path: sum(bool(line.strip()) for line in source.splitlines()) for path, source in sources.items()}
    shares = {path: number * size / (sum(sizes.values()) or 1) for path, size in sizes.items()}
    counts = {path: int(share) for path, share in shares.items()}
    largest = sorted(shares, key=lambda path: counts[path] - shares[path])
    for path in largest[: number - sum(counts.values())]:
        counts[path] += 1
    chosen = []
    for path, count in counts.items():
        every = mutants(path, sources[path]) if count else []
        some = random.Random(f"{seed} {path}").sample(every, min(count, len(every)))
        chosen += sorted(some, key=lambda one: one.line)
    return chosen


# ------------------------------------------------------------ where a mistake can be made


def _walk(node: ast.AST, where: str) -> Iterator[tuple[Any, str]]:
    """Every statement and expression that does something, with the function or class that it stands in."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if node.name in SPARED:
            return
        where = f"{where}.{node.name}".lstrip(".")
    if isinstance(node, (ast.JoinedStr, ast.Assert)) or _is_docstring(node) or _declares(node):
        return
    if isinstance(node, (ast.stmt, ast.expr)):
        yield node, where
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "op", "ops", "ctx"):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST):
                yield from _walk(child, where)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _declares(node: ast.AST) -> bool:
    """It is there for type checkers, or names the slots of a class: a mistake in it would be an error at once."""
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__slots__"
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


# ------------------------------------------------------------ which mistakes can be made there


def _changes(node: Any) -> Iterator[tuple[str, Any, Changed]]:
    """(kind, the node in whose place it stands, what stands there)."""
    for kind, make in MISTAKES.items():
        for changed in make(node):
            yield kind, node, changed
    if isinstance(node, (ast.If, ast.While)):
        if isinstance(node, ast.If):  # a `while True` would only be waited for
            yield "another condition", node.test, ast.Constant(True)
            yield "another condition", node.test, ast.UnaryOp(ast.Not(), node.test)
        yield "another condition", node.test, ast.Constant(False)


def _but(node: Any, **fields: Any) -> Any:
    """The node with other fields."""
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


def _spell(changed: Changed) -> str:
    """The text of what stands there now, in parentheses where it might need them."""
    if isinstance(changed, str):
        return changed
    text = ast.unparse(changed)
    bare = isinstance(changed, (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript, ast.stmt, ast.Slice))
    return text if bare else f"({text})"


def _comparison(node: Any) -> Iterator[Changed]:
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            for other in OTHER_COMPARISONS[type(op)]:
                yield _but(node, ops=[*node.ops[:at], other(), *node.ops[at + 1 :]])


def _boolean(node: Any) -> Iterator[Changed]:
    if isinstance(node, ast.BoolOp):
        yield _but(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for rest in combinations(node.values, len(node.values) - 1):
            yield _but(node, values=list(rest)) if len(rest) > 1 else rest[0]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand


def _arithmetic(node: Any) -> Iterator[Changed]:
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OTHER_ARITHMETIC:
        yield _but(node, op=OTHER_ARITHMETIC[type(node.op)]())


def _constant(node: Any) -> Iterator[Changed]:
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, (int, float)):
        yield ast.Constant(node.value + 1)
        if node.value:
            yield ast.Constant(node.value - 1)
    elif isinstance(node.value, str) and WORD.fullmatch(node.value):
        yield ast.Constant(f"NOT_{node.value}")


def _deleted(node: Any) -> Iterator[Changed]:
    if isinstance(node, (ast.AugAssign, ast.Delete, ast.Raise)):
        yield "pass"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "pass"
    elif isinstance(node, ast.Assign):  # one without this name would only be a NameError
        if all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets):
            yield "pass"
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
            for left_out in pairs:
                if not isinstance(left_out[0], ast.Name):
                    kept = [pair for pair in pairs if pair is not left_out]
                    yield (
                        ", ".join(ast.unparse(p[0]) for p in kept) + " = " + ", ".join(ast.unparse(p[1]) for p in kept)
                    )


def _jump(node: Any) -> Iterator[Changed]:
    if isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "return"
    elif isinstance(node, (ast.Return, ast.Continue, ast.Break)):
        yield "pass"


def _condition(node: Any) -> Iterator[Changed]:
    """Of an expression, and the filter of a comprehension. Those of statements: see _changes."""
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
        yield _but(node, body=node.orelse, orelse=node.body)
    for at, generator in enumerate(getattr(node, "generators", ())):
        if generator.ifs:
            generators = [*node.generators[:at], _but(generator, ifs=[]), *node.generators[at + 1 :]]
            yield _but(node, generators=generators)


def _call(node: Any) -> Iterator[Changed]:
    if not isinstance(node, ast.Call):
        return
    plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
    if len(plain) == len(node.args) > 1:  # of a call the last two only: most such mistakes are a TypeError
        yield _but(node, args=[*plain[:-2], plain[-1], plain[-2]])
    if isinstance(node.func, ast.Name):
        if node.func.id in OTHER_CALLS:
            yield _but(node, func=ast.Name(OTHER_CALLS[node.func.id]))
        if node.func.id in COPIES and len(plain) == len(node.args) == 1:
            yield plain[0]
    elif isinstance(node.func, ast.Attribute) and node.func.attr in OTHER_CALLS:
        yield _but(node, func=_but(node.func, attr=OTHER_CALLS[node.func.attr]))
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "append":  # at the other end, of a list, too
        yield _but(node, func=_but(node.func, attr="insert"), args=[ast.Constant(0), *plain])


def _slice(node: Any) -> Iterator[Changed]:
    if isinstance(node, ast.Slice):
        for name in ("lower", "upper"):
            bound = getattr(node, name)
            if bound is not None and not isinstance(bound, ast.Constant):  # these are changed as constants
                yield _but(node, **{name: ast.BinOp(bound, ast.Add(), ast.Constant(1))})


MISTAKES: dict[str, Callable[[Any], Iterator[Changed]]] = {
    "another comparison": _comparison,
    "another boolean": _boolean,
    "another operation": _arithmetic,
    "another constant": _constant,
    "left out": _deleted,
    "goes on": _jump,
    "another condition": _condition,
    "another call": _call,
    "another slice": _slice,
}
