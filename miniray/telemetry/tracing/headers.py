"""W3C headers: `traceparent`, `tracestate` and `baggage`, from and to a Context.

A header that does not follow the specification is ignored, as the specification asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Union

from ...process.trace_context import Context

# version, trace id, span id, flags; a later version may add fields after another dash
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL)
MOST_MEMBERS, MOST_CHARACTERS = 32, 8192  # W3C: of a tracestate; of a baggage
Headers = Union[Mapping[str, str], Iterable[tuple[str, str]]]


def read(headers: Headers) -> Context | None:
    """The context that these headers describe; None if they describe none. headers: a mapping, or pairs, in which a
    name may occur several times. Upper and lower case are the same."""
    items = headers.items() if isinstance(headers, Mapping) or hasattr(headers, "items") else headers
    found: dict[str, list[str]] = {}
    for name, value in items:
        if isinstance(name, str) and isinstance(value, str):
            found.setdefault(name.lower(), []).append(value.strip())
    baggage = ",".join(found.get("baggage", ()))
    if len(baggage) > MOST_CHARACTERS or not _is_plain(baggage):
        baggage = ""
    parents = found.get("traceparent", ())
    ids = _parse(parents[0]) if len(parents) == 1 else None
    if ids is None:
        return Context(baggage=baggage) if baggage else None
    state = ",".join(found.get("tracestate", ()))
    if state.count(",") >= MOST_MEMBERS or not _is_plain(state):
        state = ""
    return Context(*ids, state, baggage)


def _parse(text: str) -> tuple[int, int, int] | None:
    """The trace id, span id and flags of a traceparent; None if it is not valid."""
    match = _TRACEPARENT.fullmatch(text)
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "ff" or version == "00" and more is not None:
        return None
    ids = int(trace_id, 16), int(span_id, 16)
    return (*ids, int(flags, 16)) if all(ids) else None


def _is_plain(text: str) -> bool:
    """Whether the text may be a header: it must not be able to add another one."""
    return text.isascii() and text.isprintable()


def write(context: Context, headers: MutableMapping[str, str]) -> None:
    """Add the context to the headers."""
    if context.span_id:
        headers["traceparent"] = context.traceparent
        if context.state:
            headers["tracestate"] = context.state
    if context.baggage:
        headers["baggage"] = context.baggage
