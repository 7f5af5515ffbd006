"""Texts of the user's, and lengths of time, made fit for a page that people read."""

from __future__ import annotations

from html import escape

from ..escape import escaped


def readable(text: str, limit: int = 300) -> str:
    """A text of the user's with everything spelled out that would not show or would change what stands around it:
    control characters, terminal escapes, marks that turn the direction of writing, lone surrogates. Longer ones are
    cut, and say so."""
    clean = escaped(text[:limit])
    return clean if len(text) <= limit else f"{clean}… ({len(text):,} characters)"


def lines(text: str, limit: int) -> str:
    """The same for a text of several lines, which stay lines."""
    whole = "\n".join(readable(line, limit) for line in text[:limit].expandtabs().split("\n"))
    return whole if len(text) <= limit else f"{whole}… ({len(text):,} characters)"


def marked(text: str) -> str:
    """A name of the user's within a sentence of ours: whatever direction it is written in, the sentence keeps its
    own."""
    return f"<bdi>{escape(text)}</bdi>"


def duration(seconds: float) -> str:
    """A length of time for people: three digits and a unit."""
    if seconds <= 0:
        return "0"
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6)):
        if seconds >= size * (100 if unit in ("h", "min") else 0.9995) or unit == "\u00b5s":
            break
    number = seconds / size
    return f"{number:,.0f} {unit}" if number >= 999.5 else f"{number:.3g} {unit}"
