"""How one process acts as many: each worker gets its own version of what Python keeps once per process."""
