"""Libraries from PyPI that use Ray, unchanged, on miniray: what each one's program prints is compared with its docstring.

    python -m tests.clients.run [NAME ...]

Each program of this folder runs through the alias (`miniray run`), in a virtual environment of its own below .venvs/clients,
which is made when it is missing. Its docstring says what it needs:

    Needs: PACKAGE==VERSION           installed with what it depends on
    Needs alone: PACKAGE==VERSION     installed without, as it would bring Ray itself

and what it prints. NAME: a part of a program's name. Exit code 1 when one of them differs. Needs the network, so it is no test.
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
    """The packages to install with their dependencies, and those to install without."""
    return (
        re.findall(r"^Needs: (.+)$", program.docstring, re.M),
        re.findall(r"^Needs alone: (.+)$", program.docstring, re.M),
    )


def python_for(program: Program) -> str:
    """The interpreter of the program's environment, which is made, or made anew when the program needs something else."""
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
    """What the program prints on miniray, and what it died of when it did."""
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
            return f"it hung for {TIMEOUT_S} s\n"
    return done.stdout + (f"exit code {done.returncode}\n{done.stderr[-2000:]}" if done.returncode else "")


def main() -> int:
    """Run what was asked for, and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of a program's name; all by default")
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
    print(f"{len(chosen) - differing} as in the docstring, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
