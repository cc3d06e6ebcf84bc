"""Entropy of all predictions: Zhu et al., "Safety and Performance, Why not Both?", eq. 8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from discreet._types import Float, Num
from discreet.defences._check import check_range
from discreet.defences._objective import changed, entropy
from discreet.phase import Phase

__all__ = ["Re1"]


@dataclass(frozen=True)
class Re1:
    """Take the mean entropy of the batch's predictions off the loss.

    Attributes:
        beta: Its weight.
    """

    beta: float | int = 0.1
    needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_range("beta", self.beta, 0)

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
        """See ``Change``."""
        del y, epoch
        return losses - self.beta * entropy(outputs)
