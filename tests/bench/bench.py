"""Compare runtimes for tasks and actors on the same workloads, in turn and in one run.

    python -m tests.bench.bench --backend tpe,queue,miniray --workload 'task*'
    python -m tests.bench.bench --backend tpe,ray --ray-python PYTHON_WITH_RAY
    python -m tests.bench.bench --backend tpe@/opt/py313t/bin/python,tpe --workload cpu
    python -m tests.bench.bench --list

Each measurement runs in its own worker process. (Ray has one worker for the whole run, since it takes seconds to
start.) A round measures every backend once. The table shows the time per operation in the best round, and the ratio to
the workload's peer: the median over the rounds, each compared with the peer in the same round, so that a noisy machine
disturbs both. `MB` is the memory that the workload added to the process tree (Pss).
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import threading
from dataclasses import dataclass, field
from typing import Any

from tests.bench.backend import Backend
from tests.bench.peers import Asyncio, Dask, Plain, Prometheus, Pykka, Queue, ThreadPool
from tests.bench.ray_like import Miniray, MinirayInAFile, MinirayLocal, MinirayUnrecorded, Ray
from tests.bench.workloads import WORKLOADS, Workload, clock, identity, spin

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BACKENDS: dict[str, type[Backend]] = {
    b.name: b
    for b in (
        Plain,
        ThreadPool,
        Queue,
        Asyncio,
        Pykka,
        Prometheus,
        Dask,
        Ray,
        Miniray,
        MinirayInAFile,
        MinirayLocal,
        MinirayUnrecorded,
    )
}
UNIT = {"ns": 1e9, "us": 1e6, "ms": 1e3}


# ---------------------------------------------------------------- the worker process


def worker(name: str) -> None:
    """The worker process: measure each workload that a line on stdin names, and write the answer to the real stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2 if os.environ.get("BENCH_LOUD") else os.open(os.devnull, os.O_WRONLY), 1)
    b, started = BACKENDS[name](), False
    for line in sys.stdin:
        ask = json.loads(line)
        if ask["workload"] == "stop":
            break
        run = WORKLOADS[ask["workload"]]
        answer: dict[str, Any]
        try:
            if not started and run.name != "startup":
                b.start()
                started = True
                warm_up(b)
            gc.collect()
            spin_before = calibrate()
            cpu_before = time.process_time()
            ops, seconds, *extra = run.run(b, ask["n"])
            answer = {
                "per_op": seconds / ops,
                "cpu_per_op": (time.process_time() - cpu_before) / ops,
                "n": ops,
                "seconds": seconds,
                "spin": (spin_before + calibrate()) / 2,
                **(extra[0] if extra else {}),
            }
        except NotImplementedError as e:
            answer = {"skip": str(e)}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    if started:
        b.stop()
    os._exit(0)


def warm_up(b: Backend) -> None:
    """Start the backend's threads and fill Python's caches, if the backend has tasks."""
    if hasattr(type(b), "task"):
        submit = b.task(identity)
        b.get([submit(i) for i in range(200)])


def calibrate() -> float:
    """The seconds that a fixed piece of pure Python takes now. It shows how busy the machine is."""
    t0 = clock()
    spin(50_000)
    return clock() - t0


# ---------------------------------------------------------------- the measuring process


@dataclass
class Options:
    """How to measure. timeout: seconds for one measurement. path: the folder from which the workers import miniray."""

    rounds: int = 3
    scale: float = 1.0
    timeout: float = 90.0
    path: str = str(ROOT)
    ray_python: str = "python3"


class Column:
    """One backend on one interpreter. `spec` is NAME or NAME@PYTHON."""

    def __init__(self, spec: str, options: Options) -> None:
        name, _, python = spec.partition("@")
        self.spec, self.backend = spec, BACKENDS[name]
        self.python = python or (options.ray_python if name == "ray" else sys.executable)
        self.label = name if not python else f"{name}@{pathlib.Path(python).parent.parent.name}"
        self.options = options
        self.process: subprocess.Popen[str] | None = None

    def ask(self, run: Workload, n: int) -> dict[str, Any]:
        """Measure one workload once. The answer has `per_op` (in seconds), `skip` or `error`."""
        process = self.process
        if process is None:
            path = os.pathsep.join(filter(None, [self.options.path, str(ROOT)]))
            env = dict(os.environ, PYTHONPATH=path, RAY_DEDUP_LOGS="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
            process = self.process = subprocess.Popen(
                [self.python, "-m", "tests.bench.bench", "--worker", self.backend.name],
                text=True,
                env=env,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if os.environ.get("BENCH_LOUD") else subprocess.DEVNULL,
            )
        assert process.stdin and process.stdout
        answer = ""
        timer = threading.Timer(self.options.timeout, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps({"workload": run.name, "n": n}) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError as error:
            print(f"{self.label}: {error}", file=sys.stderr)
        timer.cancel()
        if not answer:
            process.kill()
            process.wait()
            self.process = None
            return {"error": "died or timed out"}
        if not self.backend.keep_worker or run.name == "startup":
            self.close()
        return json.loads(answer)

    def close(self) -> None:
        """End the worker process."""
        process, self.process = self.process, None
        if process:
            try:
                process.communicate('{"workload": "stop"}\n', timeout=60)
            except (OSError, subprocess.TimeoutExpired):
                process.kill()
                process.wait()


@dataclass
class Table:
    """All measurements. `cells[workload][label]` is a list with one answer per round."""

    columns: list[Column]
    cells: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)

    def good(self, workload: str, label: str) -> list[dict[str, Any]]:
        """The answers of the rounds that were measured without a skip or an error."""
        return [answer for answer in self.cells[workload][label] if "per_op" in answer]

    def best(self, workload: str, label: str) -> dict[str, Any] | None:
        """The answer of the fastest round, or None."""
        return min(self.good(workload, label), key=lambda answer: answer["per_op"], default=None)

    def ratios(self, run: Workload, column: Column) -> list[float]:
        """The backend's time divided by its peer's, per round. The peer runs on the same interpreter if possible."""
        peers = [c for c in self.columns if c.backend.name == run.peer]
        peer = next((p for p in peers if p.python == column.python), peers[0] if peers else None)
        if peer is None or peer is column:
            return []
        return [
            a["per_op"] / b["per_op"]
            for a, b in zip(self.cells[run.name][column.label], self.cells[run.name][peer.label])
            if "per_op" in a and "per_op" in b
        ]

    def row(self, run: Workload) -> str:
        """The line of one workload."""
        line = f"{run.name:14}"
        for c in self.columns:
            best = self.best(run.name, c.label)
            if best is None:
                failed = any("error" in answer for answer in self.cells[run.name][c.label])
                line += f" {'error' if failed else '-':>26}"
                continue
            ratios = self.ratios(run, c)
            text = f"{best['per_op'] * UNIT[run.unit]:.4g} {run.unit}"
            text += f" {statistics.median(ratios):6.2f}x" if ratios else " " * 8
            text += f" {best['mb']:6.0f}MB" if "mb" in best else " " * 9
            line += f" {text:>26}"
        return line

    def details(self, run: Workload) -> list[str]:
        """The other figures of each backend's best round."""
        lines = []
        for c in self.columns:
            best = self.best(run.name, c.label) or {}
            extra = {k: v for k, v in best.items() if k not in ("per_op", "cpu_per_op", "n", "seconds", "spin", "mb")}
            if extra:
                shown = "  ".join(f"{k}={v:.4g}" for k, v in extra.items())
                lines.append(f"{run.name:14} {c.label:14} {shown}")
        return lines


def measure(columns: list[Column], runs: list[Workload], options: Options, show: Any = None) -> Table:
    """Measure every workload on every backend, round by round. show: called with each line of the table."""
    table = Table(columns)
    for run in runs:
        cells = table.cells[run.name] = {c.label: [] for c in columns}
        for _ in range(options.rounds):
            for c in columns:
                past = cells[c.label]
                if past and ("skip" in past[0] or "error" in past[-1]):
                    continue
                if run.name == "startup":
                    c.close()
                n = max(10, int(run.n * c.backend.scale * options.scale)) if run.scaled else run.n
                past.append(c.ask(run, min(n, c.backend.limits.get(run.name, n))))
                if "error" in past[-1]:
                    print(f"{run.name} {c.label}: {past[-1]['error']}", file=sys.stderr)
        if show:
            show(table.row(run))
    for c in columns:
        c.close()
    return table


def main() -> int:
    """The command line. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--backend",
        default="plain,tpe,queue,asyncio",
        help="comma-separated NAME or NAME@PYTHON; names: " + ", ".join(BACKENDS),
    )
    parser.add_argument("--workload", default="*", help="comma-separated patterns of workload names (default: all)")
    parser.add_argument("--rounds", type=int, default=Options.rounds, help="number of rounds (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=Options.scale, help="multiply the size of every workload")
    parser.add_argument("--timeout", type=float, default=Options.timeout, help="seconds for one measurement")
    parser.add_argument("--path", default=Options.path, help="the folder from which the workers import miniray")
    parser.add_argument(
        "--ray-python",
        default=os.environ.get("RAY_PYTHON", Options.ray_python),
        help="a Python that has Ray installed (default: $RAY_PYTHON or python3)",
    )
    parser.add_argument(
        "--pin",
        action="store_true",
        help="all threads on one CPU: then round trips do not depend on where the kernel places them",
    )
    parser.add_argument("--json", type=pathlib.Path, help="write all measurements to this file")
    parser.add_argument("--list", action="store_true", help="list the workloads, and measure nothing")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        worker(asked.worker)
    if asked.pin:
        if not hasattr(os, "sched_setaffinity"):
            parser.error("--pin needs os.sched_setaffinity, which this system does not have")
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the processes that measure inherit it
    if asked.list:
        for run in WORKLOADS.values():
            print(f"{run.name:14} n={run.n:<9} peer={run.peer:18} {run.about}")
        return 0
    options = Options(asked.rounds, asked.scale, asked.timeout, asked.path, asked.ray_python)
    patterns = asked.workload.split(",")
    runs = [w for w in WORKLOADS.values() if any(fnmatch.fnmatch(w.name, p) for p in patterns)]
    columns = [Column(spec, options) for spec in asked.backend.split(",")]
    print(
        f"python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.rounds} "
        "rounds: best time per operation, median ratio to the peer, memory added"
    )
    print(f"{'workload':14}" + "".join(f" {c.label:>26}" for c in columns), flush=True)
    table = measure(columns, runs, options, show=lambda line: print(line, flush=True))
    print()
    for run in runs:
        for line in table.details(run):
            print(line)
    if asked.json:
        found = {"python": sys.version, "load": os.getloadavg(), "results": table.cells}
        asked.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
