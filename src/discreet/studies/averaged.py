"""A mean over data sets or runs, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet._types import Float

__all__ = ["mean_interval"]


def mean_interval(values: Sequence[float] | Float[np.ndarray, " value"]) -> tuple[float, float, float]:
    """The mean and the ends of its 95 % t interval; of one value, no interval (NaN).

    Example:
        >>> tuple(round(each, 2) for each in mean_interval([0.4, 0.6]))
        (0.5, -0.77, 1.77)
    """
    from scipy.special import stdtrit

    found = np.asarray(values, np.float64)
    if len(found) < 2:
        return float(found.mean()), np.nan, np.nan
    half = float(stdtrit(len(found) - 1, 0.975) * found.std(ddof=1) / np.sqrt(len(found)))
    return float(found.mean()), float(found.mean()) - half, float(found.mean()) + half
