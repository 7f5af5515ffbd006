"""Connections of http.client that keep one deadline for a whole request, and one limit for all bytes of its answer.

The timeout of a socket counts anew for every call, so a peer that sends a byte every second never exceeds it. Here the
sockets themselves keep the deadline: before each call that can wait, the socket's timeout becomes the time that is
left. It makes no difference which part of http.client reads: the answer of a proxy, a hundred of "100 Continue", the
headers, the sizes of chunks or the body.
"""

from __future__ import annotations

import _thread
import http.client
import socket
import ssl
import time
import urllib.request
from typing import Any

MOST_RECEIVED = 256 * 1024  # bytes of one answer with everything around its body
_allocate_lock, _start_new_thread = _thread.allocate_lock, _thread.start_new_thread


class Limits:
    """What is left of the time and of the bytes of one request. Every socket of the request has the same Limits."""

    def __init__(self, timeout_s: float):
        self.end = time.monotonic() + timeout_s
        self.bytes_left = MOST_RECEIVED

    def left_s(self) -> float:
        """The seconds that are left, always above 0: a timeout of 0 would mean something else. Raises TimeoutError if
        none is left."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took longer than its timeout")
        return left

    def received(self, number: int) -> None:
        """Count bytes. Raises HTTPException if the answer is too long."""
        self.bytes_left -= number
        if self.bytes_left < 0:
            raise http.client.HTTPException(f"the answer is longer than {MOST_RECEIVED:,} bytes")


class _Limited(socket.socket):
    """A socket that keeps the limits in the calls that http.client makes."""

    limits: Limits

    def recv_into(self, *args: Any, **named: Any) -> int:
        self.settimeout(self.limits.left_s())
        number = super().recv_into(*args, **named)
        self.limits.received(number)
        return number

    def sendall(self, data: Any, *flags: int) -> None:
        with memoryview(data) as view, view.cast("B") as rest:
            done = 0
            while done < len(rest):
                self.settimeout(self.limits.left_s())
                done += self.send(rest[done:], *flags)


class _LimitedTls(_Limited, ssl.SSLSocket):
    """The same over TLS: each call of ssl.SSLSocket keeps the timeout, however many records it reads or writes."""


def trusting(certificate: str, client_certificate: str, client_key: str) -> ssl.SSLContext:
    """A context of TLS whose sockets can keep limits. Raises OSError if a certificate cannot be read."""
    context = ssl.create_default_context(cafile=certificate or None)
    if client_certificate:
        context.load_cert_chain(client_certificate, client_key or None)
    context.sslsocket_class = _LimitedTls
    return context


def _addresses(host: str, port: int, limits: Limits) -> list[Any]:
    """What getaddrinfo returns. It knows no timeout, so it runs in a thread of its own, which is left behind if the
    resolver is slow. Raises OSError."""
    found: list[Any] = []
    done = _allocate_lock()
    done.acquire()

    def look_up() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM))
        except Exception as error:
            found.append(error)
        finally:
            done.release()

    _start_new_thread(look_up, ())
    if not done.acquire(timeout=limits.left_s()):
        raise TimeoutError(f"the name {host} was not resolved in time")
    (answer,) = found
    if isinstance(answer, Exception):
        raise answer
    return list(answer)


def _connected(host: str, port: int, limits: Limits) -> _Limited:
    """A socket that is connected to the first address that accepts. Raises OSError: the last address's error."""
    problem: OSError | None = None
    for family, kind, protocol, _, address in _addresses(host, port, limits):
        made = None
        try:
            made = _Limited(family, kind, protocol)
            made.limits = limits
            made.settimeout(limits.left_s())
            made.connect(address)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        except OSError as error:
            problem = error
            if made is not None:
                made.close()
    raise problem or OSError(f"{host} has no address")


class _Connection(http.client.HTTPConnection):
    """limits: of the one request that it serves. tls: None for plain HTTP."""

    def __init__(self, host: str, *, limits: Limits, tls: ssl.SSLContext | None, **named: Any):
        if tls is not None:
            self.default_port = http.client.HTTPS_PORT
        super().__init__(host, **named)
        self._limits, self._tls = limits, tls

    def connect(self) -> None:
        made = self.sock = _connected(self.host, self.port, self._limits)
        tunnel = getattr(self, "_tunnel_host", None)  # urllib sets it if a proxy stands between
        if tunnel:
            self._tunnel()  # type: ignore[attr-defined]
        if self._tls is not None:
            made.settimeout(self._limits.left_s())  # of the whole handshake
            self.sock = self._tls.wrap_socket(made, server_hostname=tunnel or self.host)
            self.sock.limits = self._limits  # type: ignore[attr-defined]


class LimitedRequest(urllib.request.Request):
    """A request with its limits."""

    limits: Limits


class LimitedHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens requests of http and https by connections that keep their limits; urllib adds the proxies."""

    def __init__(self, tls: ssl.SSLContext | None):
        urllib.request.HTTPHandler.__init__(self)
        self._tls = tls

    def http_open(self, request: Any) -> Any:
        """Called by urllib for an address of http, or for a proxy."""
        return self._open(request, None)

    def https_open(self, request: Any) -> Any:
        """Called by urllib for an address of https."""
        return self._open(request, self._tls)

    def _open(self, request: LimitedRequest, tls: ssl.SSLContext | None) -> Any:
        return self.do_open(_Connection, request, limits=request.limits, tls=tls)  # type: ignore[arg-type]
