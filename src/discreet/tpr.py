"""True positive rate at a low false positive rate, with an interval that carries the threshold's doubt.

Carlini et al., "Membership Inference Attacks From First Principles" (2022), section III, for the figure.
The threshold is picked from the same non-members, so an interval for a fixed threshold is far too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float, Int, Num
from discreet.crossed import answers, cluster_sums, complement_pairs, crossed
from discreet.estimate import Estimate
from discreet.labelled import Labelled, check_level, labelled, split_classes
from discreet.roc import allowed, check_fpr, smallest_sample, threshold_at

__all__ = ["OperatingPoint", "ppv", "tpr_at_fpr", "tpr_influence"]


@dataclass(frozen=True, eq=False)
class OperatingPoint:
    """What an attacker catches who may accuse at most a given share of the innocent.

    Attributes:
        fpr: The false positive rate allowed.
        tpr: True positive rate, the mean over runs; n counts the members judged in any run.
        realised_fpr: Share of non-members the thresholds really accuse (mean over runs), at most ``fpr``.
        thresholds: One a run; scores above it are accused.
        members: Smallest number of members judged in a run.
        nonmembers: Smallest number of non-members judged in a run.
        resolvable: Whether one false accusation fits into the rate.
        needs: Non-members a run needs for that.
    """

    fpr: float
    tpr: Estimate
    realised_fpr: float
    thresholds: Float[np.ndarray, " run"]
    members: int
    nonmembers: int
    resolvable: bool
    needs: int

    def __str__(self) -> str:
        text = f"TPR {self.tpr} at FPR {self.fpr:.2%} (realised {self.realised_fpr:.3%})"
        return text if self.resolvable else f"{text}, not resolvable: needs {self.needs:,} non-members"


def tpr_at_fpr(
    scores: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    fpr: float,
    *,
    level: float = 0.95,
    cluster: np.ndarray | None = None,
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> OperatingPoint:
    """True positive rate of the lowest threshold that accuses at most a share ``fpr`` of non-members.

    The interval is for the rate at the population's own threshold: the number J of these n non-members
    above that one is Binomial(n, fpr), whatever the scores look like, which puts it between the J-th and
    the (J + 1)-th largest; each J then has its Clopper-Pearson limits, and they are mixed with J's
    probabilities. With several runs, or clusters, each run's interval is scaled by what averaging over
    runs that share samples leaves of the variance. Where all members of a run are caught or none is, nothing shows
    how far a cluster agrees, and each counts as one answer.

    Args:
        scores: [sample], or [run, sample] for several targets; higher = more likely member.
        member: The answer, same shape.
        fpr: Rate allowed, in (0, 1]; 1 accuses everybody.
        level: Confidence level.
        cluster: One label a sample; samples with one label are dependent.
        keep: Entries to judge, same shape as scores; all when None.

    Raises:
        ValueError: Shapes differ, a score is not finite, a class is missing, or a rate is out of range.

    Example:
        >>> point = tpr_at_fpr(np.arange(1100.0) % 1000, np.arange(1100) >= 1000, 0.1)
        >>> point.tpr.value, point.realised_fpr
        (0.0, 0.1)
    """
    check_level(level)
    check_fpr(fpr)
    values, truth, mask = labelled(scores, member, keep)
    parts = [split_classes(s, y, k) for s, y, k in zip(values, truth, mask, strict=True)]
    thresholds = np.array([threshold_at(part, fpr) for part in parts])
    rates, realised = (
        np.array([_rate(getattr(part, side), t) for part, t in zip(parts, thresholds, strict=True)])
        for side in ("members", "others")
    )
    answered = (
        list(zip(*(answers(side & mask, unit) for side in (truth, ~truth)), strict=True))
        for unit in (None, cluster)
    )
    ends = np.array(
        [
            _mixed_interval(part, fpr, level, *(many if 0 < rate < 1 else few))
            for part, rate, many, few in zip(parts, rates, *answered, strict=True)
        ]
    )
    crossing = len(values) > 1 or cluster is not None
    stretch = _stretch(values, truth, mask, fpr, level, rates, cluster) if crossing else 1.0
    value = _mean(rates)
    low = max(0.0, value - stretch * _mean(rates - ends[:, 0]))
    high = min(1.0, value + stretch * _mean(ends[:, 1] - rates))
    how = "binomial mixture over the threshold" + (", runs x samples crossed" if crossing else "")
    others = min(len(part.others) for part in parts)
    # At such a rate the population's threshold may lie above every sample's: nobody may be caught, in any run.
    low = low if allowed(fpr, others) else 0.0
    return OperatingPoint(
        fpr=fpr,
        tpr=Estimate(value, low, high, int((truth & mask).any(axis=0).sum()), level, how),
        realised_fpr=_mean(realised),
        thresholds=thresholds,
        members=min(len(part.members) for part in parts),
        nonmembers=others,
        resolvable=allowed(fpr, others) > 0,
        needs=smallest_sample(fpr),
    )


def ppv(point: OperatingPoint, prior: float) -> Estimate:
    """Share of accusations that are right, if a share ``prior`` of the people asked about are members.

    By Bayes' rule at the false positive rate allowed (not the realised one, which may be 0 by luck).

    Example:
        >>> point = tpr_at_fpr(np.arange(2000.0), np.arange(2000) >= 1000, 0.01)
        >>> round(ppv(point, 0.01).value, 3)
        0.503
    """
    if not 0 < prior < 1:
        raise ValueError(f"prior: expected a share in (0, 1), got {prior}")

    def right(tpr: float) -> float:
        return prior * tpr / (prior * tpr + (1 - prior) * point.fpr)

    tpr = point.tpr
    return Estimate(right(tpr.value), right(tpr.low), right(tpr.high), tpr.n, tpr.level, tpr.method)


def tpr_influence(
    scores: Float[np.ndarray, "run sample"],
    member: Bool[np.ndarray, "run sample"],
    keep: Bool[np.ndarray, "run sample"],
    fpr: float,
) -> Float[np.ndarray, "run sample"]:
    """First-order effect of each sample on its run's TPR: members by being caught, others by the threshold.

    A non-member above the threshold pushes it up, and members are lost at the slope of the ROC curve
    there, which is measured over the square root of the number of accused non-members to either side.
    """
    effect = np.zeros(scores.shape)
    for run, (s, y, k) in enumerate(zip(scores, member, keep, strict=True)):
        part = split_classes(s, y, k)
        m, n = len(part.members), len(part.others)
        threshold = threshold_at(part, fpr)
        caught = s > threshold
        count = allowed(fpr, n)
        reach = math.isqrt(count) + 1
        first, last = max(count - reach, 0), min(count + reach, n)
        ends = _largest(part.others, np.array([first, last]))
        gain = np.diff(_above(part.members, ends))[0]
        slope = (gain / m) / ((last - first) / n)
        effect[run, k & y] = (caught[k & y] - _rate(part.members, threshold)) / m
        effect[run, k & ~y] = -slope * (caught[k & ~y] - _rate(part.others, threshold)) / n
    return effect


def _mixed_interval(part: Labelled, fpr: float, level: float, m: float, n: float) -> tuple[float, float]:
    """The interval if the members are m independent answers, and the non-members n."""
    from scipy import special, stats

    if fpr == 1:
        return 1.0, 1.0
    size, step = len(part.members) / m, len(part.others) / n
    draws = max(1, round(n))
    first, last = (int(end) for end in (stats.binom.ppf(1e-9, draws, fpr), stats.binom.isf(1e-9, draws, fpr)))
    j = np.arange(first, last + 1)
    weight = stats.binom.pmf(j, draws, fpr)
    # The population's threshold lies between the j-th and the (j + 1)-th largest non-member.
    fewest, most = (
        _above(part.members, _largest(part.others, np.floor(place * step).astype(int))) / size
        for place in (j, j + 1)
    )
    tail = (1 - level) / 2

    def below(x: float) -> float:
        return float(
            weight @ np.where(most < m, special.betainc(most + 1, np.maximum(m - most, 1 / size), x), 0.0)
        )

    def above(x: float) -> float:
        return float(
            weight
            @ np.where(fewest > 0, special.betainc(np.maximum(fewest, 1 / size), m - fewest + 1, x), 1.0)
        )

    rate = _rate(part.members, threshold_at(part, fpr))
    return min(rate, _solve(above, tail)), max(rate, _solve(below, 1 - tail))


def _solve(rising: Callable[[float], float], target: float) -> float:
    """Smallest x in [0, 1] where a rising function reaches the target, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if rising(middle) >= target:
            high = middle
        else:
            low = middle
    return high if high > 1e-12 else 0.0


def _stretch(
    values: Float[np.ndarray, "run sample"],
    truth: Bool[np.ndarray, "run sample"],
    mask: Bool[np.ndarray, "run sample"],
    fpr: float,
    level: float,
    rates: Float[np.ndarray, " run"],
    cluster: np.ndarray | None,
) -> float:
    """Standard error of the mean over runs, over the mean of the runs' own standard errors."""
    from scipy import stats

    effect = tpr_influence(values, truth, mask, fpr)
    single = math.fsum((effect**2).ravel().tolist()) / len(values)
    spread = crossed(rates, cluster_sums(effect, cluster), complement_pairs(truth & mask))
    if single == 0:
        return 1.0
    normal = float(stats.norm.ppf((1 + level) / 2))
    return math.sqrt(spread.variance / single) * spread.quantile(level) / normal


def _largest(
    ascending: Float[np.ndarray, " score"], place: int | Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """The place-th largest score; +inf for place 0, -inf past the end."""
    padded = np.concatenate([[-np.inf], ascending, [np.inf]])
    return padded[np.maximum(len(padded) - 1 - np.atleast_1d(place), 0)]


def _above(
    ascending: Float[np.ndarray, " score"], threshold: Float[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    return len(ascending) - np.searchsorted(ascending, threshold, side="right")


def _rate(ascending: Float[np.ndarray, " score"], threshold: float) -> float:
    return float(len(ascending) - np.searchsorted(ascending, threshold, side="right")) / len(ascending)


def _mean(values: Float[np.ndarray, " run"]) -> float:
    # Sorted, so that the order of runs cannot change a bit.
    return float(np.sort(values).mean())
