"""What the operating system says about this machine and this process: the metrics `ray_node_*` and `ray_component_*`.

Linux's /proc and /sys answer nearly everything. On another system only what `os` knows is exported. Whatever cannot be
read has no metric: a zero would be a wrong answer. Ray: dashboard/modules/reporter/reporter_agent.py.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
LEAST_S = 1.0  # over which a speed is measured, unless the process is younger
SECTOR = 512  # bytes; the unit of /proc/diskstats on every machine
CGROUP_FILES = (  # bytes in use and the limit, in both versions of cgroups
    ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.max"),
    ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class Counters(NamedTuple):
    """What only grows, at one moment. Speeds are differences between two of these."""

    at: float
    busy: float  # seconds of all CPUs
    total: float  # seconds of all CPUs, idle ones too
    own: float  # CPU seconds of this process
    disk: tuple[int, int, int, int]  # bytes read, bytes written, reads, writes
    network: tuple[int, int]  # bytes sent, bytes received


def counters() -> Counters:
    """Read them now."""
    times = os.times()
    busy, total = _cpu_seconds()
    return Counters(time.monotonic(), busy, total, times.user + times.system, _disk(), _network())


class Host:
    """This machine and this process. Speeds are those since the look before, or since an earlier one: several readers
    may look at the same moment, and a speed over a moment means nothing."""

    def __init__(self) -> None:
        self._before = self._last = counters()

    def node(self) -> Iterator[tuple[str, str, float]]:
        """(name without `ray_node_`, help text, value) of each metric of the machine, then of the process."""
        now = counters()
        if now.at - self._last.at >= LEAST_S:
            self._before, self._last = self._last, now
        before = self._before
        seconds = max(now.at - before.at, 1e-3)
        if now.total > before.total:
            busy = (now.busy - before.busy) / (now.total - before.total)
            yield "node_cpu_utilization", "How busy the machine's CPUs are, in percent.", 100 * busy
        elif now.total:
            yield "node_cpu_utilization", "How busy the machine's CPUs are, in percent.", 0.0
        yield "node_cpu_count", "CPUs of the machine.", float(os.cpu_count() or 1)
        yield from _memory()
        for number, (name, text) in enumerate(
            (("read", "read from disks"), ("write", "written to disks")) if now.disk[0] or now.disk[1] else ()
        ):
            size, count = now.disk[number], now.disk[number + 2]
            per_second = (count - before.disk[number + 2]) / seconds
            yield f"node_disk_io_{name}", f"Bytes {text} since the machine started.", size
            yield f"node_disk_io_{name}_count", f"How often the machine has {text}.", count
            yield f"node_disk_io_{name}_speed", f"Bytes {text}, per second.", (size - before.disk[number]) / seconds
            yield f"node_disk_{name}_iops", f"How often the machine has {text}, per second.", per_second
        yield from _disk_space()
        for number, (name, speed) in enumerate((("sent", "send"), ("received", "receive"))):
            size = now.network[number]
            yield f"node_network_{name}", f"Bytes {name} on all networks since the machine started.", size
            # Ray's dashboards take the names of all sessions from the speed, so it exists even where nothing can be
            # read.
            per_second = (size - before.network[number]) / seconds
            yield f"node_network_{speed}_speed", f"Bytes {name} on all networks, per second.", per_second
        yield (
            "component_cpu_percentage",
            "CPU time of the process, in percent of one CPU.",
            100 * (now.own - before.own) / seconds,
        )
        yield from _process()


def driver_name() -> str:
    """What Ray calls the driver's process: the program by which it was started."""
    return sys.executable or "python"


def _lines(path: str) -> list[str]:
    """The lines of a file; none if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _cpu_seconds() -> tuple[float, float]:
    """(busy, all) seconds of all CPUs since the machine started; zeros if that is not known."""
    for line in _lines("/proc/stat")[:1]:
        numbers = [int(word) / TICKS for word in line.split()[1:9]]
        if len(numbers) >= 5:
            return sum(numbers) - numbers[3] - numbers[4], sum(numbers)
    return 0.0, 0.0


def _disk() -> tuple[int, int, int, int]:
    found = [0, 0, 0, 0]
    for line in _lines("/proc/diskstats"):
        words = line.split()
        # A partition is counted with its disk: only the disks are in /sys/block.
        if len(words) > 9 and not words[2].startswith(("loop", "ram")) and os.path.exists(f"/sys/block/{words[2]}"):
            for place, number in enumerate(
                (int(words[5]) * SECTOR, int(words[9]) * SECTOR, int(words[3]), int(words[7]))
            ):
                found[place] += number
    return found[0], found[1], found[2], found[3]


def _disk_space() -> Iterator[tuple[str, str, float]]:
    try:
        disk = shutil.disk_usage("/")
    except OSError:
        return
    yield "node_disk_usage", "Bytes in use on the disk.", disk.used
    yield "node_disk_free", "Bytes free on the disk.", disk.free
    yield "node_disk_utilization_percentage", "How full the disk is, in percent.", 100 * disk.used / disk.total


def _network() -> tuple[int, int]:
    sent = received = 0
    for line in _lines("/proc/net/dev")[2:]:
        name, colon, rest = line.partition(":")
        numbers = rest.split()
        if colon and len(numbers) > 8 and name.strip() != "lo":
            received, sent = received + int(numbers[0]), sent + int(numbers[8])
    return sent, received


def _memory() -> Iterator[tuple[str, str, float]]:
    found = {}
    for line in _lines("/proc/meminfo"):
        name, _, rest = line.partition(":")
        words = rest.split()
        if words:
            found[name] = int(words[0]) * 1024
    total = found.get("MemTotal", PAGE * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0)
    if not total:
        return
    limits = _cgroup()
    if "MemAvailable" in found:
        used = total - found["MemAvailable"]
        yield "node_mem_used_host", "Bytes of memory in use on the machine.", used
        seen_total = min(total, limits[1]) if limits else total
        seen_used = limits[0] if limits and limits[1] < total else used
        yield "node_mem_used", "Bytes of memory in use, of the container if there is one.", seen_used
        yield "node_mem_available", "Bytes of memory that are available.", max(0, seen_total - seen_used)
        yield "node_mem_total", "Bytes of memory, of the container if there is one.", seen_total
    if "Shmem" in found:
        yield "node_mem_shared_bytes", "Bytes of shared memory.", found["Shmem"]
    yield "node_mem_total_host", "Bytes of memory of the machine.", total
    if limits:
        yield "node_cgroup_mem_used", "Bytes of memory in use in the container.", limits[0]
        yield "node_cgroup_mem_total", "Bytes of memory that the container may use.", limits[1]


def _cgroup() -> tuple[int, int] | None:
    """Bytes in use, and the limit; None without a limit."""
    for used, limit in CGROUP_FILES:
        words = [*_lines(used)[:1], *_lines(limit)[:1]]
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]) < 1 << 60:
            return int(words[0]), int(words[1])
    return None


def _process() -> Iterator[tuple[str, str, float]]:
    for line in _lines("/proc/self/statm")[:1]:
        words = line.split()
        resident, shared = int(words[1]) * PAGE, int(words[2]) * PAGE
        unique = sum(
            int(line.split()[1]) * 1024 for line in _lines("/proc/self/smaps_rollup") if line.startswith("Private_")
        )
        yield "component_rss_bytes", "Bytes of memory of the process.", resident
        yield "component_rss_mb", "Megabytes of memory of the process.", resident / 1e6
        yield "component_shared_bytes", "Bytes of memory that the process may share with others.", shared
        if unique:
            yield "component_uss_bytes", "Bytes of memory that only the process uses.", unique
            yield "component_uss_mb", "Megabytes of memory that only the process uses.", unique / 1e6
    if os.path.isdir("/proc/self/fd"):
        yield "component_num_fds", "Open files of the process.", len(os.listdir("/proc/self/fd"))


host = Host()
"""Made at the first import, so the first speeds are those since then."""
