"""A retry that is not idempotent: a task pays, its worker crashes, and the retry pays again.

The payment has arrived; only the task's report was lost. The fix gives the payment a number, and the account ignores a
number that it has seen.

Prints:

    fixed: 100 runs passed
    buggy: AssertionError
"""

import miniray as ray
from miniray.testing import ExplorationFailure, FaultPlan, explore

FAULTS = FaultPlan(crash=0.1)


@ray.remote
class Account:
    def __init__(self):
        self.balance, self.seen = 0, set()

    def pay(self, amount, number=None):
        if number is None or number not in self.seen:
            self.balance += amount
        self.seen.add(number)

    def read(self):
        return self.balance


@ray.remote(max_retries=5)
def pay(account, amount):
    ray.get(account.pay.remote(amount))


@ray.remote(max_retries=5)
def pay_once(account, amount, number):
    ray.get(account.pay.remote(amount, number))


def buggy():
    account = Account.remote()
    ray.get([pay.remote(account, 10), pay.remote(account, 20)])
    assert ray.get(account.read.remote()) == 30


def fixed():
    account = Account.remote()
    ray.get([pay_once.remote(account, 10, 1), pay_once.remote(account, 20, 2)])
    assert ray.get(account.read.remote()) == 30


if __name__ == "__main__":
    found = explore(fixed, seeds=range(100), faults=FAULTS)
    print(f"fixed: {found.runs} runs passed")
    try:
        explore(buggy, faults=FAULTS)
    except ExplorationFailure as failure:
        print("buggy:", type(failure.__cause__).__name__)
