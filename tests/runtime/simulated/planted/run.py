"""Mistakes are planted in a copy of the core, one at a time; programs run under many seeds in a simulation until one
of them notices.

    python -m tests.runtime.simulated.planted.run                    all mistakes, up to 25 seeds for each program
    python -m tests.runtime.simulated.planted.run --seeds 100 lease  those whose names contain a word

For each mistake and each program: how many seeds it took, and what the seed noticed. Exit status 1: a mistake was not
noticed at all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.runtime.simulated.planted.mistakes import MISTAKES, Mistake
from tests.runtime.simulated.planted.programs import PROGRAMS

ROOT = Path(__file__).resolve().parents[4]
LIMIT_S = 600  # for all programs together, with one mistake


def planted(mistake: Mistake, text: str) -> str:
    """The text of the file with the mistake. Raises ValueError if the right text is not there exactly once."""
    if text.count(mistake.right) != 1:
        raise ValueError(
            f"{mistake.what!r}: core/{mistake.file} has changed; its text occurs {text.count(mistake.right)} times"
        )
    return text.replace(mistake.right, mistake.wrong)


def noticed(mistake: Mistake | None, seeds: int, limit_s: float = LIMIT_S) -> dict[str, tuple[int, str] | None]:
    """For each program: after how many seeds the mistake was noticed, and how. None: it was not noticed.

    A program that does not end within the limit has noticed the mistake, in seed 0. mistake: None for none.
    """
    with tempfile.TemporaryDirectory(prefix="miniray-planted-") as folder:
        shutil.copytree(ROOT / "miniray", Path(folder, "miniray"), ignore=shutil.ignore_patterns("__pycache__"))
        if mistake is not None:
            path = Path(folder, "miniray", "core", mistake.file)
            path.write_text(planted(mistake, path.read_text(encoding="utf-8")), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "tests.runtime.simulated.planted.programs", str(seeds)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder
        ) as child:
            try:
                out, errors = child.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                child.kill()
                out, errors = child.communicate()[0], ""
        found = dict(json.loads(line) for line in out.splitlines())
        if errors and len(found) < len(PROGRAMS) and child.returncode > 0:
            raise RuntimeError(f"the programs did not run:\n{errors}")
        late = next((name for name in PROGRAMS if name not in found), None)
        return {**found, **({late: (0, "it did not end")} if late is not None else {})}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=25, help="for each program (default: 25)")
    parser.add_argument("words", nargs="*", help="only mistakes whose names contain one of these words")
    asked = parser.parse_args()
    wanted = [one for one in MISTAKES if not asked.words or any(word in one.what for word in asked.words)]
    unnoticed = 0
    for mistake in wanted:
        found = noticed(mistake, asked.seeds)
        hits = {name: hit for name, hit in found.items() if hit is not None}
        unnoticed += not hits
        print(f"{mistake.what} (core/{mistake.file})")
        for name, hit in hits.items():
            print(f"    {name}: {f'seed {hit[0]} of {asked.seeds}' if hit[0] else 'hangs'}: {hit[1]}")
        if not hits:
            print("    NOT NOTICED")
        sys.stdout.flush()
    print(f"{len(wanted) - unnoticed} of {len(wanted)} mistakes were noticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
