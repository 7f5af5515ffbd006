"""A sampling profiler by task name: `miniray.telemetry.profile`, and `miniray profile`.

`sampler` looks at the threads, `samples` holds what it saw and reduces it to the program's frames, `recording` begins
and ends a profile, and `page`, `speedscope` and `collapsed` are the `forms` in which it is written.
"""

HZ, MOST_HZ = 100.0, 1000.0  # samples a second: by default, and at most
ENDINGS = (".html", ".htm", ".json", ".txt", ".folded")
"""The endings of files, one for each form of a profile: a page, speedscope's JSON, collapsed stacks."""
