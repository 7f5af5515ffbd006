"""Graphs of calls: `bind` records a call, and `execute` makes all calls of a graph. Ray: python/ray/dag.

    with InputNode() as x:
        graph = add.bind(double.bind(x), 1)
    ref = graph.execute(5)

One `execute` makes the call of each node once, even if several nodes use its result; the next `execute` makes it again.
The arguments of a call may contain nodes inside lists, tuples, sets, dicts and the attributes of objects. The function
receives the results of such nodes as references, as in any call.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from miniray import exceptions
from miniray.dag.context import DAGContext as DAGContext
from miniray.values.serialization import dumps

__all__ = [
    "ClassMethodNode",
    "ClassNode",
    "DAGContext",
    "DAGInputData",
    "DAGNode",
    "FunctionNode",
    "InputAttributeNode",
    "InputNode",
    "MultiOutputNode",
]


class DAGNode:
    """A recorded call, or another part of a graph. Nodes never change, so a graph can be executed many times.

    Creating a node raises TypeError if an argument cannot be serialized.
    """

    def __init__(
        self, args: Iterable[Any] = (), kwargs: dict[str, Any] | None = None, options: dict[str, Any] | None = None
    ):
        self._args, self._kwargs, self._options = tuple(args), dict(kwargs or {}), dict(options or {})
        _check_serializable([self._args, self._kwargs])

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Make the calls that this node depends on, then its own call. The arguments are the graph's input.

        Returns at once, with the result of this node's `.remote()`: a reference, a handle if the node creates an actor,
        or a list for a MultiOutputNode.

        Raises AssertionError if the graph has two InputNodes, or one that was not created by a `with` statement;
        IndexError, KeyError or AttributeError if the graph uses a part of the input that was not given; TypeError and
        other errors as `.remote()` does.
        """
        nodes = self._in_order()
        assert sum(isinstance(node, InputNode) for node in nodes) <= 1, "a graph can have only one InputNode"
        results: dict[DAGNode, Any] = {}
        for node in nodes:
            results[node] = node._run(_Replaced(results), args, kwargs)
        return results[self]

    def get_args(self) -> tuple[Any, ...]:
        """The bound positional arguments."""
        return self._args

    def get_kwargs(self) -> dict[str, Any]:
        """The bound keyword arguments."""
        return dict(self._kwargs)

    def get_options(self) -> dict[str, Any]:
        """The options of the call."""
        return dict(self._options)

    def _needs(self) -> Iterator[DAGNode]:
        """The nodes that must run before this one, in this order."""
        found: list[DAGNode] = []

        def collect(node: DAGNode) -> DAGNode:
            found.append(node)
            return node

        _replace([self._args, self._kwargs], collect, {})
        yield from found

    def _in_order(self) -> list[DAGNode]:
        """This node and every node that it depends on, each once and after its own dependencies.

        This is a depth-first search with an explicit stack, since a graph can be deeper than Python's recursion limit.
        """
        done: dict[DAGNode, None] = {}
        path = [(self, self._needs())]
        while path:
            node, needed = path[-1]
            missing = next((other for other in needed if other not in done), None)
            if missing is not None:
                path.append((missing, missing._needs()))
            else:
                path.pop()
                done[node] = None
        return list(done)

    def _run(self, replaced: _Replaced, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make this node's call and return its result. args, kwargs: the arguments of `execute`."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        if name == "bind":
            raise AttributeError(f"this {type(self).__name__} is bound already")
        if name == "remote":
            raise AttributeError(f"a {type(self).__name__} is part of a graph: it has execute(), and not remote()")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class FunctionNode(DAGNode):
    """A call of a remote function."""

    def __init__(self, remote: Any, args: Iterable[Any], kwargs: dict[str, Any], options: dict[str, Any]):
        """remote: the remote function, or a variant of it that already has these options."""
        super().__init__(args, kwargs, options)
        self._remote = remote

    def _run(self, replaced: _Replaced, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._remote.remote(*replaced(self._args), **replaced(self._kwargs))


class ClassNode(DAGNode):
    """The creation of an actor, once per `execute`. Its attributes are the actor's methods, for `bind`."""

    def __init__(self, remote: Any, args: Iterable[Any], kwargs: dict[str, Any], options: dict[str, Any]):
        """remote: the actor class, or a variant of it that already has these options.

        Raises ValueError if an argument depends on an InputNode, since Ray creates the actors before there is any
        input.
        """
        super().__init__(args, kwargs, options)
        self._remote = remote
        self._last_call: ClassMethodNode | None = None
        if any(isinstance(node, InputNode) for node in self._in_order()):
            raise ValueError("an InputNode cannot be an argument of an actor's constructor: it stands for later input")

    def _run(self, replaced: _Replaced, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._remote.remote(*replaced(self._args), **replaced(self._kwargs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattr__(name)
        cls = self._remote._info.plain_class
        if name == "bind" and not hasattr(cls, "bind"):
            return super().__getattr__(name)
        getattr(cls, name)  # raises AttributeError if there is no such method
        return _UnboundMethod(self, name, {})


class _UnboundMethod:
    """A method of an actor that `execute` has yet to create."""

    def __init__(self, actor: ClassNode, name: str, options: dict[str, Any]):
        self._actor, self._name, self._options = actor, name, options

    def options(self, **options: Any) -> _UnboundMethod:
        """The same method with options for the call, such as num_returns."""
        return _UnboundMethod(self._actor, self._name, options)

    def bind(self, *args: Any, **kwargs: Any) -> ClassMethodNode:
        """Record a call. The calls of one actor are made in the order in which they were bound."""
        node = ClassMethodNode(self, args, kwargs, self._options, previous=self._actor._last_call)
        self._actor._last_call = node
        return node

    def __getattr__(self, name: str) -> Any:
        if name == "remote":
            raise AttributeError("the actor does not exist yet: bind() the call, and execute() the graph")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class ClassMethodNode(DAGNode):
    """A call of an actor's method, or one of the results of a call that has several."""

    def __init__(
        self,
        method: Any,
        args: Iterable[Any],
        kwargs: dict[str, Any],
        options: dict[str, Any],
        previous: ClassMethodNode | None = None,
        index: int | None = None,
    ):
        """method: an ActorMethod of a living actor, or the unbound method of a ClassNode.

        previous: the call that was bound to the same ClassNode before this one; it is made first. index: if given, this
        node is one result of a call with several, and that call is the only argument.
        """
        super().__init__(args, kwargs, options)
        self._method, self._previous, self._index = method, previous, index

    def _needs(self) -> Iterator[DAGNode]:
        yield from super()._needs()
        if isinstance(self._method, _UnboundMethod):
            yield self._method._actor
        if self._previous is not None:
            yield self._previous

    def _run(self, replaced: _Replaced, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._index is not None:
            return replaced(self._args[0])[self._index]
        method = self._method
        if isinstance(method, _UnboundMethod):
            method = getattr(replaced(method._actor), method._name).options(**self._options)
        return method.remote(*replaced(self._args), **replaced(self._kwargs))


def bind_method(
    method: Any, args: Iterable[Any], kwargs: dict[str, Any], options: dict[str, Any], num_returns: Any
) -> Any:
    """The result of `handle.method.bind(...)`: a ClassMethodNode, or a tuple of nodes for several returns."""
    call = ClassMethodNode(method, args, kwargs, options)
    if isinstance(num_returns, int) and num_returns > 1:
        return tuple(ClassMethodNode(method, (call,), {}, {}, index=index) for index in range(num_returns))
    return call


class InputNode(DAGNode):
    """The input of a graph: a placeholder for the arguments of `execute`. Create it with `with InputNode() as x:`.

    If `execute` gets one positional argument, `x` is that argument, `x[0]` and `x["key"]` are items of it, and `x.name`
    is an attribute of it. Otherwise `x[0]` is the first positional argument, and `x["key"]` and `x.key` are the keyword
    argument.
    """

    def __init__(self, *args: Any, input_type: Any = None, **kwargs: Any):
        """input_type: kept and not used. Raises ValueError for any other argument."""
        if args or kwargs:
            raise ValueError("an InputNode takes no arguments: pass them to execute()")
        super().__init__()
        self.input_type = input_type
        self._entered = False
        self._parts: dict[tuple[str, Any], InputAttributeNode] = {}

    def __enter__(self) -> InputNode:
        self._entered = True
        return self

    def __exit__(self, *exception: Any) -> None:
        return None

    def _run(self, replaced: _Replaced, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self._entered, "create an InputNode in a with statement: with InputNode() as x"
        return args[0] if len(args) == 1 and not kwargs else DAGInputData(args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_parts":
            return super().__getattr__(name)
        return self._part("attribute", name)

    def __getitem__(self, key: int | str) -> InputAttributeNode:
        assert isinstance(key, (int, str)), f"an input is addressed by an index or a key, not by {key!r}"
        return self._part("item", key)

    def _part(self, kind: str, key: Any) -> InputAttributeNode:
        return self._parts.setdefault((kind, key), InputAttributeNode(self, kind, key))


class InputAttributeNode(DAGNode):
    """A part of the input: `x[0]`, `x["key"]` or `x.name` of an InputNode `x`."""

    def __init__(self, whole: InputNode, kind: str, key: int | str):
        super().__init__((whole,))
        self._kind, self._key = kind, key

    def _run(self, replaced: _Replaced, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        whole = replaced(self._args[0])
        if self._kind == "attribute" and not isinstance(whole, DAGInputData):
            return getattr(whole, str(self._key))
        return whole[self._key]


class DAGInputData:
    """The whole input, if `execute` was called with anything but a single positional argument."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self._args, self._kwargs = args, kwargs

    def __getitem__(self, key: int | str) -> Any:
        """A positional argument by its index, or a keyword argument by its name."""
        return self._args[key] if isinstance(key, int) else self._kwargs[key]


class MultiOutputNode(DAGNode):
    """The end of a graph with several results: its `execute` returns a list."""

    def __init__(self, args: list[Any] | tuple[Any, ...]):
        """args: the nodes whose results `execute` returns. Raises ValueError unless it is a list or a tuple."""
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"a MultiOutputNode needs a list of nodes, not {args!r}")
        super().__init__(args)

    def _run(self, replaced: _Replaced, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return list(replaced(self._args))


# --- Nodes inside values ------------------------------------------------------------------------------------------

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
_OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


class _Replaced:
    """A function that returns its argument with each node replaced by that node's result."""

    def __init__(self, results: dict[DAGNode, Any]):
        self._results = results

    def __call__(self, value: Any) -> Any:
        return _replace(value, self._results.__getitem__, {})


def _check_serializable(arguments: Any) -> None:
    """Raise TypeError for arguments that `execute` could not send later. Ray refuses them in `bind`, too."""
    bare = _replace(arguments, lambda node: None, {})
    try:
        dumps(bare)
    except TypeError as error:
        from miniray.values.inspect_serializability import explain

        raise TypeError(explain(bare, "the bound arguments", error)) from error


def _replace(value: Any, swap: Callable[[DAGNode], Any], seen: dict[int, Any]) -> Any:
    """Return a copy of the value in which each node is swap(node); the value itself if no node changed.

    seen: the replacement of each container and object so far, by id. It preserves sharing and stops at cycles.
    """
    if isinstance(value, DAGNode):
        return swap(value)
    if type(value) in _ATOMS or isinstance(value, _OPAQUE) or type(value).__module__.partition(".")[0] == _OURS:
        return value
    if id(value) not in seen:
        seen[id(value)] = value
        seen[id(value)] = _replace_inside(value, lambda part: _replace(part, swap, seen))
    return seen[id(value)]


_OURS = exceptions.__name__.partition(".")[0]  # not searched: references and handles hold no nodes, and lead everywhere


def _replace_inside(value: Any, part: Callable[[Any], Any]) -> Any:
    """Return a copy of a container or object with part(x) for each x in it; itself if each part(x) is x."""
    if isinstance(value, dict):
        pairs = [(part(key), part(item)) for key, item in value.items()]
        if all(new is old for pair, old_pair in zip(pairs, value.items()) for new, old in zip(pair, old_pair)):
            return value
        changed = copy.copy(value)  # a defaultdict keeps its factory
        changed.clear()
        changed.update(pairs)
        return changed
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [part(item) for item in value]
        if all(new is old for new, old in zip(items, value)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    attributes = getattr(value, "__dict__", None)
    if not isinstance(attributes, dict):
        return value
    swapped = {name: new for name, old in list(attributes.items()) if (new := part(old)) is not old}
    if swapped:
        value = copy.copy(value)
        value.__dict__.update(swapped)
    return value
