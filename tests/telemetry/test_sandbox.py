"""A statement of somebody else's can read the tables, within limits. Nothing else, on a session and on a file."""

import contextlib
import os
import signal
import sqlite3
import sys
import threading
import time

import pytest

import miniray as ray
from miniray.process import context
from miniray.telemetry import QueryError
from miniray.telemetry.sql import sandbox
from miniray.telemetry.collecting.collector import EVERYTHING, Collector
from miniray.telemetry.sql.sources import FileSource, LiveSource, facts
from miniray.telemetry.collecting.store import Store


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The same session, live and as a file."""
    ray.init(num_cpus=2)

    @ray.remote
    def f(x):
        return x

    ray.get([f.remote(i) for i in range(200)])
    runtime = context.session
    path = tmp_path_factory.mktemp("recording") / "run.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    store = Store(connection)
    store.create()
    store.write(Collector(runtime).collect(EVERYTHING))
    with connection:
        store.note(**facts(runtime), ended_us=1)
    live, file = LiveSource(runtime), FileSource(path)
    yield {"live": live, "file": file}
    live.close()
    file.close()
    connection.close()
    ray.shutdown()


@pytest.fixture(params=["live", "file"])
def source(request, sources, tmp_path, monkeypatch):
    """One of them, in an empty folder. Afterwards it still answers, and the folder is still empty."""
    monkeypatch.chdir(tmp_path)
    found = sources[request.param]
    yield found
    assert found.query("SELECT count(*) AS n FROM tasks").rows == [{"n": 200}]
    assert os.listdir(tmp_path) == []


STATEMENTS = """
INSERT INTO actors (id) VALUES (1)
REPLACE INTO actors (id) VALUES (1)
UPDATE actors SET id = 2
DELETE FROM _attempts
CREATE TABLE evil (a)
CREATE TEMP TABLE evil (a)
CREATE TABLE evil AS SELECT 1
CREATE VIEW evil AS SELECT 1
CREATE TEMP VIEW evil AS SELECT 1
CREATE INDEX evil ON actors (id)
CREATE TRIGGER evil AFTER INSERT ON actors BEGIN SELECT 1; END
CREATE TEMP TRIGGER evil AFTER INSERT ON actors BEGIN SELECT 1; END
CREATE VIRTUAL TABLE evil USING fts5(a)
CREATE VIRTUAL TABLE evil USING fts3tokenize(simple)
DROP TABLE actors
DROP VIEW tasks
DROP INDEX _attempts_id
ALTER TABLE actors RENAME TO evil
ALTER TABLE actors ADD COLUMN evil
ATTACH 'evil.db' AS evil
ATTACH ':memory:' AS evil
DETACH information_schema
PRAGMA journal_mode = OFF
PRAGMA writable_schema = 1
PRAGMA table_info(tasks)
PRAGMA database_list
VACUUM
VACUUM INTO 'evil.db'
REINDEX
ANALYZE
BEGIN
BEGIN IMMEDIATE
COMMIT
ROLLBACK
SAVEPOINT a
RELEASE a
EXPLAIN INSERT INTO actors (id) VALUES (1)
EXPLAIN QUERY PLAN DELETE FROM actors
WITH a AS (SELECT 1) INSERT INTO actors (id) SELECT * FROM a
WITH a AS (SELECT 1) DELETE FROM actors
WITH a AS (SELECT 1) UPDATE actors SET id = 3
SELECT 1; SELECT 2
SELECT 1; DROP TABLE actors
SELECT load_extension('evil')
SELECT load_extension('evil', 'init')
SELECT writefile('evil', 'x')
SELECT readfile('/etc/passwd')
SELECT edit('x', 'vi')
SELECT fts3_tokenizer('simple')
SELECT fts3_tokenizer('simple', x'4141414141414141')
SELECT * FROM fsdir('/')
SELECT * FROM sqlite_master
SELECT count(*) FROM sqlite_master
SELECT * FROM sqlite_schema
SELECT * FROM main.sqlite_master
SELECT * FROM sqlite_temp_master
SELECT * FROM information_schema.sqlite_master
SELECT (SELECT sql FROM sqlite_master LIMIT 1)
SELECT count(*) FROM tasks WHERE EXISTS (SELECT 1 FROM sqlite_master)
SELECT * FROM sqlite_sequence
SELECT * FROM sqlite_stat1
SELECT * FROM pragma_table_info('tasks')
SELECT * FROM pragma_database_list
SELECT count(*) FROM pragma_database_list
SELECT * FROM pragma_journal_mode('off')
SELECT * FROM dbstat
SELECT * FROM sqlite_dbpage
SELECT * FROM bytecode('SELECT 1')
SELECT * FROM tables_used('SELECT 1')
/* SELECT */ DROP TABLE actors
-- SELECT
( DELETE FROM actors )
selec 1
SELECT
.schema
.shell ls
"""


@pytest.mark.parametrize("statement", [line for line in STATEMENTS.splitlines() if line])
def test_whatever_does_more_than_reading_is_refused(source, statement):
    """Each kind of statement, each way to the outside, and each way around the list of tables."""
    with pytest.raises(QueryError) as caught:
        source.query(statement)
    assert len(str(caught.value)) > 10


def test_a_second_statement_behind_a_comment_is_refused(source):
    with pytest.raises(QueryError, match="several statements"):
        source.query("SELECT 1; -- and\nDROP TABLE actors")


@pytest.mark.parametrize("statement", ["", " \n", "-- only a comment", "/* SELECT 1", ";", "\ufeffDROP TABLE actors"])
def test_a_text_without_a_statement_is_refused(source, statement):
    with pytest.raises(QueryError, match="must begin with SELECT"):
        source.query(statement)


def test_a_nul_ends_nothing(source):
    with pytest.raises(QueryError, match="NUL"):
        source.query("SELECT 1\0; DROP TABLE actors")


def test_a_lone_surrogate_is_refused(source):
    with pytest.raises(QueryError, match="surrogate"):
        source.query("SELECT '\ud800'")


def test_a_long_text_is_refused(source):
    with pytest.raises(QueryError, match="at most 100,000"):
        source.query("SELECT " + "1+" * 100_000 + "1")


FOREVER = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGUSR1])
def test_what_a_handler_of_a_signal_raises_ends_the_statement(source, name):
    """Ctrl-C comes out of the query at once. Afterwards the source answers."""

    def handler(number, frame):
        raise KeyboardInterrupt(f"signal {number}")

    started = threading.Event()

    def send():
        started.wait()
        time.sleep(0.1)  # the statement runs by now
        os.kill(os.getpid(), name)

    before = signal.signal(name, handler)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        began = time.monotonic()
        started.set()
        with pytest.raises(KeyboardInterrupt, match=f"signal {int(name)}"):
            source.query(FOREVER, timeout_s=60)
        assert time.monotonic() - began < 10
    finally:
        sender.join()
        signal.signal(name, before)


def test_a_signal_whose_handler_returns_ends_nothing(source):
    called = []
    before = signal.signal(signal.SIGALRM, lambda *_: called.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(QueryError, match="timeout_s=0.5"):
            source.query(FOREVER, timeout_s=0.5)
        assert called == [1]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_closing_a_source_ends_its_statement(sources):
    """Otherwise the end of a session would wait for it."""
    for source, said in (
        (LiveSource(context.session), "The session has ended"),
        (FileSource(sources["file"].path), "is closed"),
    ):
        found = []

        def ask(source=source, found=found):
            with pytest.raises(QueryError) as caught:
                source.query(FOREVER, timeout_s=60)
            found.append(str(caught.value))

        asking = threading.Thread(target=ask)
        asking.start()
        while not source._busy:
            time.sleep(0.001)
        began = time.monotonic()
        source.close()
        asking.join()
        assert time.monotonic() - began < 10 and said in found[0]
        with pytest.raises(QueryError, match=said):
            source.query("SELECT 1")


BOMBS = {
    "an endless recursion": "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c",
    "an endless result": "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c WHERE n < 0",
    "a cross join": "SELECT count(*) FROM tasks a, tasks b, tasks c, tasks d, tasks e",
    "a cross join of text": "SELECT count(*) FROM tasks a, tasks b, tasks c, tasks d "
    "WHERE a.name || b.name || c.name || d.name LIKE '%xx%'",
    "a random blob": "SELECT randomblob(1000000000)",
    "a blob of zeros": "SELECT zeroblob(1000000000)",
    "the length of one": "SELECT length(zeroblob(1000000000))",
    "hexadecimal digits": "SELECT length(hex(zeroblob(399000)))",
    "replace": "SELECT length(replace(replace(hex(zeroblob(9999)), '0', hex(zeroblob(9999))), '0', 'aaaaaaaaaa'))",
    "doubling": "WITH RECURSIVE c(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM c) SELECT length(x) FROM c",
    "nested doubling": "SELECT length(x || x) FROM (SELECT x || x AS x FROM (" * 20
    + "SELECT hex(zeroblob(1000)) AS x"
    + "))" * 20,
    "concatenation": "SELECT length(group_concat(hex(zeroblob(9999)))) FROM tasks",
    "an array": "SELECT length(json_group_array(hex(zeroblob(9999)))) FROM tasks",
    "memory": "WITH RECURSIVE c(x, n) AS (SELECT zeroblob(300000), 1 UNION ALL SELECT zeroblob(300000), n + 1 FROM c) "
    "SELECT max(n) FROM (SELECT * FROM c ORDER BY x, n)",
    "distinct rows": "WITH RECURSIVE c(x) AS (SELECT randomblob(200000) UNION SELECT randomblob(200000) FROM c) "
    "SELECT count(*) FROM c",
    "minus signs": "SELECT " + "-(" * 500 + "1" + ")" * 500,
    "a long chain": "SELECT " + "1+" * 5_000 + "1",
    "many parts": " UNION ALL ".join(["SELECT 1"] * 1_000),
    "many columns": "SELECT " + ", ".join(["1"] * 5_000),
    "many searches": "SELECT " + ", ".join(["name GLOB '*[a-z]b'"] * 41) + " FROM tasks",
    "a long pattern": f"SELECT name GLOB '*{'[a-z]' * 90}b' FROM tasks",
    "many joins": "SELECT count(*) FROM " + ", ".join(f"tasks t{i}" for i in range(100)),
    "many named queries": "WITH "
    + ", ".join(f"a{i} AS (SELECT * FROM {f'a{i - 1}' if i else 'tasks'} x, tasks y)" for i in range(40))
    + " SELECT count(*) FROM a39",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_stopped_at_its_limit(source, bomb):
    """Each is stopped soon after its time, or at once, and SQLite gives back the memory."""
    before, memory = time.monotonic(), sandbox.memory_used()
    with pytest.raises(QueryError):
        source.query(BOMBS[bomb], timeout_s=0.5)
    assert time.monotonic() - before < 5
    if source.late:  # a busy machine: the caller has left, and the statement ends at its next look at the clock
        source._aside.wait(60)
    assert sandbox.memory_used() - memory < 50 << 20


HARMLESS = {
    "LIKE": "SELECT replace(hex(zeroblob(199500)), '0', 'a') LIKE '%a%a%a%a%a%a%a%a%b' AS n",
    "GLOB": "SELECT replace(hex(zeroblob(49500)), '0', 'a') GLOB '*a*a*a*a*a*a*a*b' AS n",
}


@pytest.mark.parametrize("statement", HARMLESS)
def test_what_looks_like_a_bomb_ends_soon(source, statement):
    before = time.monotonic()
    assert source.query(HARMLESS[statement]).rows == [{"n": 0}]
    assert time.monotonic() - before < 5


@pytest.mark.parametrize(
    "call",
    [
        "printf('%.*c', 1000000000, 'x')",
        "printf('%*d', 1000000000, 1)",
        "PRINTF ('%1000000000d', 1)",
        "printf/**/('%.*c', 1000000000, 'x')",
        "printf('%.' || '*c', 1000000000, 'x')",
        "printf('a''%.*c', 1000000000, 'x')",
        "\"printf\"('%.*c', 1000000000, 'x')",
        "printf('%d', printf('%.*c', 1000000000, 'x'))",
        "printf((SELECT '%.*c'), 1000000000, 'x')",
        "printf('%d%.1000c', 1, 'x')",
    ],
)
def test_a_format_counts_no_further_than_its_text_shows(source, call):
    """SQLite 3.40 counts up to the width, for many seconds, before it says that the value is too large."""
    with pytest.raises(QueryError, match="(?i)refused: printf with a format"):
        source.query(f"SELECT {call} FROM tasks LIMIT 1")


def test_an_honest_format_is_permitted(source):
    statement = "SELECT printf('%05.1f %s%% %016x', 1.5, 'it''s', 255) AS a, max(trace_id) <> '' AS b FROM spans"
    assert source.query(statement).rows == [{"a": "001.5 it's% 00000000000000ff", "b": 1}]


def test_a_view_of_a_file_formats_no_more(tmp_path):
    """The name of a view says nothing: anybody may have made the file."""
    path = tmp_path / "run.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        Store(connection).create()
        connection.execute("DROP VIEW tasks")
        connection.execute("CREATE VIEW tasks AS SELECT printf('%.*c', 1000000000, 'x') AS name")
    with FileSource(path) as source, pytest.raises(QueryError, match="printf with a format"):
        source.query("SELECT name FROM tasks")


DEEP = {
    "brackets": "SELECT " + "(" * 20_000 + "1" + ")" * 20_000 + " AS n",
    "queries": "SELECT * FROM (" * 2_000 + "SELECT 1 AS n" + ")" * 2_000,
}


@pytest.mark.parametrize("nested", DEEP)
def test_deep_nesting_overflows_no_stack(source, nested):
    """Newer versions of SQLite have a parser that grows, and answer; older ones refuse."""
    with contextlib.suppress(QueryError):
        assert source.query(DEEP[nested]).rows == [{"n": 1}]


LONG = "replace(hex(zeroblob(199500)), '0', 'a')"
FUNCTIONS = {  # each takes a second or so, with no look at the clock
    "instr": f"SELECT sum(instr({LONG} || n, substr({LONG}, 1, 190000) || 'b')) AS n FROM numbers",
    "trim": "SELECT trim(replace(hex(zeroblob(8000)), '0', 'a'), replace(hex(zeroblob(8000)), '0', 'b') || 'a') AS n",
    "GLOB": f"SELECT sum(({LONG} || n) GLOB '*{'a' * 290}b') AS n FROM numbers",
}
NUMBERS = "WITH numbers(n) AS (VALUES (1), (2)) "


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_that_takes_long_keeps_nobody(sources, function):
    """Nothing can stop a function of SQLite. The caller stops waiting when the time is over; the source answers again
    when the function has ended. A running session answers at once, from a new database."""
    statement = NUMBERS + FUNCTIONS[function]
    with FileSource(sources["file"].path) as source:
        before = time.monotonic()
        with pytest.raises(QueryError, match=r"longer than timeout_s=0\.1 and was (given up|stopped)"):
            source.query(statement, timeout_s=0.1)
        assert time.monotonic() - before < 2
        assert source.query("SELECT 1 AS n", timeout_s=300).rows == [{"n": 1}]
    with pytest.raises(QueryError, match="longer than"):
        ray.sql(statement, timeout_s=0.1)
    assert ray.sql("SELECT 1 AS n").rows == [{"n": 1}]


def test_a_source_that_is_closed_meanwhile_is_closed_by_its_statement(sources):
    """The test must not touch the connection before it is closed: the thread of the statement is closing it."""
    source = FileSource(sources["file"].path)
    closed = threading.Event()
    source._after_closing = closed.set
    with pytest.raises(QueryError, match="given up"):
        source.query(NUMBERS + FUNCTIONS["instr"], timeout_s=0.1)
    with pytest.raises(QueryError, match="has not ended yet"):
        source.query("SELECT 1", timeout_s=0.01)
    source.close()
    assert closed.wait(300)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        source._connection.execute("SELECT 1")


def test_a_signal_is_heard_while_a_function_takes_long(source, monkeypatch):
    heard = threading.Event()
    last, run = source._aside, sandbox.run

    def takes_long(*args):
        assert heard.wait(60)  # as long as a function that ends when this test says so
        return run(*args)

    def interrupt(*ignored):
        raise KeyboardInterrupt("heard")

    def send():
        while source._aside is last or not source._aside._begun.locked():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGALRM)

    monkeypatch.setattr(sandbox, "run", takes_long)
    before = signal.signal(signal.SIGALRM, interrupt)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt, match="heard"):
            source.query("SELECT instr('ab', 'b') AS n", timeout_s=60)
        assert source.late  # the function still works
    finally:
        heard.set()
        sender.join()
        signal.signal(signal.SIGALRM, before)
    assert source.query("SELECT 1 AS n", timeout_s=300).rows == [{"n": 1}]


def test_a_signal_before_the_statement_has_begun_leaves_a_source_that_answers(source, monkeypatch):
    def interrupted(*ignored):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("miniray.telemetry.sql.sources.start_real_thread", interrupted)
        source.query("SELECT instr('ab', 'b') AS n")
    assert not source.late and source.query("SELECT instr('ab', 'b') AS n").rows == [{"n": 2}]


@pytest.mark.parametrize(
    "statement, rows",
    [
        ("SELECT 1 AS one", [{"one": 1}]),
        ("VALUES (1, 'a'), (2, 'b')", [{"column1": 1, "column2": "a"}, {"column1": 2, "column2": "b"}]),
        ("WITH a AS (SELECT 1 AS x) SELECT * FROM a", [{"x": 1}]),
        (
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 3) SELECT sum(n) AS s FROM c",
            [{"s": 6}],
        ),
        ("  -- a comment\n /* another */ SELECT 2 AS two -- and one more", [{"two": 2}]),
        ("SELECT 1 AS one;", [{"one": 1}]),
        ("SELECT 'a; b -- c' AS text", [{"text": "a; b -- c"}]),
        ("SELECT value FROM json_each('[1, 2]')", [{"value": 1}, {"value": 2}]),
        ("SELECT count(*) AS n FROM (SELECT 1 UNION SELECT 2)", [{"n": 2}]),
        ("SELECT 1 AS a, 2 AS a, 3 AS a", [{"a": 1, "a_2": 2, "a_3": 3}]),
        ("SELECT CAST(x'ff41' AS TEXT) AS text, x'ff' AS data", [{"text": "\ufffdA", "data": b"\xff"}]),
        ("SELECT count(*) AS n FROM information_schema.columns WHERE table_name = 'task_events'", [{"n": 4}]),
    ],
)
def test_what_reads_is_answered(source, statement, rows):
    assert source.query(statement).rows == rows


def test_explain_is_answered(source):
    assert source.query("EXPLAIN QUERY PLAN SELECT name FROM tasks").columns[-1] == "detail"
    assert source.query("EXPLAIN SELECT 1").columns[0] == "addr"
    assert source.query("/* a comment */ -- and another\n explain SELECT 1").columns[0] == "addr"


def test_parameters_are_values(source):
    """They are bound, never pasted into the text."""
    assert source.query("SELECT ? AS x, ? AS y", ["'; DROP TABLE actors", None]).rows == [
        {"x": "'; DROP TABLE actors", "y": None}
    ]
    assert source.query("SELECT :a AS x", {"a": 2}).rows == [{"x": 2}]
    with pytest.raises(QueryError, match="binding"):
        source.query("SELECT ?")
    with pytest.raises(QueryError, match="too large"):
        source.query("SELECT ?", [1 << 70])
    with pytest.raises(QueryError, match="lone surrogate"):
        source.query("SELECT ?", ["\udce9"])


@pytest.mark.parametrize("params", ["ab", 5, [object()], [[1]], None])
def test_parameters_of_other_types_are_refused(source, params):
    """An object of the program would have to be asked for its value."""
    with pytest.raises(TypeError):
        source.query("SELECT ?", params)


WRONG_LIMITS = -1, 1.5, True, "1", -(10**5000)
WRONG_TIMES = 0, -1, True, "1", float("inf"), float("nan"), 10**400, 10**5000


@pytest.mark.parametrize(
    "arguments",
    [*({"limit": limit} for limit in WRONG_LIMITS), *({"timeout_s": time_s} for time_s in WRONG_TIMES)],
    ids=lambda given: next(iter(given)),
)
def test_wrong_limits_are_refused(source, arguments):
    """The text of the error names the argument, also where Python does not write out a number."""
    with pytest.raises(ValueError, match=f"^{next(iter(arguments))} must be"):
        source.query("SELECT 1", **arguments)


def test_large_limits_are_none(source):
    """What a float can hold is a time, and any whole number is a limit."""
    for arguments in {"timeout_s": 10**300}, {"timeout_s": sys.float_info.max}, {"limit": 10**400}:
        assert len(source.query("SELECT instr('ab', 'b')", **arguments)) == 1


def test_a_limit_truncates_and_says_so(source):
    result = source.query("SELECT number FROM tasks ORDER BY number", limit=3)
    assert (len(result), result.truncated) == (3, True)
    assert not source.query("SELECT number FROM tasks", limit=200).truncated
    assert source.query("SELECT number FROM tasks", limit=0).truncated
    assert len(source.query("SELECT number FROM tasks", limit=None)) == 200


@pytest.mark.parametrize(
    "statement, said",
    [
        ("SELECT * FROM taks", "no table taks. The closest names: tasks"),
        ("SELECT * FROM Actor_Evnts", "The closest names: actor_events"),
        ("SELECT * FROM information_schema.tabels", "information_schema.tables"),
        ("SELECT stat FROM tasks", "no column stat. The closest names: state"),
        ("SELECT t.nam FROM tasks t", "no column t.nam. The closest names: name"),
        ("SELECT to_date(1)", "no function: to_date|no function to_date"),
        ("ATTACH 'x' AS y", "must begin with SELECT"),
        ("EXPLAIN DELETE FROM actors", "Refused: DELETE actors"),
        ("SELECT load_extension('x')", "Refused: the function load_extension"),
        (
            "SELECT sql FROM sqlite_master",
            "Refused: reading sqlite_master; the tables are in information_schema.tables",
        ),
        ("SELECT 1; SELECT 2", "several statements"),
        ("SELECT randomblob(1e9)", "larger than 400,000 bytes"),
        ("SELECT name FROM tasks WHERE", "SQLite says: incomplete input"),
    ],
)
def test_an_error_says_what_was_refused_or_which_name_is_close(source, statement, said):
    with pytest.raises(QueryError, match=said):
        source.query(statement)


def test_a_timeout_says_so(source):
    with pytest.raises(QueryError, match=r"ran longer than timeout_s=0\.2 and was stopped"):
        source.query(BOMBS["an endless recursion"], timeout_s=0.2)


def test_queries_of_many_threads_come_one_after_the_other(source):
    """One connection serves them all; each gets its own answer."""
    answers = {}

    def ask(number):
        try:
            answers[number] = source.query("SELECT ? AS n, count(*) AS c FROM tasks", [number]).rows
        except QueryError as error:
            answers[number] = error

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: [{"n": number, "c": 200}] for number in range(8)}


def test_memory_is_limited_where_sqlite_does_not_tell_its_own(source, monkeypatch):
    """Then the memory of the process counts."""
    monkeypatch.setattr(sandbox, "_found", [sandbox._of_process()])
    with pytest.raises(QueryError, match="memory"):
        source.query(BOMBS["memory"], timeout_s=300)  # it ends long before, unless the machine is busy


def test_the_file_is_opened_read_only(sources):
    """Even without the authorizer nothing could be written."""
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        sources["file"]._connection.execute("INSERT INTO actors (id) VALUES (1)")


ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS number, n AS name FROM c"


@pytest.mark.parametrize("table", ["tasks", "dropped"])
def test_a_file_may_come_from_anybody(tmp_path, monkeypatch, table):
    """Its views may never end. Our own statements on it run within limits, too."""
    monkeypatch.setattr("miniray.telemetry.sql.sources.OWN_S", 0.2)
    path = tmp_path / "hostile.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE session (name TEXT, value TEXT)")
    connection.execute("CREATE TABLE actors (id INTEGER)")
    connection.execute(f"CREATE VIEW {table} AS {ENDLESS} WHERE n < 0")
    connection.close()
    with FileSource(path) as source:
        if table == "dropped":  # it is not read
            assert source.query("SELECT * FROM actors").reason == "The file does not tell what is missing."
            return
        with pytest.raises(QueryError, match=r"ran longer|no column|has no table|no such|There is no"):
            source.query("SELECT count(*) FROM tasks", timeout_s=0.2)


def test_a_view_in_place_of_the_facts_is_no_recording(tmp_path):
    path = tmp_path / "hostile.db"
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE VIEW session AS {ENDLESS}")
    connection.close()
    with pytest.raises(QueryError, match="is no recording"):
        FileSource(path)
