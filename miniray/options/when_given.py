"""The checks of options when they are given: to `@remote(...)`, to `@method(...)`, or to `.options(...)`."""

from __future__ import annotations

from collections.abc import Mapping

from .known_options import ACTOR_OPTIONS, METHOD_DECORATOR_OPTIONS, TASK_OPTIONS, check_each, check_not_none
from .runtime_env_fields import check_json, of_task_or_actor
from .telling import tell_without_effect, warn_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .known_options import Options


def task_options(
    options: Mapping[str, Any], decorated: Mapping[str, Any] | None = None, is_generator: bool | None = None
) -> Options:
    """Check the options of a remote function and return them in a new dict. An option given as None stays None.

    options: those of `@remote(...)` or, if `decorated` is given, those of `.options(...)`. decorated: the decorator's
    options, already checked. is_generator: whether the function yields; if None, the caller must call
    `check_num_returns` itself.

    Raises ValueError for an unknown name, a value out of range, an impossible combination, and for `max_calls` or a
    different `_num_objects_per_yield` in `.options()`; TypeError for a wrong type.
    """
    if decorated is not None and "_num_objects_per_yield" in options:
        if options["_num_objects_per_yield"] != (decorated.get("_num_objects_per_yield") or 1):
            raise ValueError("'_num_objects_per_yield' belongs to the function: give it to @remote, not to .options()")
    check_each(options, TASK_OPTIONS, "remote functions")
    tell_without_effect(options)
    if decorated is not None and "max_calls" in options:
        raise ValueError("'max_calls' belongs to the function: give it to @remote, not to .options()")
    _check_one_placement({**(decorated or {}), **options})
    if is_generator is not None:
        check_num_returns(options.get("num_returns"), is_generator)
    found = _with_runtime_env(options)
    check_json(found.get("runtime_env"))  # that of an actor is sent, and so checked, at `.remote()`
    # An empty environment leaves that of the decorator in place. (That of an actor class replaces it.)
    if "runtime_env" in found and not found["runtime_env"] and decorated is not None:
        del found["runtime_env"]
    return found


def actor_options(options: Mapping[str, Any], decorated: Mapping[str, Any] | None = None) -> Options:
    """Check the options of an actor class and return them in a new dict. An option given as None stays None.

    options, decorated: as for `task_options`. Raises ValueError for an unknown name, a value out of range, an
    impossible combination, and for `concurrency_groups` in `.options()`; TypeError for a wrong type.
    """
    check_each(options, ACTOR_OPTIONS, "actors")
    tell_without_effect(options)
    if decorated is None:
        check_not_none(options, "max_restarts")
    elif "concurrency_groups" in options:
        raise ValueError("'concurrency_groups' belong to the class: give them to @remote, not to .options()")
    together = {**(decorated or {}), **options}
    if together.get("get_if_exists") and not together.get("name"):
        raise ValueError("The actor name must be specified to use `get_if_exists`")
    if "object_store_memory" in options:
        warn_user(
            "'object_store_memory' of an actor reserves nothing; objects that do not fit into the store are spilled",
            DeprecationWarning,
        )
    _check_one_placement(together)
    return _with_runtime_env(options)


def method_decorator_options(options: Mapping[str, Any], is_generator: bool | None = None) -> Options:
    """Check the options of `@method(...)` and return them in a new dict.

    is_generator: whether the method yields. None means that the method is not known yet; then only names are checked.
    Raises AssertionError for an unknown name, as Ray does; ValueError or TypeError for an impossible `num_returns` or
    `_num_objects_per_yield`. The other options are checked when the method is called (`at_call.check_method_call`).
    """
    for name in options:
        assert name in METHOD_DECORATOR_OPTIONS, (
            f"@method has no option '{name}'. The options are: {', '.join(METHOD_DECORATOR_OPTIONS)}"
        )
    if is_generator is None:
        tell_without_effect(options)
    else:
        check_num_returns(options.get("num_returns"), is_generator)
        if "_num_objects_per_yield" in options:
            check_each({"_num_objects_per_yield": options["_num_objects_per_yield"]}, TASK_OPTIONS, "methods")
        if "tensor_transport" in options:
            check_tensor_transport(options["tensor_transport"])
    return _normalised(options)


def method_options(options: Mapping[str, Any], is_generator: bool) -> Options:
    """Check the options of `handle.method.options(...)` and return them in a new dict.

    Raises ValueError for `_num_objects_per_yield` and for a `num_returns` that does not fit the method, as Ray does.
    Names and types are checked at `.remote()` (`at_call.check_method_call`).
    """
    if "_num_objects_per_yield" in options:
        raise ValueError("'_num_objects_per_yield' belongs to the method: give it to @method, not to .options()")
    check_num_returns(options.get("num_returns"), is_generator)
    tell_without_effect(options)
    if options.get("tensor_transport") is not None:
        check_tensor_transport(options["tensor_transport"])
    return _normalised(options)


def check_num_returns(num_returns: Any, is_generator: bool) -> None:
    """Raise ValueError for a negative number, and for "streaming" or "dynamic" if the function does not yield."""
    if isinstance(num_returns, int) and num_returns < 0:
        raise ValueError(f"num_returns must be >= 0, not {num_returns}")
    if num_returns in ("streaming", "dynamic") and not is_generator:
        raise ValueError(
            f"num_returns='{num_returns}' can only be used with generator functions (functions that use 'yield'), and "
            "this one is not"
        )
    if num_returns == "dynamic":
        warn_user("num_returns='dynamic' is an older form of num_returns='streaming'", DeprecationWarning)


def check_tensor_transport(value: Any) -> None:
    """Raise ValueError: miniray does not move tensors between devices. On Ray, too, the object store is not the name of
    a transport, but what is used without one."""
    raise ValueError(f"Invalid tensor transport: {value.upper()}. In miniray, values go through the object store")


def _check_one_placement(options: Mapping[str, Any]) -> None:
    if options.get("placement_group") not in (None, "default") and options.get("scheduling_strategy") is not None:
        raise ValueError(
            "Placement groups should be specified via the scheduling_strategy option alone, as "
            "PlacementGroupSchedulingStrategy(group)"
        )


def _with_runtime_env(options: Mapping[str, Any]) -> Options:
    """Return a copy, with the runtime environment checked and in its usual form."""
    copied = _normalised(options)
    if "runtime_env" in copied:
        copied["runtime_env"] = of_task_or_actor(copied["runtime_env"])
    return copied


def _normalised(options: Mapping[str, Any]) -> Options:
    """Return a copy that is not affected if the caller later changes a list or dict that was given."""
    copied = dict(options)
    for name, value in copied.items():
        if type(value) is dict:
            copied[name] = value.copy()
        elif type(value) is list:
            copied[name] = tuple(value) if name == "retry_exceptions" else value.copy()
    return copied
