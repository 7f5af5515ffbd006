"""Telemetry: a run for everyone outside of the process, while it runs and after it has ended.

Everything here is off by default, and a session that does not use it imports nothing of it.
"""
