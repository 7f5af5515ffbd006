"""Run the prepared runs, let the judges look at their files, and print a line for each verdict.

    python -m tests.judges.run [NAME...]

Exits with 1 if a judge found a fault, and with 2 if the judges cannot be installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from .prepared import RUNS
from .tools import Missing, install

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# The checker's grammar of CSS is older than this property, which all browsers have.
NOT_A_FAULT = ("paint-order",)


def main(names: list[str]) -> int:
    """Judge the runs with these names."""
    try:
        paths = install()
    except Missing as problem:
        print(problem)
        return 2
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names or RUNS:
            place = Path(folder) / name
            place.mkdir()
            done = subprocess.run([sys.executable, "-m", "tests.judges.prepared", name, str(place)], cwd=ROOT)
            if done.returncode:
                faults += _say(name, "run", [f"it ended with {done.returncode}"])
                continue
            pictures = Path(paths["pictures"]) / name
            trace, page = place / "trace.json", place / "page.html"
            if trace.stat().st_size > 40e6:  # the driver of the browser passes no larger file on
                trace = place / "trace.json.gz"
            for script, file in (("viewers.mjs", trace), ("pages.mjs", page)):
                for judge, found in _node(script, paths, file, pictures).items():
                    faults += _say(name, judge, found)
            faults += _say(name, "vnu", _vnu(paths, page))
            faults += _say(name, "html-validate", _html_validate(paths, page))
    print(f"{faults} faults; the pictures are in {paths['pictures']}")
    return bool(faults)


def _say(name: str, judge: str, found: object) -> int:
    if isinstance(found, dict):  # what the file holds, for the reader
        print(f"{name}: " + ", ".join(f"{count:,} {what}" for what, count in found.items()), flush=True)
        return 0
    assert isinstance(found, list)
    print(f"{name}: {judge}: {'ok' if not found else '; '.join(found)}", flush=True)
    return len(found)


def _node(script: str, paths: dict[str, str], file: Path, pictures: Path) -> dict[str, object]:
    command = ["node", str(HERE / script), json.dumps(paths), str(file), str(pictures)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {script: [(done.stderr or done.stdout).strip()[-500:]]}
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def _vnu(paths: dict[str, str], page: Path) -> list[str]:
    """The Nu Html Checker: errors only."""
    jar = Path(paths["modules"]) / "vnu-jar/build/dist/vnu.jar"
    done = subprocess.run(["java", "-jar", str(jar), "--format", "json", str(page)], capture_output=True, text=True)
    messages = json.loads(done.stderr)["messages"]
    return [
        f"line {one.get('lastLine')}: {one['message']}"
        for one in messages
        if one["type"] == "error" and not any(word in one["message"] for word in NOT_A_FAULT)
    ][:5]


def _html_validate(paths: dict[str, str], page: Path) -> list[str]:
    """A second checker of HTML, with its standard rules."""
    config = page.parent / ".htmlvalidate.json"
    rules = {"no-inline-style": "off", "no-trailing-whitespace": "off"}
    config.write_text(json.dumps({"root": True, "extends": ["html-validate:standard"], "rules": rules}))
    program = Path(paths["modules"]) / "html-validate/bin/html-validate.mjs"
    command = ["node", str(program), "--config", str(config), "--formatter", "json", str(page)]
    done = subprocess.run(command, capture_output=True, text=True)
    found = [one for file in json.loads(done.stdout) for one in file["messages"] if one["severity"] == 2]
    return [f"line {one['line']}: {one['ruleId']}: {one['message']}" for one in found][:5]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
