"""`miniray run --engine ray`: a program with `import miniray as ray` runs on real Ray.

`miniray`, and every module that it shares with Ray, become Ray's own modules, in this process and in Ray's workers.
Some features that only miniray has are rebuilt on Ray's API: `Histogram.timer`, `timeline(html=)`, and `miniray.state`
with `explain`. The others raise an error that says so. Nothing here can be undone: the process runs one program and
ends.
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
# Packages that stay miniray's own: they can be read and tested without a session.
OWN = frozenset({"cli", "core", "engine", "ids", "observe", "options", "process", "runtime", "testing", "values"})
CLUSTER_DECIDES = ("num_cpus", "num_gpus", "resources", "labels", "object_store_memory")
_set_aside: list[ModuleType] = []  # miniray's modules that Ray's replace; code that imported them still uses them


def install(address: str | None = None) -> None:
    """Make `import miniray` import Ray from now on. address: the cluster for an `init` without an address.

    Raises ImportError, which says what to do, if Ray cannot be imported.
    """
    try:
        ray: Any = importlib.import_module("ray")
        importlib.import_module("ray.util.metrics")
    except ImportError as problem:
        raise ImportError(
            f"--engine ray needs Ray itself, which cannot be imported ({problem}). "
            'Install it, for example with `pip install "ray[default]"`.'
        ) from None
    for name in list(sys.modules):
        package, _, rest = name.partition(".")
        if package == "miniray" and rest.partition(".")[0] not in OWN:
            _set_aside.append(sys.modules.pop(name))
    finder.Alias("miniray", "ray", worker.only_in_miniray, OWN).install()
    sys.meta_path.insert(0, _NeedsOurCore())
    sys.modules["miniray.state"] = ray.state = views.state_module(ray)
    worker.teach_metrics()
    for module in (finder, worker):  # Ray's workers may not have miniray installed
        ray.cloudpickle.register_pickle_by_value(module)
    ray.init = _init_of(ray.init, address)
    ray.timeline = _timeline_of(ray, ray.timeline)
    ray.sql = _no_sql


class _NeedsOurCore(MetaPathFinder):
    """Refuses the parts of `miniray.testing` that act on miniray's core: on Ray, no session of miniray runs."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> None:
        """Find nothing. Raises the error for a part that needs miniray's core."""
        if fullname in ("miniray.testing.faults", "miniray.testing.inspection"):
            refusal = worker.only_in_miniray(fullname)
            # With a name, `from miniray.testing import faults` would replace this error by "cannot import name".
            refusal.name = None
            raise refusal


def _init_of(ray_init: Any, cluster_address: str | None) -> Any:
    """Ray's `init`, with the arguments of miniray's. It prepares Ray's workers through a setup hook."""

    @functools.wraps(ray_init)
    def init(
        address: str | None = None,
        *,
        num_nodes: int = 1,
        on_deadlock: str = "log",
        telemetry: Any = None,
        **given: Any,
    ) -> Any:
        if num_nodes != 1:
            raise ValueError(
                f"num_nodes={num_nodes} exists only in miniray, and this program runs with --engine ray. A node of Ray "
                "is a machine; ray.cluster_utils.Cluster starts several on one machine."
            )
        if on_deadlock != "log":
            raise ValueError(
                f"on_deadlock={on_deadlock!r} exists only in miniray, and this program runs with --engine ray: Ray "
                "does not detect deadlocks."
            )
        if telemetry:
            logger.warning("init(telemetry=...) is ignored: only miniray records its sessions.")
        address = address or cluster_address
        if cluster_address not in (None, "local"):
            for name in CLUSTER_DECIDES:
                if given.pop(name, None) is not None:
                    logger.warning("init(%s=...) is ignored: the cluster at %s decides it.", name, cluster_address)
        environment = dict(given.pop("runtime_env", None) or {})
        own_hook = environment.get("worker_process_setup_hook")
        if isinstance(own_hook, str):
            logger.warning(
                "In workers, `import miniray` does not import Ray: worker_process_setup_hook is a name, %r. "
                "Give the function itself.",
                own_hook,
            )
        else:
            environment["worker_process_setup_hook"] = worker.prepare_worker_and(own_hook)
        return ray_init(address, runtime_env=environment, **given)

    return init


def _no_sql(*args: Any, **kwargs: Any) -> Any:
    """In place of `miniray.sql`."""
    raise NotImplementedError(
        "miniray.sql reads miniray's own tables, and this program runs with --engine ray. Ask ray.util.state instead."
    )


def _timeline_of(ray: Any, ray_timeline: Any) -> Any:
    """Ray's `timeline`, with miniray's argument `html`."""

    @functools.wraps(ray_timeline)
    def timeline(filename: str | None = None, *, html: str | None = None, integer_ids: bool | None = None) -> Any:
        if integer_ids:
            raise NotImplementedError(
                "integer_ids=True exists only in miniray, and this program runs with --engine ray. "
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
