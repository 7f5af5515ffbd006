"""Where two answers differ, and the cause that a difference is filed under."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.differential.backends import Answer
from tests.differential.program import Program, Statement
from tests.differential.rules import table

KNOWN = {section.about: [re.compile(p) for p in section.alternatives] for section in table("known.txt")}
"""What the portability page says, by a phrase of it, with the patterns of the signatures that it explains."""

IDS = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{16,}\b")
"""Ids in hex, and namespaces without a name: their length is all that a program can rely on."""

NAMES = re.compile(r"\b([a-z_]+?)_?\d+(_\d+)*\b")
"""Names that the grammar makes: `fn3`, `u5_1234`. Which of them it was does not belong to a cause."""

OPTION = re.compile(r"\b(?:remote|options|method)\((\w+)=(?!.*\)\(lambda: \()")
"""The option that a statement tries: each has rules of its own."""

LONG_TEXT = re.compile(r"(?<=Error\()str of \d{3,4} characters|(?<=^\[)str of \d{3,4} characters(?=\] None$)")
"""The text of an error that quotes a traceback: its length depends on whose it is. A value of 200,000 has more digits."""

PRIVATE = re.compile(
    "<(FuncWrapper|Variant|ActorOptionWrapper|ActorVariant|_ActorMethodOptionsWrapper|MethodWithOptions)>"
)
"""Classes whose names no program sees."""


@dataclass(frozen=True)
class Signature:
    """What makes two differences the same cause: how miniray ran, what was tried, and the classes of the two answers."""

    mode: str
    kind: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"[{self.mode}] {self.kind}: {self.expected} / {self.actual}"

    @property
    def known(self) -> str:
        """What the portability page says about it; empty if nothing."""
        texts = f"{self.kind}: {self.expected} / {self.actual}", str(self)
        return next((phrase for phrase, some in KNOWN.items() if any(p.fullmatch(t) for p in some for t in texts)), "")


@dataclass(frozen=True)
class Difference:
    """The first lines in which the answers to one statement differ."""

    statement: int
    signature: Signature
    expected: list[str]
    actual: list[str]


def lines_by_statement(answer: Answer) -> dict[int, list[str]]:
    """The lines of each statement that showed any."""
    found: dict[int, list[str]] = {}
    for index, text in answer.lines:
        found.setdefault(index, []).append(same_for_all(text))
    return {index: ["HUNG"] if "HUNG" in texts else texts for index, texts in found.items()}


def same_for_all(text: str) -> str:
    """A line without what no program can rely on."""
    text = PRIVATE.sub("<what options gave>", text)
    text = IDS.sub(lambda found: f"<{len(found[0])} hex digits>", text)
    text = LONG_TEXT.sub("str of many characters", text)
    return re.sub(r"\b1[34]\d{13}\b", "<thread>", text)


def kind_of(statement: Statement) -> str:
    """What a statement tries. What goes wrong along one route of a zoo goes wrong along others, for the same reason."""
    kind = statement.kind.partition(":")[0]
    option = None if kind.startswith(("zoo", "interpreter", "define")) else OPTION.search(statement.text)
    return f"{kind} {option[1]}" if option else kind


def differences(program: Program, mode: str, expected: Answer, actual: Answer) -> list[Difference]:
    """One for each statement whose lines differ, in order. What follows a hang was not run, and is not compared."""
    wanted, got = lines_by_statement(expected), lines_by_statement(actual)
    found = []
    # A process that ends, or hangs in C code, takes with it what it had shown: only where it ended can be compared.
    lost = [lines for lines in (wanted, got) if len(lines) == 1 and ["HUNG"] in lines.values()]
    ended = {index for lines in (wanted, got) for index, texts in lines.items() if "DIED" in texts or lines in lost}
    for index in sorted(ended) or sorted(wanted.keys() | got.keys()):
        left, right = wanted.get(index, []), got.get(index, [])
        if "DIED" in left and not {"HUNG", "DIED"} & {*right}:
            break  # Ray's driver has crashed, often long after the statement that is to blame: that is no answer
        # A name that is missing on one side is missing because an earlier statement failed there, which has been compared.
        if left != right and not {"raises NameError", "UNCAUGHT NameError"} & {*left, *right}:
            kind = kind_of(program.statements[index]) if index >= 0 else "session"
            found.append(Difference(index, Signature(mode, kind, *first_classes(left, right)), left, right))
        if {"HUNG", "DIED"} & {*left, *right}:
            break
    return found


def first_classes(left: list[str], right: list[str]) -> tuple[str, str]:
    """The classes of the first pair of lines that differ."""
    for one, other in zip([*left, "nothing"], [*right, "nothing"], strict=False):
        if one != other:
            classes = [class_of(one), class_of(other)]
            if classes[0] == classes[1]:
                return words_that_differ(one, other)
            if any(c.startswith(("raises", "UNCAUGHT")) for c in classes):
                classes = [c.partition(" ")[0] if c.startswith("returns") else c for c in classes]
            return classes[0], classes[1]
    return "more lines", "fewer lines"


def class_of(line: str) -> str:
    """`raises KeyError` of what raised one, `returns` with the class of what was returned; else its first words."""
    if found := re.match(r"(raises|UNCAUGHT) ([\w.()]+)", line):
        return " ".join(found.groups())
    if line.startswith("returns "):
        return "returns " + (re.match(r"<?[A-Za-z_.]+|.?", line[8:]) or [""])[0]
    return " ".join(re.findall(r"[A-Za-z_.]+", line)[:3]) or line[:10]


def words_that_differ(one: str, other: str) -> tuple[str, str]:
    """The first words that two lines do not share; numbers are all the same number. Two errors of one class: only that."""
    if one.startswith(("raises", "UNCAUGHT")):
        return class_of(one), "its text or its attributes"
    left, right = (re.findall(r"[A-Za-z_.]+|\d+|[^\w\s]", same_number(line)) for line in (one, other))
    for a, b in zip([*left, "end"], [*right, "end"], strict=False):
        if a != b:
            return a, b
    return "other numbers", "other numbers"


def same_number(line: str) -> str:
    """A line whose numbers and made names are all alike."""
    return re.sub(r"\d+(\.\d+)?", "0", NAMES.sub(r"\1", line))
