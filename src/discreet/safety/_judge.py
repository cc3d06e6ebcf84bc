"""Turn scores into what a safety test reports: thresholds are learnt on known samples, judged on others."""

from __future__ import annotations

import numpy as np

from discreet._types import Bool, Float
from discreet.auc import auc
from discreet.estimate import Estimate
from discreet.intervals import difference
from discreet.safety._protocol import Found
from discreet.tpr import tpr_at_fpr

__all__ = ["best_threshold", "check_metric", "decided", "judge"]

LEVEL = 0.95


def check_metric(metric: str) -> None:
    """Refuse a metric that there is not.

    Raises:
        ValueError: It is none of ``accuracy``, ``auc``, ``tpr@x`` with a rate x.
    """
    name, at, rate = metric.partition("@")
    if metric in ("accuracy", "auc"):
        return
    try:
        fits = name == "tpr" and bool(at) and 0 < float(rate) <= 1
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"metric: expected accuracy, auc or tpr@RATE with a rate in (0, 1], got {metric!r}")


def judge(
    scores: Float[np.ndarray, " judged"],
    member: Bool[np.ndarray, " judged"],
    metric: str,
    *,
    threshold: float = 0.0,
    attacker: object = None,
) -> Found:
    """Judge scores by a metric.

    Args:
        scores: Higher = more likely member.
        member: The answer.
        metric: ``accuracy`` (balanced, of the threshold), ``auc`` or ``tpr@RATE``.
        threshold: Who scores above it is accused.
        attacker: Kept in the result.

    Example:
        >>> judge(np.array([2.0, 1.0, -1.0, -3.0]), np.array([True, False, True, False]), "accuracy").leak
        0.5
    """
    if metric == "accuracy":
        value = decided(scores > threshold, member)
        return Found(max(0.5, value.value), value, metric, scores, attacker)
    if metric == "auc":
        value = auc(scores, member, level=LEVEL)
        return Found(max(0.5, value.value), value, metric, scores, attacker)
    rate = float(metric.partition("@")[2])
    value = tpr_at_fpr(scores, member, rate, level=LEVEL).tpr
    return Found(max(rate, value.value), value, metric, scores, attacker)


def decided(accused: Bool[np.ndarray, " judged"], member: Bool[np.ndarray, " judged"]) -> Estimate:
    """Balanced accuracy of accusations: (TPR + TNR) / 2, the attack accuracy of the paper whatever the shares.

    Example:
        >>> decided(np.array([True, True, False]), np.array([True, False, False])).value
        0.75
    """
    inside, outside = int(member.sum()), int((~member).sum())
    if not inside or not outside:
        raise ValueError(
            f"member: expected members and non-members, got {inside} members and {outside} non-members"
        )
    caught, wrong = int(accused[member].sum()), int(accused[~member].sum())
    value = (1 + caught / inside - wrong / outside) / 2
    low, high = ((1 + end) / 2 for end in difference(caught, inside, wrong, outside, level=LEVEL))
    how = "threshold learnt on other samples, Newcombe's score interval"
    return Estimate(value, min(low, value), max(high, value), inside + outside, LEVEL, how)


def best_threshold(scores: Float[np.ndarray, " known"], member: Bool[np.ndarray, " known"]) -> float:
    """The threshold of greatest TPR - FPR on known samples; the lowest of equals; accused is who scores above.

    Example:
        >>> best_threshold(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, True, False, False]))
        1.5
    """
    distinct = np.unique(scores)
    inside, outside = np.sort(scores[member]), np.sort(scores[~member])
    above = [1 - np.searchsorted(each, distinct, side="right") / len(each) for each in (inside, outside)]
    at = int(np.argmax(above[0] - above[1]))
    upper = distinct[min(at + 1, len(distinct) - 1)]
    return float((distinct[at] + upper) / 2)
