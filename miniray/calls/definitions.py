"""The definition of a function or an actor class that is sent to workers: captured once in a session, and checked
then."""

from __future__ import annotations

import os
import sys

from ..object_ref import hold_contained, out_of_band_is_refused
from ..exceptions import OufOfBandObjectRefSerializationException
from ..runtime.runtime import Runtime
from ..values.serialization import capture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MIB = 1 << 20
WARN_BYTES = 10**7  # Ray: FUNCTION_SIZE_WARN_THRESHOLD
REFUSE_BYTES = 10**8  # Ray: FUNCTION_SIZE_ERROR_THRESHOLD, also the name of the variable that overrides it


class Capture:
    """Captures a function or a class at its first use in a session: code, defaults, closure and used globals.

    Calling it returns what was captured in this session. Raises TypeError if the target refers to a value that cannot
    be serialized, and what `check_definition` raises. When it is finalised, it hands the captured function to the
    runtime, which releases it later.
    """

    __slots__ = ("target", "_captured")

    def __init__(self, target: Any):
        self.target = target
        self._captured: tuple[Any, Any] = (None, None)  # the session's runtime, and what was captured in that session

    def __call__(self, runtime: Runtime) -> Any:
        session, captured = self._captured
        if session is not runtime:
            if "opentelemetry.trace" in sys.modules and getattr(runtime.tracing, "bridge", None) is None:
                from ..telemetry.tracing.bridge import connect  # the program has imported it since `init`

                connect(runtime)
            captured = capture(self.target)
            check_definition(runtime, self.target, captured)
            if runtime.forgotten.captured:
                runtime.release_forgotten()
            hold_contained(runtime, captured)
            if self._captured[0] is runtime:  # another thread captured it first
                return self._captured[1]
            self._captured = runtime, captured
        return captured

    def __del__(self) -> None:
        session, captured = self._captured
        if captured is not None:
            session.forgotten.captured.append(captured)


def check_definition(runtime: Runtime, target: Any, captured: Any) -> None:
    """Warn of a very large function or class, which has captured data by mistake. Raises ValueError for one that is
    larger still, and OufOfBandObjectRefSerializationException for one that refers to objects, if that is switched off.
    """
    if captured.contained and out_of_band_is_refused():
        refs = [record.hex for record in captured.contained if record.actor is None]
        if refs:
            kind = "actor class" if isinstance(target, type) else "function"
            defined = getattr(target, "__ray_actor_class__", target)
            raise OufOfBandObjectRefSerializationException(
                f"Could not serialize the {kind} {defined.__module__}.{defined.__qualname__}: it refers to the object "
                f"{refs[0]}, and RAY_allow_out_of_band_object_ref_serialization=0 forbids that. Pass the reference as "
                "an argument."
            )
    size = captured.size
    if size <= WARN_BYTES:
        return
    name = (
        f"actor {target.__name__}"
        if isinstance(target, type)
        else f"remote function {target.__module__}.{target.__name__}"
    )
    advice = (
        "Check whether it captures a large array or some other large object from the code around it, and pass that as "
        "an argument. Tip: store a large object once with ray.put() and pass the reference."
    )
    limit = _refuse_bytes()
    if size > limit:
        raise ValueError(
            f"The {name} is too large ({size // _MIB} MiB > FUNCTION_SIZE_ERROR_THRESHOLD={limit // _MIB} MiB). "
            f"{advice}"
        )
    runtime.say("WARNING", f"Warning: The {name} is very large ({size // _MIB} MiB). {advice}")


def _refuse_bytes() -> int:
    try:
        return int(os.environ["FUNCTION_SIZE_ERROR_THRESHOLD"])
    except (KeyError, ValueError):
        return REFUSE_BYTES
