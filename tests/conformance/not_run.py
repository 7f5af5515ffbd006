"""Which cases are left out where, each with its reason. An entry that is no longer needed is to be removed."""

NOT_READY: dict[str, str] = {
}
"""An area (`cluster`) or a case (`cluster/node_dies`) that miniray does not answer yet, and what it waits for."""

NEEDS_CONCURRENCY: dict[str, tuple[str, ...]] = {
}
"""By reason: what local_mode cannot answer, since there a task runs to its end inside the call that submits it."""
