"""Export by OTLP/HTTP: when a request is sent again, and when it is given up."""

import email.utils
import time

import pytest

import miniray as ray
from miniray.process import context
from miniray.telemetry.export import exporter, sender
from miniray.telemetry.export.settings import settings_of
from tests.telemetry.otlp_collector import Collector


@pytest.fixture
def collector():
    with Collector() as listening:
        yield listening


def test_the_pause_is_that_of_the_answer_or_doubles():
    assert sender.pause_of("3") == 3 and sender.pause_of("999999") == sender.LONGEST_PAUSE_S
    assert sender.pause_of(None) is None and sender.pause_of("soon") is None and sender.pause_of("-1") is None
    at = sender.pause_of(email.utils.formatdate(time.time() + 100, usegmt=True))
    assert 95 < at <= 100
    assert sender.pause_of(email.utils.formatdate(time.time() - 100, usegmt=True)) == 0
    with ray.init(num_cpus=1):
        made = exporter.Exporter(context.session, settings_of({}))
        longest = []
        for tries in range(1, 9):
            request = exporter.Request(b"", 1, 0.0, tries)
            pauses = [made._pause(request, sender.Answer(again=True)) for _ in range(200)]
            longest.append(max(pauses))
            assert min(pauses) >= 0.5 * min(30, 2 ** (tries - 1)) and len(set(pauses)) > 100
        limits = [1, 2, 4, 8, 16, 30, 30, 30]
        assert all(0.9 * limit < pause <= limit for pause, limit in zip(longest, limits))
        assert made._pause(exporter.Request(b"", 1, 0.0, 5), sender.Answer(again=True, after_s=0.25)) == 0.25


def test_a_request_is_given_up_after_a_while(collector, monkeypatch):
    monkeypatch.setattr(exporter, "GIVE_UP_S", 5)
    with ray.init(num_cpus=1):
        made = exporter.Exporter(context.session, settings_of({}, collector.url))
        signal = made.signals["traces"]
        signal.request = exporter.Request(b"", 7, time.monotonic() - 4)
        made._postpone(signal, signal.request, sender.Answer(again=True, after_s=0.5))
        assert signal.request is not None and signal.stats()["dropped"] == 0
        made._postpone(signal, signal.request, sender.Answer(again=True, after_s=2))
        assert signal.request is None and signal.stats()["dropped"] == 7
        made.signals["logs"].source.close()


def test_no_request_goes_out_before_the_time_that_the_collector_asked_for(collector, monkeypatch):
    with ray.init(num_cpus=1):
        made = exporter.Exporter(context.session, settings_of({}, collector.url))
        signal = made.signals["traces"]
        sent = []

        def send(body, timeout_s):
            sent.append(body)
            return sender.Answer(again=True, after_s=sender.LONGEST_PAUSE_S)

        monkeypatch.setattr(signal.sender, "send", send)
        signal.request = exporter.Request(b"first", 7, time.monotonic() - 1)
        made._step(signal)
        assert signal.request is None and signal.stats()["dropped"] == 7  # the pause is longer than a request is kept
        signal.request = exporter.Request(b"second", 1, time.monotonic())
        made._step(signal)
        made._flush_signal(signal, time.monotonic() + 1)
        assert sent == [b"first"]
        signal.not_before = time.monotonic() + 0.05
        made._flush_signal(signal, time.monotonic() + 1)
        assert sent == [b"first", b"second"]
        made.signals["logs"].source.close()
