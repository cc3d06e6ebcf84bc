"""Grow the weights on which the loss depends most.

"Rigging the Lottery: Making All Tickets Winners", section 3; the first grow rule of "Safety and Performance, Why not
Both?", section 4.3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from discreet._types import Bool, Float

__all__ = ["Gradient"]


@dataclass(frozen=True)
class Gradient:
    """Largest magnitude of the gradient first."""

    @property
    def needs_gradient(self) -> bool:
        """Yes."""
        return True

    def worth(
        self,
        closed: Bool[Tensor, " weight"],
        gradient: Float[Tensor, " weight"] | None,
        draw: np.random.Generator,
    ) -> Float[Tensor, " weight"]:
        """The gradient's magnitude; see ``Grow.worth``."""
        del closed, draw
        if gradient is None:
            raise ValueError("gradient: expected the gradient of all weights, got None")
        return gradient.abs()
