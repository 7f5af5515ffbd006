"""The core: everything that decides what happens, without a thread, a lock, a clock or user code.

`cluster.Cluster` is the one door. Something happened: a method call with the time first. What must be done: the list of
actions it returns. A runtime carries those out.
"""
