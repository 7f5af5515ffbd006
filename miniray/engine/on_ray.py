"""`miniray run --engine ray`: a program that says `import miniray as ray` runs on a real Ray.

`miniray` and what it has in common with Ray become Ray's own modules, in this process and in Ray's workers. What only
miniray has is made from Ray's own API where that can be done (`Histogram.timer`, `timeline(html=)`, `miniray.state`
with `explain`), and is an error that says so where it cannot. For a process that runs one program and ends: nothing
here is taken back.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

from . import views, worker
from ..testing import finder

logger = logging.getLogger("miniray")
# What stays miniray's own: it can be read and tested without a session.
OWN = frozenset({"cli", "core", "ids", "observe", "options", "runtime", "signatures", "testing"})
CLUSTER_DECIDES = ("num_cpus", "num_gpus", "resources", "labels", "object_store_memory")
_set_aside: list[ModuleType] = []  # miniray's modules that Ray's stand for; they are in use all the same


def install(address: str | None = None) -> None:
    """Let `miniray` be Ray from now on. address: of the cluster that `init` connects to when the program names none.

    Raises ImportError, with what to do, where Ray is not installed.
    """
    try:
        ray: Any = importlib.import_module("ray")
        importlib.import_module("ray.util.metrics")
    except ImportError as problem:
        raise ImportError(
            f"--engine ray needs Ray itself, which cannot be imported here ({problem}). "
            'Install it, as with `pip install "ray[default]"`.'
        ) from None
    for name in list(sys.modules):
        package, _, rest = name.partition(".")
        if package == "miniray" and rest.partition(".")[0] not in OWN:
            _set_aside.append(sys.modules.pop(name))
    finder.Alias("miniray", "ray", worker.only_in_miniray, OWN).install()
    sys.meta_path.insert(0, _NotHere())
    sys.modules["miniray.state"] = ray.state = views.state_module(ray)
    worker.teach_metrics()
    for module in (finder, worker):  # a worker need not have miniray
        ray.cloudpickle.register_pickle_by_value(module)
    ray.init = _init_of(ray.init, address)
    ray.timeline = _timeline_of(ray, ray.timeline)


class _NotHere(MetaPathFinder):
    """Parts of `miniray.testing` that work on miniray's core, which has nothing to do with this run."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> None:
        """It finds nothing, and says why of what is its own."""
        if fullname in ("miniray.testing.faults", "miniray.testing.inspection"):
            refusal = worker.only_in_miniray(fullname)
            refusal.name = None  # or `from miniray.testing import faults` would say less
            raise refusal


def _init_of(ray_init: Any, cluster_address: str | None) -> Any:
    """Ray's init, for a program that was written for miniray's."""

    @functools.wraps(ray_init)
    def init(address: str | None = None, *, num_nodes: int = 1, on_deadlock: str = "log", **given: Any) -> Any:
        if num_nodes != 1:
            raise ValueError(
                f"num_nodes={num_nodes} is miniray's own: a node of Ray is a machine, or made with "
                "ray.cluster_utils.Cluster. This program runs with --engine ray."
            )
        if on_deadlock != "log":
            raise ValueError(
                f"on_deadlock={on_deadlock!r} is miniray's own: Ray does not know of deadlocks. "
                "This program runs with --engine ray."
            )
        address = address or cluster_address
        if cluster_address not in (None, "local"):
            for name in CLUSTER_DECIDES:
                if given.pop(name, None) is not None:
                    logger.warning("init(%s=...) is left out: the cluster at %s has its own.", name, cluster_address)
        environment = dict(given.pop("runtime_env", None) or {})
        own_hook = environment.get("worker_process_setup_hook")
        if isinstance(own_hook, str):
            logger.warning("There is a setup hook by name, %r: `import miniray` is not Ray in workers.", own_hook)
        else:
            environment["worker_process_setup_hook"] = worker.prepare_worker_and(own_hook)
        return ray_init(address, runtime_env=environment, **given)

    return init


def _timeline_of(ray: Any, ray_timeline: Any) -> Any:
    """Ray's timeline, and miniray's page of it."""

    @functools.wraps(ray_timeline)
    def timeline(filename: str | None = None, *, html: str | None = None, integer_ids: bool = False) -> Any:
        if integer_ids:
            raise NotImplementedError(
                "integer_ids=True is miniray's own; this program runs with --engine ray. "
                "The timeline that Ray's dashboard offers for download has such ids."
            )
        if filename is not None and html is None and str(filename).lower().endswith((".html", ".htm")):
            filename, html = None, filename
        if html is not None:
            views.write_page(ray, html)
            if filename is None:
                return None
        return ray_timeline(filename)

    return timeline
