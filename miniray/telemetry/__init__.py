"""A session for those outside it: a schema, SQL, recordings, traces, exports, stacks and profiles.

Everything here is off until the program asks for it, and `import miniray` imports nothing of it.
"""

from .result import QueryError, Result
from .sources import FileSource, open

__all__ = ["FileSource", "QueryError", "Result", "open"]
