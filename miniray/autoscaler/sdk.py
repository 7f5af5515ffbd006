"""`request_resources`: a program's request to the autoscaler. Ray: ray.autoscaler.sdk."""

from __future__ import annotations

from typing import Any

from ..process import context

__all__ = ["request_resources"]


def request_resources(
    num_cpus: int | None = None,
    bundles: list[dict[str, float]] | None = None,
    bundle_label_selectors: list[dict[str, str]] | None = None,
) -> None:
    """Request CPUs, or room for bundles, before the tasks that need them are submitted.

    On Ray, this is a hint to start more nodes. miniray checks the arguments and does nothing: only `init` and
    `cluster_utils` add nodes. Raises TypeError for an argument of a wrong type, RuntimeError if no session is running.
    """
    if num_cpus is not None and not isinstance(num_cpus, int):
        raise TypeError(f"num_cpus should be of type int, not {num_cpus!r}")
    for name, asked, kind in (
        ("bundles", bundles, (int, float)),
        ("bundle_label_selectors", bundle_label_selectors, str),
    ):
        if asked is None:
            continue
        if not isinstance(asked, list):
            raise TypeError(f"{name} should be of type list, not {asked!r}")
        for bundle in asked:
            _check(name, bundle, kind)
    context.running()


def _check(name: str, bundle: Any, kind: Any) -> None:
    if not isinstance(bundle, dict):
        raise TypeError(f"each item of {name} should be a dict, not {bundle!r}")
    for key, value in bundle.items():
        if not isinstance(key, str) or not isinstance(value, kind):
            raise TypeError(f"{key!r}: {value!r} does not belong in {name}")
