"""Write metrics in the Prometheus text format, version 0.0.4.

Nothing here knows who recorded what: families come in, text goes out. Whatever a program called its metrics, tags and
tag values, the text stays one that a Prometheus parser accepts and that encodes to UTF-8: names are mended to what the
format allows, values are escaped, and two things that would end up under one name are told apart or added up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from miniray.observe.escape import escaped
from miniray.observe.metrics.series import added

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_NOT_IN_METRIC_NAMES = re.compile(r"[^a-zA-Z0-9_:]")
_NOT_IN_LABEL_NAMES = re.compile(r"[^a-zA-Z0-9_]")


class Family(NamedTuple):
    """One metric with all its samples.

    kind: "counter", "gauge" or "histogram". samples: pairs of labels (name to text) and value: a number, or for a
    histogram the dict that `HistogramSeries.read` returns.
    """

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[Mapping[str, str], Any]]


def render(families: Iterable[Family]) -> str:
    """The families as text, in the given order; "" when none has a sample.

    A family without samples is left out. One whose sample names were taken by an earlier family gets `_2`, `_3` ... in
    its name: a program may well have a counter `jobs` and a counter `jobs_total`, and Prometheus refuses a page in
    which one sample occurs twice.
    """
    lines: list[str] = []
    taken: set[str] = set()
    for family in families:
        samples = _merged(family)
        if not samples:
            continue
        name = _free_name(family, taken)
        if family.help:
            lines.append(f"# HELP {name} {_escaped(family.help)}")
        lines.append(f"# TYPE {name} {family.kind}")
        for labels, value in sorted(samples.items()):
            if family.kind == "histogram":
                for bound, count in value["buckets"].items():
                    lines.append(_line(f"{name}_bucket", (*labels, ("le", _number(bound))), count))
                lines.append(_line(f"{name}_sum", labels, value["sum"]))
                lines.append(_line(f"{name}_count", labels, value["count"]))
            else:
                lines.append(_line(name, labels, value))
    return "".join(line + "\n" for line in lines)


def with_tags(fixed: Mapping[str, str], tags: Mapping[str, str], kind: str) -> dict[str, str]:
    """The labels of one sample: ours in `fixed`, and the user's tags under names that the format allows.

    A tag whose name is one of ours (or `le`, which histograms need for themselves) becomes `exported_<name>`, as it
    would when Prometheus scrapes a page whose labels clash with its own. Two tags that are mended to the same name are
    numbered in the order in which they were declared.
    """
    labels = dict(fixed)
    reserved = {*fixed, "le"} if kind == "histogram" else {*fixed}
    for key, value in tags.items():
        name = _NOT_IN_LABEL_NAMES.sub("_", key) or "_"
        if name in reserved or name.startswith("__"):  # two underscores are Prometheus's own: __name__ renames a metric
            name = f"exported_{name}"
        elif name[0].isdigit():
            name = f"_{name}"
        labels[_unused(name, labels)] = value
    return labels


def _merged(family: Family) -> dict[tuple[tuple[str, str], ...], Any]:
    """The samples by their labels as they will be written, sorted by label name.

    Labels that differ only in what cannot be written are one series to a reader: counts are added up, of a gauge the
    last one stands.
    """
    merged: dict[tuple[tuple[str, str], ...], Any] = {}
    for labels, value in family.samples:
        key = tuple(sorted((name, _escaped(text).replace('"', r"\"")) for name, text in labels.items()))
        if key in merged and family.kind == "counter":
            value += merged[key]
        elif key in merged and family.kind == "histogram":
            value = added([merged[key], value])
        merged[key] = value
    return merged


def _free_name(family: Family, taken: set[str]) -> str:
    """A name for the family under which no earlier one wrote samples; takes it."""
    stem = _NOT_IN_METRIC_NAMES.sub("_", family.name)
    ending = "_total" if family.kind == "counter" else ""
    stem = stem.removesuffix(ending)
    number = 1
    while True:
        name = f"{stem}{ending}" if number == 1 else f"{stem}_{number}{ending}"
        samples = {name}
        if family.kind == "histogram":
            samples |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
        if not samples & taken:
            taken |= samples
            return name
        number += 1


def _unused(name: str, used: Mapping[str, str]) -> str:
    number, candidate = 1, name
    while candidate in used:
        number += 1
        candidate = f"{name.removesuffix('_')}_{number}"  # not __2 for a second _: see above
    return candidate


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    inner = ",".join(f'{label}="{text}"' for label, text in labels)
    return f"{name}{{{inner}}} {_number(value)}" if inner else f"{name} {_number(value)}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))


def _escaped(text: str) -> str:
    r"""The text with backslashes and line feeds as the format wants them, and nothing in it that could not be printed.

    The format knows no escape for other control characters or for lone surrogates, which UTF-8 cannot hold. They are
    shown as `repr` shows them, so an ESC arrives as the four characters `\x1b` and does nothing to anybody's terminal.
    """
    return escaped(text, "\n").replace("\\", "\\\\").replace("\n", "\\n")
