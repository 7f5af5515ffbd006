"""The runtimes carry out the core's actions: `threaded` with threads, `local_mode` on the caller's own thread."""
