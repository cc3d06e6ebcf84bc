"""Does one variant leak less than another? Both judged on the same rows.

What the two share (hard samples, lucky halves) cancels in a paired comparison; two separate intervals
that overlap would hide a real difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float, Num
from discreet.auc import auc_parts
from discreet.crossed import answers, cluster_sums, complement_pairs, crossed
from discreet.estimate import Estimate
from discreet.labelled import check_level, labelled, split_classes
from discreet.resampled import resampled_differences
from discreet.roc import check_fpr, threshold_at
from discreet.tpr import tpr_influence

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """First variant less second, on the same rows.

    Attributes:
        auc: Difference of AUCs; below 0 the first leaks less.
        tpr: Difference of true positive rates at ``fpr``.
        fpr: False positive rate allowed to both.
        only_first: Members caught in the first variant only, summed over runs.
        only_second: Members caught in the second variant only.
        mcnemar: Exact two-sided p-value of these two counts (McNemar, "Note on the sampling error of the
            difference between correlated proportions or percentages", 1947), at the thresholds as they
            are; None with several runs, whose counts are not independent.
    """

    auc: Estimate
    tpr: Estimate
    fpr: float
    only_first: int
    only_second: int
    mcnemar: float | None

    @property
    def answer(self) -> str:
        """Which variant leaks less by the AUC, in words."""
        return _answer(self.auc)

    @property
    def answer_at_fpr(self) -> str:
        """Which variant leaks less by the true positive rate at ``fpr``, in words."""
        return _answer(self.tpr)


def compare(
    first: Num[np.ndarray, "*_run _sample"],
    second: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    *,
    fpr: float = 0.01,
    level: float = 0.95,
    seed: int = 0,
    replicates: int = 2000,
    workers: int = 1,
    cluster: np.ndarray | None = None,
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> Comparison:
    """Compare what an attack finds in two variants of the same runs.

    One run: a paired bootstrap over samples, within each class, both thresholds chosen anew in every
    replicate. Several runs, or clusters: the crossed run x sample variance of the difference.

    Args:
        first: Scores of the first variant, [sample] or [run, sample]; higher = more likely member.
        second: Scores of the second variant, same shape.
        member: The answer, same shape.
        fpr: Rate at which true positive rates are compared.
        level: Confidence level of each interval.
        seed: Seed of the bootstrap.
        replicates: Bootstrap replicates.
        workers: Threads; the result does not depend on them.
        cluster: One label a sample; samples with one label are dependent.
        keep: Entries to judge, same shape; all when None. Leave out what either variant must leave out.

    Raises:
        ValueError: Shapes differ, a score is not finite, or a run lacks one of the classes.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> member = np.arange(600) < 300
        >>> leaky, shy = (rng.normal(size=600) + leak * member for leak in (2.0, 0.5))
        >>> compare(shy, leaky, member, replicates=200).answer
        'the first leaks less'
    """
    check_level(level)
    check_fpr(fpr)
    if np.shape(first) != np.shape(second):
        raise ValueError(
            f"second: expected the shape of first, {list(np.shape(first))}, got {list(np.shape(second))}"
        )
    a, truth, mask = labelled(first, member, keep)
    b, _, _ = labelled(second, member, keep)
    rows = _Rows(a, b, truth, mask, fpr)
    only_first, only_second = rows.discordant()
    crossing = len(a) > 1 or cluster is not None
    if crossing:
        intervals, how = _crossed_ends(rows, cluster, level), "paired, runs x samples crossed"
    else:
        intervals = _bootstrap_ends(rows, level, seed, replicates, workers)
        how = f"paired bootstrap, {replicates} replicates"
    floors = rows.floors(level, cluster)
    n = int(mask.any(axis=0).sum())
    estimates = []
    for values, (low, high), floor, always in zip(
        (rows.areas(), rows.rates()), intervals, floors, (False, not crossing), strict=True
    ):
        ends = [low, high, *(floor if always or low == high else ())]
        value = float(np.sort(values).mean())
        estimates.append(Estimate(value, min(value, *ends), max(value, *ends), n, level, how))
    mcnemar = None if crossing else _mcnemar(only_first, only_second)
    return Comparison(estimates[0], estimates[1], fpr, only_first, only_second, mcnemar)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Two variants' scores on the same runs and samples."""

    first: Float[np.ndarray, "run sample"]
    second: Float[np.ndarray, "run sample"]
    member: Bool[np.ndarray, "run sample"]
    keep: Bool[np.ndarray, "run sample"]
    fpr: float

    def caught(self) -> list[Bool[np.ndarray, "run sample"]]:
        """Which members each variant gives away, at its own thresholds."""
        found = []
        for scores in (self.first, self.second):
            threshold = [
                threshold_at(split_classes(s, y, k), self.fpr)
                for s, y, k in zip(scores, self.member, self.keep, strict=True)
            ]
            found.append((scores > np.array(threshold)[:, None]) & self.member & self.keep)
        return found

    def discordant(self) -> tuple[int, int]:
        one, two = self.caught()
        return int((one & ~two).sum()), int((two & ~one).sum())

    def areas(self) -> Float[np.ndarray, " run"]:
        one, two = (auc_parts(scores, self.member, self.keep).values for scores in (self.first, self.second))
        return one - two

    def rates(self) -> Float[np.ndarray, " run"]:
        one, two = (caught.sum(axis=1) for caught in self.caught())
        return (one - two) / (self.member & self.keep).sum(axis=1)

    def floors(self, level: float, cluster: np.ndarray | None) -> list[tuple[float, float]]:
        """Intervals of AUC and TPR difference that stay open where no difference was seen at all.

        Nothing then shows how far clusters agree, and each counts as one answer.
        """
        if np.array_equal(self.first[self.keep], self.second[self.keep]):
            return [(0.0, 0.0), (0.0, 0.0)]
        members, others = (answers(side & self.keep, cluster) for side in (self.member, ~self.member))
        fewest = float(min(members.min(), others.min()))
        # Rule of three: with no discordant pair among n, a share of them up to this may be discordant.
        unseen = 1 - ((1 - level) / 2) ** (1 / fewest)
        runs = len(members)
        only_first, only_second = self.discordant()
        return [
            (-unseen, unseen),
            _agresti_min(only_first / runs, only_second / runs, float(members.mean()), level),
        ]


def _crossed_ends(rows: _Rows, cluster: np.ndarray | None, level: float) -> list[tuple[float, float]]:
    truth, mask = rows.member, rows.keep
    pairs = complement_pairs(truth & mask)
    areas, rates = (
        [figure(scores) for scores in (rows.first, rows.second)]
        for figure in (
            lambda scores: auc_parts(scores, truth, mask).influence,
            lambda scores: tpr_influence(scores, truth, mask, rows.fpr),
        )
    )
    ends = []
    for values, (one, two) in ((rows.areas(), areas), (rows.rates(), rates)):
        spread = crossed(values, cluster_sums(one - two, cluster), pairs)
        value, half = float(np.sort(values).mean()), spread.quantile(level) * math.sqrt(spread.variance)
        ends.append((max(-1.0, value - half), min(1.0, value + half)))
    return ends


def _bootstrap_ends(
    rows: _Rows, level: float, seed: int, replicates: int, workers: int
) -> list[tuple[float, float]]:
    kept = rows.keep[0]
    draws = resampled_differences(
        rows.first[0, kept],
        rows.second[0, kept],
        rows.member[0, kept],
        rows.fpr,
        seed=seed,
        replicates=replicates,
        workers=workers,
    )
    return [
        (float(low), float(high))
        for low, high in (np.quantile(d, [(1 - level) / 2, (1 + level) / 2]) for d in draws)
    ]


def _agresti_min(only_first: float, only_second: float, n: float, level: float) -> tuple[float, float]:
    """Agresti and Min, "Simple improved confidence intervals for comparing matched proportions" (2005)."""
    from scipy import special

    z = float(special.ndtri((1 + level) / 2))
    b, c, total = only_first + 0.5, only_second + 0.5, n + 2
    value, half = (b - c) / total, z * math.sqrt(b + c - (b - c) ** 2 / total) / total
    return max(-1.0, value - half), min(1.0, value + half)


def _mcnemar(only_first: int, only_second: int) -> float:
    from scipy import stats

    n = only_first + only_second
    return 1.0 if n == 0 else min(1.0, 2 * float(stats.binom.cdf(min(only_first, only_second), n, 0.5)))


def _answer(difference: Estimate) -> str:
    if difference.high < 0:
        return "the first leaks less"
    if difference.low > 0:
        return "the second leaks less"
    return "not told apart"
