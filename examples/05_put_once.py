"""`put`: store a large value once and give its reference to many calls.

A value passed as an argument is stored again for each call. A reference costs nothing to pass, and every task on a node
reads the single stored copy. What is stored is a snapshot: if the program changes the original afterwards, no result
changes. Each task gets its own copy to work with, so it cannot change what others see either.

Prints:

    5 tasks looked up words: [1, 2, 0, 3, 5]
    the stored table still has 1000 entries
    a task that clears its copy: 0 entries left, and others still see 1000
"""

import miniray as ray


@ray.remote
def look_up(table, word):
    return table.get(word, 0)


@ray.remote
def clear(table):
    table.clear()
    return len(table)


ray.init(num_cpus=2)

table = {f"word{n}": n for n in range(1000)}
stored = ray.put(table)
words = ["word1", "word2", "no such word", "word3", "word5"]
print("5 tasks looked up words:", ray.get([look_up.remote(stored, word) for word in words]))

table.clear()
print("the stored table still has", len(ray.get(stored)), "entries")

left = ray.get(clear.remote(stored))
print(f"a task that clears its copy: {left} entries left, and others still see {len(ray.get(stored))}")

ray.shutdown()
