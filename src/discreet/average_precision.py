"""Average precision: how pure the accusations are, averaged over the members in the order in which they are accused.

Unlike the AUC it depends on the share of members among those judged, which is its value for scores that say nothing.
"""

from __future__ import annotations

import numpy as np

from discreet._types import Bool, Float, Num
from discreet.crossed import answers, cluster_sums, complement_pairs, crossed
from discreet.estimate import Estimate
from discreet.labelled import check_level, labelled

__all__ = ["average_precision"]


def average_precision(
    scores: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    *,
    level: float = 0.95,
    cluster: np.ndarray | None = None,
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> Estimate:
    """Mean over members of the share of members among those who score at least as high (no interpolation).

    The interval is on the logit scale, from the influence of each sample: by its own precision, and by what it does
    to that of all members with at most its score. Runs and samples are crossed.

    Args:
        scores: [sample], or [run, sample] for several targets; higher = more likely member.
        member: The answer, same shape.
        level: Confidence level.
        cluster: One label a sample; samples with one label are dependent.
        keep: Entries to judge, same shape as scores; all when None.

    Returns:
        The mean over runs, in (0, 1]; n counts the samples judged (in any run).

    Raises:
        ValueError: Shapes differ, a score is not finite, or a run lacks one of the classes.

    Example:
        >>> average_precision(np.array([3.0, 2.0, 1.0]), np.array([True, False, True])).value
        0.8333333333333333
    """
    check_level(level)
    values, truth, mask = labelled(scores, member, keep)
    influence = np.zeros(values.shape)
    found = np.empty(len(values))
    for run, judged in enumerate(mask):
        found[run], influence[run, judged] = _one(values[run, judged], truth[run, judged])
    spread = crossed(found, cluster_sums(influence, cluster), complement_pairs(truth & mask))
    value = float(np.sort(found).mean())
    low, high = _interval(value, spread.variance, spread.quantile(level))
    if value == 1:
        # nothing varies: as many members (or clusters of them) as are judged, none of them below a non-member
        low = ((1 - level) / 2) ** (1 / float(answers(truth & mask, cluster).min()))
    how = "logit influence" + (f", {len(values)} runs x samples crossed" if len(values) > 1 else "")
    return Estimate(value, low, high, int(mask.any(axis=0).sum()), level, how)


def _one(
    scores: Float[np.ndarray, " sample"], member: Bool[np.ndarray, " sample"]
) -> tuple[float, Float[np.ndarray, " sample"]]:
    """Average precision of one run, and each sample's first-order effect on it."""
    inside, outside = np.sort(scores[member]), np.sort(scores[~member])
    m, n = len(inside), len(outside)
    true = m - np.searchsorted(inside, inside, "left")  # members at least as high as each member
    false = n - np.searchsorted(outside, inside, "left")
    precision = true / (true + false)
    value = float(precision.mean())
    by_true, by_false = false / (true + false) ** 2.0, -true / (true + false) ** 2.0
    effect = np.empty(len(scores))
    for kind, count, slope, above in ((member, m, by_true, true), (~member, n, by_false, false)):
        # what one more sample of this kind does to the precision of all members with at most its score
        below = np.concatenate([[0.0], np.cumsum(slope)])[np.searchsorted(inside, scores[kind], "right")]
        effect[kind] = (below * count - float((slope * above).sum())) / m / count
    own = m - np.searchsorted(inside, scores[member], "left")
    ahead = n - np.searchsorted(outside, scores[member], "left")
    effect[member] += (own / (own + ahead) - value) / m
    return value, effect


def _interval(value: float, variance: float, quantile: float) -> tuple[float, float]:
    if value == 1:
        return 1.0, 1.0
    centre, half = np.log(value / (1 - value)), quantile * np.sqrt(variance) / (value * (1 - value))
    low, high = (1 / (1 + np.exp(-(centre + side))) for side in (-half, half))
    return min(float(low), value), max(float(high), value)
