"""Facts about the running Python interpreter on which tests depend."""

from __future__ import annotations

import sys
import sysconfig

import pytest

WITHOUT_GIL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

frees_memory = pytest.mark.skipif(
    WITHOUT_GIL and sys.version_info < (3, 14),
    reason="Python 3.13 without the GIL keeps every class and function forever once a second thread has started, and "
    "its allocator keeps the memory of threads that have ended",
)
