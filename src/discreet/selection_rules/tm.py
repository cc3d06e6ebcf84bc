"""The TM-score of Zhu et al., "Safety and Performance, Why not Both?" (2022), Eq. 6: the paper's rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.selection_rules._protocol import Candidate

__all__ = ["Tm"]


@dataclass(frozen=True)
class Tm:
    """Task performance to the power lambda, divided by the attack's.

    Early in training it favours whoever fits fastest, and it hides how far an attack is above chance. It is made for
    performances of 0 and more: one below 0 (R² of a poor fit) is multiplied by the attack's, since divided by it a
    model would be worth more the more it leaks.

    Attributes:
        power: The paper's lambda.
    """

    power: float | int = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.power < math.inf:
            raise ValueError(f"power: expected a positive number, got {self.power}")

    @property
    def needs(self) -> frozenset[str]:
        """The leak."""
        return frozenset({"leak"})

    def worth(
        self, candidates: Sequence[Candidate], draw: np.random.Generator
    ) -> Float[np.ndarray, " candidate"]:
        """Eq. 6; see ``SelectionRule``."""
        del draw
        sizes = [abs(each.task.value) ** self.power for each in candidates]
        return np.array(
            [
                size / each.leak if each.task.value >= 0 else -size * each.leak
                for size, each in zip(sizes, candidates, strict=True)
            ]
        )
