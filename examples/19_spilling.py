"""Spilling: more values than the object store holds. The oldest go to files and come back when somebody asks.

Nothing changes for the program: it only takes longer, and the tables say so. A value whose last reference goes is dropped
wherever it is, its file too.

Only on miniray: it reads `miniray.state`; Ray spills as well, and shows it in `ray memory --stats-only`.

Prints:

    8 values of 1 MB in a store of 4 MB
    at least 4 of them had to go to files: True
    all of them can be read: [0, 1, 2, 3, 4, 5, 6, 7]
    the first was read back from its file: True
    without references there is nothing left: 0 objects, 0 bytes
"""
import miniray as ray
from miniray import state

MB = 1024 * 1024

ray.init(num_cpus=1, object_store_memory=4 * MB + 4096)

refs = [ray.put(bytes([n]) * MB) for n in range(8)]
print(f"{len(refs)} values of 1 MB in a store of 4 MB")
spilled = state.summarize_objects()["counters"]["spilled"]
print("at least 4 of them had to go to files:", spilled >= 4)

print("all of them can be read:", [ray.get(ref)[0] for ref in refs])
print("the first was read back from its file:", state.summarize_objects()["counters"]["restored"] > 0)

del refs
objects = state.summarize_objects()
print(f"without references there is nothing left: {objects['num_objects']} objects, {objects['used_bytes']} bytes")

ray.shutdown()
