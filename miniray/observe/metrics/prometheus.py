"""Writes metrics as text: in the Prometheus format 0.0.4, or in OpenMetrics 1.0.0.

Families come in, text goes out; this module does not know who recorded the values. Whatever a program calls its
metrics, tags and tag values, a parser of the format accepts the text, and it encodes to UTF-8. Characters that the
format does not allow in names are replaced, values are escaped, and clashing names are numbered or their samples added
up. Names are the same in both formats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..escape import escaped
from .series import added

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CONTENT_TYPES = {
    "prometheus": CONTENT_TYPE,
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
NO_HELP = "(no description)"  # checkers complain about metrics without a help text
OVERFLOW = {"otel_metric_overflow": "true"}  # the label that OpenTelemetry gives to the series of all that is too much

_NOT_IN_METRIC_NAMES = re.compile(r"[^a-zA-Z0-9_:]")
_NOT_IN_LABEL_NAMES = re.compile(r"[^a-zA-Z0-9_]")


def negotiated(accept: str | None) -> str:
    """The format that a request asks for by its Accept header: "openmetrics" if it prefers that, else "prometheus".

    Text is also the answer to a header that accepts neither: a scraper can do more with it than with an error.
    """
    quality = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for choice in (accept or "").lower().split(","):
        name, *parameters = (part.strip() for part in choice.split(";"))
        given = dict(part.partition("=")[::2] for part in parameters)
        version = given.get("version", "").strip('"')
        if name == "application/openmetrics-text" and version not in ("", "1.0.0", "0.0.1"):
            continue
        try:
            weight = float(given.get("q", "1"))
        except ValueError:
            weight = 0.0
        for known in quality:
            if name == known:
                quality[known] = max(quality[known], weight)
    openmetrics, text = quality.values()
    return "openmetrics" if openmetrics > 0 and openmetrics >= text else "prometheus"


class Family(NamedTuple):
    """One metric with all its samples.

    kind: "counter", "gauge" or "histogram". samples: pairs of labels (name to text) and value. The value is a number,
    or for a histogram the dict that `HistogramSeries.read` returns.
    """

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[Mapping[str, str], Any]]


def render(families: Iterable[Family], format: str = "prometheus") -> str:
    """Return the families as text, in the given order.

    A family without samples is left out. A family whose sample names are taken by an earlier one gets `_2`, `_3` ... in
    its name. A program may well have a counter `jobs` and a counter `jobs_total`, and Prometheus refuses a page in
    which a sample occurs twice.

    Raises ValueError for a format that is not in CONTENT_TYPES.
    """
    if format not in CONTENT_TYPES:
        raise ValueError(f"format must be one of {', '.join(CONTENT_TYPES)}, not {format!r}")
    lines: list[str] = []
    taken: set[str] = set()
    for family in families:
        samples = _merged(family)
        if not samples:
            continue
        name = _free_name(family, taken)
        described, help_text = name, _escaped(family.help or NO_HELP)
        if format == "openmetrics":
            described = name.removesuffix("_total") if family.kind == "counter" else name
            help_text = help_text.replace('"', r"\"")
        lines.append(f"# HELP {described} {help_text}")
        lines.append(f"# TYPE {described} {family.kind}")
        for labels, value in sorted(samples.items(), key=lambda sample: sample[0]):
            if family.kind == "histogram":
                for bound, count in value["buckets"].items():
                    lines.append(_line(f"{name}_bucket", (*labels, ("le", _number(bound))), count))
                lines.append(_line(f"{name}_sum", labels, value["sum"]))
                lines.append(_line(f"{name}_count", labels, value["count"]))
            else:
                lines.append(_line(name, labels, value))
    if format == "openmetrics":
        lines.append("# EOF")
    return "".join(line + "\n" for line in lines)


def capped(family: Family, most: int) -> Family:
    """The family with at most `most` samples. If there are more, the last one stands for all those that are left out.

    It has the labels that all of these share and OVERFLOW, and their sum: counters and gauges are added up, histograms
    by bucket.
    """
    samples = list(family.samples)
    if len(samples) <= most:
        return family._replace(samples=samples)
    kept, rest = samples[: most - 1], samples[most - 1 :]
    first = rest[0][0]
    shared = {key: text for key, text in first.items() if all(labels.get(key) == text for labels, _ in rest)}
    values = [value for _, value in rest if value is not None]
    total: Any = added(values) if family.kind == "histogram" else sum(values)
    return family._replace(samples=[*kept, ({**dict.fromkeys(first, ""), **shared, **OVERFLOW}, total)])


def tag_names(fixed: Mapping[str, str], tags: Iterable[str]) -> dict[str, str]:
    """Return the permitted label name for each of the user's tags. fixed: the labels that a sample has besides.

    A tag with the name of a fixed label, of `le` or of `quantile` (which histograms and summaries need) becomes
    `exported_<name>`; Prometheus does the same when it scrapes a page whose labels clash with its own. Tags whose
    corrected names are equal are numbered in the order of declaration.
    """
    names: dict[str, str] = {}
    used = {*fixed, *OVERFLOW}
    reserved = {*used, "le", "quantile"}
    for key in tags:
        name = _NOT_IN_LABEL_NAMES.sub("_", key) or "_"
        if name in reserved or name.startswith("__"):  # Prometheus reserves two underscores: __name__ renames a metric
            name = f"exported_{name}"
        elif name[0].isdigit():
            name = f"_{name}"
        names[key] = _unused(name, used)
        used.add(names[key])
    return names


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
        # OpenMetrics calls a counter by its stem, and no other family may have that name.
        samples = {name, name.removesuffix(ending)}
        if family.kind == "histogram":
            samples |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
        if not samples & taken:
            taken |= samples
            return name
        number += 1


def _unused(name: str, used: set[str]) -> str:
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
