"""Object stores in a running session: capacity, eviction, spilling to files, reading back, and failures of these."""

from __future__ import annotations

import errno
import os
import pickle
import platform
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import miniray as ray
from miniray.core.records import READY, SPILLED
from miniray.experimental.locations import get_object_locations
from miniray.process import context
from miniray.testing import faults
from tests.interpreter import frees_memory
from tests.runtime.several_nodes import LARGE, blob, cluster, core, settle, store_of

MB = 1_000_000


@pytest.fixture
def session() -> Iterator[None]:
    """One node whose store holds five values of LARGE bytes."""
    ray.init(num_cpus=2, object_store_memory=5 * LARGE + 1000, log_to_driver=False)
    yield
    ray.shutdown()


def stats() -> dict[str, int]:
    """The counters of the head node's store."""
    return context.running().head.store.stats()


def folder() -> Path:
    """The folder of the session's spilled values."""
    return Path(context.running().spill.path)


def put(number: int, size: int = LARGE) -> ray.ObjectRef:
    """A large value that differs from others."""
    return ray.put(bytes([number]) * size)


def there(refs: list) -> list[bool]:
    """Whether each of the values is in memory."""
    return [ref._record.status is READY for ref in refs]


# ---------------------------------------------------------------- what is in a store


def test_a_small_value_is_in_no_store(session):
    """It stays with its owner, as in Ray's in-process store. A large value counts with its bytes."""
    small, large = ray.put(b"x" * 50_000), put(1)
    assert small._record.locations is None and large._record.locations is not None
    assert (stats()["num_objects"], stats()["used_bytes"] // LARGE, stats()["capacity_bytes"]) == (
        1,
        1,
        5 * LARGE + 1000,
    )


def test_a_value_without_references_leaves_the_store(session):
    """When its last reference is dropped."""
    ref = put(1)
    del ref
    settle()
    assert stats()["num_objects"] == stats()["used_bytes"] == 0 and stats()["created"] == 1


def test_the_least_recently_used_is_spilled_first(session):
    """Using a value keeps it in memory for a while longer."""
    refs = [put(number) for number in range(5)]
    ray.get(refs[0])
    more = [put(5), put(6)]
    assert there(refs + more) == [True, False, False, True, True, True, True]
    assert (stats()["spilled"], stats()["num_objects"]) == (2, 5)


def test_copies_go_before_anything_is_spilled():
    """If another node has a copy as well, dropping one costs nothing."""
    with cluster(head_cpus=1, object_store_memory=5 * LARGE + 1000) as nodes:
        node = nodes.add_node(num_cpus=1, resources={"far": 1}, object_store_memory=5 * LARGE + 1000)
        far = [blob.options(resources={"far": 0.1}).remote() for _ in range(2)]
        ray.get(far)
        head = store_of(nodes.head_node)
        assert head.stats()["num_objects"] == head.stats()["transferred"] == 2
        own = [put(number) for number in range(5)]
        assert there(own) == [True] * 5 and there(far) == [True] * 2
        assert (head.stats()["evicted"], head.stats()["spilled"], store_of(node).stats()["num_objects"]) == (2, 0, 2)


# ---------------------------------------------------------------- spilled, and back


class Opaque:
    """A value that goes through pickle, with a reference inside."""

    def __init__(self, payload: bytes, inner: ray.ObjectRef):
        self.payload, self.inner = payload, inner


@pytest.mark.parametrize(
    "value",
    [b"b" * LARGE, "s" * LARGE, (1, "t" * LARGE), ["l" * LARGE, {"k": 1}], bytearray(b"a" * LARGE)],
    ids=lambda v: type(v).__name__,
)
def test_a_spilled_value_comes_back_as_it_was(session, value):
    """Whatever kind of value it is."""
    ref = ray.put(value)
    others = [put(number) for number in range(5)]
    assert ref._record.status is SPILLED
    assert ray.get(ref) == value
    assert ref._record.status is READY and stats()["restored"] == 1 and len(others) == 5


def test_an_array_that_was_spilled_is_aligned_again(session):
    """And read-only. The other buffers of the value come back as the bytes that they were."""
    numpy = pytest.importorskip("numpy")
    ref = ray.put([numpy.arange(LARGE // 8), pickle.PickleBuffer(bytearray(b"other"))])
    others = [put(number) for number in range(5)]
    assert ref._record.status is SPILLED and len(others) == 5
    array, other = ray.get(ref)
    assert array.ctypes.data % 64 == 0 and not array.flags.writeable and array[-1] == LARGE // 8 - 1
    assert other == b"other" and stats()["restored"] == 1


def test_references_inside_a_spilled_value_stay_valid(session):
    """The references are held by the object's record, not by the file."""
    ref = ray.put(Opaque(b"o" * LARGE, ray.put("inner")))
    others = [put(number) for number in range(5)]
    assert ref._record.status is SPILLED and len(others) == 5
    assert ray.get(ray.get(ref).inner) == "inner"


def test_a_task_takes_more_than_the_store_holds(session):
    """Its arguments are read back one by one; they need not be in memory at the same time."""
    refs = [put(number) for number in range(12)]

    @ray.remote
    def first_bytes(*values):
        return [value[0] for value in values]

    assert ray.get(first_bytes.remote(*refs)) == list(range(12))
    assert stats()["used_bytes"] <= stats()["capacity_bytes"]


def test_get_returns_a_list_of_values_larger_than_the_store(session):
    """get returns what it has read, and does not need all values in memory at the same time."""
    refs = [put(number) for number in range(12)]
    assert [value[0] for value in ray.get(refs)] == list(range(12))


def test_a_value_larger_than_the_store_stays_in_a_file(session):
    """Ray: fallback allocation. Other values are not spilled to make room for it, and each reader reads the file."""
    small = put(1)
    huge = put(2, 8 * LARGE)
    assert huge._record.status is SPILLED and there([small]) == [True]
    assert len(ray.get(huge)) == len(ray.get(huge)) == 8 * LARGE and huge._record.status is SPILLED
    assert (stats()["fallback"], stats()["restored"], stats()["num_objects"]) == (1, 2, 1)

    @ray.remote
    def size(value):
        return len(value)

    assert ray.get(size.remote(huge)) == 8 * LARGE


def test_a_spilled_value_counts_as_ready(session):
    """wait does not read the value back."""
    refs = [put(number) for number in range(7)]
    assert len(ray.wait(refs, num_returns=7, timeout=0)[0]) == 7
    assert stats()["restored"] == 0


def test_many_readers_of_one_spilled_value_all_get_it(session):
    """One of the readers puts it back into memory; no reader loses it to another."""
    ref = put(7)
    others = [put(number) for number in range(5)]
    start, found = threading.Barrier(8), []

    def read():
        start.wait()
        found.append(ray.get(ref)[0])

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [7] * 8 and len(others) == 5


def test_ten_times_the_capacity_goes_through_a_store(session):
    """The store is never over its capacity after a value has been stored, and every value is unchanged."""
    refs = []
    for number in range(50):
        refs.append(put(number))
        assert stats()["used_bytes"] <= stats()["capacity_bytes"]
    assert all(ray.get(ref)[0] == number for number, ref in enumerate(refs))
    assert stats()["peak_bytes"] <= stats()["capacity_bytes"]


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="memory is measured in /proc, and is glibc's to give back"
)
@frees_memory
def test_memory_stays_near_the_capacity_when_ten_times_as_much_goes_through():
    """Two workers make the values and the driver reads them. Each thread's heap used to keep as much free memory as the
    store's capacity."""
    program = """
import os, sys
import miniray as ray

CAPACITY, SIZE = 16_000_000, 400_000

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

@ray.remote
def make(number):
    return bytes([number % 256]) * SIZE

ray.init(num_cpus=2, object_store_memory=CAPACITY, log_to_driver=False, object_spilling_directory=sys.argv[1])
ray.get([make.remote(0), make.remote(1)])
before = resident()
refs = [make.remote(number) for number in range(10 * CAPACITY // SIZE)]
ray.wait(refs, num_returns=len(refs))
for number, ref in enumerate(refs):
    assert ray.get(ref)[0] == number % 256
print((resident() - before) / CAPACITY)
"""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as quick:
        done = subprocess.run(
            [sys.executable, "-c", program, quick], capture_output=True, text=True, cwd=Path(__file__).parents[2]
        )
        assert os.listdir(quick) == []
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.3


# ---------------------------------------------------------------- files


def test_only_the_user_can_read_spilled_values(session):
    """Values may be secret, so only the user can enter the folder."""
    refs = [put(number) for number in range(7)]
    assert stat.S_IMODE(folder().stat().st_mode) == 0o700
    assert len(list(folder().iterdir())) == 2 and len(refs) == 7


def test_a_file_is_removed_with_its_value(session):
    """When the last reference is dropped, not earlier: a value that is back in memory may have to be spilled again."""
    refs = [put(number) for number in range(7)]
    ray.get(refs[0])  # two are spilled; this value is restored and another is spilled
    assert len(list(folder().iterdir())) == 3 and there(refs).count(False) == 2
    refs.clear()
    settle()
    assert list(folder().iterdir()) == []


def test_a_value_is_written_once_however_often_it_is_read_back(session):
    """As in Ray: a program that goes through more values than fit reads again and again, but writes only once."""
    refs = [put(number) for number in range(7)]
    for _ in range(3):
        assert [ray.get(ref)[0] for ref in refs] == list(range(7))
    assert stats()["spilled"] == 7 and stats()["restored"] == 21
    assert all(row["did_spill"] for row in get_object_locations(refs).values())


def test_reading_and_dropping_values_writes_nothing(session):
    """Dropped values are released before others are spilled. Each value that was read used to push out another."""
    refs = [put(number) for number in range(20)]
    spilled = stats()["spilled"]
    for number in range(20):
        assert ray.get(refs[number])[0] == number
        refs[number] = None
    assert (spilled, stats()["spilled"]) == (15, 16)


def test_the_folder_is_gone_after_shutdown():
    """With everything in it."""
    ray.init(num_cpus=1, object_store_memory=2 * LARGE, log_to_driver=False)
    refs = [put(number) for number in range(4)]
    where = folder()
    assert where.exists() and len(refs) == 4
    ray.shutdown()
    assert not where.exists()


def test_the_folder_is_made_where_init_says(tmp_path):
    """object_spilling_directory is Ray's name for the option."""
    ray.init(
        num_cpus=1, object_store_memory=2 * LARGE, log_to_driver=False, object_spilling_directory=str(tmp_path / "here")
    )
    refs = [put(number) for number in range(4)]
    assert folder().parent == tmp_path / "here" and len(refs) == 4
    ray.shutdown()
    assert list((tmp_path / "here").iterdir()) == []


def test_the_folder_is_gone_after_an_exception(tmp_path):
    """Even if the program ends with an error and never calls shutdown."""
    program = f"""
import miniray as ray
ray.init(num_cpus=1, object_store_memory={2 * LARGE}, object_spilling_directory={str(tmp_path)!r})
refs = [ray.put(bytes({LARGE})) for _ in range(5)]
import os
print(len(os.listdir({str(tmp_path)!r})), flush=True)
raise RuntimeError("the program fails")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 1 and "the program fails" in done.stderr
    assert done.stdout.strip() == "1" and os.listdir(tmp_path) == []


def test_no_folder_is_made_by_a_thread_that_is_late():
    """A value that is being spilled while the session ends leaves nothing behind."""
    ray.init(num_cpus=1, object_store_memory=2 * LARGE, log_to_driver=False)
    spill = context.running().spill
    refs = [put(number) for number in range(4)]
    ray.shutdown()
    with pytest.raises(OSError):
        spill.write(1, b"late")
    assert spill.path is None and len(refs) == 4


# ---------------------------------------------------------------- when it fails


def test_a_value_that_cannot_be_spilled_stays_in_memory(session):
    """The store is over its capacity for a while. The next time room is needed, the write is retried."""
    refs = [put(number) for number in range(5)]
    with faults.fail_spill(times=2) as fault:  # one before the value is stored, one when the store is over its capacity
        refs.append(put(5))
        assert fault.count == 2 and there(refs) == [True] * 6 and stats()["spill_failures"] == 2
        refs.append(put(6))
    assert there(refs).count(False) == 2 and stats()["used_bytes"] <= stats()["capacity_bytes"]
    assert [value[0] for value in ray.get(refs)] == list(range(7))
    assert "spill_failed" in [event.kind for event in core().events]


def test_a_full_disk_is_an_error_for_the_code_that_stores(session):
    """put raises OutOfDiskError, and so does a task that returns a large value. Stored values can still be read."""
    refs = [put(number) for number in range(5)]
    with faults.fail_spill(times=None, error=OSError(errno.ENOSPC, "No space left on device")):
        with pytest.raises(ray.exceptions.OutOfDiskError):
            put(5)
        with pytest.raises(ray.exceptions.OutOfDiskError):
            ray.get(blob.remote())
        assert [value[0] for value in ray.get(refs)] == list(range(5))
    assert ray.get(put(6))[0] == 6  # now the disk has space again


def test_a_full_store_is_an_error_for_the_code_that_stores(session):
    """put, a task and a generator raise ObjectStoreFullError; small values are still stored."""

    @ray.remote(num_returns="streaming")
    def stream():
        yield b"small"
        yield bytes(LARGE)

    with faults.full_store() as fault:
        with pytest.raises(ray.exceptions.ObjectStoreFullError):
            put(1)
        with pytest.raises(ray.exceptions.ObjectStoreFullError):
            ray.get(blob.remote())
        small, failed = stream.remote()
        assert ray.get(small) == b"small" and ray.get(ray.put("small")) == "small"
        with pytest.raises(ray.exceptions.ObjectStoreFullError):
            ray.get(failed)
        assert fault.count == 1
    assert ray.get(put(1))[0] == 1


def test_a_file_that_cannot_be_read_is_a_lost_value(session):
    """A task's result is rebuilt; a value that was put is lost."""
    made, kept = blob.remote(), put(1)
    ray.get(made)
    others = [put(number) for number in range(5)]
    assert there([made, kept]) == [False, False] and len(others) == 5
    for file in folder().iterdir():
        file.write_bytes(b"")
    assert len(ray.get(made)) == LARGE and made._record.task.attempt == 1
    with pytest.raises(ray.exceptions.ObjectLostError):
        ray.get(kept)
    assert "restore_failed" in [event.kind for event in core().events]


def test_a_slow_disk_delays_and_changes_nothing(session):
    """When the writes are over, the values are where they belong."""
    with faults.delay_spill(0.001) as fault:
        refs = [put(number) for number in range(8)]
    assert fault.count == 3 and [value[0] for value in ray.get(refs)] == list(range(8))
