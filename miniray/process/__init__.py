"""How one process acts as many: what Python keeps once per process, given to each worker as its own."""
