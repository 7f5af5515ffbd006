"""The core: everything that decides what happens, without a thread, a lock, a clock or user code.

`cluster.Cluster` is the only entry point. The runtime reports an event by calling a method, with the time as the first
argument. The method returns the list of actions that the runtime must carry out.
"""
