"""An actor: an object that lives in its own worker, keeps its state between calls, and runs one call at a time.

The calls of one caller run in the order in which they were made. A handle can be passed to tasks, which then all talk
to the same actor. An error in a method fails that call and leaves the actor alive. `kill` ends the actor.

Prints:

    deposits in order: [10, 30, 60]
    after four tasks deposited 25 each: 160
    an overdraft: ValueError, and the balance is still 160
    after kill: ActorDiedError
"""

import miniray as ray


@ray.remote
class Account:
    def __init__(self, balance):
        self.balance = balance

    def deposit(self, amount):
        if self.balance + amount < 0:
            raise ValueError("not enough money")
        self.balance += amount
        return self.balance


@ray.remote
def pay_in(account, amount):
    return ray.get(account.deposit.remote(amount))


ray.init(num_cpus=4)

account = Account.remote(0)
print("deposits in order:", ray.get([account.deposit.remote(n) for n in (10, 20, 30)]))

ray.get([pay_in.remote(account, 25) for _ in range(4)])
print("after four tasks deposited 25 each:", ray.get(account.deposit.remote(0)))

try:
    ray.get(account.deposit.remote(-1000))
except ValueError:
    print("an overdraft: ValueError, and the balance is still", ray.get(account.deposit.remote(0)))

ray.kill(account)
try:
    ray.get(account.deposit.remote(1))
except ray.exceptions.ActorDiedError as error:
    print("after kill:", type(error).__name__)

ray.shutdown()
