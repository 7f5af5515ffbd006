"""The exporter: one thread that reads what is new in a session and sends it to a collector.

Theory of operation.

*The program never waits for the collector.* The thread reads, encodes and sends. It takes references of calls and lines
from bounded queues. What finds no room is counted and not looked at, so a collector that is away or slow costs nothing
but the looks. Only the end of the session waits: for `Settings.flush_s` at most, and if the collector has failed
before, for one last attempt of FLUSH_FAILED_S seconds. Within that time each signal has its share, so a slow one
leaves time for those after it.

*A request that fails* is tried again if the answer allows it, or if there was none: after a pause that doubles each
time up to MOST_PAUSE_S, of which chance takes up to a half, or after the pause for which the collector asks. The
request is encoded once. After GIVE_UP_S seconds it is dropped and counted. Metrics are not dropped but replaced: the
next values include everything.

*One thread for three signals.* Each has its own destination, its own pause and its own counts. While one of them is
being sent the others wait, no longer than a request's timeout.

*A forked child* has no such thread, and exports nothing of its parent's session. *A simulated session* has a clock of
its own, so its times would mean nothing to a collector: it is not exported.
"""

from __future__ import annotations

import _thread
import gzip
import logging
import os
import random
import time
from dataclasses import dataclass
from typing import Any

from ...process import context
from . import encoding
from .sender import Answer, Sender
from .settings import SIGNALS, Settings
from .sources import Calls, Lines, Made, Metrics, resource_of

READ_S = 0.5  # how often the session is looked at
FIRST_PAUSE_S, MOST_PAUSE_S = 1.0, 30.0
GIVE_UP_S = 300.0
FLUSH_FAILED_S = 0.5
GZIP_LEVEL = 1  # the lowest: a request is repetitive text, and the time is taken from the program
FLUSH_ORDER = ("metrics", "logs", "traces")  # the smallest first
NOUNS = {  # what is sent, and what may be dropped: a call that waits has no spans yet
    "traces": (("span", "spans"), ("call or span", "calls and spans")),
    "metrics": (("point", "points"), ("point", "points")),
    "logs": (("line", "lines"), ("line", "lines")),
}

logger = logging.getLogger(__name__)
_allocate_lock, _start_new_thread = _thread.allocate_lock, _thread.start_new_thread


@dataclass
class Request:
    """A request that was not taken yet. number: of its items. first: when it was made."""

    body: bytes
    number: int
    first: float
    tries: int = 0
    next: float = 0.0


class Signal:
    """One of traces, metrics and logs. The counts are those of `Exporter.stats`."""

    def __init__(self, name: str, sender: Sender, source: Calls | Lines | Metrics, every_s: float, batch: int):
        self.name, self.sender, self.source = name, sender, source
        self.every_s, self.batch = every_s, batch
        self.due = time.monotonic() + every_s  # when what waits is sent, although it is less than a batch
        self.request: Request | None = None
        self.not_before = 0.0  # until when the collector asked for quiet; it outlives the request that it refused
        self.sent = self.lost = self.rejected = self.requests = self.failures = 0
        self.failing = False  # the last request was not taken
        self.why = ""  # of the last failure
        self.told = False

    def stats(self) -> dict[str, Any]:
        """How many items were sent, how many the collector rejected, and how many were dropped here."""
        waiting = len(self.source) + (self.request.number if self.request is not None else 0)
        return {
            "sent": self.sent,
            "rejected": self.rejected,
            "dropped": self.lost + self.source.dropped,
            "waiting": waiting,
            "requests": self.requests,
            "failures": self.failures,
            "last_error": self.why,
        }


class Exporter:
    """The export of one session. Only its thread reads and sends, until `finish` has been called."""

    def __init__(self, runtime: Any, settings: Settings):
        """Raises OSError if a certificate cannot be read."""
        self.runtime, self.settings = runtime, settings
        self.resource = resource_of(runtime, settings.resource)
        self.signals: dict[str, Signal] = {}
        for name in SIGNALS:
            to = settings.destinations.get(name)
            if to is None:
                continue
            sender = Sender(to)
            if name == "traces":
                calls = Calls(runtime, settings.queue)
                self.signals[name] = Signal(name, sender, calls, settings.delay_s, settings.batch)
            elif name == "metrics":
                self.signals[name] = Signal(name, sender, Metrics(runtime), settings.metric_interval_s, 1)
            else:
                lines = Lines(runtime, settings.log_queue)
                self.signals[name] = Signal(name, sender, lines, settings.log_delay_s, settings.log_batch)
        self._chance = random.Random(os.urandom(8))
        self._pid = os.getpid()
        self._wake, self._done = _allocate_lock(), _allocate_lock()
        self._never = _allocate_lock()  # to wait for nothing but time
        for lock in (self._wake, self._done, self._never):
            lock.acquire()
        self._until: float | None = None  # the end of the session waits until then
        self._finished = False

    def begin(self) -> None:
        """Start the thread. Like the workers' threads it does not keep the process alive."""
        _start_new_thread(self._run, ())

    def stats(self) -> dict[str, dict[str, Any]]:
        """By signal: what was sent, rejected and dropped, and what waits."""
        return {name: signal.stats() for name, signal in self.signals.items()}

    def finish(self) -> None:
        """The session ends: read everything, and send it as far as the time allows. The session's tables are still
        full."""
        if self._finished or os.getpid() != self._pid:
            return
        self._finished = True
        limit = FLUSH_FAILED_S * len(self.signals) if self._is_away() else self.settings.flush_s
        self._until = time.monotonic() + limit
        self._wake.release()
        if not self._done.acquire(timeout=limit + FLUSH_FAILED_S):  # longer, since a request may be on its way
            self._tell_losses(late=True)
        for signal in self.signals.values():
            signal.source.close()

    def _is_away(self) -> bool:
        """Whether no signal's last request was taken, of those that were sent at all."""
        tried = [signal for signal in self.signals.values() if signal.requests]
        return bool(tried) and all(signal.failing for signal in tried)

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            next_read = time.monotonic() + READ_S
            while self._until is None:
                now = time.monotonic()
                if now >= next_read:
                    self._read()
                    next_read = time.monotonic() + READ_S
                more = [signal for signal in self.signals.values() if self._step(signal)]
                if not more:
                    self._wake.acquire(timeout=max(0.0, next_read - time.monotonic()))
            self._flush(self._until)
        except Exception:
            # Our mistake must not end the program. It is said once, with its place.
            logger.exception("miniray's export has ended with an error; the program goes on")
        finally:
            self._done.release()

    def _read(self) -> None:
        for signal in self.signals.values():
            if signal.name != "metrics":
                signal.source.read()

    def _step(self, signal: Signal) -> bool:
        """Send one request if it is time. Returns whether the next one may follow at once."""
        now = time.monotonic()
        if now < signal.not_before:
            return False
        if signal.name == "metrics" and now >= signal.due:
            signal.due = now + signal.every_s
            signal.request = None  # if the last values were not taken, these include them
            signal.source.drop_all()
            signal.source.read()
        if signal.request is None:
            full = len(signal.source) >= signal.batch
            if not full and (now < signal.due or not len(signal.source)):
                return False
            if signal.name != "metrics":
                signal.due = now + signal.every_s
            signal.request = self._made(signal)
        if signal.request is None or now < signal.request.next:
            return False
        answer = self._send(signal, signal.request, signal.sender.to.timeout_s)
        if answer.sent or not answer.again:
            signal.request = None
            return len(signal.source) >= signal.batch
        self._postpone(signal, signal.request, answer)
        return False

    def _made(self, signal: Signal) -> Request | None:
        made: Made | None = signal.source.take(signal.batch)
        if made is None:
            return None
        body = encoding.body(signal.name, self.resource, made.items)
        if signal.sender.to.gzip:
            body = gzip.compress(body, GZIP_LEVEL, mtime=0)
        return Request(body, made.number, time.monotonic())

    def _send(self, signal: Signal, request: Request, timeout_s: float) -> Answer:
        """Send a request and count what became of it; not what is lost if it may be tried again."""
        request.tries += 1
        signal.requests += 1
        answer = signal.sender.send(request.body, timeout_s)
        signal.failing = not answer.sent
        if answer.sent:
            rejected = min(answer.rejected, request.number)
            signal.sent += request.number - rejected
            signal.rejected += rejected
            if rejected:
                self._tell(signal, f"the collector refused {rejected} of {request.number}: {answer.why}")
            return answer
        signal.failures += 1
        signal.why = answer.why
        if answer.after_s is not None:
            signal.not_before = time.monotonic() + answer.after_s
        if not answer.again:
            signal.lost += request.number
        after = "it will be tried again" if answer.again else "what it refuses is dropped and counted"
        self._tell(signal, f"{answer.why}; {after}")
        return answer

    def _postpone(self, signal: Signal, request: Request, answer: Answer) -> None:
        now = time.monotonic()
        request.next = now + self._pause(request, answer)
        if signal.name != "metrics" and request.next - request.first > GIVE_UP_S:
            signal.lost += request.number
            signal.request = None

    def _pause(self, request: Request, answer: Answer) -> float:
        if answer.after_s is not None:
            return answer.after_s
        longest: float = min(MOST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(request.tries - 1, 10))
        return longest * self._chance.uniform(0.5, 1.0)

    # ------------------------------------------------------------ the end

    def _flush(self, until: float) -> None:
        """Send all that waits, until a moment."""
        for signal in self.signals.values():
            if signal.name == "metrics":
                signal.request = None
                signal.source.drop_all()
            signal.source.read()
        ordered = sorted(self.signals.values(), key=lambda signal: FLUSH_ORDER.index(signal.name))
        for position, signal in enumerate(ordered):
            now = time.monotonic()
            share = max(0.0, until - now) / (len(ordered) - position)
            short = signal.failing or self._is_away()
            self._flush_signal(signal, now + (min(share, FLUSH_FAILED_S) if short else share))
            if signal.request is not None:
                signal.lost += signal.request.number if signal.name != "metrics" else 0
                signal.request = None
            signal.source.drop_all()
        self._tell_losses()

    def _flush_signal(self, signal: Signal, until: float) -> None:
        quiet = signal.not_before - time.monotonic()
        if signal.not_before >= until:
            return
        if quiet > 0:
            self._never.acquire(timeout=quiet)
        while time.monotonic() < until:
            if signal.request is None:
                signal.request = self._made(signal)
            request = signal.request
            if request is None:
                return
            left = until - time.monotonic()
            if left <= 0:
                return
            answer = self._send(signal, request, min(left, signal.sender.to.timeout_s))
            if answer.sent or not answer.again:
                signal.request = None
                continue
            if not answer.reached:  # nobody is there, or nobody answers: a short pause would not change that
                return
            pause = self._pause(request, answer)
            if time.monotonic() + pause >= until:
                return
            self._never.acquire(timeout=pause)

    # ------------------------------------------------------------ what the user is told

    def _tell(self, signal: Signal, text: str) -> None:
        """Warn once for each signal: a program whose collector is away should not print a line every few seconds."""
        if not signal.told:
            signal.told = True
            logger.warning("Export of %s to %s: %s.", signal.name, signal.sender.to.url, text)

    def _tell_losses(self, late: bool = False) -> None:
        for signal in self.signals.values():
            stats = signal.stats()
            dropped = stats["dropped"] + (stats["waiting"] if late and signal.name != "metrics" else 0)
            if dropped or signal.rejected:
                logger.warning(
                    "Export of %s: %s sent, %s dropped, the collector rejected %s.%s",
                    signal.name,
                    _were(signal.sent, *NOUNS[signal.name][0]),
                    _were(dropped, *NOUNS[signal.name][1]),
                    f"{signal.rejected:,}",
                    f" The last error: {signal.why}." if signal.why else "",
                )


def _were(number: int, one: str, more: str) -> str:
    """`1 line was`, `2 lines were`."""
    return f"1 {one} was" if number == 1 else f"{number:,} {more} were"


def export_stats() -> dict[str, dict[str, Any]]:
    """What the running session has exported, by signal: how many items were sent, rejected by the collector and dropped
    here, how many wait, and the last error. {} if it exports nothing."""
    for recorder in context.session.recorders if context.session is not None else ():
        if isinstance(recorder, Exporter):
            return recorder.stats()
    return {}


def start(runtime: Any, settings: Settings | None) -> Exporter | None:
    """Begin to export a session. Returns None if the settings forbid it, or, with a warning, if the session is
    simulated or a certificate cannot be read."""
    if settings is None:
        return None
    if getattr(runtime, "simulation", None) is not None:
        logger.warning("This session is not exported: it is simulated, and its clock is not the collector's.")
        return None
    try:
        exporter = Exporter(runtime, settings)
    except OSError as error:
        logger.warning("This session is not exported: %s.", error)
        return None
    runtime.recorders.append(exporter)
    exporter.begin()
    return exporter
