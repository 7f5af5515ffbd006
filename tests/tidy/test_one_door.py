"""Events on `Cluster` are the only way into the core: no other code writes a record; only `move` writes a status."""

import ast
import inspect

from miniray.core import records
from miniray.core.cluster import Cluster
from tests.tidy.source import MINIRAY, Module, listed

CORE = [m for m in MINIRAY if m.name.startswith("miniray.core.")]
SLOTS = {
    slot: name
    for name, value in vars(records).items()
    if inspect.isclass(value)
    for slot in vars(value).get("__slots__", ())
}
RUNTIME_SLOTS = {slot for slots in records.RUNTIME_SLOTS.values() for slot in slots}
NOT_RECORDS = {
    "self",
    "cls",
    "handle",
    "execution",
    "span",
    "entry",
    "error",
    "refusal",
    "text",
    "definition",
    "source",
}
"""Variables that hold other things than records, with a field of the same name as a record's."""


def written(m: Module):
    """(line, variable, field) of every assignment to a field, and of every deletion of one."""
    for node in m.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield node.lineno, ast.unparse(node.value), node.attr


def test_only_the_core_writes_its_records():
    """The exceptions are the slots in `records.RUNTIME_SLOTS`, which a runtime writes."""
    found = [
        m.at(line, f"{variable}.{field} belongs to {SLOTS[field]}")
        for m in MINIRAY
        if m not in CORE
        for line, variable, field in written(m)
        if field in SLOTS and field not in RUNTIME_SLOTS and variable not in NOT_RECORDS
    ]
    assert not found, listed(found)


def test_the_slots_of_a_runtime_are_slots():
    """`records.RUNTIME_SLOTS` names only classes and slots that exist."""
    for name, slots in records.RUNTIME_SLOTS.items():
        assert set(slots) <= set(getattr(records, name).__slots__)


def test_only_move_writes_a_status():
    """The one exception is the constructor of a record."""
    found = [
        m.at(line, f"{variable}.status")
        for m in MINIRAY
        for line, variable, field in written(m)
        if field == "status" and variable != "self" and m.name != "miniray.core.transitions"
    ]
    assert not found, listed(found)


def test_public_methods_of_the_cluster_are_events():
    """An event takes the time as its first argument."""
    methods = {name: value for name, value in vars(Cluster).items() if not name.startswith("_")}
    found = [
        name
        for name, value in methods.items()
        if not inspect.isfunction(value) or list(inspect.signature(value).parameters)[:2] != ["self", "now"]
    ]
    assert not found, listed(found)
