"""The forms in which a profile is written; the ending of a file's name decides."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from ...observe.timeline.files import write_whole
from . import ENDINGS
from .collapsed import collapsed
from .samples import Samples
from .speedscope import speedscope


def _page(samples: Samples) -> Iterator[str]:
    from .page import page  # the timeline's page comes with it

    return page(samples)


FORMS: dict[str, Callable[[Samples], Iterator[str]]] = dict(
    zip(ENDINGS, (_page, _page, speedscope, collapsed, collapsed))
)


def form_of(path: str | os.PathLike[str]) -> Callable[[Samples], Iterator[str]]:
    """What writes the form that a file's ending asks for. Raises ValueError for another ending."""
    name = os.fsdecode(path).lower()
    ending = os.path.splitext(name[: -len(".gz")] if name.endswith(".gz") else name)[1]
    if ending not in FORMS:
        raise ValueError(f"a profile is written as {', '.join(FORMS)}, not as {os.fsdecode(path)!r}")
    return FORMS[ending]


def save(samples: Samples, path: str | os.PathLike[str]) -> None:
    """Write a profile, whole or not at all. Raises ValueError for an ending without a form, OSError otherwise."""
    write_whole(path, form_of(path)(samples))
