"""Listing the frames of all threads while threads start and the cyclic collector runs."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref

from miniray.runtime.frames import current_frames

PROGRAM = """
import _thread, gc, sys, threading, time
from miniray.runtime.frames import current_frames

sys.setswitchinterval(1e-6)
gc.set_threshold(1, 1, 1)
gc.callbacks.append(lambda phase, info: sum(range(50)))     # code of the program that the collector calls
end = time.monotonic() + 0.3

def start_threads():
    while time.monotonic() < end:
        _thread.start_new_thread(lambda: None, ())

def look():
    while time.monotonic() < end:
        current_frames()

threads = [threading.Thread(target=run) for run in (start_threads, look, look)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(gc.isenabled())
"""


def test_the_collector_does_not_run_while_frames_are_listed():
    """Before 3.12 the collector could run inside the call, and a thread that started at that moment stopped the whole
    process. The collector is on again afterwards, although two threads list frames at the same time."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("True\n", "")


def test_the_collector_stays_as_the_program_has_set_it():
    """It stays off if it was off."""
    assert gc.isenabled() and threading.get_ident() in current_frames() and gc.isenabled()
    gc.disable()
    try:
        current_frames()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_nothing_is_kept():
    """The frames hold the variables of all threads; without the collector they go with the result."""

    class Held:
        pass

    def look():
        held = Held()
        assert threading.get_ident() in current_frames()
        return weakref.ref(held)

    gc.disable()
    try:
        assert look()() is None
    finally:
        gc.enable()
