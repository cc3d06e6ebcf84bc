"""Pair-based posterior balancing: Yuan and Zhang, "Membership Inference Attacks and Defenses in Neural Network
Pruning" (2022), section 6.

Its authors rank the logits of the two halves of a batch and compare them in order; an odd sample out counts for
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from discreet._types import Float, Num
from discreet.defences._check import check_range
from discreet.defences._objective import changed, classes
from discreet.phase import Phase

__all__ = ["PPB"]


@dataclass(frozen=True)
class PPB:
    """Add the divergence between the ranked predictions of the two halves of the batch.

    Attributes:
        weight: Of the divergence, in nats a pair.
    """

    weight: float | int = 4.0
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
        """See ``Change``: every sample gets the mean divergence KL(second half || first half)."""
        del y, epoch
        half = len(losses) // 2
        if not half:
            return losses
        ranked = classes(outputs).sort(-1, descending=True).values.log_softmax(-1)
        first, second = ranked[:half], ranked[half : 2 * half]
        return losses + self.weight * (second.exp() * (second - first)).sum(-1).mean()
