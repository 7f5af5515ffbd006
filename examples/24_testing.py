"""Testing with pytest: a session for each test, faults on demand, and a reason instead of a hang.

The plugin comes with miniray. Its fixtures start and end the sessions, in milliseconds. A call that can never return
raises an error after a second. Run this file as a program, or with `pytest examples/24_testing.py`. Without installing
miniray, use `python -m pytest -p miniray.testing.plugin examples/24_testing.py` in the root of the repository.

Only on miniray: the plugin is miniray's own. The programs that it tests may say `import ray`: `pytest --miniray`.

Prints:

    test_a_total: passed
    test_a_crash_is_retried[1]: passed
    test_a_crash_is_retried[2]: passed
    test_three_nodes_have_six_cpus: passed
    test_a_deadlock_is_an_error: passed
"""

import os

import pytest
import miniray as ray


@ray.remote
class Tries:
    def __init__(self):
        self.n = 0

    def next(self):
        self.n += 1
        return self.n

    def call_yourself(self, myself):
        return ray.get(myself.next.remote())


@ray.remote(max_retries=2)
def total(numbers, tries=None, crashes=0):
    if tries is not None and ray.get(tries.next.remote()) <= crashes:
        os._exit(1)  # this ends the worker, not the test run
    return sum(numbers)


def test_a_total(miniray_cluster):
    assert ray.get(total.remote([1, 2, 3])) == 6


@pytest.mark.parametrize("crashes", [1, 2])
def test_a_crash_is_retried(miniray_cluster, crashes):
    assert ray.get(total.remote([1, 2, 3], Tries.remote(), crashes)) == 6


@pytest.mark.miniray(num_cpus=2, nodes=3)
def test_three_nodes_have_six_cpus(miniray_cluster_nodes):
    assert ray.cluster_resources()["CPU"] == 6


def test_a_deadlock_is_an_error(miniray_cluster):
    tries = Tries.remote()
    with pytest.raises(ray.exceptions.DeadlockError):
        ray.get(tries.call_yourself.remote(tries))


class Reporter:
    """Print how each test ended, but not how long it took."""

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.failed:
            print(f"{report.nodeid.partition('::')[2]}: {report.outcome}")


if __name__ == "__main__":
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # load only the plugins named below
    options = ["-p", "miniray.testing.plugin", "-p", "no:terminal", "-p", "no:cacheprovider"]
    raise SystemExit(pytest.main([__file__, *options], plugins=[Reporter()]))
