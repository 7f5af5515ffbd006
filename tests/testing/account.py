"""The actor of the tests of simulation and exploration."""

from __future__ import annotations

import miniray as ray


@ray.remote
class Account:
    """A balance, read and written in two calls."""

    def __init__(self, balance: int) -> None:
        self.value = balance

    def balance(self) -> int:
        """The balance."""
        return self.value

    def set_balance(self, balance: int) -> None:
        """Set it."""
        self.value = balance

    def pay_in(self, amount: int) -> int:
        """Read and write in one call."""
        self.value += amount
        return self.value
