"""The one thing that a prune rule must do."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from discreet._types import Bool, Float

__all__ = ["Prune"]


@runtime_checkable
class Prune(Protocol):
    """An order of the weights of one layer of one model. How many are dropped is decided and counted around it."""

    def worth(
        self, weight: Float[Tensor, " weight"], active: Bool[Tensor, " weight"]
    ) -> Float[Tensor, " weight"]:
        """What each weight is worth: the lowest are dropped first, of equal ones the first.

        Args:
            weight: All weights of the layer, flat; 0 where not active.
            active: Which are in use. What is returned for others is not read.

        Returns:
            Numbers without NaN; infinite: never dropped, even if that drops fewer than the schedule allows.
        """
        ...
