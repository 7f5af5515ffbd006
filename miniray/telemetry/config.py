"""What `init(telemetry=...)` takes: the name of a file, or a `TelemetryConfig`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Union

from ..options.telling import tell_once

VARIABLE = "MINIRAY_TELEMETRY"  # the file to record into, for a program whose `init` names none
OTLP_VARIABLE = "MINIRAY_OTLP"  # "1" or an endpoint: export, for a program whose `init` does not say
OFF = "", "0", "false", "no", "off"  # what either variable means by nothing


@dataclass(frozen=True)
class TelemetryConfig:
    """How a session is recorded and exported.

        init(telemetry=TelemetryConfig("run.db", retention_secs=600))

    path: the file, an SQLite database; "~" at its beginning is the user's home. If it holds an earlier recording, the
    new one replaces it. None: the session is not recorded. retention_secs: what ended longer ago than this is removed
    from the file, and counted in its table `dropped`; 0 keeps everything, and so does a time that began before 1970. A
    simulated session, whose time is virtual, keeps everything, too. snapshot_interval_secs: how often the file gets a
    picture of all objects, nodes and metrics, besides the one at the end; 0: only that one. include_dashboard,
    dashboard_port: as in Monarch; accepted without effect, since there is no dashboard yet.

    otlp: True exports metrics, traces and logs to a collector of OpenTelemetry, as the variables OTEL_EXPORTER_OTLP_...
    say (by default to http://localhost:4318); a URL is the collector's, in place of OTEL_EXPORTER_OTLP_ENDPOINT. None
    asks the variable MINIRAY_OTLP, which has one of the two. The variables OTEL_... alone export nothing.

    Raises TypeError and ValueError for arguments of the wrong type or value.
    """

    path: Union[str, "os.PathLike[str]", None] = None
    retention_secs: float = 3600
    snapshot_interval_secs: float = 30.0
    include_dashboard: bool = False
    dashboard_port: int = 8265
    otlp: Union[bool, str, None] = None

    def __post_init__(self) -> None:
        if self.path is not None:
            if not isinstance(self.path, (str, os.PathLike)):
                raise TypeError(f"path must be the name of a file, not {self.path!r}")
            name = os.fspath(self.path)
            if not isinstance(name, str):
                raise TypeError(f"path must be a str or a path, not {self.path!r}")
            if not name or "\0" in name:
                raise ValueError(f"path must be the name of a file, not {name!r}")
            object.__setattr__(self, "path", os.path.expanduser(name))
        for setting in "retention_secs", "snapshot_interval_secs":
            value = getattr(self, setting)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise TypeError(f"{setting} must be a number of seconds, not {value!r}")
            if not 0 <= value <= sys.float_info.max:
                raise ValueError(f"{setting} must be zero or more seconds, not {shown_number(value)}")
        if not isinstance(self.include_dashboard, bool):
            raise TypeError(f"include_dashboard must be True or False, not {self.include_dashboard!r}")
        if isinstance(self.dashboard_port, bool) or not isinstance(self.dashboard_port, int):
            raise TypeError(f"dashboard_port must be a whole number, not {self.dashboard_port!r}")
        if not 0 <= self.dashboard_port <= 65535:
            raise ValueError(f"dashboard_port must be from 0 to 65535, not {shown_number(self.dashboard_port)}")
        if self.otlp is not None and not isinstance(self.otlp, (bool, str)):
            raise TypeError(f"otlp must be True, False or the URL of a collector, not {self.otlp!r}")
        if isinstance(self.otlp, str):
            _check_endpoint(self.otlp, "otlp")
        if self.include_dashboard:
            tell_once("the argument 'include_dashboard' of TelemetryConfig")


def config_of(given: Any, environ: Mapping[str, str]) -> TelemetryConfig | None:
    """What to record and to export, for the argument `telemetry` of `init`; None for nothing.

    given: None asks the variables MINIRAY_TELEMETRY and MINIRAY_OTLP; False means nothing, whatever they say. Raises
    TypeError and ValueError for anything but a name, a path and a TelemetryConfig.
    """
    if given is False:
        return None
    if given is None:
        named = environ.get(VARIABLE, "").strip()
        given = TelemetryConfig(None if named.lower() in OFF else named)
    elif not isinstance(given, TelemetryConfig):
        if not isinstance(given, (str, os.PathLike)):
            raise TypeError(f"telemetry takes the name of a file or a TelemetryConfig, not {given!r}")
        given = TelemetryConfig(given)
    if given.otlp is None:
        given = replace(given, otlp=_otlp_of(environ.get(OTLP_VARIABLE, "").strip()))
    return given if given.path is not None or given.otlp else None


def _otlp_of(text: str) -> bool | str:
    """What MINIRAY_OTLP asks for."""
    if text.lower() in OFF:
        return False
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    _check_endpoint(text, OTLP_VARIABLE)
    return text


def _check_endpoint(text: str, name: str) -> None:
    from .export.settings import endpoint_of  # only a session that is exported needs it

    endpoint_of(text, name)


def shown_number(value: Any) -> str:
    """A number that was refused, for the text of an error. `repr` refuses an int of more than 4,300 digits."""
    if isinstance(value, int) and abs(value) >> 1024:
        return f"a number of more than {1024 * 3 // 10} digits"
    return repr(value)
