"""Even losses: what differs between samples is what tells members and what lowers the indicator.

Our own experiment on Aubinais et al., "An Indicator of Membership Inference Security in Post-Training Quantized
Models", Definition 3.5: r is a squared mean of loss differences over their variance, and the variance of a difference
is at most twice the sum of the losses' own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from discreet._types import Float, Num
from discreet.defences._check import check_range
from discreet.defences._objective import changed
from discreet.phase import Phase

__all__ = ["Even"]


@dataclass(frozen=True)
class Even:
    """Add the variance of the losses over the batch.

    Attributes:
        weight: Of the variance, in 1/nats.
    """

    weight: float | int = 0.1
    needs: ClassVar[frozenset[str]] = frozenset({"batch"})

    def __post_init__(self) -> None:
        check_range("weight", self.weight, 0)

    @property
    def needs_teacher(self) -> bool:
        """No."""
        return False

    def apply(self, phase: Phase) -> Phase:
        """See ``Defence``."""
        return changed(phase, self)

    def change(
        self,
        losses: Float[Tensor, " batch"],
        outputs: Float[Tensor, "batch out"],
        y: Num[Tensor, " batch *columns"],
        epoch: int,
    ) -> Float[Tensor, " batch"]:
        """See ``Change``: the mean of what is added is the variance."""
        del outputs, y, epoch
        return losses + self.weight * (losses - losses.mean()).square()
