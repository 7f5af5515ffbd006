"""A session for those outside it: a schema, SQL, recordings, traces, exports, stacks and profiles.

Everything here is off until the program asks for it, and `import miniray` imports nothing of it.
"""
