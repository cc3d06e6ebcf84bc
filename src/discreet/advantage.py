"""Balanced accuracy and advantage of the best single threshold, learnt on rows it is not judged on.

Yeom et al., "Privacy Risk in Machine Learning: Analyzing the Connection to Overfitting" (2018), Definition 4,
for the advantage. The largest TPR - FPR on the rows at hand is above 0 without any leak, so it is not used.
"""

from __future__ import annotations

import numpy as np

from discreet._types import Bool, Float, Int, Num
from discreet.crossed import answers
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
    cluster: np.ndarray | None = None,
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> Estimate:
    """TPR - FPR of one threshold: each half of the rows is judged by the best threshold of the other.

    Args:
        scores: [sample]; higher = more likely member.
        member: [sample], the answer.
        level: Confidence level.
        seed: Which halves.
        cluster: One label a sample; samples with one label are dependent, and stay in one half.
        keep: [sample], the samples to judge; all when None.

    Returns:
        Advantage in [-1, 1], 0 without a leak; n counts the samples judged. The interval (Newcombe's,
        for two proportions) speaks about thresholds learnt from half of the rows. With clusters each class counts for
        its samples over their design effect.

    Raises:
        ValueError: Shapes differ, a score is not finite, or a class has fewer than two samples.

    Example:
        >>> advantage(np.arange(40.0), np.arange(40) >= 20).value > 0.85
        True
    """
    check_level(level)
    parts = split_classes(scores, member, keep)
    m, n = len(parts.members), len(parts.others)
    kept = np.ones(np.shape(member), dtype=bool) if keep is None else np.asarray(keep)
    unit = _units(cluster, kept)
    how, effects = "threshold learnt on the other half, Newcombe's score interval", (1.0, 1.0)
    if unit is None:
        caught, wrong = _by_row(parts, seed)
    else:
        how += " with the design effect of clusters"
        values = np.asarray(scores)[kept].astype(np.float64)
        caught, wrong, effects = _by_cluster(values, np.asarray(member)[kept], unit, seed)
    value = caught / m - wrong / n
    one, other = effects
    low, high = difference(caught / one, m / one, wrong / other, n / other, level=level)
    return Estimate(value, min(low, value), max(high, value), m + n, level, how)


def balanced_accuracy(
    scores: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    *,
    level: float = 0.95,
    seed: int = 0,
    cluster: np.ndarray | None = None,
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> Estimate:
    """Mean of TPR and TNR of one threshold, (1 + advantage) / 2: 0.5 without a leak, however unbalanced.

    Arguments and errors as for :func:`advantage`.
    """
    found = advantage(scores, member, level=level, seed=seed, cluster=cluster, keep=keep)
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


def _units(cluster: np.ndarray | None, keep: Bool[np.ndarray, " sample"]) -> Int[np.ndarray, " kept"] | None:
    """Number of the cluster of each judged sample; None where no two of them share one."""
    if cluster is None:
        return None
    if np.shape(cluster) != keep.shape:
        raise ValueError(
            f"cluster: expected one label a sample, {len(keep)}, got shape {list(np.shape(cluster))}"
        )
    labels, unit = np.unique(np.asarray(cluster)[keep], return_inverse=True)
    return None if len(labels) == len(unit) else unit.astype(np.int64)


def _by_row(parts: Labelled, seed: int) -> tuple[int, int]:
    """How many members and non-members are accused by the best threshold of the other half of the rows."""
    one, two = halves(parts, seed)
    caught = wrong = 0
    for learn, judge in ((one, two), (two, one)):
        threshold = _best_threshold(learn)
        caught += int((judge.members > threshold).sum())
        wrong += int((judge.others > threshold).sum())
    return caught, wrong


def _by_cluster(
    scores: Float[np.ndarray, " kept"],
    member: Bool[np.ndarray, " kept"],
    unit: Int[np.ndarray, " kept"],
    seed: int,
) -> tuple[int, int, tuple[float, float]]:
    """As by row, with the other half of the clusters, and the design effect of each class.

    Where a class is a single cluster no half could do without it: the rows are halved, and a class is one answer.
    """
    has, others = (np.bincount(unit[side], minlength=unit.max() + 1) > 0 for side in (member, ~member))
    if min(has.sum(), others.sum()) < 2:
        parts = Labelled(np.sort(scores[member]), np.sort(scores[~member]))
        return *_by_row(parts, seed), (float(member.sum()), float((~member).sum()))
    # Every other cluster in an order in which those with members stand together, and so do those with others.
    mixed = np.random.default_rng(seed).permutation(len(has))
    mixed = mixed[np.argsort(has[mixed].astype(int) - others[mixed], kind="stable")]
    half = np.empty(len(mixed), dtype=int)
    half[mixed] = np.arange(len(mixed)) % 2
    hit = np.zeros(len(scores), dtype=bool)
    for judge in (0, 1):
        learn, judged = half[unit] != judge, half[unit] == judge
        threshold = _best_threshold(
            Labelled(np.sort(scores[learn & member]), np.sort(scores[learn & ~member]))
        )
        hit[judged] = scores[judged] > threshold
    effects = (_design_effect(hit[member], unit[member]), _design_effect(hit[~member], unit[~member]))
    return int(hit[member].sum()), int(hit[~member].sum()), effects


def _design_effect(hit: Bool[np.ndarray, " n"], unit: Int[np.ndarray, " n"]) -> float:
    """Variance of a share over that of as many independent samples, from its sums over clusters; at least 1.

    Where all or none are hits nothing shows how far a cluster agrees, and each counts as one answer.
    """
    n, size = len(hit), np.bincount(unit).astype(np.float64)
    groups = int((size > 0).sum())
    rate = float(hit.mean())
    if rate in (0.0, 1.0):
        return n / float(answers(np.ones((1, n), dtype=bool), unit)[0])
    spread = float(((np.bincount(unit, hit) - size * rate) ** 2).sum()) * groups / (groups - 1)
    return max(1.0, spread / (n * rate * (1 - rate)))


def _best_threshold(parts: Labelled) -> float:
    distinct = np.unique(np.concatenate([parts.members, parts.others]))
    tpr, fpr = (
        1 - np.searchsorted(values, distinct, side="right") / len(values)
        for values in (parts.members, parts.others)
    )
    return float(distinct[np.argmax(tpr - fpr)])
