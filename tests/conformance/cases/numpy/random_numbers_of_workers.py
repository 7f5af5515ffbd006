"""`numpy.random` belongs to a worker, and numpy's error state to an actor: seeds in tasks that run at once, the driver's sequence, np.seterr kept from call to call."""

import time

import numpy as np


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def seeded(seed, pause):
        np.random.seed(seed)
        first = np.random.rand(2).tolist() + np.random.randint(0, 99, 3).tolist()
        time.sleep(pause)
        return first + np.random.normal(size=2).tolist() + np.random.permutation(5).tolist() + [np.random.sample(), np.random.choice(9)]

    np.random.seed(42)
    alone = [np.random.random() for _ in range(2)]
    np.random.seed(42)
    sequence = [np.random.random()]
    got = ray.get([seeded.remote(7, 0.3) for _ in range(4)])
    sequence.append(np.random.random())
    ctx.show("the driver's sequence goes on", sequence == alone)
    ctx.show("equal seeds", all(numbers == got[0] for numbers in got), got[0][2:5])

    class Keeps:
        def __init__(self, seed):
            np.random.seed(seed)
            np.seterr(divide="raise")

        def roll(self):
            return int(np.random.randint(1, 7))

        def divide(self):
            return np.array([1.0]) / 0

    actors = [ray.remote(Keeps).remote(seed) for seed in (1, 2)]
    rolls = [ray.get([actor.roll.remote() for actor in actors]) for _ in range(6)]
    expected = [np.random.RandomState(seed).randint(1, 7, 6).tolist() for seed in (1, 2)]
    ctx.show("an actor's sequence", [list(column) for column in zip(*rolls)] == expected)
    ctx.raises(lambda: ray.get(actors[0].divide.remote()), "FloatingPointError")
    ctx.show(np.geterr()["divide"])
