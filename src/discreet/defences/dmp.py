"""Distillation for membership privacy: Shejwalkar and Houmansadr, "Membership Privacy for Machine Learning Models
Through Knowledge Transfer" (2021).

An unprotected teacher answers for reference samples that nobody trained on, and the model learns those answers
alone: it never sees a member.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float, Num
from discreet.defences._check import check_range
from discreet.defences._objective import classes, entropy, retargeted
from discreet.defences._teaching import lesson
from discreet.phase import Phase, Setting

__all__ = ["DMP"]


@dataclass(frozen=True)
class DMP:
    """Learn the teacher's answers on the reference samples, and nothing else.

    Attributes:
        temperature: By which both models' logits are divided.
        keep: Share of the reference samples that is used: those on which the teacher is surest, by entropy.
    """

    temperature: float | int = 1.0
    keep: float | int = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"teacher"})

    def __post_init__(self) -> None:
        check_range("temperature", self.temperature, 0, above=True)
        check_range("keep", self.keep, 0, 1, above=True)

    @property
    def needs_teacher(self) -> bool:
        """Yes."""
        return True

    def check(self, setting: Setting) -> None:
        """Refuse a setting without reference samples.

        Raises:
            ValueError: There are none.
        """
        if not setting.roles.reference.shape[1]:
            raise ValueError(
                "dmp: expected reference samples, which are no members, to learn the teacher's answers on; the roles"
                " deal none (members would give back what they are to hide)"
            )

    def apply(self, phase: Phase) -> Phase:
        """See ``Defence``. A distillation on the members, if there is one, is left out.

        Raises:
            ValueError: No teacher, or no reference samples: members cannot stand in for them.
        """
        phase = retargeted(phase, self, drop="teacher")
        self.check(phase.setting)
        positions = phase.setting.roles.reference
        x, outputs, subsets = lesson("dmp", phase, positions)
        if self.keep < 1:
            most = max(1, int(self.keep * positions.shape[1]))
            unsure = entropy(outputs / self.temperature).numpy().reshape(subsets.shape)
            sure = np.sort(np.argsort(unsure, axis=1, kind="stable")[:, :most], axis=1)
            subsets = np.take_along_axis(subsets, sure, axis=1)
        guessed = classes(outputs).argmax(-1, keepdim=True).to(outputs.dtype)
        return replace(phase, x=x, y=torch.cat([guessed, outputs], dim=1), subsets=subsets)

    def loss(
        self, outputs: Float[Tensor, "batch out"], y: Num[Tensor, " batch *columns"]
    ) -> Float[Tensor, " batch"]:
        """KL(teacher || model) in nats."""
        taught = classes(y[:, 1:] / self.temperature).log_softmax(-1)
        own = classes(outputs / self.temperature).log_softmax(-1)
        return (taught.exp() * (taught - own)).sum(-1)
