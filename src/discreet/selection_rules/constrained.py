"""The safest of those that are accurate enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.selection_rules._protocol import Candidate

__all__ = ["Constrained"]


@dataclass(frozen=True)
class Constrained:
    """Lowest leak among the candidates whose task performance is near the best one's.

    Attributes:
        delta: How much below the best is near enough.
    """

    delta: float | int = 0.01

    def __post_init__(self) -> None:
        if not self.delta >= 0:
            raise ValueError(f"delta: expected 0 or more, got {self.delta}")

    @property
    def needs(self) -> frozenset[str]:
        """The leak."""
        return frozenset({"leak"})

    def worth(
        self, candidates: Sequence[Candidate], draw: np.random.Generator
    ) -> Float[np.ndarray, " candidate"]:
        """See ``SelectionRule``."""
        del draw
        best = max(each.task.value for each in candidates)
        return np.array(
            [-each.leak if each.task.value >= best - self.delta else -np.inf for each in candidates]
        )
