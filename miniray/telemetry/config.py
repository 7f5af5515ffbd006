"""What `init(telemetry=...)` takes: the name of a file, or a `TelemetryConfig`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

from ..options.telling import tell_once

VARIABLE = "MINIRAY_TELEMETRY"  # the file to record into, for a program whose `init` names none


@dataclass(frozen=True)
class TelemetryConfig:
    """How a session is recorded.

        init(telemetry=TelemetryConfig("run.db", retention_secs=600))

    path: the file, an SQLite database. If it holds an earlier recording, the new one replaces it. None: the session is
    not recorded. retention_secs: what ended longer ago than this is removed from the file, and counted in its table
    `dropped`; 0 keeps everything. snapshot_interval_secs: how often the file gets a picture of all objects, nodes and
    metrics, besides the one at the end; 0: only that one. include_dashboard, dashboard_port: as in Monarch; accepted
    without effect, since there is no dashboard yet.

    Raises TypeError and ValueError for arguments of the wrong type or value.
    """

    path: Union[str, "os.PathLike[str]", None] = None
    retention_secs: float = 3600
    snapshot_interval_secs: float = 30.0
    include_dashboard: bool = False
    dashboard_port: int = 8265

    def __post_init__(self) -> None:
        if self.path is not None:
            if not isinstance(self.path, (str, os.PathLike)):
                raise TypeError(f"path must be the name of a file, not {self.path!r}")
            name = os.fspath(self.path)
            if not isinstance(name, str):
                raise TypeError(f"path must be a str or a path, not {self.path!r}")
            if not name or "\0" in name:
                raise ValueError(f"path must be the name of a file, not {name!r}")
            object.__setattr__(self, "path", name)
        for setting in "retention_secs", "snapshot_interval_secs":
            value = getattr(self, setting)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"{setting} must be a number of seconds, not {value!r}")
            if not 0 <= value < math.inf:
                raise ValueError(f"{setting} must be zero or more seconds, not {value!r}")
        if not isinstance(self.include_dashboard, bool):
            raise TypeError(f"include_dashboard must be True or False, not {self.include_dashboard!r}")
        if isinstance(self.dashboard_port, bool) or not isinstance(self.dashboard_port, int):
            raise TypeError(f"dashboard_port must be a whole number, not {self.dashboard_port!r}")
        if not 0 <= self.dashboard_port <= 65535:
            raise ValueError(f"dashboard_port must be from 0 to 65535, not {self.dashboard_port}")
        if self.include_dashboard:
            tell_once("the argument 'include_dashboard' of TelemetryConfig")


def config_of(given: Any, environ: Mapping[str, str]) -> TelemetryConfig | None:
    """What to record, for the argument `telemetry` of `init`; None for nothing.

    given: None asks the variable MINIRAY_TELEMETRY; False records nothing, whatever the variable says. Raises TypeError
    and ValueError for anything but a name, a path and a TelemetryConfig.
    """
    if given is None:
        given = environ.get(VARIABLE) or False
    if given is False:
        return None
    if isinstance(given, TelemetryConfig):
        return given if given.path is not None else None
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"telemetry takes the name of a file or a TelemetryConfig, not {given!r}")
    return TelemetryConfig(given)
