"""Balanced accuracy and advantage of the best single threshold, learnt on rows it is not judged on.

Yeom et al., "Privacy Risk in Machine Learning: Analyzing the Connection to Overfitting" (2018), Definition 4,
for the advantage. The largest TPR - FPR on the rows at hand is above 0 without any leak, so it is not used.
"""

from __future__ import annotations

import numpy as np

from discreet._types import Bool, Num
from discreet.estimate import Estimate
from discreet.intervals import difference
from discreet.labelled import Labelled, check_level, split_classes

__all__ = ["advantage", "balanced_accuracy", "halves"]


def advantage(
    scores: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    *,
    level: float = 0.95,
    seed: int = 0,
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> Estimate:
    """TPR - FPR of one threshold: each half of the rows is judged by the best threshold of the other.

    Args:
        scores: [sample]; higher = more likely member.
        member: [sample], the answer.
        level: Confidence level.
        seed: Which halves.
        keep: [sample], the samples to judge; all when None.

    Returns:
        Advantage in [-1, 1], 0 without a leak; n counts the samples judged. The interval (Newcombe's,
        for two proportions) speaks about thresholds learnt from half of the rows.

    Raises:
        ValueError: Shapes differ, a score is not finite, or a class has fewer than two samples.

    Example:
        >>> advantage(np.arange(40.0), np.arange(40) >= 20).value > 0.85
        True
    """
    check_level(level)
    parts = split_classes(scores, member, keep)
    one, two = halves(parts, seed)
    caught = wrong = 0
    for learn, judge in ((one, two), (two, one)):
        threshold = _best_threshold(learn)
        caught += int((judge.members > threshold).sum())
        wrong += int((judge.others > threshold).sum())
    m, n = len(parts.members), len(parts.others)
    value = caught / m - wrong / n
    low, high = difference(caught, m, wrong, n, level=level)
    how = "threshold learnt on the other half, Newcombe's score interval"
    return Estimate(value, min(low, value), max(high, value), m + n, level, how)


def balanced_accuracy(
    scores: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    *,
    level: float = 0.95,
    seed: int = 0,
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> Estimate:
    """Mean of TPR and TNR of one threshold, (1 + advantage) / 2: 0.5 without a leak, however unbalanced.

    Arguments and errors as for :func:`advantage`.
    """
    found = advantage(scores, member, level=level, seed=seed, keep=keep)
    value, low, high = ((1 + x) / 2 for x in (found.value, found.low, found.high))
    return Estimate(value, low, high, found.n, level, found.method)


def halves(parts: Labelled, seed: int) -> tuple[Labelled, Labelled]:
    """Two random halves of each class, which depend on the scores and the seed but not on row order.

    Raises:
        ValueError: A class has fewer than two samples.
    """
    rng = np.random.default_rng(seed)
    cut = []
    for name, values in (("member", parts.members), ("non-member", parts.others)):
        if len(values) < 2:
            raise ValueError(f"member: expected at least two of each class, got one {name}")
        mixed = rng.permutation(values)
        cut.append((np.sort(mixed[: len(values) // 2]), np.sort(mixed[len(values) // 2 :])))
    (a, b), (c, d) = cut
    return Labelled(a, c), Labelled(b, d)


def _best_threshold(parts: Labelled) -> float:
    distinct = np.unique(np.concatenate([parts.members, parts.others]))
    tpr, fpr = (
        1 - np.searchsorted(values, distinct, side="right") / len(values)
        for values in (parts.members, parts.others)
    )
    return float(distinct[np.argmax(tpr - fpr)])
