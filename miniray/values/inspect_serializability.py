"""Finds the part of a value that cannot be sent, for the text of an error and for `util.inspect_serializability`.

This code runs only after a failure or when the user calls it. It pickles each part of the value again, and so runs the
user's hooks again.
"""

from __future__ import annotations

import inspect
import types
from typing import Any, Iterator, TextIO

from .classes_by_value import NOT_SENT
from .functions_by_value import global_names
from .pickler import ATOMS, dump, importable

_LONGEST_REPR = 200
_DEEPEST = 50  # steps into a value; nobody reads a longer path

_MORE = "For details, call miniray.util.inspect_serializability(value)."
_HINT = "Leave it out, or create it where it is used: inside the task, or in the actor's __init__."


def explain(value: Any, subject: str, error: BaseException) -> str:
    """Return the text of the TypeError for a value that could not be pickled. error: what pickle raised."""
    path, culprit = _find_culprit(value)
    place = f"{' -> '.join(path)} is {shown(culprit)}" if path else f"it is {_kind(culprit)}"
    return f"Could not serialize {subject}: {place} ({error}). {_HINT} {_MORE}"


def shown(value: Any) -> str:
    """Return the repr of a value, shortened if it is long, or a substitute if it raises."""
    try:
        text = repr(value)
    except Exception as error:  # a user's repr must not hide the error that is being reported
        text = f"<{_kind(value)} whose repr raises {type(error).__name__}>"
    return text if len(text) <= _LONGEST_REPR else text[:_LONGEST_REPR] + "..."


def _kind(value: Any) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}".replace("a builtins.", "a ")


def _find_culprit(value: Any) -> tuple[list[str], Any]:
    """Return the steps that lead to the innermost part that cannot be pickled by itself, and this part."""
    path: list[str] = []
    seen = {id(value)}
    while len(path) < _DEEPEST:
        for step, part in _parts(value):
            if type(part) not in ATOMS and id(part) not in seen and not _can_be_sent(part):
                seen.add(id(part))
                if path and step[0] in "[." and path[-1][0] in "[.":
                    path[-1] += step
                else:
                    path.append(step)
                value = part
                break
        else:
            break
    return path, value


def _can_be_sent(value: Any) -> bool:
    try:
        dump(value)
    except Exception:  # a hook may raise anything
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts with which a value is pickled, each after its step: [0], .name or "closure variable 'x' of f"."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"[{shown(key)}]", item
            yield f"key {shown(key)}", key
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield f"[{index}]", item
    elif isinstance(value, (set, frozenset)):
        for item in value:
            yield f"element {shown(item)}", item
    elif isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        yield ".__func__", value.__func__
    elif isinstance(value, (staticmethod, classmethod)):
        yield ".__func__", value.__func__
    elif isinstance(value, property):
        yield from ((f".{name}", getattr(value, name)) for name in ("fget", "fset", "fdel"))
    elif isinstance(value, type):
        if not importable(value):
            for name, attribute in vars(value).items():
                if name not in NOT_SENT and type(attribute) is not types.MemberDescriptorType:
                    yield f"attribute {name!r} of {value.__qualname__}", attribute
            yield from ((f"base {base.__qualname__} of {value.__qualname__}", base) for base in value.__bases__)
    else:
        yield from _parts_by_reduce(value)


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    if importable(function):
        return
    name = function.__name__
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield f"closure variable {variable!r} of {name}", cell.cell_contents
        except ValueError:  # the cell is empty
            continue
    for variable in global_names(function.__code__):
        if variable in function.__globals__:
            yield f"global variable {variable!r} of {name}", function.__globals__[variable]
    yield f"the defaults of {name}", function.__defaults__
    yield f"the keyword defaults of {name}", function.__kwdefaults__
    yield f"the attributes of {name}", function.__dict__


def _parts_by_reduce(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts that the object's own __reduce_ex__ returns."""
    try:
        reduced = value.__reduce_ex__(5)
    except Exception:  # then the object itself is the culprit
        return
    if not isinstance(reduced, tuple):
        return
    _, arguments, state, items, pairs = (reduced + (None,) * 5)[:5]
    states = state if isinstance(state, tuple) else (state,)  # (dict, slots) if there are slots
    for attributes in states:
        if isinstance(attributes, dict):
            for name, part in attributes.items():
                yield f".{name}", part
        elif attributes is not None:
            yield "its state", attributes
    for index, part in enumerate(arguments or ()):
        yield f"its class {part.__qualname__}" if part is type(value) else f"argument {index} of its __reduce__", part
    for index, part in enumerate(items or ()):
        yield f"[{index}]", part
    for key, part in pairs or ():
        yield f"[{shown(key)}]", part


# --- The public tool ----------------------------------------------------------------------------------------------


class FailureTuple:
    """A part of a value that could not be serialized.

    obj: the part. path: the names that lead to it, from the outside in; the last is its own name. parent: the object
    that holds it.
    """

    def __init__(self, obj: Any, path: tuple[str, ...], parent: Any):
        self.obj, self.path, self.parent = obj, path, parent

    def __repr__(self) -> str:
        names = [str(name) for name in self.path] or ["unknown"]
        return f"FailTuple({names[-1]} [path={' -> '.join(self.path)}, obj={self.obj}, parent={self.parent}])"


def inspect_serializability(
    base_obj: Any, name: str | None = None, depth: int = 3, print_file: TextIO | None = None
) -> tuple[bool, set[FailureTuple]]:
    """Find out whether base_obj can be sent, and print what was tried.

    name: a name for base_obj in the report. depth: how many levels of closures and attributes are searched. print_file:
    the file for the report, by default sys.stdout.
    Returns (True, empty set), or (False, the parts that failed). As in Ray, the search covers globals and closures of
    functions and attributes of objects, but not the items of a list or dict; the report gives the path through those.
    Ray: ray.util.inspect_serializability.
    """
    title = f"Checking Serializability of {shown(base_obj)}"
    line = "=" * min(len(title), 80)
    report = _Report(print_file)
    report.say(line, title, line)
    failures: set[FailureTuple] = set()
    if _inspect(base_obj, name, depth, None, (), failures, report):
        return True, failures
    path, culprit = _find_culprit(base_obj)
    report.say(line, *(f"Cannot be serialized: {failure!r}" for failure in failures))
    if path:
        report.say(f"Path to it: {' -> '.join(path)} is {shown(culprit)}")
    report.say(_HINT, line)
    return False, failures


class _Report:
    """Prints the report. level: the current indentation."""

    def __init__(self, print_file: TextIO | None):
        self.print_file, self.level = print_file, 0

    def say(self, *lines: str) -> None:
        for line in lines:
            print("    " * self.level + line, file=self.print_file)


def _inspect(
    obj: Any,
    name: str | None,
    depth: int,
    parent: Any,
    path: tuple[str, ...],
    failures: set[FailureTuple],
    report: _Report,
) -> bool:
    """Whether obj can be sent.

    If not, adds the first part that fails, found as deep inside as depth allows, to failures.
    """
    if parent is not None:
        report.say(f"Serializing {name!r} {shown(obj)}...")
    try:
        dump(obj)
        return True
    except Exception as error:  # a hook may raise anything, and the user wants to see it
        report.say(f"!!! FAIL serialization: {error}")
    path = path if name is None else (*path, name)
    if depth > 0:
        report.level += 1
        for part_name, part in _named_parts(obj):
            if not _inspect(part, part_name, depth - 1, obj, path, failures, report):
                break
        else:
            report.say(f"None of the parts of {shown(obj)} fails on its own.")
        report.level -= 1
    if not failures:
        failures.add(FailureTuple(obj, path, parent))
    return False


def _named_parts(obj: Any) -> Iterator[tuple[str, Any]]:
    if inspect.isfunction(obj):
        captured = inspect.getclosurevars(obj)
        yield from captured.globals.items()
        yield from captured.nonlocals.items()
        return
    yield from inspect.getmembers(obj, inspect.isfunction)
    for name, member in inspect.getmembers(obj):
        dunder = name.startswith("__") and name.endswith("__")
        if not (dunder or inspect.isbuiltin(member) or inspect.isfunction(member)):
            yield name, member
