"""Spilling: more values than the object store holds. The oldest go to files and come back when they are needed.

Nothing changes for the program, except that it takes longer; the tables show what happened. When the last reference to
a value is dropped, the value is deleted wherever it is, including its file.

Only on miniray: it reads `miniray.state`. Ray spills as well, and shows it in `ray memory --stats-only`.

Prints:

    8 values of 1 MB in a store of 4 MB
    at least 4 of them were spilled to files: True
    all of them can still be read: [0, 1, 2, 3, 4, 5, 6, 7]
    some were restored from their files: True
    with no references left, the store holds 0 objects, 0 bytes
"""

import miniray as ray
from miniray import state

MB = 1024 * 1024

ray.init(num_cpus=1, object_store_memory=4 * MB + 4096)

refs = [ray.put(bytes([n]) * MB) for n in range(8)]
print(f"{len(refs)} values of 1 MB in a store of 4 MB")
spilled = state.summarize_objects()["counters"]["spilled"]
print("at least 4 of them were spilled to files:", spilled >= 4)

print("all of them can still be read:", [ray.get(ref)[0] for ref in refs])
print("some were restored from their files:", state.summarize_objects()["counters"]["restored"] > 0)

del refs
objects = state.summarize_objects()
print(f"with no references left, the store holds {objects['num_objects']} objects, {objects['used_bytes']} bytes")

ray.shutdown()
