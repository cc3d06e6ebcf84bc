"""Drop the weights of smallest magnitude.

Mocanu et al., "Scalable Training of Artificial Neural Networks with Adaptive Sparse Connectivity inspired by Network
Science"; the first prune rule of "Safety and Performance, Why not Both?", section 4.3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from discreet._types import Bool, Float

__all__ = ["Magnitude"]


@dataclass(frozen=True)
class Magnitude:
    """As many as the schedule says, the smallest of each layer."""

    def worth(
        self, weight: Float[Tensor, " weight"], active: Bool[Tensor, " weight"]
    ) -> Float[Tensor, " weight"]:
        """The magnitude; see ``Prune.worth``."""
        del active
        return weight.abs()
