"""Run a chapter: execute its Python blocks in order, and compare their output with the text blocks after them.

    python -m tests.chapters.book chapters/01_tasks/README.md      run one chapter
    python -m tests.chapters.book --refresh                        regenerate the excerpts and pictures in all chapters

The words after a block's three backticks decide its kind:

    python                  code; all blocks of a chapter share one namespace
    text                    after a python or console block: its output. The line `...` stands for any lines, and `...`
                            inside a line for any characters
    console                 lines `$ command`, each followed by its output
    python excerpt=FILE:NAME    the source of a function, class, constant or method (Class.method)
    mermaid picture=NAME    a picture that tests/chapters/pictures.py draws from the code
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap
import traceback
import types
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.M | re.S)


@dataclass
class Block:
    """A fenced block. info: the words after its backticks. body: its text. line: the number of its first line."""

    info: str
    body: str
    line: int

    @property
    def kind(self) -> str:
        """The first word of the info."""
        return self.info.split(" ")[0]

    def option(self, name: str) -> str | None:
        """The value of `name=value` in the info."""
        found = re.search(rf"(?:^| ){name}=(\S+)", self.info)
        return found and found.group(1)


def pages() -> list[pathlib.Path]:
    """Every page of the book."""
    return sorted((ROOT / "chapters").rglob("*.md"))


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(m["info"].strip(), m["body"], text.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(text)]


def source_of(reference: str) -> str:
    """The source of FILE:NAME, without its indentation. Raises LookupError if the file has no such name."""
    file, _, name = reference.partition(":")
    text = (ROOT / file).read_text(encoding="utf-8")
    nodes: list[ast.AST] = list(ast.parse(text).body)
    for part in name.split("."):
        node = next((n for n in nodes if _is_called(n, part)), None)
        if node is None:
            raise LookupError(f"{file} has no {name}")
        nodes = list(getattr(node, "body", []))
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return textwrap.dedent("\n".join(text.split("\n")[first - 1 : node.end_lineno])) + "\n"


def _is_called(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and node.target.id == name
    return getattr(node, "name", None) == name


def fresh(block: Block) -> str | None:
    """The current content of a block that is generated from the code; None for other blocks."""
    from tests.chapters import pictures

    if (reference := block.option("excerpt")) is not None:
        return source_of(reference)
    if (name := block.option("picture")) is not None:
        return pictures.draw(name)
    return None


def matches(expected: str, printed: str) -> bool:
    """Whether the output matches the expected text, in which `...` stands for any text."""
    expected, printed = _trimmed(expected), _trimmed(printed)
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
        for line in expected.split("\n")
    )
    return re.fullmatch(pattern, printed + "\n") is not None


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))


def run(path: pathlib.Path) -> list[str]:
    """Run a page. Returns a text for each thing that is wrong with it."""
    found = blocks(path.read_text(encoding="utf-8"))
    space = types.ModuleType("chapter")
    wrong: list[str] = []
    where = path.relative_to(ROOT)
    for position, block in enumerate(found):
        wanted = fresh(block)
        if wanted is not None:
            if wanted != block.body:
                wrong.append(f"{where}:{block.line}: the code has changed; `make refresh` updates this block")
        elif block.info == "python":
            printed, error = _execute(block, where, space)
            if error:
                wrong.append(f"{where}:{block.line}: {error}")
                break
            _compare(found, position, printed, where, wrong)
        elif block.kind == "console":
            _console(block, where, wrong)
    return wrong


def _execute(block: Block, where: pathlib.Path, space: types.ModuleType) -> tuple[str, str]:
    out = io.StringIO()
    try:
        # The empty lines give the code the line numbers of the page, for tracebacks.
        code = compile("\n" * block.line + block.body, str(ROOT / where), "exec")
        with contextlib.redirect_stdout(out):
            exec(code, space.__dict__)
    except BaseException:
        return out.getvalue(), traceback.format_exc()
    return out.getvalue(), ""


def _compare(found: list[Block], position: int, printed: str, where: pathlib.Path, wrong: list[str]) -> None:
    after = found[position + 1] if position + 1 < len(found) else None
    expected = after.body if after is not None and after.kind == "text" else ""
    if not matches(expected, printed):
        wrong.append(f"{where}:{found[position].line}: expected\n{expected}\nbut it printed\n{printed}")


def _console(block: Block, where: pathlib.Path, wrong: list[str]) -> None:
    for part in re.split(r"^\$ ", block.body, flags=re.M)[1:]:
        command, _, expected = part.partition("\n")
        words = [sys.executable if word == "python" else word for word in shlex.split(command)]
        done = subprocess.run(
            words,
            cwd=ROOT / where.parent,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        if not matches(expected, done.stdout):
            wrong.append(f"{where}:{block.line}: $ {command}\nexpected\n{expected}\nbut it printed\n{done.stdout}")


def refresh() -> None:
    """Regenerate the excerpts and pictures of every page, and the page that is made from the schema."""
    from tests.chapters import tables

    (ROOT / tables.PAGE).write_text(tables.page(), encoding="utf-8")
    for path in pages():
        text = path.read_text(encoding="utf-8")

        def updated(match: re.Match) -> str:
            wanted = fresh(Block(match["info"].strip(), match["body"], 0))
            return match.group(0) if wanted is None else f"```{match['info']}\n{wanted}```"

        new = FENCE.sub(updated, text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(f"updated {path.relative_to(ROOT)}")


def main(arguments: list[str]) -> int:
    """The command line; returns the exit code."""
    if arguments == ["--refresh"]:
        refresh()
        return 0
    wrong: list[str] = []
    for argument in arguments:
        wrong += run(pathlib.Path(argument).resolve())
    print("\n\n".join(wrong) or "as written")
    return bool(wrong)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # a thread that a chapter has left behind would keep the process alive
