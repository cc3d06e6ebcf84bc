"""The ROC curve: every threshold's false and true positive rate, ties never split.

A threshold accuses all scores above it and none at it, so a point of the curve is a rule that somebody
could follow. Where many scores tie (quantized models), curves that split ties invent points in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet._types import Bool, Float, Num
from discreet.labelled import Labelled, split_classes

__all__ = ["Roc", "allowed", "check_fpr", "roc", "smallest_sample", "threshold_at"]


@dataclass(frozen=True, eq=False)
class Roc:
    """Points of a ROC curve, from accusing nobody to accusing everybody.

    Attributes:
        fpr: False positive rates, ascending, 0 to 1.
        tpr: True positive rates, ascending, 0 to 1.
        threshold: Scores above it are accused; descending, the last one -inf.
    """

    fpr: Float[np.ndarray, " point"]
    tpr: Float[np.ndarray, " point"]
    threshold: Float[np.ndarray, " point"]

    def at(self, fpr: Num[np.ndarray, " grid"]) -> Float[np.ndarray, " grid"]:
        """Highest true positive rate among rules with at most these false positive rates."""
        return self.tpr[np.searchsorted(self.fpr, fpr, side="right") - 1]

    def log_log(self, floor: float) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
        """The curve for two logarithmic axes, as corners of a step line that starts at ``floor``.

        Rates below the floor, zero included, are drawn at the floor and not dropped; the curve is a
        step function, since nothing between two rules can be had.

        Args:
            floor: Smallest rate to draw, such as half a non-member's share.

        Returns:
            FPR and TPR of the corners, both at least ``floor``.
        """
        if not 0 < floor < 1:
            raise ValueError(f"floor: expected a rate in (0, 1), got {floor}")
        fpr, tpr = np.repeat(self.fpr, 2)[1:], np.repeat(self.tpr, 2)[:-1]
        return np.maximum(fpr, floor), np.maximum(tpr, floor)


def roc(
    scores: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    *,
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> Roc:
    """ROC curve of one target, one point for each distinct score and one for accusing nobody.

    Args:
        scores: [sample]; higher = more likely member.
        member: [sample], the answer.
        keep: [sample], the samples to judge; all when None.

    Raises:
        ValueError: Shapes differ, a score is not finite, or a class is missing.

    Example:
        >>> curve = roc(np.array([2.0, 1.0, 1.0, 0.0]), np.array([True, True, False, False]))
        >>> curve.fpr.tolist(), curve.tpr.tolist()
        ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    parts = split_classes(scores, member, keep)
    distinct = np.unique(np.concatenate([parts.members, parts.others]))[::-1]
    threshold = np.append(distinct, -np.inf)
    return Roc(_share_above(parts.others, threshold), _share_above(parts.members, threshold), threshold)


def allowed(fpr: float, others: int) -> int:
    """How many of ``others`` non-members may be accused at a false positive rate of at most ``fpr``.

    The floor of a product of decimals, in exact arithmetic: 0.29 of 100 is 29 (floats say 28).

    Example:
        >>> allowed(0.29, 100), allowed(0.001, 999)
        (29, 0)
    """
    check_fpr(fpr)
    return math.floor(_decimal(fpr) * others)


def smallest_sample(fpr: float) -> int:
    """Non-members needed before one false accusation fits into the rate.

    Example:
        >>> smallest_sample(0.001)
        1000
    """
    check_fpr(fpr)
    return math.ceil(1 / _decimal(fpr))


def threshold_at(parts: Labelled, fpr: float) -> float:
    """The lowest threshold that accuses at most a share ``fpr`` of these non-members.

    With k = floor(fpr * n) it is the (k + 1)-th largest non-member; -inf when all may be accused.
    """
    k = allowed(fpr, len(parts.others))
    return float(parts.others[-1 - k]) if k < len(parts.others) else -math.inf


def check_fpr(fpr: float) -> None:
    """Refuse a false positive rate outside (0, 1]."""
    if not 0 < fpr <= 1:
        raise ValueError(f"fpr: expected a rate in (0, 1], got {fpr}")


def _decimal(fpr: float) -> Fraction:
    # The shortest decimal that reads back as this float is what the user wrote.
    return Fraction(repr(float(fpr)))


def _share_above(
    ascending: Float[np.ndarray, " score"], threshold: Float[np.ndarray, " point"]
) -> Float[np.ndarray, " point"]:
    return (len(ascending) - np.searchsorted(ascending, threshold, side="right")) / len(ascending)
