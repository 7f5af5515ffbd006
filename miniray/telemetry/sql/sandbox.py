"""Runs one statement of somebody else's on a database: it can read, and it ends.

What keeps a statement from harm, from the outside to the inside:

- *Its text.* It has a limited length, no NUL, and begins with SELECT, WITH, VALUES or EXPLAIN. `sqlite3` itself refuses
  a second statement.
- *The authorizer*, which SQLite asks about everything that a statement would do, while it compiles the statement.
  Reading the tables of the schema, calling functions and recursion are permitted, and nothing else: no ATTACH, PRAGMA,
  table of SQLite's own, or virtual table. Of the functions, those that reach the outside are refused, and so is
  `printf` unless the text shows that its widths are small: an older SQLite counts up to a width that it then refuses.
- *The connection.* It is read-only: a file is opened with mode=ro, and `query_only` is set.
- *Limits of SQLite* on the length of a value and of the text, the depth of an expression, the columns, and the parts of
  a compound SELECT.
- *The progress handler*, which SQLite calls every STEPS steps. It ends the statement when its time is over, or when
  SQLite has taken too much memory: for a sort, or for a table of a recursive query.
- *A thread of its own*, for a statement with functions that may take long. Nothing can stop a function: a `trim` of two
  long values takes minutes, and there may be hundreds of calls between two looks at the clock. So the caller stops
  waiting when the time is over, and the thread ends at its next look. See `sources._Source`.
- *The result.* Its rows and its size are limited; then it is truncated.
"""

from __future__ import annotations

import contextlib
import difflib
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...process.doorbell import real_clock
from ...process.signal_handlers import call_postponed, postponed
from .result import QueryError, Result
from ..config import shown_number
from ..fork_gate import let_fork
from ..schema import BY_NAME
from ..schema.stored_tables import SHADOWS

STEPS = 4_000  # between two looks at the clock: about 0.1 ms, and few enough for large values to be noticed in time
MOST_TEXT = 100_000  # characters of a statement
MOST_VALUE = 400_000  # bytes of a value or of a row
MOST_MEMORY = 512 << 20  # bytes that SQLite may take for a statement
MOST_RESULT = 256 << 20  # bytes of a result, roughly

_LIMITS = {  # the number of each limit in sqlite3.h (Python has names for them from 3.11 on)
    0: MOST_VALUE,  # SQLITE_LIMIT_LENGTH
    1: MOST_TEXT * 4,  # SQL_LENGTH, in bytes
    2: 300,  # COLUMN
    3: 200,  # EXPR_DEPTH
    4: 50,  # COMPOUND_SELECT
    5: 100_000,  # VDBE_OP
    6: 60,  # FUNCTION_ARG
    8: 300,  # LIKE_PATTERN_LENGTH
    9: 1_000,  # VARIABLE_NUMBER
    10: 1,  # TRIGGER_DEPTH
    11: 0,  # WORKER_THREADS
}
_BEGINS = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$)|\()*(select|with|values|explain)\b", re.I | re.S)
_FORMATS = re.compile(r"printf|format", re.I)
_SMALL_FORMAT = re.compile(
    r"(?:printf|format)\s*\(\s*'(?:[^'%]|%[-+ #0,!]*[0-9]{0,3}(?:\.[0-9]{0,3})?[a-z%])*'\s*(?=[,)])", re.I
)
"""The beginning of a call of printf with a literal format. No width of it is a value, or has more than three digits."""
_MAY_TAKE_LONG = re.compile(r"glob|like|instr|replace|trim|json|hex|blob|concat|quote|match|regexp", re.I)
"""Functions whose time depends on the length of their values, and those that make long values."""
_SEARCHES = re.compile(r"glob|like|instr|replace", re.I)  # functions that may take half a second for the longest values
MOST_SEARCHES = 40  # in a statement: SQLite looks at its clock only where a statement jumps, not between two columns
_OUTSIDE = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "lsdir", "fsdir"}
_TABLE_FUNCTIONS = {"json_each", "json_tree"}
_CATALOGUE = {"tables", "columns"}

# The numbers of the actions in sqlite3.h, for messages.
_ACTIONS = {
    getattr(sqlite3, f"SQLITE_{name}"): name.replace("_", " ")
    for name in (
        "CREATE_INDEX CREATE_TABLE CREATE_TEMP_INDEX CREATE_TEMP_TABLE CREATE_TEMP_TRIGGER CREATE_TEMP_VIEW "
        "CREATE_TRIGGER CREATE_VIEW DELETE DROP_INDEX DROP_TABLE DROP_TEMP_INDEX DROP_TEMP_TABLE DROP_TEMP_TRIGGER "
        "DROP_TEMP_VIEW DROP_TRIGGER DROP_VIEW INSERT PRAGMA TRANSACTION UPDATE ATTACH DETACH ALTER_TABLE REINDEX "
        "ANALYZE CREATE_VTABLE DROP_VTABLE SAVEPOINT"
    ).split()
}


class Guard:
    """The authorizer of one connection. While it is not `active`, it permits everything: to our own writes.

    read: the tables that the statement reads. refused: what was refused first, as text. closed: why no statement may
    run any longer, "" if one may; another thread may set it. given_up: whether nobody waits for the statement any
    longer; then it ends. may_format: whether the statement may call `printf`; views_may: the same of the views.
    """

    def __init__(self) -> None:
        self.active = self.given_up = False
        self.closed = ""
        self.may_format = self.views_may = True
        self.read: set[str] = set()
        self.refused = ""

    def __call__(
        self, action: int, first: str | None, second: str | None, database: str | None, source: str | None
    ) -> int:
        if not self.active:
            return sqlite3.SQLITE_OK
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            name = (second or "").lower()
            if name in _OUTSIDE:
                return self._refuse(f"the function {second}")
            if name in ("printf", "format") and not self.may_format:
                return self._refuse(f"{second} with a format that is no literal, or has a width above 999 or of *")
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            name = (first or "").lower()
            if database == "information_schema":
                known = name in _CATALOGUE
            elif database is None and not second:  # count(*) of a subquery: SQLite gives its name, which may be any
                known = name in BY_NAME or not name.startswith(("sqlite", "pragma"))
            else:
                known = name in BY_NAME or name in _TABLE_FUNCTIONS or name in SHADOWS
            if known:
                self.read.add(name)
                return sqlite3.SQLITE_OK
            return self._refuse(f"reading {first}; the tables are in information_schema.tables")
        if action == sqlite3.SQLITE_PRAGMA and first == "data_version" and database == "main":
            return sqlite3.SQLITE_OK  # the full-text index asks whether it has changed
        return self._refuse(f"{_ACTIONS.get(action, f'action {action}')} {first or ''}".strip())

    def _refuse(self, what: str) -> int:
        self.refused = self.refused or what
        return sqlite3.SQLITE_DENY


def protect(connection: sqlite3.Connection) -> Guard:
    """Prepare a connection for `run`: attach the catalogue, and install a Guard."""
    connection.execute("PRAGMA temp_store = 2")  # in memory, where it is counted
    connection.text_factory = readable
    for virtual in ("json_each('[]')", "json_tree('[]')", "log_search"):
        with contextlib.suppress(sqlite3.DatabaseError):  # a SQLite without JSON or FTS5, or a damaged index
            # Its first use in a connection declares a virtual table, which the Guard would refuse.
            connection.execute(f"SELECT * FROM {virtual} LIMIT 0").close()
    connection.execute("ATTACH ':memory:' AS information_schema")
    connection.execute(
        "CREATE TABLE information_schema.tables (table_catalog TEXT, table_schema TEXT, table_name TEXT, "
        "table_type TEXT, description TEXT)"
    )
    connection.execute(
        "CREATE TABLE information_schema.columns (table_catalog TEXT, table_schema TEXT, table_name TEXT, "
        "column_name TEXT, ordinal_position INTEGER, is_nullable TEXT, data_type TEXT, unit TEXT, description TEXT)"
    )
    there = {name for (name,) in connection.execute("SELECT name FROM main.sqlite_master")}
    for name, table in BY_NAME.items():
        if name not in there or name.startswith("_"):
            continue
        kind = "BASE TABLE" if hasattr(table, "key") else "VIEW"
        connection.execute(
            "INSERT INTO information_schema.tables VALUES ('miniray', 'main', ?, ?, ?)", (name, kind, table.text)
        )
        connection.executemany(
            "INSERT INTO information_schema.columns VALUES ('miniray', 'main', ?, ?, ?, ?, ?, ?, ?)",
            [
                (name, c.name, place, "NO" if c.required else "YES", c.type, c.unit, c.text)
                for place, c in enumerate(table.columns, 1)
            ],
        )
    connection.commit()
    guard = Guard()
    views = connection.execute("SELECT sql FROM main.sqlite_master WHERE sql IS NOT NULL")
    guard.views_may = all(_formats_little(sql) for (sql,) in views)  # a file may come from anybody
    connection.set_authorizer(guard)
    return guard


def _formats_little(sql: str) -> bool:
    """Whether every `printf` of a text has small widths. What looks like one in a string counts, too."""
    return not _FORMATS.search(sql) or not _FORMATS.search(_SMALL_FORMAT.sub("", sql))


def readable(data: bytes) -> str:
    """The text of bytes that should be UTF-8, whatever they are."""
    return data.decode(errors="replace")


@contextlib.contextmanager
def guarded(
    connection: sqlite3.Connection, guard: Guard, timeout_s: float, sql: str = "", ends: float | None = None
) -> Iterator[None]:
    """Within the block, the connection only reads, within the limits and for at most this time. sql: the statement, so
    that an error can name what it may have meant. ends: on the real clock, if the time has begun already."""
    watch = _Watch(timeout_s, guard, ends)
    connection.execute("PRAGMA query_only = 1")
    before = _limit(connection, _LIMITS)
    guard.may_format = guard.views_may and _formats_little(sql)
    guard.read, guard.refused, guard.active = set(), "", True
    connection.set_progress_handler(watch.handler(), STEPS)
    try:
        yield
        if not watch.why:  # a row, or a function, may have taken long after the last look
            watch.look()
        if watch.why:
            raise QueryError(watch.why)
    except sqlite3.Error as error:
        watch.raise_interrupt(str(error))
        raise QueryError(explained(error, guard, watch, sql)) from None
    except sqlite3.Warning as error:  # Python 3.10: a second statement
        raise QueryError(explained(error, guard, watch, sql)) from None
    except UnicodeError:  # it quotes what it has found
        raise QueryError("SQLite says that the file is damaged.") from None
    except (MemoryError, OverflowError) as error:
        raise QueryError(
            f"The statement needs too much memory, or a number is too large: {error}".rstrip(": ")
        ) from None
    finally:
        connection.set_progress_handler(None, 0)
        guard.active = False
        _limit(connection, before)
        connection.execute("PRAGMA query_only = 0")


class _Watch:
    """Looks at the clock and at the memory of a statement. why: the reason for which it ended the statement, or "".
    raised: what the handler of a signal has raised meanwhile."""

    def __init__(self, timeout_s: float, guard: Guard, ends: float | None = None):
        self.clock = real_clock  # in a simulation, too: a statement takes real time, while virtual time stands still
        self.timeout_s, self.ends = timeout_s, self.clock() + timeout_s if ends is None else ends
        self.why = ""
        self.raised: BaseException | None = None
        self.guard = guard
        self.memory, self.memory_used = memory_used(), memory_function() or _nothing

    def look(self) -> int:
        """Whether the statement must end. Raises what the program's handler of a postponed signal raises."""
        let_fork()
        if postponed:
            call_postponed()
        if self.guard.closed:
            self.why = self.guard.closed
        elif self.guard.given_up or self.clock() > self.ends:
            self.why = f"The statement ran longer than timeout_s={self.timeout_s:g} and was stopped."
        elif self.memory_used() - self.memory > MOST_MEMORY:
            self.why = f"The statement took more than {MOST_MEMORY >> 20} MB of memory and was stopped."
        return 1 if self.why else 0

    def handler(self) -> Callable[[], int]:
        """The progress handler.

        `sqlite3` drops what a handler raises, so Ctrl-C would be lost. Python runs the handlers of signals when a
        function begins, before its first `try`. A generator that goes on is inside its `try` already.
        """
        looks = self._looks()
        next(looks)
        return looks.__next__

    def _looks(self) -> Iterator[int]:
        try:
            ends = 0
            while not ends:
                yield ends
                ends = self.look()
        except GeneratorExit:
            raise
        except BaseException as error:
            self.raised = error
        while True:
            yield 1

    def raise_interrupt(self, said: str) -> None:
        """Raise what the handler of a signal raised. said: the error of SQLite.

        While a statement is compiled, only the authorizer runs. Then the exception itself is lost, and SQLite says that
        something was refused which nobody has refused.
        """
        if self.raised is not None:
            raised, self.raised = self.raised, None
            raise raised from None
        if not self.guard.refused and ("not authorized" in said or "prohibited" in said):
            raise KeyboardInterrupt from None


def _nothing() -> int:
    return 0


def check(sql: Any, params: Any, limit: Any, timeout_s: Any) -> None:
    """Raise TypeError or ValueError for arguments of a wrong type, and QueryError for a text that is no query."""
    if not isinstance(sql, str):
        raise TypeError(f"sql must be a str, not {type(sql).__name__}")
    if isinstance(params, (str, bytes)) or not isinstance(params, (Sequence, Mapping)):
        raise TypeError(f"params must be a list, a tuple or a dict, not {type(params).__name__}")
    for value in params.values() if isinstance(params, Mapping) else params:
        if type(value) not in (int, float, str, bytes, bool, type(None)):
            raise TypeError(f"a parameter must be an int, a float, a str, bytes or None, not {type(value).__name__}")
        if type(value) is str and _has_surrogate(value):
            raise QueryError("A parameter contains a lone surrogate.")
    if limit is not None and (type(limit) is not int or limit < 0):
        raise ValueError(f"limit must be an int of 0 or more, or None, not {shown_number(limit)}")
    if type(timeout_s) not in (int, float) or not 0 < timeout_s <= sys.float_info.max:
        raise ValueError(f"timeout_s must be a finite number above 0, not {shown_number(timeout_s)}")
    if len(sql) > MOST_TEXT:
        raise QueryError(f"The statement has {len(sql):,} characters; at most {MOST_TEXT:,} are accepted.")
    if "\0" in sql:
        raise QueryError("The statement contains a NUL character.")
    if _has_surrogate(sql):
        raise QueryError("The statement contains a lone surrogate.")
    if len(_SEARCHES.findall(sql)) > MOST_SEARCHES:
        raise QueryError(f"The statement has more than {MOST_SEARCHES} searches (LIKE, GLOB, instr, replace).")
    if not _BEGINS.match(sql):
        raise QueryError("The statement must begin with SELECT, WITH, VALUES or EXPLAIN: the tables can only be read.")


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def may_take_long(sql: str) -> bool:
    """Whether a function of the statement may take longer than the statement may."""
    return _MAY_TAKE_LONG.search(sql) is not None


def tables_of(connection: sqlite3.Connection, guard: Guard, sql: str, params: Any) -> set[str]:
    """The stored tables and views that a statement reads. It is compiled, but not run."""
    begins = _BEGINS.match(sql)
    text = sql if begins is not None and begins[1].lower() == "explain" else f"EXPLAIN {sql}"
    with guarded(connection, guard, 10.0, sql):
        connection.execute(text, params).close()
    return set(guard.read)


def run(
    connection: sqlite3.Connection,
    guard: Guard,
    sql: str,
    params: Any = (),
    limit: int | None = 10_000,
    timeout_s: float = 10.0,
    ends: float | None = None,
) -> Result:
    """Run a statement that `check` has passed, and return its rows. ends: see `guarded`. Raises QueryError."""
    with guarded(connection, guard, timeout_s, sql, ends):
        cursor = connection.execute(sql, params)
        try:
            if cursor.description is None:
                raise QueryError("There is no statement.")
            names = _distinct([column[0] for column in cursor.description])
            rows: list[dict[str, Any]] = []
            size, truncated = 0, False
            for values in cursor:
                if limit is not None and len(rows) >= limit or size > MOST_RESULT:
                    truncated = True
                    break
                rows.append(dict(zip(names, values)))
                size += 100 + sum([len(value) for value in values if type(value) in (str, bytes)])
        finally:
            cursor.close()
    return Result(names, rows, truncated)


def _distinct(names: list[str]) -> list[str]:
    """The names of columns. A name that comes again gets a number, so that a dict has room for each."""
    found: dict[str, None] = {}
    for name in names:
        new, count = name, 1
        while new in found:
            count += 1
            new = f"{name}_{count}"
        found[new] = None
    return list(found)


# ------------------------------------------------------------ errors


def explained(error: Exception, guard: Guard, watch: _Watch, sql: str) -> str:
    """The text of an error of SQLite, with what was refused and the closest names."""
    said = str(error)
    if watch.why or guard.closed:
        return watch.why or guard.closed
    if guard.refused:
        return f"Refused: {guard.refused}. A statement may only read the tables of the session."
    if "one statement at a time" in said:
        return "Refused: there are several statements. Give one."
    if "too big" in said:
        return f"Refused: a value of the statement is larger than {MOST_VALUE:,} bytes."
    unknown = re.search(r"no such (table|column|function): (\S+)", said)
    if unknown is not None:
        kind, name = unknown.groups()
        return f"There is no {kind} {name}.{closest(kind, name, sql)}"
    return f"SQLite says: {said}"


def closest(kind: str, name: str, sql: str) -> str:
    """A sentence with the names that are most like an unknown one: of the columns, those of the tables that the
    statement names."""
    prefix, _, name = name.lower().replace('"', "").rpartition(".")
    if kind == "table":
        known = [table for table in BY_NAME if not table.startswith("_")]
        if prefix == "information_schema":
            known, name = ["information_schema.tables", "information_schema.columns"], f"{prefix}.{name}"
    elif kind == "column":
        words = set(re.findall(r"\w+", sql.lower()))
        known = list(dict.fromkeys(c.name for table in BY_NAME if table in words for c in BY_NAME[table].columns))
        known = known or list(dict.fromkeys(c.name for table in BY_NAME.values() for c in table.columns))
    else:
        return " See https://sqlite.org/lang_corefunc.html for the functions."
    found = difflib.get_close_matches(name, known, 3, 0.5) or [other for other in known if name in other][:3]
    if found:
        return f" The closest names: {', '.join(found)}."
    return f" There are: {', '.join(sorted(known))}."


# ------------------------------------------------------------ limits and memory


def _limit(connection: sqlite3.Connection, limits: dict[int, int]) -> dict[int, int]:
    """Set limits of a connection. Returns what they were."""
    if sys.version_info >= (3, 11):
        return {number: connection.setlimit(number, value) for number, value in limits.items()}
    from . import old_python

    return old_python.set_limits(connection, limits)


def memory_used() -> int:
    """The bytes that SQLite has allocated in this process; see `memory_function`."""
    function = memory_function()
    return int(function()) if function is not None else 0


_found: list[Callable[[], int] | None] = []


def memory_function() -> Callable[[], int] | None:
    """SQLite's `sqlite3_memory_used`. If Python's SQLite does not show it: the most memory that the process has had,
    which the program changes, too. None where the system does not tell that either."""
    if not _found:
        _found.append(_of_sqlite() or _of_process())
    return _found[0]


def _of_sqlite() -> Callable[[], int] | None:
    try:
        import ctypes

        import _sqlite3

        function: Any = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    except (ImportError, OSError, AttributeError):
        return None
    function.restype, function.argtypes = ctypes.c_int64, ()
    used: Callable[[], int] = function
    return used


def _of_process() -> Callable[[], int] | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
