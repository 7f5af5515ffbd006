"""What a test has to know of the Python that runs it."""

from __future__ import annotations

import sys
import sysconfig

import pytest

WITHOUT_GIL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

frees_memory = pytest.mark.skipif(
    WITHOUT_GIL and sys.version_info < (3, 14),
    reason="Python 3.13 without the GIL keeps every class and function for ever once a second thread was started, and its "
    "allocator keeps the memory of threads that have ended",
)
