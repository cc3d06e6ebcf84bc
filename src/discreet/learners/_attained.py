"""The level that a score attains among its record's predicted quantiles."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from discreet._types import Float

__all__ = ["attained"]


def attained(
    levels: Float[np.ndarray, " level"],
    quantiles: Float[np.ndarray, "n level"],
    s: Float[np.ndarray, " n"],
    narrow: float,
) -> Float[np.ndarray, " n"]:
    """Level of each score among its own quantiles, as a standard normal quantile.

    Linear between neighbouring quantiles in normal units, and beyond the outermost ones with the slope
    of the last two. Rises strictly with ``s``, so different scores of one record never tie; a score that
    equals several tied quantiles gets the middle of their levels.

    Args:
        levels: Levels, rising, between 0 and 1.
        quantiles: Quantiles of each row, never falling along the levels.
        s: Scores.
        narrow: Least distance that the slope of a tail is taken over, > 0: two quantiles that (almost)
            agree would send what lies beyond them arbitrarily far out.

    Example:
        >>> attained(np.array([0.5, 0.975]), np.array([[0.0, 2.0]] * 4), np.array([0.0, 1.0, 2.0, 4.0]), 0.1).round(2)
        array([0.  , 0.98, 1.96, 3.92])
    """
    z = ndtri(levels)
    below = (quantiles < s[:, None]).sum(axis=1)
    within = (quantiles <= s[:, None]).sum(axis=1)
    last = len(levels) - 1
    row = np.arange(len(s))
    left = (below - 1).clip(0, max(last - 1, 0))
    right = np.minimum(left + 1, last)
    step = z[right] - z[left] if last else np.ones(len(s))
    gap = quantiles[row, right] - quantiles[row, left]
    outside = (below > last) | (within == 0)
    slope = step / np.where(outside, np.maximum(gap, narrow), np.where(gap > 0, gap, 1.0))
    # From the nearer end: the last quantile above the range, else the one below the score.
    base = np.where(below > last, last, left)
    value = z[base] + slope * (s - quantiles[row, base])
    hit = below < within
    middle = (z[below.clip(max=last)] + z[(within - 1).clip(0)]) / 2
    return np.where(hit, middle, value)
