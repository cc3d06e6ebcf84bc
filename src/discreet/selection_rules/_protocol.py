"""What is known of a candidate when one is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from discreet._types import Float
from discreet.estimate import Estimate

__all__ = ["Candidate", "SelectionRule"]


@dataclass(frozen=True)
class Candidate:
    """A model that might go on.

    Attributes:
        name: How it came about: ``"magnitude+random"``.
        task: Task performance, higher is better.
        leak: What the safety test found, higher leaks more.
        error: Standard error of that.
        r: The indicator of its trajectory, higher is safer; None where no rule needs it.
    """

    name: str
    task: Estimate
    leak: float
    error: float
    r: float | None = None


@runtime_checkable
class SelectionRule(Protocol):
    """Which of several candidates goes on: one frozen dataclass a file."""

    @property
    def needs(self) -> frozenset[str]:
        """What it reads: of ``leak`` and ``r``. What no rule reads is measured for the record only."""
        ...

    def worth(
        self, candidates: Sequence[Candidate], draw: np.random.Generator
    ) -> Float[np.ndarray, " candidate"]:
        """One number a candidate; the highest goes on, of equals the first.

        Args:
            candidates: In their fixed order.
            draw: For rules that draw lots.
        """
        ...
