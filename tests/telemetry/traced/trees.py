"""The spans of a run as trees that can be compared: by step, without times, and with names in place of ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DRIVER = "01000000" + "f" * 8  # a driver's worker id begins with its job's id
Trees = dict[str, list[Any]]


def read(folder: Path) -> Trees:
    """The trees of the spans in a folder."""
    lines = [line for path in folder.glob("*.spans") for line in path.read_text(encoding="utf-8").splitlines()]
    return trees([json.loads(line) for line in lines if line.strip()])


def trees(spans: list[dict[str, Any]]) -> Trees:
    """The trees of each step. A span without a parent that is called "step NAME" begins a step."""
    spans = sorted(spans, key=lambda span: span["start_time"])
    known = {span["context"]["span_id"]: span for span in spans}
    assert len(known) == len(spans), "two spans have one id"
    children: dict[str | None, list[dict[str, Any]]] = {}
    for span in spans:
        parent = known.get(span["parent_id"])
        assert parent is not None or span["parent_id"] is None, f"the parent of {span['name']} is missing"
        if parent is not None:
            assert span["context"]["trace_id"] == parent["context"]["trace_id"], "one tree, two traces"
        children.setdefault(span["parent_id"], []).append(span)
    roots = children.get(None, [])
    assert len({root["context"]["trace_id"] for root in roots}) == len(roots), "one trace, two trees"
    found: Trees = {}
    step: list[dict[str, Any]] = []
    steps = {}
    for root in roots:
        if root["name"].startswith("step "):
            steps[root["name"][5:]] = step = []
        else:
            step.append(root)
    for name, step in steps.items():
        symbols: dict[str, dict[str, str]] = {}
        found[name] = [_tree(root, None, children, symbols) for root in _sorted(step)]
    return found


def _sorted(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Siblings may run at the same time: those with one name come in order of time, others by name."""
    return sorted(spans, key=lambda span: (span["name"], span["kind"], span["start_time"]))


def _tree(span: dict[str, Any], parent: Any, children: Any, symbols: dict[str, dict[str, str]]) -> Any:
    def symbol(kind: str, value: str) -> str:
        group = symbols.setdefault(kind, {})
        return group.setdefault(value, f"{kind} {len(group) + 1}")

    attributes = {}
    for name, value in sorted(span["attributes"].items()):
        assert isinstance(value, str)
        if name == "ray.pid":
            value = "a number" if value.isdigit() else value
        elif name in ("ray.node_id", "ray.task_id", "ray.actor_id"):
            value = symbol(name[4:-3], value)
        elif name == "ray.worker_id":
            same = parent is not None and parent["attributes"].get(name) == value
            value = "driver" if value.startswith(DRIVER) else "its parent's" if same else "another"
        attributes[name] = value
    events = []
    for event in span["events"]:
        noted = dict(event["attributes"])
        if "exception.stacktrace" in noted:
            lines = noted["exception.stacktrace"].strip().splitlines()
            noted["exception.stacktrace"] = f"{lines[0]} ... {lines[-1]}"
        events.append({"name": event["name"], "attributes": noted})
    assert not span["links"]
    below = _sorted(children.get(span["context"]["span_id"], []))
    return {
        "name": span["name"],
        "kind": span["kind"],
        "status": span["status"],
        "attributes": attributes,
        "events": events,
        "children": [_tree(child, span, children, symbols) for child in below],
    }
