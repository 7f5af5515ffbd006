"""Queries: a statement that may only read, on a running session or on a file."""
