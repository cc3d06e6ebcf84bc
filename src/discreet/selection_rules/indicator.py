"""The candidate with the greatest indicator of membership-inference security, found without any attack.

Aubinais et al., "An Indicator of Membership Inference Security in Post-Training Quantized Models", Definition 3.5,
applied to the checkpoints of sparse training. They are no small finite class, so the theorem behind it is silent
here: this is an experiment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.selection_rules._protocol import Candidate

__all__ = ["Indicator"]


@dataclass(frozen=True)
class Indicator:
    """Greatest r among the candidates whose task performance is near the best one's.

    Attributes:
        delta: How much below the best is near enough.
    """

    delta: float | int = 0.01

    def __post_init__(self) -> None:
        if not self.delta >= 0:
            raise ValueError(f"delta: expected 0 or more, got {self.delta}")

    @property
    def needs(self) -> frozenset[str]:
        """The indicator."""
        return frozenset({"r"})

    def worth(
        self, candidates: Sequence[Candidate], draw: np.random.Generator
    ) -> Float[np.ndarray, " candidate"]:
        """See ``SelectionRule``; a candidate without an indicator comes last."""
        del draw
        best = max(each.task.value for each in candidates)
        near = [each.task.value >= best - self.delta for each in candidates]
        return np.array(
            [
                each.r if each.r is not None and fits else -np.inf
                for each, fits in zip(candidates, near, strict=True)
            ]
        )
