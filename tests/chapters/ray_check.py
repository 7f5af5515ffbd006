"""Run the examples on real Ray, with their imports changed, and compare their output with their docstrings.

    python -m tests.chapters.ray_check [--ray-python PYTHON] [--record] [NAME ...]

PYTHON is a Python that has Ray installed. Each program takes seconds, so this is no test; `make ray-check` runs it.
With --record, the result is written to examples/on_ray.txt. NAME is a part of a program's name. The exit code is 1 if
an output differs.
"""

from __future__ import annotations

import argparse
import difflib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.chapters.programs import EXAMPLES, Program, programs

RECORD = EXAMPLES / "on_ray.txt"
ALONE = {"RAY_ADDRESS": "local", "RAY_DEDUP_LOGS": "0", "PYTHONWARNINGS": "ignore"}
"""Environment variables that start a new Ray, even if another one runs on this machine, and suppress its own output."""
TIMEOUT_S = 180
PRELUDE = '''
import sys, threading

class ProgramOnly:
    """stdout without the messages of Ray's own threads, for example that a task is retried."""
    def write(self, text):
        return sys.__stdout__.write(text) if threading.current_thread() is threading.main_thread() else len(text)

    def __getattr__(self, name):
        return getattr(sys.__stdout__, name)

sys.stdout = ProgramOnly()
'''


def output_on_ray(program: Program, python: str, tries: int = 2) -> str:
    """The program's output on real Ray, followed by its exit code and errors if it failed.

    tries: how often to start Ray, which may time out on a busy machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, program.path.name)
        script.write_text(PRELUDE + program.for_ray(), encoding="utf-8")
        environment = {**os.environ, **ALONE}
        environment.pop("PYTHONPATH", None)
        try:
            done = subprocess.run(
                [python, str(script)], env=environment, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return f"no end after {TIMEOUT_S} s\n"
    if "The current node timed out during startup" in done.stderr and tries > 1:
        return output_on_ray(program, python, tries - 1)
    return done.stdout + (f"exit code {done.returncode}\n{done.stderr[-2000:]}" if done.returncode else "")


def main() -> int:
    """Run the chosen programs, print the differences, and record the result. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ray-python", default=sys.executable, help="a Python that has Ray installed")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.relative_to(EXAMPLES.parent)}")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of a program's name (default: all)")
    args = parser.parse_args()
    asked = subprocess.run(
        [args.ray_python, "-c", "import ray; print(ray.__version__)"], capture_output=True, text=True
    )
    if asked.returncode:
        print(
            f"{args.ray_python} has no Ray: {asked.stderr.strip().splitlines()[-1]}. Try: pip install ray",
            file=sys.stderr,
        )
        return 2
    chosen = [p for p in programs() if not args.names or any(name in p.name for name in args.names)]
    lines, counts = [f"The examples on Ray {asked.stdout.strip()}", ""], {"same": 0, "differ": 0, "not run": 0}
    for program in chosen:
        difference: list[str] = []
        if program.only_on_miniray:
            verdict = "not run"
        else:
            printed = output_on_ray(program, args.ray_python).splitlines()
            difference = list(
                difflib.unified_diff(program.prints.splitlines(), printed, "docstring", "Ray", lineterm="", n=0)
            )
            verdict = "differ" if difference else "same"
        counts[verdict] += 1
        lines.append(f"{verdict:8} {program.name}" + (f": {program.only_on_miniray}" if verdict == "not run" else ""))
        print("\n".join([lines[-1], *difference]), flush=True)
    lines += ["", ", ".join(f"{count} {verdict}" for verdict, count in counts.items())]
    print(lines[-1])
    if args.record and not args.names:
        RECORD.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
