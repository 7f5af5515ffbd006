"""Map-reduce: count the words of several documents, with one task per document and then one per reducer.

Every map task counts the words of one document and divides its counts among the reducers by a hash that is the same in
every process. `num_returns` makes each share a separate value, so a reducer waits only for its own shares.

Prints:

    the      7
    fox      4
    and      3
    dog      3
    a        2
    19 different words, 38 in all
"""

from collections import Counter
from zlib import crc32

import ray

DOCUMENTS = [
    "the quick brown fox jumps over the lazy dog",
    "the dog sleeps and the fox runs",
    "a fox and a dog meet the owl",
    "who is quick and who is lazy asks the owl",
    "the clever fox knows",
]
REDUCERS = 3


@ray.remote(num_returns=REDUCERS)
def map_document(text):
    shares = [Counter() for _ in range(REDUCERS)]
    for word in text.split():
        shares[crc32(word.encode()) % REDUCERS][word] += 1
    return shares


@ray.remote
def reduce_shares(*shares):
    total = Counter()
    for share in shares:
        total.update(share)
    return total


ray.init(num_cpus=2)

mapped = [map_document.remote(text) for text in DOCUMENTS]
reduced = ray.get([reduce_shares.remote(*shares) for shares in zip(*mapped)])

counts = sum(reduced, Counter())
for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:5]:
    print(f"{word:8} {count}")
print(f"{len(counts)} different words, {sum(counts.values())} in all")

ray.shutdown()
