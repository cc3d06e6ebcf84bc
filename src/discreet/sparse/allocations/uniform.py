"""Every layer keeps the same share of its weights."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.sparse.allocations._protocol import Shapes

__all__ = ["Uniform"]


@dataclass(frozen=True)
class Uniform:
    """The density of the whole is that of each layer.

    Example:
        >>> Uniform().densities({"a": (8, 4), "b": (2, 8)}, 0.25)
        {'a': 0.25, 'b': 0.25}
    """

    def densities(self, shapes: Shapes, density: float) -> dict[str, float]:
        """See ``Allocation.densities``."""
        return dict.fromkeys(shapes, density)
