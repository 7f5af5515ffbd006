"""Which devices of its accelerators a task may use, as ids and in the environment variables that libraries read.

The core gives a worker the indices of devices: 0, 1 and so on. If the variable of an accelerator was set when the
session started, or is among the `env_vars` of the task, its entries are the ids of the devices, and an index is a
position among them. Ray: ray/_private/accelerators, one file for each.
"""

from __future__ import annotations

from collections.abc import Mapping

from .context import Execution


class Variable:
    """The variable in which the library of an accelerator looks for the ids of the devices that it may use.

    left_alone_if: a variable that the user sets, so that workers leave this one as it is. prefix: what stands before
    each id.
    """

    __slots__ = ("name", "left_alone_if", "prefix")

    def __init__(self, name: str, left_alone_if: str, prefix: str = ""):
        self.name, self.left_alone_if, self.prefix = name, left_alone_if, prefix


_KEEP = "RAY_EXPERIMENTAL_NOSET_"

VARIABLES: dict[str, Variable] = {
    "GPU": Variable("CUDA_VISIBLE_DEVICES", _KEEP + "CUDA_VISIBLE_DEVICES"),
    "TPU": Variable("TPU_VISIBLE_CHIPS", _KEEP + "TPU_VISIBLE_CHIPS"),
    "NPU": Variable("ASCEND_RT_VISIBLE_DEVICES", _KEEP + "ASCEND_RT_VISIBLE_DEVICES"),
    "HPU": Variable("HABANA_VISIBLE_MODULES", _KEEP + "HABANA_VISIBLE_MODULES"),
    "neuron_cores": Variable("NEURON_RT_VISIBLE_CORES", _KEEP + "NEURON_RT_VISIBLE_CORES"),
    "RBLN": Variable("RBLN_DEVICES", _KEEP + "RBLN_RT_VISIBLE_DEVICES"),
    "FURIOSA": Variable("FURIOSA_DEVICES", _KEEP + "FURIOSA_DEVICES", "npu:"),
    "MBLT": Variable("QBRUNTIME_VISIBLE_DEVICES", _KEEP + "MBLT_RT_VISIBLE_DEVICES"),
    "TTNPU": Variable("TT_VISIBLE_DEVICES", _KEEP + "TENSTORRENT_VISIBLE_DEVICES"),
}

# A TPU's library must also be told how one or two chips are laid out on their host.
_TPU_LAYOUTS = {1: "1,1,1", 2: "1,2,1"}


def visible(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """The ids in the variables that are set, by accelerator."""
    found = {}
    for accelerator, variable in VARIABLES.items():
        text = environ.get(variable.name)
        if text is not None:
            ids = [] if text in ("", "NoDevFiles") else text.split(",")
            found[accelerator] = [one.strip().removeprefix(variable.prefix) for one in ids]
    return found


def check_visible(amounts: Mapping[str, float | None], environ: Mapping[str, str]) -> None:
    """Raise ValueError if a node is to have more devices of an accelerator than its variable names."""
    for accelerator, ids in visible(environ).items():
        amount = amounts.get(accelerator)
        if amount is not None and amount > len(ids):
            raise ValueError(
                f"Attempting to start raylet with {amount:g} {accelerator}, but {VARIABLES[accelerator].name} contains "
                f"{ids}."
            )


def ids_of(execution: Execution, env_vars: Mapping[str, str] | None) -> dict[str, list[int] | list[str]]:
    """The ids of the devices that the running task or actor may use, by accelerator: strings if a variable names the
    ids, otherwise indices. Accelerators that it does not use are left out.

    env_vars: the variables of its runtime environment.
    """
    actor = execution.worker.actor
    devices = (execution.worker if actor is None else actor).devices
    if not devices:
        return {}
    named = {**execution.runtime.visible_devices, **(visible(env_vars) if env_vars else {})}
    found: dict[str, list[int] | list[str]] = {}
    for accelerator, indices in devices.items():
        ids = named.get(accelerator)
        if ids is None:
            found[accelerator] = list(indices)
        elif max(indices) < len(ids):
            found[accelerator] = [ids[index] for index in indices]
        else:  # the task's own variable names fewer devices than the node has
            found[accelerator] = list(ids)
    return found


def variables_of(
    execution: Execution, env_vars: Mapping[str, str] | None, environ: Mapping[str, str]
) -> dict[str, str]:
    """The variables that tell the libraries in a running task which devices to use. environ: the real environment."""
    variables: dict[str, str] = {}
    for accelerator, ids in ids_of(execution, env_vars).items():
        variable = VARIABLES[accelerator]
        if {**environ, **(env_vars or {})}.get(variable.left_alone_if, "").lower() in ("1", "true"):
            continue
        variables[variable.name] = ",".join(f"{variable.prefix}{one}" for one in ids)
        if accelerator == "TPU" and len(ids) in _TPU_LAYOUTS:
            variables["TPU_CHIPS_PER_HOST_BOUNDS"] = _TPU_LAYOUTS[len(ids)]
            variables["TPU_HOST_BOUNDS"] = "1,1,1"
    return variables
