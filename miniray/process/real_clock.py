"""The real clock, locks and threads, also inside a simulation, which replaces the ones in the standard library.

What waits for something that a simulation does not know of, such as a statement of SQLite, takes these. `context`
imports this module, so that it is loaded before any simulation begins.
"""

from __future__ import annotations

import _thread
import threading
import time

monotonic = time.monotonic
allocate_lock = _thread.allocate_lock
start_new_thread = _thread.start_new_thread
RLock = threading.RLock
