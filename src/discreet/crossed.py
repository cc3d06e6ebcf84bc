"""The variance of a mean over runs that share their samples.

Runs are drawn (seed, training half) and so are samples, and each run meets each sample. A mean over
runs is therefore uncertain in two ways, and runs alone understate it: the two-way random model
behind "multi-reader multi-case" ROC studies (Gallas, "One-shot estimate of MRMC variance: AUC", 2006).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float, Int

__all__ = ["Spread", "answers", "cluster_sums", "complement_pairs", "crossed"]

_ENOUGH_PAIRS = 8


@dataclass(frozen=True)
class Spread:
    """Variance of a mean over runs, with the degrees of freedom of its estimate (Satterthwaite)."""

    variance: float
    dof: float

    def quantile(self, level: float) -> float:
        """Half-width of a two-sided interval in standard errors."""
        from scipy import stats

        tail = (1 + level) / 2
        return float(stats.norm.ppf(tail) if math.isinf(self.dof) else stats.t.ppf(tail, self.dof))


def crossed(
    values: Float[np.ndarray, " run"],
    influence: Float[np.ndarray, "run unit"],
    pairs: Int[np.ndarray, " run"],
) -> Spread:
    """Variance of ``values.mean()`` over runs and units drawn at random.

    Between-run part plus between-unit part, less the run-by-unit noise that both hold, and never less
    than either. One run: the between-unit part alone, which then speaks about that run only.

    Args:
        values: The figure of each run.
        influence: How much each unit (a sample, or a cluster of dependent ones) moved each run's
            figure, so that ``(influence[r] ** 2).sum()`` is that figure's variance given the run.
        pairs: Equal numbers mark runs with complementary training halves. Where there are eight pairs
            and more, each is one draw; fewer are taken run by run.

    Returns:
        The variance, not an interval.
    """
    runs = len(influence)
    units = int(influence.any(axis=0).sum())
    shared = _sum(np.sort(influence, axis=0).mean(axis=0) ** 2)
    if runs == 1:
        return Spread(shared, math.inf)
    draws = _group_means(values, pairs)
    if len(draws) < _ENOUGH_PAIRS:
        # Members of a pair differ from each other more than two draws would: safe, with more freedom.
        draws = np.sort(values)
    between = float(draws.var(ddof=1)) / len(draws)
    single = _sum(influence.ravel() ** 2) / runs**2
    noise = max(0.0, (single - shared / runs) * runs / (runs - 1))
    variance = max(between, shared, between + shared - noise)
    if variance == 0:
        return Spread(0.0, len(draws) - 1.0)
    dof = variance**2 / (between**2 / (len(draws) - 1) + shared**2 / max(units - 1, 1))
    return Spread(variance, max(dof, float(len(draws) - 1)))


def complement_pairs(member: Bool[np.ndarray, "run sample"]) -> Int[np.ndarray, " run"]:
    """Number the independent draws among runs: two runs with complementary halves share a number.

    Halves complement each other when no sample is in both and every sample that any run trained on
    is in one of them.

    Example:
        >>> complement_pairs(np.array([[True, False, False], [False, True, False], [True, True, False]]))
        array([0, 0, 2])
    """
    runs = len(member)
    number = np.arange(runs)
    pool = member.any(axis=0)
    halves = {row.tobytes(): at for at, row in reversed(list(enumerate(member)))}
    paired: set[int] = set()
    for run in range(runs):
        twin = halves.get((pool & ~member[run]).tobytes())
        if twin is not None and twin != run and not {run, twin} & paired:
            number[[run, twin]] = min(run, twin)
            paired |= {run, twin}
    return number


def cluster_sums(
    influence: Float[np.ndarray, "run sample"], cluster: np.ndarray | None
) -> Float[np.ndarray, "run unit"]:
    """Add up the influence of samples that share a label (scaffold, author, patient)."""
    if cluster is None:
        return influence
    if np.shape(cluster) != (influence.shape[1],):
        raise ValueError(
            f"cluster: expected one label a sample, {influence.shape[1]}, got shape {list(np.shape(cluster))}"
        )
    labels, unit = np.unique(np.asarray(cluster), return_inverse=True)
    if len(labels) < 2:
        raise ValueError(f"cluster: expected at least two different labels, got {len(labels)}")
    sums = np.zeros((len(influence), len(labels)))
    for run, row in enumerate(influence):
        order = np.lexsort((row, unit))
        sums[run] = np.add.reduceat(row[order], np.searchsorted(unit[order], np.arange(len(labels))))
    return sums * math.sqrt(len(labels) / (len(labels) - 1))


def answers(rows: Bool[np.ndarray, "run sample"], cluster: np.ndarray | None) -> Float[np.ndarray, " run"]:
    """How many independent answers the rows of each run are, if the rows of a cluster all answer alike.

    Without clusters, their number; of clusters of sizes s, (sum of s)² / sum of s²: that is what counts where nothing
    varies, and nothing therefore shows how far a cluster agrees.

    Example:
        >>> answers(np.ones((1, 4), dtype=bool), np.array([0, 0, 0, 1])).tolist()
        [1.6]
    """
    many = rows.sum(axis=1).astype(np.float64)
    if cluster is None:
        return many
    sizes = [np.unique(np.asarray(cluster)[row], return_counts=True)[1].astype(np.float64) for row in rows]
    return many**2 / np.array([float((size**2).sum()) for size in sizes])


def _group_means(
    values: Float[np.ndarray, " run"], pairs: Int[np.ndarray, " run"]
) -> Float[np.ndarray, " draw"]:
    return np.sort([np.sort(values[pairs == number]).mean() for number in np.unique(pairs)])


def _sum(terms: Float[np.ndarray, " term"]) -> float:
    # Rounded once, so no order of rows can change a bit.
    return math.fsum(terms.tolist())
