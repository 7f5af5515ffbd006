"""A collector of OTLP/HTTP on loopback for tests: it records requests, and answers as it is told."""

import gzip
import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Collector:
    """Listens while the block runs. requests: (path, headers, body as JSON) of each, in order. answers: what the next
    requests are answered: (status, headers, body); without any, 200 and {}. arrived: is notified of each request. hold:
    while it is not set, requests get no answer."""

    def __init__(self):
        self.requests, self.answers = [], deque()
        self.arrived = threading.Condition()
        self.hold = threading.Event()
        self.hold.set()

    def __enter__(self):
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                plain = gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw
                with collector.arrived:
                    collector.requests.append((self.path, dict(self.headers), json.loads(plain)))
                    answer = collector.answers.popleft() if collector.answers else (200, {}, b"{}")
                    collector.arrived.notify_all()
                collector.hold.wait()
                status, headers, body = answer
                try:
                    self.send_response(status)
                    for key, value in headers.items():
                        self.send_header(key, value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True  # the sender has given up

            def log_message(self, *ignored):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()

    def wait_for(self, path, number=1, timeout=30):
        """The bodies of the requests to a path, once there are so many."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.of(path)) >= number, timeout), self.requests
            return self.of(path)

    def of(self, path):
        """The bodies of the requests to a path so far."""
        return [body for where, _, body in self.requests if where == path]


def spans(bodies):
    """Every span of these requests."""
    return [
        span
        for body in bodies
        for resource in body["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def metrics(body):
    """The metrics of one request, by name."""
    return {
        metric["name"]: metric
        for resource in body["resourceMetrics"]
        for scope in resource["scopeMetrics"]
        for metric in scope["metrics"]
    }


def lines(bodies):
    """Every log record of these requests."""
    return [
        record
        for body in bodies
        for resource in body["resourceLogs"]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
    ]


def plain(attributes):
    """Attributes as a dict."""
    return {one["key"]: next(iter(one["value"].values())) for one in attributes}
