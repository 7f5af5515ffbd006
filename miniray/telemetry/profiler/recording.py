"""`miniray.telemetry.profile`: how a profile begins and ends."""

from __future__ import annotations

import os
from collections import deque

from . import HZ, MOST_HZ
from .forms import form_of, save
from .sampler import Sampler
from .samples import Samples


finished: deque[Samples] = deque(maxlen=16)  # the last profiles that have stopped, for the table `stack_samples`


class Profile(Samples):
    """Samples where every task, actor method and thread of the program stands, until it is stopped.

        with miniray.telemetry.profile("run.html"):
            ray.get([work.remote(n) for n in range(100)])

    path: where `stop` writes the profile; the ending decides the form: a page (.html), speedscope's JSON (.json), or
    collapsed stacks (.txt, .folded). None writes nothing. hz: samples a second.

    It needs no session, and may begin before one and last longer. A profile that ends while a session runs is in the
    session's table `stack_samples`, which SQL and recordings have. `start` and `stop` do the same as the `with`
    statement. Raises ValueError for another ending or a bad hz, before anything begins, and OSError from `stop` if the
    file cannot be written; the profile is there all the same, and `save` writes it elsewhere.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, hz: float = HZ):
        if isinstance(hz, bool) or not isinstance(hz, (int, float)) or not 0 < hz <= MOST_HZ:
            raise ValueError(f"hz is a number of samples a second, above 0 and at most {MOST_HZ:g}, not {hz!r}")
        if path is not None:
            form_of(path)
        super().__init__(float(hz))
        self.path = path
        self._sampler: Sampler | None = None

    def start(self) -> Profile:
        """Begin to sample. Raises RuntimeError if it has begun already."""
        if self._sampler is not None or self.samples:
            raise RuntimeError("a profile begins only once; make another one")
        self._sampler = Sampler(self.hz)
        self._sampler.start()
        return self

    def stop(self) -> Profile:
        """Stop, and write the file if there is to be one. A second call does nothing."""
        sampler, self._sampler = self._sampler, None
        if sampler is None:
            return self
        sampler.stop()
        self.take(sampler)
        finished.append(self)
        if self.path is not None:
            self.save(self.path)
        return self

    def __enter__(self) -> Profile:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile, whole or not at all. Raises ValueError for an ending without a form, OSError otherwise."""
        save(self, path)


profile = Profile  # the name under which programs use it: `miniray.telemetry.profile`
