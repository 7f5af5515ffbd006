"""Run the whole suite as two pytest processes at a time: on two CPUs, it takes little more than half as long.

    python -m tests.halves [ARGUMENTS OF PYTEST]        as `make test` does

The first half prints as it runs; the output of the second one follows. Fails if one of the halves fails.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile

FOLDERS = ("tests/telemetry", "tests/testing")
"""The first half. Every other test belongs to the second one."""
NO_TEST_RAN = 5


def main() -> int:
    """Run both halves. Returns the first exit code that is not 0."""
    pytest = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    with tempfile.TemporaryFile() as output:
        rest = [f"--ignore={folder}" for folder in FOLDERS]
        halves = [
            subprocess.Popen([*pytest, *FOLDERS]),
            subprocess.Popen([*pytest, *rest], stdout=output, stderr=subprocess.STDOUT),
        ]
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both halves, which end and report
        codes = [half.wait() for half in halves]
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    if NO_TEST_RAN in codes and 0 in codes:  # with -k, a half may have nothing to do
        return 0
    return next(filter(None, codes), 0)


if __name__ == "__main__":
    sys.exit(main())
