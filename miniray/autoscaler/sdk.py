"""What a program says to Ray's autoscaler. Ray: ray.autoscaler.sdk, whose other functions start and stop machines."""

from __future__ import annotations

from typing import Any

from ..process import context

__all__ = ["request_resources"]


def request_resources(
    num_cpus: int | None = None,
    bundles: list[dict[str, float]] | None = None,
    bundle_label_selectors: list[dict[str, str]] | None = None,
) -> None:
    """Ask for so many CPUs, or room for these bundles, ahead of the tasks that will need them.

    It is a hint on Ray, where nodes may come of it, and changes nothing here: the session's nodes are those it was started with or
    given by `cluster_utils`. Raises TypeError for what is not of these types, RuntimeError when no session runs.
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
        raise TypeError(f"each of {name} should be a dict, and {bundle!r} is not")
    for key, value in bundle.items():
        if not isinstance(key, str) or not isinstance(value, kind):
            raise TypeError(f"{key!r}: {value!r} does not belong into {name}")
