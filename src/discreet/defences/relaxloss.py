"""RelaxLoss: Chen et al., "RelaxLoss: Defending Membership Inference Attacks without Losing Utility" (2022),
Algorithm 1.

As its authors train it: the first epoch, and every other one after it, pulls the mean loss towards a level from both
sides; in the epochs between, a batch below the level has the probabilities of its wrong classes flattened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from discreet._types import Float, Num
from discreet.defences._check import check_range
from discreet.defences._objective import changed, classes, hits, label
from discreet.phase import Phase

__all__ = ["RelaxLoss"]


@dataclass(frozen=True)
class RelaxLoss:
    """Keep the mean loss at a level that members and non-members can share.

    Attributes:
        alpha: The level, in nats.
    """

    alpha: float | int = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"batch", "epoch"})

    def __post_init__(self) -> None:
        check_range("alpha", self.alpha, 0)

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
        """See ``Change``; epochs count from 1. The soft targets are differentiated through."""
        mean = losses.mean()
        if epoch % 2 == 1:
            return (mean - self.alpha).abs().expand_as(losses)
        logs = classes(outputs).log_softmax(-1)
        index = label(y).long()[:, None]
        true = logs.gather(-1, index)[:, 0]
        rest = (1 - true.exp()) / (logs.shape[-1] - 1)
        # Cross-entropy of targets that keep the true class's probability and share the rest out evenly.
        flat = -(true.exp() * true + rest * (logs.sum(-1) - true))
        flattened = (1 - hits(outputs, y)) * flat - losses
        return torch.where(mean > self.alpha, losses, flattened)
