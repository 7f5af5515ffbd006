"""Run the program on real Ray and record its spans: `python -m tests.telemetry.traced.record RAY_PYTHON`.

RAY_PYTHON: a Python that has Ray and opentelemetry-sdk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from . import trees

HERE = Path(__file__).parent
ANSWERS = HERE / "answers.json"


def main() -> None:
    """Record the answers."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"RAY_ADDRESS": "local", "SPANS_FOLDER": folder, "SETTLE_S": "0.3", "PYTHONPATH": str(HERE)}
        subprocess.run([sys.argv[1], str(HERE / "program.py")], env={**os.environ, **own}, check=True)
        found = trees.read(Path(folder))
    ANSWERS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
