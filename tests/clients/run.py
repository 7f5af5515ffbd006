"""Run unmodified libraries from PyPI that use Ray on miniray, and compare each program's output with its docstring.

    python -m tests.clients.run [NAME ...]

Each program of this folder runs under the alias (`miniray run`), in its own virtual environment below .venvs/clients,
which is created if it is missing. The program's docstring states its output, and what to install:

    Needs: PACKAGE==VERSION           install it with its dependencies
    Needs alone: PACKAGE==VERSION     install it without dependencies, since one of them is Ray

NAME is a part of a program's name; without one, all programs run. The exit code is 1 if an output differs. The command
needs the network, so the tests do not run it.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.chapters.programs import ROOT, Program

HERE = Path(__file__).resolve().parent
VENVS = ROOT / ".venvs" / "clients"
TIMEOUT_S = 300


def needs(program: Program) -> tuple[list[str], list[str]]:
    """The packages to install with their dependencies, and those to install without them."""
    return (
        re.findall(r"^Needs: (.+)$", program.docstring, re.M),
        re.findall(r"^Needs alone: (.+)$", program.docstring, re.M),
    )


def python_for(program: Program) -> str:
    """The interpreter of the program's environment.

    Creates the environment, or rebuilds it if the needs have changed.
    """
    folder = VENVS / program.path.stem
    python, note = folder / "bin" / "python", folder / "needs.txt"
    wanted, alone = needs(program)
    if not note.exists() or note.read_text(encoding="utf-8") != f"{wanted} {alone}":
        venv.create(folder, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if wanted:
            subprocess.run([*install, *wanted], check=True)
        if alone:
            subprocess.run([*install, "--no-deps", *alone], check=True)
        note.write_text(f"{wanted} {alone}", encoding="utf-8")
    return str(python)


def output(program: Program, python: str) -> str:
    """The program's output on miniray, followed by its exit code and errors if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [python, "-m", "miniray", "run", str(program.path)],
                cwd=folder,
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return f"no end after {TIMEOUT_S} s\n"
    return done.stdout + (f"exit code {done.returncode}\n{done.stderr[-2000:]}" if done.returncode else "")


def main() -> int:
    """Run the chosen programs, and print the differences. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of a program's name (default: all)")
    args = parser.parse_args()
    differing = 0
    chosen = [Program(path) for path in sorted(HERE.glob("*.py")) if path.name != "run.py"]
    chosen = [program for program in chosen if not args.names or any(name in program.path.stem for name in args.names)]
    for program in chosen:
        try:
            printed = output(program, python_for(program)).splitlines()
        except subprocess.CalledProcessError as error:
            printed = [f"could not be installed: {error}"]
        difference = list(
            difflib.unified_diff(program.prints.splitlines(), printed, "docstring", "printed", lineterm="", n=0)
        )
        differing += bool(difference)
        verdict = "DIFFERS" if difference else "same   "
        print("\n".join([f"{verdict} {program.path.stem}: {program.idea}", *difference]), flush=True)
    print(f"{len(chosen) - differing} print what the docstring says, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
