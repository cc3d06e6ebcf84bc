"""The one thing that an allocation must do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

__all__ = ["Allocation", "Shapes"]

Shapes = Mapping[str, tuple[int, ...]]


@runtime_checkable
class Allocation(Protocol):
    """A frozen dataclass whose fields are its parameters."""

    def densities(self, shapes: Shapes, density: float) -> dict[str, float]:
        """The share of each tensor's weights that stays.

        Args:
            shapes: Of the weights of one model, [out, in, …] as torch has them; at least one.
            density: Share of all of them that stays, above 0 and below 1.

        Returns:
            For every name a number above 0, at most 1, such that the sizes times these sum to the density times all
            sizes. Rounding to whole weights is done elsewhere.
        """
        ...
