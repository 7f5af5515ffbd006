"""Generated programs on real Ray and on miniray: where do they answer differently?

    python -m tests.differential.run --ray-python PATH [-n 2000] [--seed 0] [--zoo class|interpreter|none|all] [--out FOLDER]
    python -m tests.differential.run --modes threaded local_mode        without Ray: miniray's two modes against each other

The zoos and N random programs, from the seed on, take turns: the same seed gives the same programs. A difference counts only
if both sides repeat their answers; it is then shrunk, and filed under its cause (see compare.Signature).
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import pathlib
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence

from tests.differential import class_zoo, interpreter_zoo
from tests.differential.backends import Answer, Several, all_backends
from tests.differential.compare import Difference, Signature, differences
from tests.differential.grammar import generate
from tests.differential.program import Program
from tests.differential.report import Report
from tests.differential.rules import AREAS
from tests.differential.shrink import shrink, slice_of


AHEAD = 3
"""How many programs are asked about at a time, for each session of Ray: a statement that hangs must not hold up the others."""
MOST_VARIED = 3
"""A difference that so many programs have shown, and none of them twice, is counted only."""


class Comparison:
    """Compares modes of miniray with the backend that is in the right. Its report holds what came of it.

    Differences are looked into beside the programs that follow: a confirmation by Ray takes many seconds."""

    def __init__(self, backends: dict[str, Several], right: str, modes: list[str], report: Report) -> None:
        self.backends, self.right, self.modes, self.report = backends, right, modes, report
        self.ahead = AHEAD * max(len(several.backends) for several in backends.values())
        self.looked_into: dict[Signature, concurrent.futures.Future[None]] = {}
        self.varied: collections.Counter[Signature] = collections.Counter()

    def run(self, programs: Iterable[Program]) -> None:
        """Ask for each program's answers, and look into each difference."""
        beside = concurrent.futures.ThreadPoolExecutor(2)
        try:
            self.compare(programs, beside)
            for future in self.looked_into.values():
                future.result()
        finally:
            beside.shutdown(wait=False, cancel_futures=True)

    def compare(self, programs: Iterable[Program], beside: concurrent.futures.Executor) -> None:
        """Compare each program's answers. `beside` looks into the differences."""
        for program, expected, answers in self.with_answers(programs):
            self.report.programs += 1
            self.report.statements += len(program.statements)
            different: set[int] = set()
            for mode, answer in answers.items():
                found = differences(program, mode, expected, answer)
                for difference in found:
                    # What differs in the first mode is a difference of miniray; the next one need not repeat it.
                    if difference.statement not in different and not self.report.count(difference.signature):
                        self.consider(program, difference, beside)
                different |= {d.statement for d in found}
            if self.report.programs % 5 == 0:
                self.report.write()
                print(f"{self.report.programs} programs, {len(self.report.causes)} causes", flush=True)

    def consider(self, program: Program, difference: Difference, beside: concurrent.futures.Executor) -> None:
        """Have a difference looked into, unless another of its cause is under way or its cause varies."""
        signature = difference.signature
        under_way = self.looked_into.get(signature)
        if under_way is not None and under_way.done():
            under_way.result()
            under_way = None
        if under_way is None and self.varied[signature] < MOST_VARIED:
            self.looked_into[signature] = beside.submit(self.look_into, program, difference)

    def with_answers(self, programs: Iterable[Program]) -> Iterator[tuple[Program, Answer, dict[str, Answer]]]:
        """Each program with its right answer and that of each mode, in order. The next ones are asked for meanwhile."""
        coming: collections.deque[tuple[Program, concurrent.futures.Future[tuple[Answer, dict[str, Answer]]]]]
        coming = collections.deque()
        left = iter(programs)
        threads = concurrent.futures.ThreadPoolExecutor(self.ahead)
        try:
            while True:
                while len(coming) < 4 * self.ahead and (program := next(left, None)):
                    coming.append((program, threads.submit(self.answers, program)))
                if not coming:
                    return
                program, future = coming.popleft()
                yield program, *future.result()
        finally:  # a run that is stopped waits for no answer
            threads.shutdown(wait=False, cancel_futures=True)

    def answers(self, program: Program) -> tuple[Answer, dict[str, Answer]]:
        """The right answer, and that of each mode which can run the program."""
        modes = [mode for mode in self.modes if mode != "local_mode" or not {"threads", "fresh"} & program.needs]
        return self.expected(program), {mode: self.backends[mode].answer(program) for mode in modes}

    def expected(self, program: Program, again: bool = False) -> Answer:
        """What the side that is in the right answers."""
        right = self.right
        if right == "ray" and "dashboard" in program.needs:
            right = "ray-dashboard"
        elif right == "ray" and not again and not program.name.startswith("interpreter"):
            right = "ray-forked"  # what it says of a difference is confirmed by the usual workers
        return self.backends[right].answer(program, again)

    def look_into(self, program: Program, difference: Difference) -> None:
        """Shrink a difference that both sides repeat, and file it. What varies on either side is counted only."""
        signature, mode = difference.signature, difference.signature.mode
        cut = program.with_statements(list(program.statements[: max(0, difference.statement) + 1]))

        def same(candidate: Program) -> Difference | None:
            # miniray answers in milliseconds: ask Ray only if the wrong answer is still there. A program that was not cut is
            # run again, so that both sides have repeated themselves.
            again = candidate.key == program.key
            answer = self.backends[mode].answer(candidate, again)
            if not set(difference.actual) & {text for _, text in answer.lines} and difference.actual:
                return None
            found = differences(candidate, mode, self.expected(candidate, again), answer)
            return next((d for d in found if d.signature == signature), None)

        # A statement of the interpreter's zoo leaves something changed for the next one: none of them can be left out.
        candidates = [program] if signature.kind.startswith("interpreter.") else [slice_of(cut), cut]
        small = next(filter(same, candidates), None)
        if small and small is not program and len(small.statements) > 4:
            small = shrink(small, lambda candidate: same(candidate) is not None, most=8 if small is not cut else 30)
        confirmed = same(small) if small else None
        if small is None or confirmed is None:
            self.report.unstable += 1
            self.varied[signature] += 1
            print(f"not repeated: {signature}", flush=True)
            return
        print(f"{program.name}: {signature}", flush=True)
        self.report.add(small, confirmed)


def programs_of(zoo: str, count: int, seed: int, areas: Sequence[str] = tuple(AREAS)) -> Iterator[Program]:
    """The zoos that are wanted, and so many random programs. They take turns: a run that is cut short has seen of each."""
    random_programs = (generate(number, areas=areas) for number in range(seed, seed + count))
    turns: list[Iterator[Program]] = [random_programs] * 4  # a zoo's program is as much as several of them
    if zoo in ("interpreter", "all"):
        turns.insert(0, interpreter_zoo.programs())
    if zoo in ("class", "all"):
        turns.insert(0, class_zoo.programs())
    while turns:
        turn = turns.pop(0)
        if following := next(turn, None):
            yield following
            turns.append(turn)


def main() -> int:
    """The command. Exit code 1 if there are differences."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ray-python", help="a Python that has Ray; without it the first of the modes is in the right")
    parser.add_argument("-n", type=int, default=200, help="random programs")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    parser.add_argument("--zoo", choices=["class", "interpreter", "none", "all"], default="all")
    parser.add_argument("--areas", nargs="+", choices=list(AREAS), default=list(AREAS), help="of the random programs")
    parser.add_argument("--sessions", type=int, default=2, help="of Ray at a time")
    parser.add_argument("--modes", nargs="+", default=["threaded", "local_mode"], help="of miniray")
    parser.add_argument(
        "--python", help="the Python that runs miniray (the same as Ray's: what is installed there is then the same)"
    )
    parser.add_argument("--out", type=pathlib.Path, help="folder for the report and the programs (a new one)")
    asked = parser.parse_args()
    folder = asked.out or pathlib.Path(tempfile.mkdtemp(prefix="differential-"))
    backends = all_backends(
        asked.python or asked.ray_python or sys.executable, asked.ray_python or "", folder / "answers", asked.sessions
    )
    right, modes = ("ray", asked.modes) if asked.ray_python else (asked.modes[0], asked.modes[1:])
    report = Report(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        Comparison(backends, right, modes, report).run(programs_of(asked.zoo, asked.n, asked.seed, asked.areas))
    finally:
        report.write()
        for backend in backends.values():
            backend.close()
    print(report.text().partition("\n## ")[0])
    print(f"The causes, and a program for each: {folder}/CAUSES.md")
    return 1 if report.causes else 0


if __name__ == "__main__":
    sys.exit(main())
