"""Erdős–Rényi: layers with few inputs and outputs stay denser; kernel sizes do not count.

"Safety and Performance, Why not Both?", Eq. 5; Mocanu et al., "Scalable Training of Artificial Neural Networks with
Adaptive Sparse Connectivity inspired by Network Science".
"""

from __future__ import annotations

from dataclasses import dataclass

from discreet.sparse.allocations._capped import capped
from discreet.sparse.allocations._protocol import Shapes

__all__ = ["Er"]


@dataclass(frozen=True)
class Er:
    """Densities in proportion to (outputs + inputs) / (outputs · inputs), none above 1.

    Example:
        >>> densities = Er().densities({"a": (8, 4, 3, 3), "b": (8, 4)}, 0.5)
        >>> densities["a"] == densities["b"]
        True
    """

    def densities(self, shapes: Shapes, density: float) -> dict[str, float]:
        """See ``Allocation.densities``."""
        sides = {name: (*shape, 1)[:2] for name, shape in shapes.items()}
        return capped({name: 1 / one + 1 / other for name, (one, other) in sides.items()}, shapes, density)
