"""Tests of the shop; run with `pytest -p miniray.testing.plugin --miniray`."""
import pytest
import shop

from miniray.testing import faults


def test_an_order_is_priced(miniray_cluster):
    """Each test has its own session."""
    stock = shop.Stock.remote({"pear": 3})
    assert shop.order(stock, "pear", 2) == 8


def test_an_order_that_is_too_large_is_refused(miniray_cluster):
    """The error is the one that the actor raised."""
    stock = shop.Stock.remote({"pear": 3})
    with pytest.raises(ValueError, match="only 3 of pear"):
        shop.order(stock, "pear", 4)


def test_a_price_survives_two_crashes(miniray_cluster):
    """The shop relies on max_retries=2."""
    stock = shop.Stock.remote({"pear": 3})
    with faults.crash_worker("price", times=2) as crash:
        assert shop.order(stock, "pear", 1) == 4
    assert crash.count == 2
