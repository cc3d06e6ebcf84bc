"""Rank correlation with an interval that holds for a handful of variants."""

from __future__ import annotations

import math

import numpy as np

from discreet._types import Float, Num
from discreet.estimate import Estimate
from discreet.labelled import check_level

__all__ = ["ranks", "spearman"]

_BLOCKS = 200


def ranks(values: Num[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Ranks from 1, ties sharing their middle rank.

    Example:
        >>> ranks(np.array([10.0, 30.0, 10.0]))
        array([1.5, 3. , 1.5])
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def spearman(a: Num[np.ndarray, " n"], b: Num[np.ndarray, " _n"], *, level: float = 0.95) -> Estimate:
    """Spearman's correlation of two lists, with an interval over the things listed.

    The interval is Fisher's z with the larger of two variances, Bonett and Wright's, "Sample size
    requirements for estimating Pearson, Kendall and Spearman correlations" (2000), and the jackknife's
    (the first is too small above 0.95), a t quantile with n - 2 degrees of freedom, and half a step
    of the statistic against its coarseness at small n. In simulations (bivariate normal, n from 5 to
    50) it covered 94.5 % or more of the time at 95 %. With fewer than four pairs it is [-1, 1].

    Args:
        a: One number each, infinities allowed (only ranks count).
        b: The same things in the same order.
        level: Confidence level.

    Returns:
        The correlation of mid-ranks in [-1, 1]; n counts the pairs.

    Raises:
        ValueError: Lengths differ or are below 2, a value is NaN, or one list is constant
            (a rank correlation with a constant does not exist; it is not 0).

    Example:
        >>> spearman(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0])).value
        0.8
    """
    check_level(level)
    a, b = (_checked(name, x) for name, x in (("a", a), ("b", b)))
    n = len(a)
    if len(b) != n:
        raise ValueError(f"b: expected as many values as a, {n}, got {len(b)}")
    value = _correlation(a, b)
    if n < 4:
        return Estimate(value, -1.0, 1.0, n, level, "no interval below four pairs")
    from scipy import stats

    # One swap of neighbours moves the statistic by 12 / (n^3 - n); half of it is lost to rounding.
    step = 6 / (n**3 - n)
    width = float(stats.t.ppf((1 + level) / 2, n - 2))
    jackknife = _jackknife(a, b)

    def end(side: int) -> float:
        r = min(max(value + side * step, -1 + step), 1 - step)
        variance = max((1 + r * r / 2) / (n - 3), jackknife)
        return math.tanh(math.atanh(r) + side * width * math.sqrt(variance))

    how = "Fisher z, larger of Bonett-Wright and jackknife variance"
    return Estimate(value, min(value, end(-1)), max(value, end(1)), n, level, how)


def _checked(name: str, values: Num[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"{name}: expected one axis with at least 2 values, got shape {list(values.shape)}")
    if np.isnan(values).any():
        raise ValueError(f"{name}: expected numbers, got NaN at place {int(np.argmax(np.isnan(values)))}")
    if (values == values[0]).all():
        raise ValueError(f"{name}: expected values that differ, got {len(values)} times {values[0]}")
    return values


def _correlation(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    # Doubled mid-ranks are whole numbers, so the sums are exact and the order of pairs cannot matter.
    x, y = ((2 * ranks(v)).astype(np.int64) - len(v) - 1 for v in (a, b))
    square = math.sqrt(int((x * x).sum()) * int((y * y).sum()))
    return max(-1.0, min(1.0, int((x * y).sum()) / square))


def _jackknife(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    """Variance of atanh(correlation), leaving out one pair (or one of 200 random blocks) at a time."""
    order = np.lexsort((b, a))
    a, b = a[order], b[order]
    block = np.random.default_rng(0).permutation(len(a)) % _BLOCKS
    blocks = int(block.max()) + 1
    z = []
    for out in range(blocks):
        x, y = a[block != out], b[block != out]
        if (x == x[0]).all() or (y == y[0]).all():
            return 0.0
        step = 6 / (len(x) ** 3 - len(x))
        z.append(math.atanh(min(max(_correlation(x, y), -1 + step), 1 - step)))
    return (blocks - 1) / blocks * float(((np.array(z) - np.mean(z)) ** 2).sum())
