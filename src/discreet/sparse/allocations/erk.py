"""Erdős–Rényi with kernel sizes: small layers stay denser, and so do small kernels.

"Rigging the Lottery: Making All Tickets Winners", section 3; "Safety and Performance, Why not Both?", Eq. 5, is the
case of fully connected layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.sparse._errors import SparseError
from discreet.sparse.allocations._capped import capped
from discreet.sparse.allocations._protocol import Shapes

__all__ = ["Erk"]


@dataclass(frozen=True)
class Erk:
    """Densities in proportion to (sum of the sides / product of the sides) to a power, none above 1.

    Attributes:
        power: 0 gives every layer the same density.

    Example:
        >>> shapes = {"0": (300, 784), "1": (100, 300), "2": (10, 100)}
        >>> [round(each, 4) for each in Erk().densities(shapes, 0.05).values()]
        [0.0385, 0.1113, 0.9185]
    """

    power: float | int = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.power < math.inf:
            raise SparseError(f"power: expected 0 or more, got {self.power}")

    def densities(self, shapes: Shapes, density: float) -> dict[str, float]:
        """See ``Allocation.densities``."""
        raw = {name: (sum(shape) / math.prod(shape)) ** self.power for name, shape in shapes.items()}
        return capped(raw, shapes, density)
