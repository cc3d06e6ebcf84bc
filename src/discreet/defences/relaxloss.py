"""RelaxLoss: Chen et al., "RelaxLoss: Defending Membership Inference Attacks without Losing Utility" (2022),
Algorithm 1.

As its authors train it: the first epoch, and every other one after it, pulls the mean loss towards a level from both
sides; in the epochs between, a batch below the level has the probabilities of its wrong classes flattened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from discreet._types import Float, Num
from discreet.defences._check import check_range
from discreet.defences._objective import changed, classes, hits, label
from discreet.initial import as_model
from discreet.phase import Phase
from discreet.training_paths.choice import traits

__all__ = ["RelaxLoss"]


@dataclass(frozen=True)
class RelaxLoss:
    """Keep the mean loss at a level that members and non-members can share.

    Attributes:
        alpha: The level, in nats; None: 1, or half of what a guess among the classes loses if that is less. A level
            above a guess's loss trains the model to be wrong.
    """

    alpha: float | int | None = None
    needs: ClassVar[frozenset[str]] = frozenset({"batch", "epoch"})

    def __post_init__(self) -> None:
        if self.alpha is not None:
            check_range("alpha", self.alpha, 0)

    @property
    def needs_teacher(self) -> bool:
        """No."""
        return False

    def apply(self, phase: Phase) -> Phase:
        """See ``Defence``."""
        after = changed(phase, self)
        guess = math.log(max(2, traits(as_model(phase.model), phase.x).outputs))
        if self.alpha is None or self.alpha < guess:
            return after
        lost = f"a level of {self.alpha:g} nats is above what a guess loses, {guess:.3f}"
        note = f"relaxloss: {lost}: models learn to be wrong"
        return replace(after, notes=(*after.notes, note))

    def change(
        self,
        losses: Float[Tensor, " batch"],
        outputs: Float[Tensor, "batch out"],
        y: Num[Tensor, " batch *columns"],
        epoch: int,
    ) -> Float[Tensor, " batch"]:
        """See ``Change``; epochs count from 1. The soft targets are differentiated through."""
        mean = losses.mean()
        logs = classes(outputs).log_softmax(-1)
        level = min(1.0, math.log(logs.shape[-1]) / 2) if self.alpha is None else self.alpha
        if epoch % 2 == 1:
            return (mean - level).abs().expand_as(losses)
        index = label(y).long()[:, None]
        true = logs.gather(-1, index)[:, 0]
        rest = (1 - true.exp()) / (logs.shape[-1] - 1)
        # Cross-entropy of targets that keep the true class's probability and share the rest out evenly.
        flat = -(true.exp() * true + rest * (logs.sum(-1) - true))
        flattened = (1 - hits(outputs, y)) * flat - losses
        return torch.where(mean > level, losses, flattened)
