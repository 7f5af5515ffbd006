"""Names and messages are data: in a terminal, in a table, in YAML."""

import json
import random

from miniray.cli._layout import plain_table, yaml, yaml_document
from miniray.observe.escape import for_terminal


def test_no_name_can_control_a_terminal():
    """Escape codes, bells, carriage returns and marks that reverse text are spelled out; plain text stays as it is."""
    assert for_terminal("plain text, é and 日本 too") == "plain text, é and 日本 too"
    assert for_terminal("\x1b[2J\a\r\x9b1m\u202ehidden\x7f") == r"\x1b[2J\x07\r\x9b1m\u202ehidden\x7f"
    assert (
        for_terminal("two\nlines") == r"two\nlines"
        and for_terminal("two\n\x1blines\n", newlines=True) == "two\n\\x1blines"
    )
    assert for_terminal(3) == "3"
    assert all(one.isprintable() for one in for_terminal("".join(map(chr, range(0x3000)))))


def test_yaml_quotes_text_that_would_be_read_as_another_value():
    """Text like a number, a bool, a time or null, and text with characters that have a meaning in YAML."""
    for text in (
        "01000000",
        "null",
        "Yes",
        "1e5",
        "0x1f",
        "1:30",
        "2026-01-31 12:00:00",
        "",
        "- a",
        "a: b",
        "a #b",
        "a:",
        "{}",
        "'",
        "~",
        "=",
        " a",
        "a ",
        "*a",
        "@a",
        "? a",
        "%a",
    ):
        assert yaml(text) == "'" + text.replace("'", "''") + "'\n", text
    for text in (
        "talk",
        "127.0.0.1",
        "1.2.3",
        "node:1",
        "User exception",
        "<class 'x'>",
        "/tmp/x.out",
        "1f2e",
        "ends.here",
    ):
        assert yaml(text) == text + "\n", text
    assert (
        yaml('two\nlines \x1b \u2028 é \U0001f600 "q" \\')
        == '"two\\nlines \\e \\u2028 \\xE9 \\U0001F600 \\"q\\" \\\\"\n'
    )


def test_yaml_of_rows():
    """As Ray prints them: a list begins at the column of its key; other nested values are indented by four."""
    row = {
        "id": "a1",
        "n": 3,
        "none": None,
        "on": True,
        "x": 0.5,
        "big": 1e22,
        "inf": float("-inf"),
        "empty": {},
        "none_of": [],
        "deep": {"CPU": 1.0},
        "events": [{"state": "A", "at": 1}, {"state": "B", "at": [[1], 2]}],
    }
    assert (
        yaml_document([row])
        == """---
-   id: a1
    'n': 3
    none: null
    'on': true
    x: 0.5
    big: 1.0e+22
    inf: -.inf
    empty: {}
    none_of: []
    deep:
        CPU: 1.0
    events:
    -   state: A
        at: 1
    -   state: B
        at:
        -   -   1
        -   2
...
"""
    )


def test_yaml_has_only_lines_of_printable_ascii():
    """Whatever characters a name contains."""
    chance = random.Random(1)
    for _ in range(300):
        text = "".join(
            chr(
                chance.choice(
                    (chance.randrange(0x20), chance.randrange(0x7F, 0x3000), chance.randrange(0x10000, 0x11000))
                )
            )
            for _ in range(9)
        )
        said = yaml({text: [text]})
        assert said.isascii() and all(line.isprintable() for line in said.splitlines()) and said.count("\n") == 2, (
            ascii(text)
        )
        assert (
            json.loads(
                said.splitlines()[1][4:].replace("\\e", "\\u001b").replace("\\0", "\\u0000").replace("\\x", "\\u00")
                if "\\U" not in said
                else json.dumps(text)
            )
            == text
        )


def test_tables_are_aligned_as_in_ray():
    """Numbers and digits to the right, text to the left; the row's number comes first; a dict is YAML."""
    table = plain_table(
        ["NAME", "PID", "JOB_ID", "WHAT"], [["a\x1b", 12, "01000000", {"CPU": 1.0, "x": 2}], [None, 7, None, "t"]]
    )
    assert (
        table
        == r"""
    NAME      PID    JOB_ID  WHAT
 0  a\x1b      12  01000000  CPU: 1.0
                             x: 2
 1              7            t"""[1:]
    )
    ruled = plain_table(["TYPE"], [["x"]], rule=True, numbers_right=False)
    assert ruled == "    TYPE\n--  ------\n0   x"
