"""Prepared runs: each writes a trace, trace.json, and a page, page.html, to the folder that it is given.

python -m tests.judges.prepared NAME FOLDER
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import miniray as ray
from miniray.cluster_utils import Cluster
from miniray.util.metrics import Counter, Gauge, Histogram

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "\"quoted\" 'single' `back` ${x} {{STYLE}} {{DATA}}",
    "two\nlines\r\nand\ta tab",
    "\u202egnp.exe\u202c \u2066apart\u2069",
    "\x1b[31mred\x1b[0m \x1b[2J \x07 \x00 \x9b",
    "L" * 600,
    "\u8a08\u7b97 \u05e9\u05dc\u05d5\u05dd \U0001f9d1\u200d\U0001f680",
    "\u2028\u2029\u200b",
    "<!-- comment --> ]]> <![CDATA[ &amp;",
    "--flag=; #,=|\\%s%d",
]


def demo() -> None:
    """The run of `miniray demo`, in small: tasks, retries, an actor, joins, values."""
    ray.init(num_cpus=4, log_to_driver=False)

    @ray.remote
    def load(number: int) -> bytes:
        time.sleep(0.002)
        return bytes(1000 + number)

    @ray.remote(max_retries=2, retry_exceptions=[ConnectionError])
    def clean(data: bytes, seen: list[Any]) -> int:
        with ray.profile("clean"):
            time.sleep(0.001)
        return len(data)

    @ray.remote
    def total(*parts: int) -> int:
        return sum(parts)

    @ray.remote
    class Counter:
        def __init__(self) -> None:
            self.sum = 0

        def add(self, number: int) -> int:
            self.sum += number
            return self.sum

    counter = Counter.remote()
    for _ in range(5):
        with ray.profile("round"):
            cleaned = [clean.remote(load.remote(number), []) for number in range(20)]
            ray.get(counter.add.remote(total.remote(*cleaned)))


def hostile() -> None:
    """Names that try to end a string, an element or a line; coroutines, nested tasks, several nodes and threads."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4})
    cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False)

    @ray.remote
    def work(number: int) -> int:
        if number % 5 == 0:
            raise ValueError(HOSTILE[number % len(HOSTILE)])
        return number

    @ray.remote
    def nested(depth: int) -> int:
        if not depth:
            with ray.profile("leaf <b>", extra_data={"k<": "</script>"}):
                time.sleep(0.001)
            return 1
        return sum(ray.get([nested.remote(depth - 1) for _ in range(2)]))

    @ray.remote
    class Async:
        async def call(self, number: int) -> int:
            await asyncio.sleep(0.001 + number % 7 * 0.0005)
            return number

    @ray.remote(max_concurrency=3)
    class Threads:
        def call(self, number: int) -> int:
            time.sleep(0.001)
            return number

    @ray.remote
    def measured(number: int) -> None:
        Counter("rows", "</table>", ("kind",)).inc(1 + number, {"kind": "</script> --> <b>"})
        Histogram("milliseconds", "how long", [1, 10]).observe(number % 13)
        Gauge("level").set(float("nan") if number == 5 else number)

    fetcher = Async.options(name=HOSTILE[1]).remote()
    threads = Threads.remote()
    refs = [work.options(name=HOSTILE[number % len(HOSTILE)]).remote(number) for number in range(60)]
    refs += [
        nested.remote(4),
        *(fetcher.call.remote(n) for n in range(60)),
        *(threads.call.remote(n) for n in range(20)),
        *(measured.remote(n) for n in range(20)),
    ]

    def spans() -> None:
        for name in HOSTILE:
            with ray.profile(name), ray.profile("inner"):
                time.sleep(0.0007)
            ray.get(work.remote(1))

    others = [Thread(target=spans) for _ in range(3)]
    for thread in others:
        thread.start()
    ray.wait(refs, num_returns=len(refs))
    for thread in others:
        thread.join()


def running() -> None:
    """A session in which something runs, something waits for an argument, and something needs what no node has."""
    ray.init(num_cpus=2, log_to_driver=False)
    begun = Event()

    @ray.remote(num_cpus=0)
    class Gate:
        def __init__(self) -> None:
            self.open = asyncio.Event()

        async def wait(self) -> None:
            await self.open.wait()

    @ray.remote
    def short() -> int:
        return 1

    @ray.remote
    def after(value: Any) -> Any:
        return value

    @ray.remote(num_gpus=1)
    def needs_a_gpu() -> None: ...

    gate = Gate.remote()
    ray.get([short.remote() for _ in range(10)])

    @ray.remote
    def blocked() -> Any:
        return ray.get(gate.wait.remote())

    refs = [blocked.remote(), needs_a_gpu.remote(), gate.wait.remote()]
    refs.append(after.remote(refs[0]))
    ray.wait(refs, timeout=0.2)
    begun.set()
    globals()["kept"] = refs, gate


def crashes() -> None:
    """Workers and actors that die, are restarted, are killed and are called after their death."""
    ray.init(num_cpus=2, log_to_driver=False)

    @ray.remote(max_retries=1)
    def crash(number: int) -> int:
        if number % 3 == 0:
            os._exit(3)
        return number

    @ray.remote(max_restarts=1, max_task_retries=1)
    class Dies:
        def die(self) -> None:
            os._exit(1)

        def live(self) -> int:
            return 1

    @ray.remote
    class Bad:
        def __init__(self) -> None:
            raise RuntimeError("no")

    dies, bad = Dies.remote(), Bad.remote()
    refs = [crash.remote(number) for number in range(12)]
    refs += [dies.live.remote(), dies.die.remote(), dies.live.remote(), bad.__ray_ready__.remote()]
    ray.wait(refs, num_returns=len(refs))


def many(tasks: int = 100_000) -> None:
    """A hundred thousand tasks: a third joins of two, a third with a name for each call."""
    ray.init(num_cpus=4, log_to_driver=False)

    @ray.remote
    def one(number: int) -> int:
        return number

    @ray.remote
    def join(first: int, second: int) -> int:
        return first + second

    refs = [one.remote(number) for number in range(tasks // 3)]
    refs += [join.remote(refs[number], refs[number - 1]) for number in range(tasks // 3)]
    refs += [one.options(name=f"named {number % 50}").remote(number) for number in range(tasks - len(refs))]
    ray.wait(refs, num_returns=len(refs))


def empty() -> None:
    """A session that ran nothing."""
    ray.init(num_cpus=1, log_to_driver=False)


RUNS: dict[str, Callable[[], None]] = {
    "demo": demo,
    "hostile": hostile,
    "running": running,
    "crashes": crashes,
    "many": many,
    "empty": empty,
}


def main(name: str, folder: Path) -> None:
    """Do a run and write its files. Prints how long that took."""
    RUNS[name]()
    for filename in ("trace.json", "trace.json.gz", "page.html"):
        began = time.perf_counter()
        ray.timeline(folder / filename)
        size = (folder / filename).stat().st_size
        print(f"{name}: {filename} {size:,} bytes in {time.perf_counter() - began:.2f} s", flush=True)
    os._exit(0)  # a task that never ends would hold up the end of the session


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
