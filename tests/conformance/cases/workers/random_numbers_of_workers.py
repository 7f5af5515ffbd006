"""`random` belongs to a worker: tasks that seed it and draw at once get the same numbers, an actor keeps its sequence, and the driver's goes on undisturbed."""

import random
import threading
import time


def draws(pause):
    first = [random.randint(0, 99), random.random(), random.choice("abcdef"), random.getrandbits(20)]
    time.sleep(pause)
    items = list(range(9))
    random.shuffle(items)
    return first + [random.uniform(1, 2), random.gauss(0, 1), random.sample(range(99), 3), items, random.choices("ab", k=3), random.randbytes(3)]


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def seeded(seed):
        random.seed(seed)
        return draws(0.3)

    ray.get([seeded.remote(0) for _ in range(4)])
    random.seed(42)
    alone = [random.random() for _ in range(3)]
    random.seed(42)
    sequence = [random.random()]
    got = ray.get([seeded.remote(7) for _ in range(4)])
    sequence.append(random.random())
    ctx.show("the driver's sequence goes on", sequence == alone[:2])
    random.seed(7)
    ctx.show("equal seeds", all(numbers == draws(0) for numbers in got[:1]), all(numbers == got[0] for numbers in got))

    class Player:
        def __init__(self, seed):
            random.seed(seed)

        def roll(self):
            return random.randint(1, 6)

        def state(self):
            self.saved = random.getstate()

        def back(self):
            random.setstate(self.saved)

        def in_a_thread(self):
            seen = []
            thread = threading.Thread(target=lambda: seen.append(random.randint(1, 6)))
            thread.start()
            thread.join()
            return seen[0]

    players = [ray.remote(num_cpus=0)(Player).remote(seed) for seed in (1, 2)]
    rolls = [ray.get([player.roll.remote() for player in players]) for _ in range(6)]
    expected = []
    for seed in (1, 2):
        own = random.Random(seed)
        expected.append([own.randint(1, 6) for _ in range(6)])
    ctx.show("an actor's sequence", [list(column) for column in zip(*rolls)] == expected)
    player = players[0]
    ray.get(player.state.remote())
    first = ray.get([player.roll.remote(), player.in_a_thread.remote(), player.roll.remote()])
    ray.get(player.back.remote())
    ctx.show("again, also in a thread", ray.get([player.roll.remote() for _ in range(3)]) == first)
    unseeded = [ray.remote(num_cpus=0)(type("Unseeded", (), {"draw": lambda self: random.random()})).remote() for _ in range(3)]
    ctx.show("different without a seed", len(set(ray.get([actor.draw.remote() for actor in unseeded]))))
    for function in (random.random, random.randint):
        ctx.raises(lambda: ray.remote(function), "TypeError")
