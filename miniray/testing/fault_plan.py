"""Fault plans: faults that strike a simulated program at random, decided by the seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FaultPlan:
    """Which faults may strike, and how likely each is."""

    crash: float = 0.0


class Active:
    """A plan at work in one simulation."""

    def __init__(self, plan: FaultPlan, seed: int, simulation: Any):
        self.plan = plan
        self.struck: list[str] = []

    def close(self) -> list[str]:
        """The simulation ends. Returns what struck."""
        return self.struck
