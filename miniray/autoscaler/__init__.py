"""Ray's autoscaler starts and stops machines on demand. miniray has none; `sdk` accepts a program's requests to it."""
