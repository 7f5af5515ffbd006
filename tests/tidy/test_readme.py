"""The Python blocks of README.md run, and print the text block that follows them."""

import re
import subprocess
import sys

from tests.tidy.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def test_every_python_block_prints_what_the_page_says(tmp_path):
    """Each block is a complete program, and runs in its own process."""
    blocks = BLOCK.findall(README)
    programs = [i for i, (language, _) in enumerate(blocks) if language == "python"]
    assert programs
    for i in programs:
        program = tmp_path / f"readme_{i}.py"
        program.write_text(blocks[i][1], encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(program)],
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == 0, done.stderr
        if i + 1 < len(blocks) and blocks[i + 1][0] == "text":
            assert done.stdout == blocks[i + 1][1]


def test_the_readme_names_every_target_of_make():
    """A target that the README does not name would never be found."""
    targets = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert targets and [name for name in targets if not re.search(rf"\bmake {name}\b(?!-)", README)] == []
