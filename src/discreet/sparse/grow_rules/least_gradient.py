"""Experimental: grow the weights on which the loss depends least.

``gradient`` turned round. Such weights help least to fit the training samples just then, and models leaked less in
small trials; it is in no paper that we know of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from discreet._types import Bool, Float

__all__ = ["LeastGradient"]


@dataclass(frozen=True)
class LeastGradient:
    """Smallest magnitude of the gradient first."""

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
        """The gradient's magnitude with a minus sign; see ``Grow.worth``."""
        del closed, draw
        if gradient is None:
            raise ValueError("gradient: expected the gradient of all weights, got None")
        return -gradient.abs()
