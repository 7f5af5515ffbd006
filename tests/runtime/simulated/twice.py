"""Every simulated session of the tests has the same event log in two processes with two hash seeds.

    python -m tests.runtime.simulated.twice [arguments of pytest]        by default all tests with a simulated session,
                                                                         but for the conformance cases, which compare
                                                                         their logs themselves

Runs pytest twice, with this module as a plugin that notes a digest of the log of each simulated session, test by test,
and compares. A test that starts sessions from its own seeds again and again counts with all of them. Exit status 1: the
logs of a test differ, or a test has failed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
VARIABLE = "SIMULATED_LOGS"  # names the file for the digests
DEFAULT = ("tests/runtime", "tests/telemetry", "tests/testing", "-k", "simulat or explor or plan or bug or schedul")
UNREPEATED = (
    "test_a_wait_for_something_outside_lets_others_go_on[child]",
    "test_the_time_limit_of_a_statement_is_real[function]",
)
"""Tests that wait in real time: for a child process, and for the time limit of a statement."""

digests: dict[str, Any] = {}
running = ""


def pytest_runtest_logstart(nodeid: str, location: object) -> None:
    """Note which test runs. As a plugin."""
    global running
    running = nodeid


def note(runtime: Any) -> None:
    """A session ends: add its log to the digest of the test, if it is simulated."""
    from miniray.testing.exploring.simulation import event_log

    simulation = getattr(runtime, "simulation", None)
    if simulation is not None:
        digest = digests.setdefault(running, hashlib.sha256())
        digest.update(event_log(runtime).encode())
        for at, fiber, what in simulation.baton.trace:
            digest.update(f"{at:.9f} {fiber.name}: {what}\n".encode())


def pytest_configure(config: object) -> None:
    """Hear of the ends of sessions. As a plugin."""
    if VARIABLE in os.environ:
        from miniray import session

        session.before_end.append(note)


def pytest_unconfigure(config: object) -> None:
    """Write the digests. As a plugin."""
    if VARIABLE in os.environ:
        found = {test: digest.hexdigest() for test, digest in digests.items()}
        Path(os.environ[VARIABLE]).write_text(json.dumps(found), encoding="utf-8")


def digests_of(hash_seed: int, arguments: list[str]) -> tuple[dict[str, str], int]:
    """Run the tests. Returns the digest of each test, and pytest's exit status."""
    with tempfile.TemporaryDirectory(prefix="miniray-twice-") as folder:
        path = Path(folder, "logs.json")
        environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), VARIABLE: str(path)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.runtime.simulated.twice", *arguments]
        status = subprocess.run(command, env=environment, cwd=ROOT).returncode
        return json.loads(path.read_text(encoding="utf-8")), status


def main(arguments: list[str]) -> int:
    """The command."""
    (first, status), (second, other_status) = (digests_of(seed, arguments or list(DEFAULT)) for seed in (1, 2))
    different = [test for test in first if second.get(test) != first[test] and not test.endswith(UNREPEATED)]
    for test in different:
        print(f"{test}: the logs differ")
    print(f"{len(first) - len(different)} of {len(first)} tests with simulated sessions have the same logs")
    return 1 if different or status or other_status or not first else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
