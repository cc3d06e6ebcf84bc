"""What a grow rule must do."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from discreet._types import Bool, Float

__all__ = ["Grow"]


@runtime_checkable
class Grow(Protocol):
    """An order of the weights of one layer of one model. How many grow is decided and counted around it."""

    @property
    def needs_gradient(self) -> bool:
        """Whether ``worth`` is given the loss's gradient, which costs a few passes through the model."""
        ...

    def worth(
        self,
        closed: Bool[Tensor, " weight"],
        gradient: Float[Tensor, " weight"] | None,
        draw: np.random.Generator,
    ) -> Float[Tensor, " weight"]:
        """What each weight would be worth: the highest are taken into use first, of equal ones the first.

        Args:
            closed: Which weights of the layer, flat, are up for it. What is returned for others is not read.
            gradient: Of the mean loss with respect to all weights, those not in use too; None unless needed.
            draw: Random numbers of this model, layer and update alone.

        Returns:
            Numbers without NaN; minus infinity: never grown, even if fewer are then dropped.
        """
        ...
