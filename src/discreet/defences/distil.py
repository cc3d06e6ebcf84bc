"""Knowledge distillation: Hinton et al., "Distilling the Knowledge in a Neural Network" (2015).

A trick of Zhu et al., "Safety and Performance, Why not Both?", Table 8: half the loss is that of the labels, half
that of the big model's answers on the same samples. It is no defence by itself: the teacher knew the members.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from discreet._types import Float, Num
from discreet.defences._check import check_range
from discreet.defences._objective import changed, classes, objective
from discreet.defences._teaching import lesson
from discreet.phase import Phase

__all__ = ["Distil"]


@dataclass(frozen=True)
class Distil:
    """Learn from the labels and from a teacher that was trained on the same samples.

    Attributes:
        weight: Of the teacher's part; the labels' part has the rest.
        temperature: By which both models' logits are divided in the teacher's part; its square multiplies that.
    """

    weight: float | int = 0.5
    temperature: float | int = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"teacher"})

    def __post_init__(self) -> None:
        check_range("weight", self.weight, 0, 1)
        check_range("temperature", self.temperature, 0, above=True)

    @property
    def needs_teacher(self) -> bool:
        """Yes."""
        return True

    def apply(self, phase: Phase) -> Phase:
        """See ``Defence``.

        Raises:
            ValueError: No teacher, samples that have no labels, or two teachers.
        """
        if "teacher" in objective(phase).needs:
            raise ValueError("distil: the training learns from a teacher already; use one such defence")
        phase = changed(phase, self)
        x, outputs, subsets = lesson("distil", phase, phase.subsets)
        labels = phase.y[torch.from_numpy(phase.subsets.reshape(-1))]
        y = torch.cat([labels[:, None].to(outputs.dtype), outputs], dim=1)
        return replace(phase, x=x, y=y, subsets=subsets)

    def change(
        self,
        losses: Float[Tensor, " batch"],
        outputs: Float[Tensor, "batch out"],
        y: Num[Tensor, " batch *columns"],
        epoch: int,
    ) -> Float[Tensor, " batch"]:
        """See ``Change``."""
        del epoch
        taught = classes(y[:, 1:] / self.temperature).softmax(-1)
        soft = -(taught * classes(outputs / self.temperature).log_softmax(-1)).sum(-1)
        return (1 - self.weight) * losses + self.weight * self.temperature**2 * soft
