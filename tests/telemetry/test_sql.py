"""SQL on the running session."""

import pytest

import miniray as ray
from miniray.telemetry import QueryError


@pytest.fixture
def session():
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def test_a_query_sees_the_session_as_it_is_now(session):
    """Nothing is switched on. A second query sees what has happened since the first."""

    @ray.remote
    def f(x):
        return x

    ray.get([f.remote(i) for i in range(10)])
    assert ray.sql("SELECT state, count(*) AS n FROM tasks GROUP BY state").rows == [{"state": "FINISHED", "n": 10}]
    ray.get([f.remote(i) for i in range(5)])
    result = ray.sql("SELECT name, count(*) AS n FROM tasks GROUP BY name")
    assert (result.columns, result.rows) == (["name", "n"], [{"name": "f", "n": 15}])
    assert result.complete and not result.truncated


def test_without_a_session_the_error_says_what_to_do():
    with pytest.raises(QueryError, match="No session is running: call init first"):
        ray.sql("SELECT 1")
