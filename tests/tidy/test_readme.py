"""The Python blocks of README.md run, and print the text block that follows them."""

import re
import subprocess
import sys

from tests.tidy.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def test_every_python_block_prints_what_the_page_says(tmp_path):
    """Each block is a complete program, and runs in its own process. A block with tests is run by pytest."""
    blocks = BLOCK.findall(README)
    programs = [i for i, (language, _) in enumerate(blocks) if language == "python"]
    assert programs
    for i in programs:
        program = tmp_path / f"readme_{i}.py"
        program.write_text(blocks[i][1], encoding="utf-8")
        tests = ["-m", "pytest", "-p", "miniray.testing.plugin", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, *(tests if "def test_" in blocks[i][1] else []), str(program)],
            env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        if i + 1 < len(blocks) and blocks[i + 1][0] == "text":
            assert done.stdout == blocks[i + 1][1]


def test_the_readme_names_every_target_of_make():
    """A target that the README does not name would never be found."""
    targets = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert targets and [name for name in targets if not re.search(rf"\bmake {name}\b(?!-)", README)] == []


def test_a_program_beside_a_clone_can_import_it(tmp_path):
    """Python takes the clone's folder for the package, and without its `__init__.py` for an empty one."""
    (tmp_path / "miniray").symlink_to(ROOT, target_is_directory=True)
    first = next(text for language, text in BLOCK.findall(README) if language == "python")
    (tmp_path / "program.py").write_text(first + "import miniray.util.queue\n", encoding="utf-8")
    for words in (["program.py"], ["-m", "miniray", "run", "program.py"]):
        done = subprocess.run(
            [sys.executable, *words], env={"PATH": ""}, cwd=tmp_path, capture_output=True, text=True, timeout=50
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1, 4, 9, 16]\n", "")


def test_the_pictures_of_the_readme_exist():
    """A missing file would show as a broken image."""
    assert (pictures := re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)) and all(
        (ROOT / name).is_file() for name in pictures
    )
