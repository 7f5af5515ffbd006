"""Recordings: a session in a file, and a session made from a file."""
