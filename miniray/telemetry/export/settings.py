"""Where a session is exported to, and how: the endpoint that the program gives, and OpenTelemetry's variables.

https://opentelemetry.io/docs/specs/otel/protocol/exporter and .../configuration/sdk-environment-variables. A variable
with a bad value is ignored with a warning, as the specification asks for.
"""

from __future__ import annotations

import base64
import logging
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)

DEFAULT_ENDPOINT = "http://localhost:4318"
SIGNALS = ("traces", "metrics", "logs")
EXPORT_TIMEOUTS = {  # of one export; ours is one request
    "traces": "OTEL_BSP_EXPORT_TIMEOUT",
    "metrics": "OTEL_METRIC_EXPORT_TIMEOUT",
    "logs": "OTEL_BLRP_EXPORT_TIMEOUT",
}
FLUSH_S = 5.0  # how long the end of a session waits at most for the last requests
QUEUED_CALLS, QUEUED_LINES = 65_536, 65_536  # OpenTelemetry's default is 2048, a fraction of a second of tasks


@dataclass(frozen=True)
class Destination:
    """Where one signal goes. timeout_s: of a request. certificate...: files in PEM format, "" for the system's."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # they may hold a password
    timeout_s: float = 10.0
    gzip: bool = False
    certificate: str = ""
    client_certificate: str = ""
    client_key: str = ""


@dataclass(frozen=True)
class Settings:
    """What is exported.

    destinations: by signal; a signal that is switched off has none. resource: the attributes of the program.
    metric_interval_s: how often metrics are sent. delay_s, queue, batch: of the spans: how long one waits at most, how
    many calls may wait, how many spans one request has; the same for lines with `log_`. flush_s: how long the end of
    the session waits at most.
    """

    destinations: dict[str, Destination]
    resource: dict[str, str]
    metric_interval_s: float = 60.0
    delay_s: float = 5.0
    queue: int = QUEUED_CALLS
    batch: int = 512
    log_delay_s: float = 1.0
    log_queue: int = QUEUED_LINES
    log_batch: int = 512
    flush_s: float = FLUSH_S


def endpoint_of(text: str, name: str) -> str:
    """Check the address of a collector. Raises ValueError unless it is a URL of http or https. name: of the variable or
    the argument that has it."""
    try:
        parts = urllib.parse.urlsplit(text)
        parts.port  # raises ValueError for an impossible port  # noqa: B018
    except ValueError as problem:  # such as brackets that are not closed
        raise ValueError(f"{name} must be a URL such as {DEFAULT_ENDPOINT}, not {text!r}: {problem}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{name} must be a URL such as {DEFAULT_ENDPOINT}, not {text!r}")
    return text


def settings_of(environ: Mapping[str, str], endpoint: str | None = None) -> Settings | None:
    """The settings for a session that is to be exported; None if OTEL_SDK_DISABLED or the other variables forbid it.

    endpoint: the base URL, if the program names one: it comes before OTEL_EXPORTER_OTLP_ENDPOINT, but not before the
    variables of single signals. Raises ValueError for an endpoint that is no URL.
    """
    read = _Reader(environ)
    if read.text("OTEL_SDK_DISABLED").lower() == "true":
        return None
    if endpoint:
        base = endpoint_of(endpoint, "otlp")
    else:
        variable = "OTEL_EXPORTER_OTLP_ENDPOINT"
        base = endpoint_of(read.text(variable) or DEFAULT_ENDPOINT, variable)
    destinations = {}
    for signal in SIGNALS:
        if read.text(f"OTEL_{signal.upper()}_EXPORTER") != "none":
            destinations[signal] = _destination(read, signal, base)
    protocol = read.text("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in ("", "http/json"):
        logger.warning("OTEL_EXPORTER_OTLP_PROTOCOL=%s: miniray exports http/json, and only that.", protocol)
    if not destinations:
        return None
    return Settings(
        destinations,
        _resource(read),
        read.ms("OTEL_METRIC_EXPORT_INTERVAL", 60_000),
        read.ms("OTEL_BSP_SCHEDULE_DELAY", 5_000),
        read.number("OTEL_BSP_MAX_QUEUE_SIZE", QUEUED_CALLS),
        read.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
        read.ms("OTEL_BLRP_SCHEDULE_DELAY", 1_000),
        read.number("OTEL_BLRP_MAX_QUEUE_SIZE", QUEUED_LINES),
        read.number("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", 512),
        min(FLUSH_S, read.ms("OTEL_BSP_EXPORT_TIMEOUT", 30_000)),
    )


def _destination(read: _Reader, signal: str, base: str) -> Destination:
    def either(name: str) -> str:
        return read.text(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}") or read.text(f"OTEL_EXPORTER_OTLP_{name}")

    variable = f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"
    own = read.text(variable)
    if own:  # it is used as it is; only a missing path becomes /
        url = endpoint_of(own, variable)
        if not urllib.parse.urlsplit(url).path:
            url += "/"
    else:
        url = f"{base.rstrip('/')}/v1/{signal}"
    which = f"OTEL_EXPORTER_OTLP_{signal.upper()}_TIMEOUT"
    timeout = read.ms(which if read.text(which) else "OTEL_EXPORTER_OTLP_TIMEOUT", 10_000)
    timeout = min(timeout, read.ms(EXPORT_TIMEOUTS[signal], 30_000))
    compression = either("COMPRESSION").lower()
    if compression not in ("", "none", "gzip"):
        logger.warning("The compression %r is not known; miniray sends gzip, or nothing compressed.", compression)
    headers = read.pairs(either("HEADERS"), "OTEL_EXPORTER_OTLP_HEADERS")
    url, login = _without_login(url)
    if login and not any(name.lower() == "authorization" for name in headers):
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    return Destination(
        url,
        headers,
        timeout,
        compression == "gzip",
        either("CERTIFICATE"),
        either("CLIENT_CERTIFICATE"),
        either("CLIENT_KEY"),
    )


def _without_login(url: str) -> tuple[str, str]:
    """A URL without `user:password@`, and what stood there, "" for nothing."""
    parts = urllib.parse.urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=host).geturl(), urllib.parse.unquote(login)


def _resource(read: _Reader) -> dict[str, str]:
    found = read.pairs(read.text("OTEL_RESOURCE_ATTRIBUTES"), "OTEL_RESOURCE_ATTRIBUTES")
    name = read.text("OTEL_SERVICE_NAME") or found.get("service.name") or "unknown_service:python"
    return {**found, "service.name": name}


class _Reader:
    """Reads variables. An empty one counts as unset."""

    def __init__(self, environ: Mapping[str, str]):
        self.environ = environ

    def text(self, name: str) -> str:
        return self.environ.get(name, "").strip()

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        if not text.isascii() or not text.isdigit() or int(text) == 0:
            logger.warning("%s=%s is not a whole number above 0: %d is used.", name, text, default)
            return default
        return int(text)

    def ms(self, name: str, default: int) -> float:
        """A time in milliseconds, as seconds."""
        return self.number(name, default) / 1000

    def pairs(self, text: str, name: str) -> dict[str, str]:
        """`key=value,key=value`, with percent-encoding in the values, as in the header `baggage`."""
        found = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            key, equals, value = part.partition("=")
            key, value = urllib.parse.unquote(key.strip()), urllib.parse.unquote(value.strip())
            if not equals or not key or any(character in key + value for character in "\r\n\0"):
                logger.warning("%s has a part that is not key=value; it is ignored.", name)  # it may hold a password
                continue
            found[key] = value
        return found
