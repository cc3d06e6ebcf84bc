"""Entropy of the wrong predictions: Zhu et al., "Safety and Performance, Why not Both?", eq. 9."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from discreet._types import Float, Num
from discreet.defences._check import check_range
from discreet.defences._objective import changed, entropy, hits
from discreet.phase import Phase

__all__ = ["Re2"]


@dataclass(frozen=True)
class Re2:
    """Take the mean entropy of those predictions of the batch that are wrong off the loss; without any, nothing.

    Attributes:
        beta: Its weight.
    """

    beta: float | int = 0.1
    needs: ClassVar[frozenset[str]] = frozenset({"batch"})

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
        """See ``Change``: the mean over the batch of what is taken off is the mean over the wrong predictions."""
        del epoch
        wrong = (1 - hits(outputs, y)).to(losses.dtype)
        share = wrong / wrong.mean().clamp(min=1 / len(wrong))
        return losses - self.beta * share * entropy(outputs)
