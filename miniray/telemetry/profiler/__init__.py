"""A sampling profiler by task name: `miniray.telemetry.profile`, and `miniray profile`.

`sampler` looks at the threads, `samples` holds what it saw and reduces it to the program's frames, `recording` begins
and ends a profile, and `page`, `speedscope` and `collapsed` are the `forms` in which it is written.
"""
