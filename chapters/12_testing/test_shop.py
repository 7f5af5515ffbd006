"""Tests of the shop; run with `pytest -p miniray.testing.plugin --miniray`."""
from unittest import mock

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


def test_a_patch_reaches_the_task(miniray_cluster):
    """The task calls the mock itself, so the test can ask how it was called."""
    stock = shop.Stock.remote({"pear": 3})
    with mock.patch("shop.price_of", return_value=10) as price_of:
        assert shop.order(stock, "pear", 2) == 20
    price_of.assert_called_once_with("pear")
    assert shop.order(stock, "pear", 1) == 4
