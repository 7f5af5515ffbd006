"""One request to a collector, and what its answer means. https://opentelemetry.io/docs/specs/otlp/#otlphttp"""

from __future__ import annotations

import email.utils
import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from ..._version import __version__
from ...observe.escape import cut, for_terminal
from .settings import Destination
from .timed_connection import LimitedHandler, LimitedRequest, Limits, trusting

RETRYABLE = (429, 502, 503, 504)
MOST_OF_AN_ANSWER = 64 * 1024  # bytes that are read of it
LONGEST_REASON = 300  # cells of what it says
LONGEST_PAUSE_S = 300.0  # for which a collector may ask


class Answer(NamedTuple):
    """sent: the collector has the request. again: it may be tried again, and then `after_s` is the pause that the
    collector asks for, None if it asks for none. reached: there was an answer of HTTP at all. rejected: how many items
    the collector refused although it took the request. why: for people."""

    sent: bool = False
    again: bool = False
    reached: bool = True
    after_s: float | None = None
    rejected: int = 0
    why: str = ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would repeat the request as GET, and send its headers to another host."""

    def redirect_request(self, *ignored: Any) -> None:
        return None


class Sender:
    """Sends the requests of one signal."""

    def __init__(self, to: Destination):
        """Raises OSError if a certificate cannot be read."""
        self.to = to
        https = to.url.startswith("https:")
        tls = trusting(to.certificate, to.client_certificate, to.client_key) if https else None
        self._opener = urllib.request.build_opener(_NoRedirect(), LimitedHandler(tls))

    def send(self, body: bytes, timeout_s: float) -> Answer:
        """Send a request; it is compressed already if that is wanted. Never raises.

        timeout_s: for everything from the look-up of the name to the last byte of the answer. An answer that is not
        complete by then, or too long, is none: the request may be tried again.
        """
        headers = {
            "User-Agent": f"miniray/{__version__}",
            **self.to.headers,
            "Content-Type": "application/json",
            **({"Content-Encoding": "gzip"} if self.to.gzip else {}),
        }
        try:
            request = LimitedRequest(self.to.url, data=body, headers=headers, method="POST")
            request.limits = Limits(timeout_s)
            with self._opener.open(request, timeout=timeout_s) as response:
                return accepted(response.read(MOST_OF_AN_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                return refused(error.code, error.headers.get("Retry-After"), error.reason)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # An address that cannot be reached today may be reached tomorrow; a header that cannot be sent will not.
            reason = getattr(error, "reason", None) or error
            again = not isinstance(error, ValueError)
            return Answer(again=again, reached=False, why=said(reason) or type(error).__name__)


def accepted(answer: bytes) -> Answer:
    """What the body of a 2xx says: it may name items that the collector refused."""
    try:
        partial = json.loads(answer).get("partialSuccess") or {} if answer else {}
        numbers = [max(0, int(value)) for key, value in partial.items() if key.startswith("rejected")]
        return Answer(sent=True, rejected=sum(numbers), why=said(partial.get("errorMessage") or ""))
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
        # It is not JSON, or not of this form, or nested too deeply to read: the request was taken all the same.
        return Answer(sent=True)


def said(text: object) -> str:
    """What a collector said, for a message: on one line, not too long, and without control characters."""
    return for_terminal(cut(str(text), LONGEST_REASON))


def refused(status: int, retry_after: str | None, reason: str) -> Answer:
    """What an answer other than 2xx means."""
    why = f"HTTP {status} {said(reason)}".strip()
    if status not in RETRYABLE:
        return Answer(why=why)
    return Answer(again=True, after_s=pause_of(retry_after), why=why)


def pause_of(text: str | None) -> float | None:
    """The header Retry-After, in seconds from now: it holds a number of seconds, or a date."""
    if not text:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_PAUSE_S)
    try:
        at = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(0.0, at - time.time()), LONGEST_PAUSE_S)
