"""Names and messages are data: a task may be called `</script>`, or `\\x1b[2J`, which clears a terminal."""

from __future__ import annotations


def spelled(character: str) -> str:
    """A character as a Python escape, such as `\\n`, `\\x1b` or `\\u202e`; a printable ASCII character as it is."""
    return character.encode("unicode_escape").decode("ascii")


def escaped(text: str, kept: str = "") -> str:
    """The text with every character that does not print spelled out, except for the characters in `kept`.

    Among them are the marks that reverse the direction of the text after them, so that one name could look like
    another.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else spelled(one) for one in text)


def for_terminal(text: object, newlines: bool = False) -> str:
    """str(text) with every character spelled out that would control a terminal or break the line.

    newlines: whether to keep line ends, for text that has several lines; a tab then becomes a space.
    """
    said = str(text)
    if newlines:
        return "\n".join(escaped(line.replace("\t", " ")) for line in said.splitlines())
    return escaped(said)
