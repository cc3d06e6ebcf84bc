"""Area under the ROC curve: how often a member outscores a non-member, ties counted half.

Intervals: DeLong et al., "Comparing the Areas under Two or More Correlated Receiver Operating
Characteristic Curves: A Nonparametric Approach" (1988), on the logit scale, widened where it
degenerates (AUC near 0 or 1, constant scores) by the score interval of Newcombe, "Confidence
intervals for an effect size measure based on the Mann-Whitney statistic. Part 2" (2006), method 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float, Num
from discreet.crossed import Spread, answers, cluster_sums, complement_pairs, crossed
from discreet.estimate import Estimate
from discreet.labelled import check_level, labelled

__all__ = ["AucParts", "auc", "auc_parts"]


@dataclass(frozen=True)
class AucParts:
    """AUC of each run and what each sample did to it.

    Attributes:
        values: AUC of each run.
        influence: First-order effect of each sample on its run's AUC; a row sums to 0.
    """

    values: Float[np.ndarray, " run"]
    influence: Float[np.ndarray, "run sample"]


def auc(
    scores: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    *,
    level: float = 0.95,
    cluster: np.ndarray | None = None,
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> Estimate:
    """Mann-Whitney AUC with an interval, of one target or as a mean over targets that share samples.

    Serves any two-class figure: pass a model's outputs as ``scores`` and its labels as ``member`` for
    the AUROC of a task. The result does not depend on the order of samples, to the last bit.

    Args:
        scores: [sample], or [run, sample] for several targets; higher = more likely member.
        member: The answer, same shape.
        level: Confidence level.
        cluster: One label a sample; samples with one label (a scaffold, a person) are dependent.
        keep: Entries to judge, same shape as scores; all when None.

    Returns:
        AUC in [0, 1]; n counts the samples judged (in any run). With one run the interval speaks about
        that model and new records; with several about new models and new records. Where no score varies within its
        class against the other (AUC 0 or 1, constant scores) each cluster counts as one answer.

    Raises:
        ValueError: Shapes differ, a score is not finite, or a run lacks one of the classes.

    Example:
        >>> auc(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False])).value
        0.875
    """
    check_level(level)
    values, truth, mask = labelled(scores, member, keep)
    parts = auc_parts(values, truth, mask)
    spread = crossed(parts.values, cluster_sums(parts.influence, cluster), complement_pairs(truth & mask))
    value = float(np.sort(parts.values).mean())
    unit = None if parts.influence.any() else cluster
    m, n = (float(answers(side & mask, unit).mean()) for side in (truth, ~truth))
    low, high = _interval(value, parts, spread, level, m, n)
    runs = len(values)
    how = "logit DeLong with Newcombe's score interval" + (
        f", {runs} runs x samples crossed" if runs > 1 else ""
    )
    return Estimate(value, low, high, int(mask.any(axis=0).sum()), level, how)


def auc_parts(
    scores: Float[np.ndarray, "run sample"],
    member: Bool[np.ndarray, "run sample"],
    keep: Bool[np.ndarray, "run sample"],
) -> AucParts:
    """AUC and influence of every run (DeLong's placement values, centred, over the class size)."""
    runs = [_one(s[k], y[k]) for s, y, k in zip(scores, member, keep, strict=True)]
    influence = np.zeros(scores.shape)
    for row, (_, effect), mask in zip(influence, runs, keep, strict=True):
        row[mask] = effect
    return AucParts(np.array([value for value, _ in runs]), influence)


def _one(
    scores: Float[np.ndarray, " sample"], member: Bool[np.ndarray, " sample"]
) -> tuple[float, Float[np.ndarray, " sample"]]:
    inside, outside = np.sort(scores[member]), np.sort(scores[~member])
    m, n = len(inside), len(outside)
    # Whole numbers (wins twice, ties once) until the last division: exact, whatever the row order.
    beaten = np.searchsorted(outside, scores[member], "left") + np.searchsorted(
        outside, scores[member], "right"
    )
    above = 2 * m - (
        np.searchsorted(inside, scores[~member], "left") + np.searchsorted(inside, scores[~member], "right")
    )
    value = int(beaten.sum()) / (2 * m * n)
    effect = np.empty(len(scores))
    effect[member] = (beaten / (2 * n) - value) / _root(m)
    effect[~member] = (above / (2 * m) - value) / _root(n)
    return value, effect


def _root(size: int) -> float:
    # sum(effect**2) is then DeLong's unbiased variance, S10/m + S01/n with ddof 1.
    return math.sqrt(size * max(size - 1, 1))


def _interval(
    value: float, parts: AucParts, spread: Spread, level: float, m: float, n: float
) -> tuple[float, float]:
    width = spread.quantile(level)
    low = high = value
    if 0 < value < 1 and spread.variance > 0:
        centre = math.log(value / (1 - value))
        half = width * math.sqrt(spread.variance) / (value * (1 - value))
        low, high = _expit(centre - half), _expit(centre + half)
    single = math.fsum((parts.influence**2).ravel().tolist()) / len(parts.values)
    # How much averaging over runs really bought; nothing, where the data cannot say.
    design = min(1.0, spread.variance / single) if single > 0 and len(parts.values) > 1 else 1.0
    return (
        min(low, _newcombe_end(value, m, n, width * math.sqrt(design), 0.0)),
        max(high, _newcombe_end(value, m, n, width * math.sqrt(design), 1.0)),
    )


def _newcombe_end(value: float, m: float, n: float, width: float, end: float) -> float:
    """The theta between value and ``end`` with |value - theta| = width * sqrt(V(theta)), by bisection."""
    near, far = value, end
    for _ in range(60):
        theta = (near + far) / 2
        half = (m + n) / 2 - 1
        variance = (
            theta * (1 - theta) * (1 + half * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / (m * n)
        )
        if abs(value - theta) <= width * math.sqrt(variance):
            near = theta
        else:
            far = theta
    return end if near == far else near


def _expit(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
