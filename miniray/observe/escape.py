"""Names and messages are data: a task may be called `</script>`, or `\\x1b[2J`, which clears a terminal."""
from __future__ import annotations

import html

# Invisible to the eye, these turn what stands after them around: a name could look like another one.
_DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def for_terminal(text: object, newlines: bool = False) -> str:
    """str(text) with everything spelled out that would steer a terminal, such as `\\x1b`.

    newlines: whether line ends are kept, for text that is meant to have several lines; a tab becomes a space then.
    """
    said = str(text)
    if said.isprintable() and said.isascii():
        return said
    if newlines:
        return "\n".join(for_terminal(line.replace("\t", " ")) for line in said.splitlines())
    return "".join(one if one.isprintable() and one not in _DIRECTIONS else
                   one.encode("unicode_escape").decode("ascii") for one in said)


def for_html(text: object) -> str:
    """str(text) for HTML or SVG, between tags or in a quoted attribute: markup and what HTML has no character for."""
    return html.escape("".join(one if one.isprintable() or one in "\n\t" else
                               one.encode("unicode_escape").decode("ascii") for one in str(text)), quote=True)
