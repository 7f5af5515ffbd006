"""Writes metrics in the Prometheus text format, version 0.0.4.

Families come in, text goes out; this module does not know who recorded the values. Whatever a program calls its
metrics, tags and tag values, a Prometheus parser accepts the text, and it encodes to UTF-8. Characters that the format
does not allow in names are replaced, values are escaped, and clashing names are numbered or their samples added up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..escape import escaped
from .series import added

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_NOT_IN_METRIC_NAMES = re.compile(r"[^a-zA-Z0-9_:]")
_NOT_IN_LABEL_NAMES = re.compile(r"[^a-zA-Z0-9_]")


class Family(NamedTuple):
    """One metric with all its samples.

    kind: "counter", "gauge" or "histogram". samples: pairs of labels (name to text) and value. The value is a number,
    or for a histogram the dict that `HistogramSeries.read` returns.
    """

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[Mapping[str, str], Any]]


def render(families: Iterable[Family]) -> str:
    """Return the families as text, in the given order; "" if none of them has a sample.

    A family without samples is left out. A family whose sample names are taken by an earlier one gets `_2`, `_3` ... in
    its name. A program may well have a counter `jobs` and a counter `jobs_total`, and Prometheus refuses a page in
    which a sample occurs twice.
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
    """Return the labels of one sample: the system's own in `fixed`, and the user's tags under permitted names.

    A tag with the name of a fixed label (or `le`, which histograms need) becomes `exported_<name>`; Prometheus does the
    same when it scrapes a page whose labels clash with its own. Tags whose corrected names are equal are numbered in
    the order of declaration.
    """
    labels = dict(fixed)
    reserved = {*fixed, "le"} if kind == "histogram" else {*fixed}
    for key, value in tags.items():
        name = _NOT_IN_LABEL_NAMES.sub("_", key) or "_"
        if name in reserved or name.startswith("__"):  # Prometheus reserves two underscores: __name__ renames a metric
            name = f"exported_{name}"
        elif name[0].isdigit():
            name = f"_{name}"
        labels[_unused(name, labels)] = value
    return labels


def _merged(family: Family) -> dict[tuple[tuple[str, str], ...], Any]:
    """Return the samples by their labels as written, sorted by label name.

    Labels that are equal once they are written form one series to a reader: counters and histograms are added up, and
    a gauge keeps its last value.
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
    """Find a name under which no earlier family wrote samples, and add its sample names to `taken`."""
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
        candidate = f"{name.removesuffix('_')}_{number}"  # a second _ becomes _2, since __ is reserved
    return candidate


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    inner = ",".join(f'{label}="{text}"' for label, text in labels)
    return f"{name}{{{inner}}} {_number(value)}" if inner else f"{name} {_number(value)}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))


def _escaped(text: str) -> str:
    r"""Escape backslashes and line feeds as the format requires, and spell out other characters that do not print.

    The format has no escape for other control characters, nor for lone surrogates, which UTF-8 cannot encode. They are
    written as `repr` writes them: an ESC becomes the four characters `\x1b`, and cannot steer a terminal.
    """
    return escaped(text, "\n").replace("\\", "\\\\").replace("\n", "\\n")
