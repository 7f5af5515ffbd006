"""A double spend: two tasks find that the money is enough for a purchase, and both buy.

Each looks at the balance before the other has paid. The fix checks and pays in one call of the actor.

Prints:

    fixed: 100 runs passed
    buggy: AssertionError
"""

import miniray as ray
from miniray.testing import ExplorationFailure, explore


@ray.remote
class Wallet:
    def __init__(self):
        self.money = 10

    def read(self):
        return self.money

    def pay(self, price):
        self.money -= price

    def pay_if_enough(self, price):
        if self.money >= price:
            self.money -= price
            return True
        return False


@ray.remote
def buy(wallet, price):
    if ray.get(wallet.read.remote()) >= price:
        ray.get(wallet.pay.remote(price))


@ray.remote
def buy_carefully(wallet, price):
    ray.get(wallet.pay_if_enough.remote(price))


def run(buy):
    wallet = Wallet.remote()
    ray.get([buy.remote(wallet, 7), buy.remote(wallet, 8)])
    assert ray.get(wallet.read.remote()) >= 0


def buggy():
    run(buy)


def fixed():
    run(buy_carefully)


if __name__ == "__main__":
    found = explore(fixed, seeds=range(100))
    print(f"fixed: {found.runs} runs passed")
    try:
        explore(buggy)
    except ExplorationFailure as failure:
        print("buggy:", type(failure.__cause__).__name__)
