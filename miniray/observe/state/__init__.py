"""State rows: what `list_*`, `get_*` and `summarize_*` answer, read from the core's tables."""
