"""Names and messages are data: a task may be called `</script>`, or `\\x1b[2J`, which clears a terminal."""

from __future__ import annotations


def escaped(text: str, kept: str = "") -> str:
    """text with every character spelled out that does not print, such as `\\x1b`, but for those in `kept`.

    Among them are those that turn what stands after them around, so that a name could look like another one.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in kept else one.encode("unicode_escape").decode("ascii") for one in text
    )


def for_terminal(text: object, newlines: bool = False) -> str:
    """str(text) with everything spelled out that would steer a terminal, or break a line.

    newlines: whether line ends are kept, for text that is meant to have several lines; a tab becomes a space then.
    """
    said = str(text)
    if newlines:
        return "\n".join(escaped(line.replace("\t", " ")) for line in said.splitlines())
    return escaped(said)
