"""Options that are accepted and have no effect are told: once, by name, at the user's line."""

from __future__ import annotations

import logging
import warnings

import pytest

import miniray as ray
from miniray.options import telling
from miniray.options.init_arguments import INIT_PARAMETERS


@pytest.fixture(autouse=True)
def nobody_told(monkeypatch):
    monkeypatch.setattr(telling, "_told", set())
    level = logging.getLogger("miniray").level
    yield
    ray.shutdown()
    logging.getLogger("miniray").setLevel(level)


def f():
    return 1


class A:
    def m(self):
        return 1


def told(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    assert all(w.filename == __file__ for w in seen)
    return [str(w.message) for w in seen if w.category is UserWarning]


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: ray.remote(enable_task_events=False)(f), "enable_task_events"),
        (lambda: ray.remote(f).options(fallback_strategy=[{"label_selector": {"a": "b"}}]), "fallback_strategy"),
        (lambda: ray.remote(allow_out_of_order_execution=True)(A), "allow_out_of_order_execution"),
        (lambda: ray.remote(_labels={"a": "b"})(A), "_labels"),
        (lambda: ray.remote(runtime_env={"pip": ["x"]})(f), "pip"),
        (lambda: ray.method(enable_task_events=False), "enable_task_events"),
        (lambda: ray.init(num_cpus=1, include_dashboard=True), "include_dashboard"),
        (lambda: ray.init(num_cpus=1, _system_config={"x": 1}), "_system_config"),
        (lambda: ray.init(num_cpus=1, _node_name="n"), "_node_name"),
    ],
)
def test_an_option_without_effect_is_told_once(call, name):
    (text,) = told(call)
    assert repr(name) in text and "no effect in miniray" in text
    ray.shutdown()
    assert told(call) == []


def test_values_that_ask_for_nothing_are_not_told():
    assert told(lambda: ray.init(num_cpus=1, include_dashboard=False, dashboard_port=None, _system_config={})) == []
    assert told(lambda: ray.remote(enable_task_events=True, _labels=None, num_returns=1)(f)) == []
    assert told(lambda: ray.remote(max_restarts=1, allow_out_of_order_execution=None)(A).options(num_cpus=1)) == []


def test_every_argument_of_init_without_effect_is_told():
    for name in (name for name, effect in INIT_PARAMETERS.items() if not effect):
        assert told(lambda name=name: telling.tell_once(name)), name


def test_the_level_of_the_logger_is_set():
    ray.init(num_cpus=1, logging_level="ERROR")
    assert logging.getLogger("miniray").level == logging.ERROR
    ray.shutdown()
    ray.init(num_cpus=1, logging_level=logging.DEBUG, configure_logging=False)
    assert logging.getLogger("miniray").level == logging.ERROR
