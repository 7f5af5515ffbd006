"""Export by OTLP/HTTP to a collector that is slow or talks without an end: each request ends in time, and is counted."""

import contextlib
import os
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

import miniray as ray
from miniray.process import context
from miniray.telemetry.config import TelemetryConfig
from miniray.telemetry.export import exporter, timed_connection
from miniray.telemetry.export.sender import Sender, accepted, refused
from miniray.telemetry.export.settings import FLUSH_S, Destination

CERTIFICATE = str(Path(__file__).with_name("loopback.pem"))  # and its key: it is trusted by nobody but these tests
LONG = 20.0  # seconds: far more than any of these requests may take
BODY = b"x" * 100


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("OTEL_", "MINIRAY_OTLP", "MINIRAY_TELEMETRY")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


class Peer:
    """Listens on loopback while the block runs. talk: what it does with each connection; it ends with an OSError when
    the other side has gone."""

    def __init__(self, talk, tls=None):
        self.talk, self.tls, self.leave, self.served = talk, tls, threading.Event(), threading.Semaphore(0)
        self.paths = []

    def __enter__(self):
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.listening.getsockname()[1]
        self.url = f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"
        self.threads = []
        self.start(self.accept)
        return self

    def start(self, target, *args):
        self.threads.append(threading.Thread(target=target, args=args, daemon=True))
        self.threads[-1].start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listening.accept()
                self.start(self.serve, connection)

    def serve(self, connection):
        with contextlib.suppress(OSError), connection:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection:
                self.talk(self, connection)

    def __exit__(self, *error):
        self.leave.set()
        self.listening.shutdown(socket.SHUT_RDWR)  # `close` alone would not end the wait of `accept`
        self.listening.close()
        for thread in self.threads:
            thread.join()

    def read(self, connection):
        """Read one request."""
        with connection.makefile("rb") as file:
            self.paths.append(file.readline().split()[1].decode())
            length = 0
            while (line := file.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            file.read(length)

    def pause(self):
        """Between two bytes. Ends the talk when the test ends."""
        if self.leave.wait(0.02):
            raise OSError


def drip(before, bit):
    def talk(peer, connection):
        peer.read(connection)
        connection.sendall(before)
        while True:
            connection.sendall(bit)
            peer.pause()

    return talk


def flood(before, bit):
    def talk(peer, connection):
        peer.read(connection)
        connection.sendall(before)
        while True:
            connection.sendall(bit * 1000)

    return talk


def deaf(peer, connection):
    peer.leave.wait()


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
TOO_SLOW = {
    "status line": drip(b"", b"H"),
    "one header": drip(OK + b"A: ", b"b"),
    "many headers": drip(OK, b"A: b\r\n"),
    "body": drip(OK + b"Content-Length: 1000000\r\n\r\n", b" "),
    "body until the end": drip(OK + b"\r\n", b" "),
    "size of a chunk": drip(CHUNKED, b"0"),
    "chunks": drip(CHUNKED, b"1\r\n \r\n"),
    "trailers": drip(CHUNKED + b"0\r\n", b"A: b\r\n"),
    "100 Continue": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "nothing": deaf,
}
TOO_LONG = {
    "status line": flood(b"", b"H"),
    "one header": flood(OK + b"A: ", b"b"),
    "many headers": flood(OK, b"A: b\r\n"),
    "size of a chunk": flood(CHUNKED, b"0"),
    "trailers": flood(CHUNKED + b"0\r\n", b"A: b\r\n"),
    "100 Continue": flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers of 100 Continue": flood(b"HTTP/1.1 100 Continue\r\n", b"A: b\r\n"),
}


def server_tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def sent(peer, body=BODY, timeout_s=0.3):
    """The answer to a request, and how long it took."""
    sender = Sender(Destination(peer.url, certificate=CERTIFICATE if peer.tls else ""))
    began = time.monotonic()
    answer = sender.send(body, timeout_s)
    return answer, time.monotonic() - began


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("where", TOO_SLOW)
def test_an_answer_that_comes_byte_by_byte_ends_at_the_timeout(where, tls):
    """Each byte used to begin the timeout anew, so such a request never ended."""
    with Peer(TOO_SLOW[where], server_tls() if tls else None) as peer:
        answer, took_s = sent(peer)
    assert not answer.sent and answer.again, answer
    if where != "many headers":  # a hundred of them are too many
        assert 0.29 < took_s < LONG, answer


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("where", TOO_LONG)
def test_an_answer_without_an_end_is_cut(where, tls):
    with Peer(TOO_LONG[where], server_tls() if tls else None) as peer:
        answer, took_s = sent(peer, timeout_s=10 * LONG)
    assert not answer.sent and answer.again and took_s < LONG, answer


def test_a_body_without_an_end_is_read_up_to_a_limit():
    """The status has said that the request was taken."""
    with Peer(flood(OK + b"\r\n", b" ")) as peer:
        answer, took_s = sent(peer, timeout_s=10 * LONG)
    assert answer.sent and took_s < LONG


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_a_collector_that_does_not_read_ends_at_the_timeout(tls):
    """The request does not fit into the buffers of the sockets. The peer reads a little all the time."""

    def sips(peer, connection):
        while True:
            connection.recv(10)
            peer.pause()

    for talk in (deaf, sips):
        with Peer(talk, server_tls() if tls else None) as peer:
            answer, took_s = sent(peer, os.urandom(50_000_000))
        assert not answer.sent and answer.again and 0.29 < took_s < LONG, answer


def test_a_peer_that_does_not_speak_tls_ends_at_the_timeout():
    """It takes the greeting, and answers byte by byte what could become a record of TLS."""

    def talk(peer, connection):
        connection.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
        while True:
            connection.sendall(b"\x00")
            peer.pause()

    with Peer(talk) as peer:
        began = time.monotonic()
        answer = Sender(Destination(peer.url.replace("http:", "https:"))).send(BODY, 0.3)
        took_s = time.monotonic() - began
    assert not answer.sent and answer.again and 0.29 < took_s < LONG, answer


def test_a_proxy_is_used_and_keeps_the_same_deadline(monkeypatch):
    """Its answer to CONNECT comes byte by byte."""
    with Peer(drip(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n")) as proxy, Peer(deaf) as peer:
        monkeypatch.setenv("https_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        peer.url = f"https://localhost:{peer.port}"
        answer, took_s = sent(peer)
    assert proxy.paths == [f"localhost:{peer.port}"]
    assert not answer.sent and answer.again and 0.29 < took_s < LONG, answer


def test_requests_over_tls_and_through_a_tunnel_arrive(monkeypatch):
    def takes(peer, connection):
        peer.read(connection)
        connection.sendall(OK + b"Content-Length: 2\r\n\r\n{}")

    def tunnel(peer, connection):
        peer.paths.append(connection.recv(1000).split()[1].decode())
        with socket.create_connection(("127.0.0.1", int(peer.paths[-1].split(":")[1]))) as onward:
            connection.sendall(OK + b"\r\n")

            def copy(source, to):
                with contextlib.suppress(OSError):
                    while data := source.recv(1000):
                        to.sendall(data)

            back = threading.Thread(target=copy, args=(onward, connection))
            back.start()
            copy(connection, onward)
            back.join()

    with Peer(takes, server_tls()) as peer:
        assert sent(peer, timeout_s=LONG)[0].sent
        with Peer(tunnel) as proxy:
            monkeypatch.setenv("https_proxy", proxy.url)
            monkeypatch.setenv("no_proxy", "")
            answer, _ = sent(peer, timeout_s=LONG)
        assert answer.sent and proxy.paths == [f"127.0.0.1:{peer.port}"], answer
        assert peer.paths == ["/", "/"] or peer.paths == ["", ""]


def test_a_certificate_that_is_not_trusted_is_refused():
    with Peer(deaf, server_tls()) as peer:
        answer = Sender(Destination(peer.url)).send(BODY, LONG)
    assert not answer.sent and "certificate" in answer.why.lower(), answer


def test_a_name_that_is_resolved_slowly_ends_at_the_timeout(monkeypatch):
    leave = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *ignored: leave.wait())
    answer = Sender(Destination("http://collector.example:4318/v1/traces")).send(BODY, 0.1)
    leave.set()
    assert answer.again and "collector.example was not resolved in time" in answer.why


def test_the_addresses_of_a_name_share_the_deadline(monkeypatch):
    """Each of them used to have the whole timeout. The last one of these accepts."""
    with Peer(TOO_SLOW["nothing"]) as peer:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            dead = closed.getsockname()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", to) for to in (dead, ("127.0.0.1", peer.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *ignored: found)
        limits = timed_connection.Limits(LONG)
        with timed_connection._connected("two", 1, limits) as made:
            assert made.getpeername()[1] == peer.port
        limits.end = time.monotonic() - 1
        with pytest.raises(TimeoutError):
            timed_connection._connected("two", 1, limits)


# ------------------------------------------------------------------------------------------------ whole sessions


@ray.remote
def speak():
    print("said")


def only_slow(path, slow):
    """A collector that is slow with the requests of one signal, and takes the others."""

    def talk(peer, connection):
        peer.read(connection)
        if peer.paths[-1] == path:
            peer.served.release()
            slow(peer, connection)
        connection.sendall(OK + b"Content-Length: 2\r\n\r\n{}")

    return talk


def drips(peer, connection):
    connection.sendall(OK + b"Content-Length: 1000000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        peer.pause()


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/metrics", "/v1/logs"])
def test_one_slow_signal_does_not_hold_the_others(path, monkeypatch, caplog):
    """While the session runs, and at its end: the slow signal used to take all the time, and the others sent nothing."""
    monkeypatch.setattr(exporter, "READ_S", 0.01)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
    for name in ("OTEL_METRIC_EXPORT_INTERVAL", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BLRP_SCHEDULE_DELAY"):
        monkeypatch.setenv(name, "10")
    with Peer(only_slow(path, drips)) as peer:
        with ray.init(num_cpus=1, log_to_driver=False, telemetry=TelemetryConfig(otlp=peer.url)):
            told = next(one for one in context.session.recorders if isinstance(one, exporter.Exporter))
            ray.get(speak.remote())
            assert peer.served.acquire(timeout=LONG), "the slow signal has begun"
            ray.get([speak.remote() for _ in range(9)])
            assert peer.served.acquire(timeout=LONG), "and was tried again"
            began = time.monotonic()
        assert time.monotonic() - began < FLUSH_S + 1
    slow = path.rsplit("/", 1)[1]
    for name, stats in told.stats().items():
        if name == slow:
            assert stats["sent"] == 0 and stats["failures"] >= 2 and stats["waiting"] == 0
            assert (
                name == "metrics" or stats["dropped"] == {"traces": 2 + 9, "logs": 10}[name]
            )  # two spans and nine calls
        else:
            assert stats["dropped"] == 0 and stats["sent"] >= 10, told.stats()
    assert slow == "metrics" or f"Export of {slow}: 0 " in caplog.text


@pytest.mark.parametrize("where", TOO_SLOW)
def test_the_end_of_a_session_is_bounded_and_the_loss_is_counted(where, monkeypatch, caplog):
    monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "600")
    with Peer(TOO_SLOW[where]) as peer:
        with ray.init(num_cpus=1, log_to_driver=False, telemetry=TelemetryConfig(otlp=peer.url)):
            told = next(one for one in context.session.recorders if isinstance(one, exporter.Exporter))
            ray.get(speak.remote())
            began = time.monotonic()
        assert time.monotonic() - began < FLUSH_S
    stats = told.stats()
    assert (stats["traces"]["dropped"], stats["logs"]["dropped"]) == (2, 1)
    assert "2 calls and spans were dropped" in caplog.text and "1 line was dropped" in caplog.text


def test_at_the_end_each_signal_has_its_share_of_the_time(monkeypatch):
    """The first of them used to take all of it."""
    monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "3000")
    with Peer(only_slow("/v1/metrics", drips)) as peer:
        with ray.init(num_cpus=1, log_to_driver=False, telemetry=TelemetryConfig(otlp=peer.url)):
            told = next(one for one in context.session.recorders if isinstance(one, exporter.Exporter))
            ray.get(speak.remote())
    stats = told.stats()
    assert (stats["traces"]["sent"], stats["logs"]["sent"], stats["metrics"]["sent"]) == (2, 1, 0)


def test_what_a_collector_says_controls_no_terminal():
    """Its status line and its messages are shown on one line, not longer than a few lines, and spelled out."""
    assert refused(400, None, "\x1b[2J\a").why == r"HTTP 400 \x1b[2J\x07"
    assert accepted(b'{"partialSuccess": {"rejectedSpans": 1, "errorMessage": "a\\nb\\u0000"}}').why == r"a\nb\x00"
    assert len(refused(503, None, "x" * 100_000).why) < 400
