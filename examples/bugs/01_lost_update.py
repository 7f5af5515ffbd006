"""A lost update: two tasks read a number, add to it, and write it back, in two calls each.

If both read before either writes, one of the two updates is lost. The fix does both in one call: an actor runs its
calls one after the other.

Prints:

    fixed: 100 runs passed
    buggy: AssertionError
"""

import miniray as ray
from miniray.testing import ExplorationFailure, explore


@ray.remote
class Account:
    def __init__(self):
        self.balance = 100

    def read(self):
        return self.balance

    def write(self, balance):
        self.balance = balance

    def deposit(self, amount):
        self.balance += amount


@ray.remote
def deposit_in_two_calls(account, amount):
    balance = ray.get(account.read.remote())
    ray.get(account.write.remote(balance + amount))


@ray.remote
def deposit_in_one_call(account, amount):
    ray.get(account.deposit.remote(amount))


def run(deposit):
    account = Account.remote()
    ray.get([deposit.remote(account, 10), deposit.remote(account, 20)])
    assert ray.get(account.read.remote()) == 130


def buggy():
    run(deposit_in_two_calls)


def fixed():
    run(deposit_in_one_call)


if __name__ == "__main__":
    found = explore(fixed, seeds=range(100))
    print(f"fixed: {found.runs} runs passed")
    try:
        explore(buggy)
    except ExplorationFailure as failure:
        print("buggy:", type(failure.__cause__).__name__)
