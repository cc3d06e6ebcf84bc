"""HAMP, its training part: Chen and Pattabiraman, "Overconfidence is a Dangerous Thing: Mitigating Membership
Inference Attacks by Enforcing Less Confident Prediction" (2024), section III.

Its other half, which rewrites the model's answers, hides a leak that stays in the weights, and is not here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from torch import Tensor

from discreet._types import Float, Num
from discreet.defences._check import check_range
from discreet.defences._objective import classes, entropy, label, retargeted
from discreet.phase import Phase

__all__ = ["HAMP"]


@dataclass(frozen=True)
class HAMP:
    """Learn labels that are uncertain, and be rewarded for uncertainty.

    Attributes:
        gamma: Entropy of the labels, as a share of the largest there is.
        alpha: Weight of the entropy of predictions.
    """

    gamma: float | int = 0.5
    alpha: float | int = 0.005
    needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_range("gamma", self.gamma, 0, 1)
        check_range("alpha", self.alpha, 0)

    @property
    def needs_teacher(self) -> bool:
        """No."""
        return False

    def apply(self, phase: Phase) -> Phase:
        """See ``Defence``."""
        return retargeted(phase, self)

    def loss(
        self, outputs: Float[Tensor, "batch out"], y: Num[Tensor, " batch *columns"]
    ) -> Float[Tensor, " batch"]:
        """KL(target || prediction) - alpha · entropy, in nats."""
        logs = classes(outputs).log_softmax(-1)
        many = logs.shape[-1]
        sure = true_share(self.gamma, many)
        rest = (1 - sure) / (many - 1)
        true = logs.gather(-1, label(y).long()[:, None])[:, 0]
        cross = -(sure * true + rest * (logs.sum(-1) - true))
        return cross - _entropy(sure, many) - self.alpha * entropy(outputs)


@cache
def true_share(gamma: float | int, classes: int) -> float:
    """Probability of the true class in the label: lowered by hundredths until the label is uncertain enough.

    Example:
        >>> true_share(0.8, 10), true_share(0.0, 10)
        (0.47, 1.0)
    """
    hundredths = 100
    while hundredths / 100 > 1 / classes and _entropy(hundredths / 100, classes) < gamma * math.log(classes):
        hundredths -= 1
    return max(hundredths / 100, 1 / classes)


def _entropy(sure: float, classes: int) -> float:
    rest = (1 - sure) / (classes - 1)
    return -(sure * math.log(sure) + (classes - 1) * (rest * math.log(rest) if rest > 0 else 0.0))
