"""Events on `Cluster` are the only way into the core: no other code writes a record; only `move` writes a status."""

import ast
import importlib
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
    "outcome",
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
    """The exceptions are the constructor of a record, and on the hot path a `move` that is written out: the assignment
    stands below an `if` that checks the state before, and the table allows the move."""
    found = [
        m.at(line, f"{variable}.status")
        for m in MINIRAY
        if m.name != "miniray.core.transitions"
        for line, variable, field in written(m)
        if field == "status" and variable != "self" and line not in written_out(m)
    ]
    assert not found, listed(found)


def written_out(m: Module) -> set[int]:
    """The lines with a legal `move` that is written out: `if x.status is BEFORE [and ...]: ... x.status = AFTER`."""
    names = dict(vars(importlib.import_module(m.name)))
    lines = set()
    for node in m.nodes:
        if not isinstance(node, ast.If):
            continue
        conditions = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
        if isinstance(node.test, ast.BoolOp) and not isinstance(node.test.op, ast.And):
            continue
        before = {
            ast.unparse(condition.left): eval(ast.unparse(condition.comparators[0]), names)
            for condition in conditions
            if isinstance(condition, ast.Compare)
            and isinstance(condition.ops[0], ast.Is)
            and ast.unparse(condition.left).endswith(".status")
            and ast.unparse(condition.comparators[0]).split(".")[0] in names
        }
        for inner in ast.walk(ast.Module(node.body, [])):
            if isinstance(inner, ast.Assign):
                for target, after in assigned(inner):
                    if target in before and eval(after, names) in before[target].moves:
                        lines.add(inner.lineno)
    return lines


def assigned(node: ast.Assign):
    """(target, value) of each part of an assignment, as source text."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(map(ast.unparse, target.elts), map(ast.unparse, node.value.elts))
        else:
            yield ast.unparse(target), ast.unparse(node.value)


def test_a_move_that_is_written_out_is_checked_against_its_table(tmp_path):
    """The check finds an assignment without the `if`, and one that the table does not allow."""
    module = next(m for m in CORE if m.name == "miniray.core.task_manager")
    wrong = Module(module.path)
    lines = "if task.status is {}:\n    task.status = {}\ntask.status = FINISHED"
    for before, after, legal in (
        ("SUBMITTED_TO_WORKER", "FINISHED", True),
        ("FINISHED", "SUBMITTED_TO_WORKER", False),
    ):
        wrong.__dict__["tree"] = ast.parse(lines.format(before, after))
        wrong.__dict__.pop("nodes", None)
        assert written_out(wrong) == ({2} if legal else set())


def test_public_methods_of_the_cluster_are_events():
    """An event takes the time as its first argument."""
    methods = {name: value for name, value in vars(Cluster).items() if not name.startswith("_")}
    found = [
        name
        for name, value in methods.items()
        if not inspect.isfunction(value) or list(inspect.signature(value).parameters)[:2] != ["self", "now"]
    ]
    assert not found, listed(found)
