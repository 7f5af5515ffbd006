"""Mutation testing: small mistakes are put into the core one at a time, and the suite must notice each.

    python -m tests.mutants.run --n 250 --seed 1         as `make mutants N=250` does
    python -m tests.mutants.run --n 250 --seed 1 --only 17,42      some of these mutants again
    python -m tests.mutants.run --n 250 --seed 1 --list            which ones they are

The quick part (quick.py) runs first: it tries a mutant in a forked process, on the tests that reach its line. Only
mutants that it cannot run or that survive it take the long way: every worker has a copy of the tree in a temporary
folder, writes one mutant after the other into it, and runs the other parts of the suite that could notice it, up to the
first failure. A part that takes many times as long as without the mutant has noticed it, too. A test with threads that
fails must fail again alone. Left out are the tests of the pages and of tidiness, which compare the source's text, the
soak and the benchmarks.

tests/mutants/equivalent.md lists mutants that change nothing, with the reason; they are not run.

Exit status 1: fewer than --at-least percent of the mutants that change something were noticed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutants.mutate import Mutant, choose
from tests.mutants.quick import Fate, Quick

ROOT = Path(__file__).resolve().parent.parent.parent
EQUIVALENT = Path(__file__).with_name("equivalent.md")
MODULES = ("core/*.py", "runtime/waiting.py", "runtime/getting.py", "runtime/core_access.py", "observe/explain/*.py")
NOT_MUTATED = ("__init__.py", "invariants.py")

CORE, SEARCH = (
    "tests/core/test_moves.py tests/core/test_records.py tests/core tests/tidy/test_one_door.py "
    "--ignore tests/core/test_random_events.py",
    "tests/core/test_random_events.py -k breaks --seeds 3",
)
EXPLAIN, RUNTIME = "tests/observe/explain", "tests/runtime"
CASES, OTHER_CASES = "tests/conformance -k threaded", "tests/conformance -k local_mode"
# The doctor looks at a program after half a second, by which a busy machine may not have started it; a browser is slow.
VIEWS = "tests/observe tests/util --ignore tests/observe/test_doctor.py --ignore tests/observe/timeline/test_timeline_browser.py"
RESTORING = "tests/telemetry/test_from_file.py tests/telemetry/test_damaged_files.py"  # they read real recordings
PARTS = {
    "miniray/core/restoring.py": (CORE, RESTORING),
    "core": (CORE, EXPLAIN, SEARCH, RUNTIME, CASES, VIEWS),
    "runtime": (RUNTIME, CASES, VIEWS, "tests/values tests/process tests/testing", OTHER_CASES),
    "observe": (EXPLAIN, RUNTIME, CASES, VIEWS),
}
# Of the tests of quick.py, those that take long come later, on the long way.
QUICK = (
    *"tests/core tests/tidy/test_one_door.py tests/observe/explain tests/observe/state tests/runtime".split(),
    *"--ignore tests/runtime/test_chaos.py --ignore tests/runtime/test_foreign_code.py --seeds 2".split(),
    *("-m", "not slow"),
)
IN_QUICK = (CORE, SEARCH, EXPLAIN)  # what a mutant that has survived the quick part need not meet again
CERTAIN = (CORE, SEARCH, EXPLAIN)  # no threads and no clock; other tests may fail because the machine is busy
LEFT_OUT = 5  # so many tests of a part may fail without a mutant
PATIENCE = 5  # a part may take so many times as long as without a mutant, and
PATIENCE_S = 20  # so many seconds more
MEMORY_KB = 12_000_000  # a mutant that appends without end is stopped here


@dataclass
class Outcome:
    """What became of a mutant. word: killed, timed out, survived or equivalent; by: the test that noticed it."""

    word: str
    by: str = ""
    seconds: float = 0.0


def sources() -> dict[str, str]:
    """The modules that are mutated, by their path."""
    paths = [path for pattern in MODULES for path in sorted((ROOT / "miniray").glob(pattern))]
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in paths if p.name not in NOT_MUTATED}


def equivalents(text: str) -> dict[tuple[str, ...], str]:
    """The reasons by the key of the mutant. An entry is a heading `path, where`, the diff in a block, and the reason."""
    found = {}
    for path, where, diff, reason in re.findall(
        r"^## (\S+?), (\S*)\n+```diff\n(.*?)```\n+(.*?)\s*(?=^## |\Z)", text, re.M | re.S
    ):
        lines = (line[0] + line[1:].strip() for line in diff.splitlines())
        found[(path, where, *lines)] = reason
    return found


class Tree:
    """A copy of the project, in which the tests of one mutant at a time run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        left_out = shutil.ignore_patterns(".*", "__pycache__", "mutants")
        shutil.copytree(ROOT, folder, ignore=left_out, dirs_exist_ok=True)
        self.times = itertools.count(int(time.time()) - 1_000_000, 2)

    def write(self, path: str, source: str) -> None:
        """Each source gets a time of its own: Python takes a file of the same size and time for the one it has compiled."""
        (self.folder / path).write_text(source, encoding="utf-8")
        now = next(self.times)
        os.utime(self.folder / path, (now, now))

    def run(self, tests: list[str], limit_s: float) -> Outcome:
        """Some of the tests, up to the first failure."""
        began = time.monotonic()
        pytest = [sys.executable, "-m", "pytest", "-qx", "--tb=no", "-p", "no:cacheprovider", *tests]
        child = subprocess.Popen(
            ["sh", "-c", f'ulimit -v {MEMORY_KB}; exec "$@"', "sh", *pytest],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        try:
            said = child.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            return Outcome("timed out", " ".join(tests), time.monotonic() - began)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # and what its tests started
            child.wait()
        if child.returncode == 0:
            return Outcome("survived", "", time.monotonic() - began)
        failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", said, re.M)
        by = failed[1] if failed else f"exit status {child.returncode}"
        return Outcome("killed", by, time.monotonic() - began)


class Run:
    """All mutants of a run: the copies of the tree, and what each part of the suite may take."""

    def __init__(self, chosen: list[tuple[int, Mutant]], quick: Mapping[int, Fate], trees: list[Tree]) -> None:
        self.chosen = chosen
        self.quick = quick
        self.trees = trees
        self.local = threading.local()
        self.tests: dict[str, list[str]] = {}
        self.limits: dict[str, float] = {}
        self.done = itertools.count(1)

    def tree(self) -> Tree:
        """The copy that belongs to this worker."""
        if not hasattr(self.local, "tree"):
            self.local.tree = self.trees.pop()
        return self.local.tree

    def measure(self, part: str) -> None:
        """Run one part without a mutant. Its time sets its limit. A test that fails, as may happen under load, is left out."""
        tests = part.split()
        for _ in range(LEFT_OUT + 1):
            outcome = self.tree().run(tests, 600)
            print(f"without a mutant: {outcome.seconds:5.1f} s  {part}  {outcome.by}", flush=True)
            if outcome.word == "survived":
                self.tests[part], self.limits[part] = tests, PATIENCE * outcome.seconds + PATIENCE_S
                return
            tests += ["--deselect", outcome.by]
        raise SystemExit(f"without a mutant, too, many tests of `{part}` fail")

    def parts(self, number: int, mutant: Mutant) -> list[str]:
        """The parts of the suite that could notice it and have not been asked."""
        asked = IN_QUICK if self.quick[number].word == "survived" else ()
        parts = PARTS.get(mutant.path) or PARTS[mutant.path.split("/")[1]]
        return [part for part in parts if part not in asked]

    def one(self, number: int, mutant: Mutant) -> Outcome:
        """The fate of one mutant."""
        outcome = self._tried(number, mutant)
        print(
            f"[{next(self.done):3}/{len(self.chosen)}] {outcome.word:10} {outcome.seconds:5.1f} s  "
            f"#{number} {mutant.path}:{mutant.line} {mutant.where} ({mutant.kind})  {outcome.by}",
            flush=True,
        )
        return outcome

    def _tried(self, number: int, mutant: Mutant) -> Outcome:
        tree = self.tree()
        tree.write(mutant.path, mutant.source)
        seconds = 0.0
        try:
            for part in self.parts(number, mutant):
                outcome = tree.run(self.tests[part], self.limits[part])
                seconds += outcome.seconds
                if outcome.word == "killed" and part not in CERTAIN and "::" in outcome.by:
                    outcome = tree.run([outcome.by], self.limits[part])  # it must fail when it is alone, too
                    seconds += outcome.seconds
                if outcome.word != "survived":
                    return Outcome(outcome.word, outcome.by, seconds)
            return Outcome("survived", "", seconds)
        finally:
            tree.write(mutant.path, mutant.original)


def rate(words: Mapping[str, int]) -> float:
    """How many percent of the mutants that change something were noticed."""
    noticed = words["killed"] + words["timed out"]
    return 100 * noticed / ((noticed + words["survived"]) or 1)


def report(fates: list[tuple[int, Mutant, Outcome]]) -> Iterator[str]:
    """The survivors with what was changed, then a line for each module and one for all."""
    for number, mutant, outcome in fates:
        if outcome.word == "survived":
            yield f"\n#{number} survived: {mutant.path}:{mutant.line} {mutant.where} ({mutant.kind})"
            yield from mutant.diff
    yield f"\n{'module':42} killed  timed out  survived  equivalent   rate"
    modules = list(dict.fromkeys(mutant.path for _, mutant, _ in fates))
    for module in [*modules, "all"]:
        words = Counter(outcome.word for _, mutant, outcome in fates if module in (mutant.path, "all"))
        yield (
            f"{module:42} {words['killed']:6}  {words['timed out']:9}  {words['survived']:8}  {words['equivalent']:10}  "
            f"{rate(words):3.0f} %"
        )


def known_as_equivalent() -> dict[tuple[str, ...], str]:
    """The mutants that change nothing, with the reasons."""
    return equivalents(EQUIVALENT.read_text(encoding="utf-8"))


def quick_part(chosen: list[tuple[int, Mutant]], reach: str) -> dict[int, Fate]:
    """The fates of these mutants in the quick part. reach: a file that keeps what each test reaches, for the next run."""
    say = sys.stdout
    quick = Quick(chosen, Path(reach) if reach else None, lambda text: print(text, file=say, flush=True))
    status = pytest.main(["-qs", "--tb=no", "-p", "no:cacheprovider", *QUICK], plugins=[quick])
    if len(quick.fates) != len(chosen):
        raise SystemExit(f"the quick part has ended early, with status {status}")
    return quick.fates


def main() -> int:
    """Run the mutants that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=250, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which ones: the same seed gives the same")
    parser.add_argument("--workers", type=int, choices=(1, 2), default=2, help="processes at a time")
    parser.add_argument("--only", default="", metavar="N,N", help="of these mutants only some, by their numbers")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    parser.add_argument("--at-least", type=float, default=95, metavar="PERCENT", help="that must be noticed")
    parser.add_argument("--quick", action="store_true", help="the survivors of the quick part do not take the long way")
    parser.add_argument(
        "--reach", default="", metavar="FILE", help="keep here what each test reaches, for the next run"
    )
    options = parser.parse_args()
    only = {int(number) for number in options.only.split(",") if number}
    every = enumerate(choose(sources(), options.n, options.seed), 1)
    chosen = [(number, mutant) for number, mutant in every if not only or number in only]
    if options.list:
        for number, mutant in chosen:
            print(f"#{number} {mutant.path}:{mutant.line} {mutant.where} ({mutant.kind})", *mutant.diff, sep="\n")
        return 0
    outcomes = {number: Outcome("equivalent") for number, mutant in chosen if mutant.key in known_as_equivalent()}
    left = [(number, mutant) for number, mutant in chosen if number not in outcomes]
    quick = quick_part(left, options.reach)
    outcomes |= {number: Outcome(fate.word, fate.by, fate.seconds) for number, fate in quick.items()}
    left = [(number, mutant) for number, mutant in left if outcomes[number].word in ("survived", "beyond")]
    if options.quick:
        left = [(number, mutant) for number, mutant in left if outcomes[number].word == "beyond"]
    with tempfile.TemporaryDirectory(prefix="miniray-mutants-") as folder:
        # pytest takes a copy for a package, since the project has an `__init__.py`: its name must be an identifier.
        run = Run(left, quick, [Tree(Path(folder, f"tree{worker}")) for worker in range(options.workers)])
        with ThreadPoolExecutor(options.workers) as pool:
            list(pool.map(run.measure, dict.fromkeys(part for pair in left for part in run.parts(*pair))))
            for (number, _), outcome in zip(left, pool.map(lambda pair: run.one(*pair), left), strict=True):
                outcomes[number] = outcome
    fates = [(number, mutant, outcomes[number]) for number, mutant in chosen]
    print(*report(fates), sep="\n")
    return int(rate(Counter(outcome.word for outcome in outcomes.values())) < options.at_least)


if __name__ == "__main__":
    sys.exit(main())
