"""Runs the collected cases in a process beside the test session: other tests run meanwhile, on another CPU.

The process has the children that run the cases (see run.py), so the test session has one child only, and its threads
and descriptors stay as they are. It ends when its stdin is closed, also if the test session is killed.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.conformance.run import ROOT, Answer, Options, Runner, case_name

AGAIN = " again"  # added to the mode of a simulation: the second process
SLOW = ("reports", "wanted", "resources")  # these areas start first, each in two halves: their programs wait long
ALONE, BESIDE = 8, 3  # children at a time: most cases wait more than they compute


def seed_of(mode: str) -> int | None:
    """The seed of a simulation: 1 for "simulated", 3 for "simulated-3". None for another mode."""
    name, _, seed = mode.removesuffix(AGAIN).partition("-")
    return int(seed or 1) if name == "simulated" else None


class Answers:
    """The answers to cases, from a process that runs them. `wanted`: (mode, path of the case) for each of them.

    children: how many cases run at a time. through_alias: all cases run under the alias.
    """

    def __init__(
        self, wanted: Sequence[tuple[str, Path]], children: int, switch_interval_s: float | None, through_alias: bool
    ) -> None:
        self._found: dict[tuple[str, str], Answer] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.beside"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("CONFORMANCE_LOUD") else subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the test session, which ends this process
        )
        ask = {
            "wanted": [(mode, str(path)) for mode, path in wanted],
            "children": children,
            "switch_interval_s": switch_interval_s,
            "through_alias": through_alias,
        }
        assert self._process.stdin
        self._process.stdin.write(json.dumps(ask) + "\n")
        self._process.stdin.flush()

    def of(self, mode: str, path: Path) -> Answer:
        """The answer to a case. Waits until it has come."""
        assert self._process.stdout
        while (mode, str(path)) not in self._found:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"the process that runs the cases ended with exit code {self._process.wait()}")
            answered_mode, answer = json.loads(line)
            self._found[answered_mode, answer["path"]] = Answer(**answer)
        return self._found[mode, str(path)]

    def stop(self) -> None:
        """End the process and the cases that still run."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def main() -> None:
    """Run the cases that the first line of stdin names. Writes a line of JSON for each answer: its mode and itself."""
    ask = json.loads(sys.stdin.readline())
    groups: dict[tuple[str, str, int], list[Path]] = {}
    for index, (mode, path) in enumerate(ask["wanted"]):
        area = "" if mode == "alias" else case_name(path).split("/")[0]  # one child runs all cases of the alias
        groups.setdefault((mode, area, index % 2 if area in SLOW else 0), []).append(Path(path))
    runners = list[Runner]()
    answers: queue.SimpleQueue[tuple[str, Answer]] = queue.SimpleQueue()  # no case waits for the test session to read

    def run(runner: Runner, mode: str, paths: list[Path]) -> None:
        left = list(paths)
        try:
            for answer in runner.run(paths):
                left.pop(0)
                answers.put((mode, answer))
        except Exception:
            for path in left:
                answers.put((mode, Answer(str(path), trace=traceback.format_exc(), end="died")))

    def write() -> None:
        with open(1, "wb", buffering=0, closefd=False) as stdout:
            while True:
                mode, answer = answers.get()
                stdout.write(json.dumps([mode, asdict(answer)]).encode() + b"\n")

    threading.Thread(target=write, daemon=True).start()

    with ThreadPoolExecutor(ask["children"]) as pool:
        for (mode, _, _), paths in sorted(groups.items(), key=lambda group: group[0][1] not in SLOW):
            seed = seed_of(mode)
            options = Options(
                local_mode=mode == "local_mode",
                switch_interval_s=ask["switch_interval_s"],
                through_alias=ask["through_alias"] or mode == "alias",
                simulated=seed,
                hash_seed=None if seed is None else 2 if mode.endswith(AGAIN) else 1,
            )
            runners.append(Runner(options))
            pool.submit(run, runners[-1], mode, paths)
        sys.stdin.read()  # the test session has its answers, or has ended
        for runner in runners:
            runner.stop()


if __name__ == "__main__":
    main()
