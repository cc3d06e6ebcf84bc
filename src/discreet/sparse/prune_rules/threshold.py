"""Drop the weights whose magnitude is below a threshold.

Han et al., "Learning both Weights and Connections for Efficient Neural Networks", section 3: the threshold of a
layer is a number times the deviation of its weights. It is the second prune rule of "Safety and Performance, Why not
Both?", section 4.3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from discreet._types import Bool, Float
from discreet.sparse._errors import SparseError

__all__ = ["Threshold"]


@dataclass(frozen=True)
class Threshold:
    """Weights below the threshold, the smallest first, but never more than the schedule says.

    Attributes:
        below: The threshold.
        unit: ``"deviation"``: it is times the root mean square of the layer's weights in use; ``"weight"``: it is a
            magnitude by itself.

    Example:
        >>> weight, active = torch.tensor([0.1, -3.0, 2.0, 0.0]), torch.tensor([True, True, True, False])
        >>> Threshold(0.5).worth(weight, active)[:3].tolist()
        [0.10000000149011612, inf, inf]
    """

    below: float | int = 0.5
    unit: str = "deviation"

    def __post_init__(self) -> None:
        if not 0 < self.below < math.inf:
            raise SparseError(f"below: expected a positive number, got {self.below}")
        if self.unit not in ("deviation", "weight"):
            raise SparseError(f"unit: expected 'deviation' or 'weight', got {self.unit!r}")

    def worth(
        self, weight: Float[Tensor, " weight"], active: Bool[Tensor, " weight"]
    ) -> Float[Tensor, " weight"]:
        """The magnitude where it is below the threshold, else infinite; see ``Prune.worth``."""
        size = weight.abs()
        edge = self.below
        if self.unit == "deviation":
            edge *= math.sqrt(float(weight[active].double().square().mean()))
        return size.masked_fill(size >= edge, torch.inf)
