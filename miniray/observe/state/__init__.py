"""State rows: the answers of `list_*`, `get_*` and `summarize_*`, read from the core's tables.

engine         selects records, orders them and builds rows, for both doors
ray_tables     Ray's door, `miniray.util.state`        ray_rows        Ray's row classes
book           the book's door, `miniray.state`        query           options and filters
columns        Ray's columns of everything but tasks   task_columns    Ray's columns of tasks
lookup         from an id to its record
"""
