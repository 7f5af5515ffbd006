"""The runtimes: they carry out the core's actions with threads, or at once on the caller's own thread."""
