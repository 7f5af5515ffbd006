"""A pool of actors that keep what they computed: each one sieves primes once and then answers many questions.

`ActorPool` gives the next number to whichever actor is free. `map` yields the results in the order of the numbers,
although the actors work in parallel.

Prints:

    1001 = 7 * 11 * 13
    1009 is prime
    1024 = 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2
    9991 = 97 * 103
    9973 is prime
    65536 numbers sieved by 2 actors, 5 questions answered
"""

import ray
from ray.util import ActorPool

SIEVED = 2**15


@ray.remote
class Factorizer:
    def __init__(self, limit):
        self.is_prime = [False, False] + [True] * (limit - 2)
        for n in range(2, int(limit**0.5) + 1):
            if self.is_prime[n]:
                self.is_prime[n * n :: n] = [False] * len(range(n * n, limit, n))
        self.answered = 0

    def factors(self, number):
        self.answered += 1
        found, divisor = [], 2
        while not self.is_prime[number]:
            while number % divisor or not self.is_prime[divisor]:
                divisor += 1
            found.append(divisor)
            number //= divisor
        return found + [number]

    def statistics(self):
        return len(self.is_prime), self.answered


ray.init(num_cpus=2)

actors = [Factorizer.remote(SIEVED) for _ in range(2)]
pool = ActorPool(actors)
numbers = [1001, 1009, 1024, 9991, 9973]
for number, factors in zip(numbers, pool.map(lambda actor, n: actor.factors.remote(n), numbers)):
    print(number, "is prime" if len(factors) == 1 else "= " + " * ".join(map(str, factors)))

sieved, answered = map(sum, zip(*ray.get([actor.statistics.remote() for actor in actors])))
print(f"{sieved} numbers sieved by {len(actors)} actors, {answered} questions answered")

ray.shutdown()
