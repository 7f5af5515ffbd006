"""Back-pressure: limit the number of calls under way, however many there are to make.

Every pending call costs memory: its arguments, its record, its result. A loop that submits a million calls at once
holds all of that at once. Here the program makes a call only if fewer than `LIMIT` are under way, and uses results as
they arrive.

Prints:

    100 calls made, their sum is 4950
    never more than 8 under way
"""

import miniray as ray

LIMIT = 8


@ray.remote
def work(n):
    return n


ray.init(num_cpus=2)

under_way, total, most = [], 0, 0
for n in range(100):
    if len(under_way) >= LIMIT:
        ready, under_way = ray.wait(under_way, num_returns=1)
        total += sum(ray.get(ready))
    under_way.append(work.remote(n))
    most = max(most, len(under_way))
total += sum(ray.get(under_way))

print(f"100 calls made, their sum is {total}")
print(f"never more than {most} under way")

ray.shutdown()
