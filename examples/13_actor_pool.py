"""ActorPool: a few actors that are expensive to create share many small pieces of work.

Each actor loads its model once and takes the next piece as soon as it is free. `map` yields the results in the order of
the input, `map_unordered` as they become ready; `submit` and `get_next` give the same control step by step.

Prints:

    in order: ['un', 'deux', 'trois', 'quatre', 'cinq', 'six']
    in any order, sorted: ['cinq', 'deux', 'quatre', 'six', 'trois', 'un']
    6 + 6 translations by 2 actors, which loaded 2 dictionaries
"""

import miniray as ray
from miniray.util import ActorPool


@ray.remote
class Translator:
    def __init__(self):
        self.loads = 1  # a real actor would load its model here
        self.dictionary = dict(
            zip(["one", "two", "three", "four", "five", "six"], ["un", "deux", "trois", "quatre", "cinq", "six"])
        )
        self.translated = 0

    def translate(self, word):
        self.translated += 1
        return self.dictionary[word]

    def counts(self):
        return self.translated, self.loads


ray.init(num_cpus=2)

actors = [Translator.remote() for _ in range(2)]
pool = ActorPool(actors)
words = ["one", "two", "three", "four", "five", "six"]

print("in order:", list(pool.map(lambda actor, word: actor.translate.remote(word), words)))
print("in any order, sorted:", sorted(pool.map_unordered(lambda actor, word: actor.translate.remote(word), words)))

translated, loads = (sum(column) for column in zip(*ray.get([actor.counts.remote() for actor in actors])))
assert translated == 12
print(f"6 + 6 translations by {len(actors)} actors, which loaded {loads} dictionaries")

ray.shutdown()
