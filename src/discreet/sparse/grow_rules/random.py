"""Grow weights at random.

Mocanu et al., "Scalable Training of Artificial Neural Networks with Adaptive Sparse Connectivity inspired by Network
Science"; the second grow rule of "Safety and Performance, Why not Both?", section 4.3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discreet._types import Bool, Float

__all__ = ["Random"]


@dataclass(frozen=True)
class Random:
    """Every set of weights is as likely as any other; drawn without replacement."""

    @property
    def needs_gradient(self) -> bool:
        """No."""
        return False

    def worth(
        self,
        closed: Bool[Tensor, " weight"],
        gradient: Float[Tensor, " weight"] | None,
        draw: np.random.Generator,
    ) -> Float[Tensor, " weight"]:
        """Uniform draws; see ``Grow.worth``."""
        del gradient
        return torch.from_numpy(draw.random(len(closed))).to(closed.device)
