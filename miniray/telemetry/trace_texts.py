"""The context of a call as text: in which span it was made. The context of most calls is that of their caller."""

from __future__ import annotations

import json
from typing import Any

from ..process.trace_context import Caller, Context, Sent


def trace_to_json(trace: Any) -> str | None:
    """The context of a call, without its baggage and headers, which may hold what the program wants to keep to itself;
    None for a call of the driver outside of any span."""
    if trace is None:
        return None
    if isinstance(trace, Caller):
        return json.dumps({"caller": [trace.root, trace.number, trace.attempt], "context": _context(trace.context)})
    return json.dumps({"context": _context(trace)})


def _context(context: Context | None) -> Any:
    if context is None:
        return None
    found = [f"{context.trace_id:032x}", f"{context.span_id:016x}", context.flags, context.state]
    if isinstance(context, Sent):
        found.append(f"{context.parent_id:016x}" if context.parent_id is not None else "")
    return found


def trace_from_json(text: str | None) -> Any:
    """The reverse of `trace_to_json`."""
    if not text:
        return None
    told = json.loads(text)
    context = _context_from(told["context"])
    return Caller(context, *told["caller"]) if "caller" in told else context


def _context_from(found: Any) -> Context | None:
    if found is None:
        return None
    trace_id, span_id, flags, state, *parent = found
    if parent:
        return Sent(int(parent[0], 16) if parent[0] else None, int(trace_id, 16), int(span_id, 16), flags, state)
    return Context(int(trace_id, 16), int(span_id, 16), flags, state)
