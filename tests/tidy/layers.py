"""The layers of miniray, from the lowest to the highest.

A module may import modules of its own layer and of lower ones.
"""

from __future__ import annotations

# Each layer with its modules. A package stands for all its modules, except those that are listed by a longer name.
LAYERS: dict[str, tuple[str, ...]] = {
    "ground": ("generics", "ids", "exceptions", "_version", "job_config"),
    "core": ("core",),
    "options": ("options", "runtime_env"),
    "process": ("process",),
    "values": ("values", "cloudpickle"),
    "runtime": ("runtime",),
    "observe": ("observe",),
    "telemetry": ("telemetry",),
    "references": ("object_ref",),
    "session": ("session", "cluster_utils"),
    "calls": ("calls", "remote_function", "actor", "actor_handle", "runtime_context", "dag"),
    "api": (
        "api",
        "_raylet",
        "types",
        "client_builder",
        "autoscaler",
        "_common",
        "util",
        "experimental",
        "state",
        "_private",
    ),
    "facade": ("",),
    "tools": ("engine", "testing", "cli", "__main__"),
}


def layer_of(module: str) -> str:
    """The layer of a module. Raises LookupError if the module belongs to no layer or to several."""
    name = "" if module == "miniray" else module.removeprefix("miniray.")
    found = [
        (len(root), layer)
        for layer, roots in LAYERS.items()
        for root in roots
        if name == root or root and name.startswith(root + ".")
    ]
    if not found:
        raise LookupError(f"{module} belongs to no layer")
    longest = [layer for length, layer in found if length == max(found)[0]]
    if len(longest) > 1:
        raise LookupError(f"{module} belongs to the layers {longest}")
    return longest[0]
