"""Confidence bounds for a squared standardised mean near zero, by inverting its folded normal law.

Near zero the plain jackknife claims too much: the square of a noisy mean is never negative, and its
derivative vanishes. The law of ``|Z + delta|`` is known, so bounds on delta are read off it.
"""

from __future__ import annotations

import numpy as np

from discreet._types import Float

__all__ = ["resolution", "within_run"]


def resolution(n: int, level: float) -> float:
    """The indicator below which n samples cannot tell it from zero: ``z^2 / (2n)``.

    Example:
        >>> round(resolution(1000, 0.95) * 1000, 2)
        1.92
    """
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2)) ** 2 / (2 * n)


def within_run(ratios: Float[np.ndarray, " candidate"], n: int, level: float) -> tuple[float, float]:
    """Interval for ``min_k r_k`` from the ratios ``r_k = 1/2 m_k^2 / v_k`` of one run on n samples.

    The low end is the least one-sided lower end. The high end is the least upper end at ``alpha`` over twice
    the number of candidates, since the least ratio was picked from the data.

    Args:
        ratios: Ratios of the candidates (population variance), infinite ones allowed.
        n: Evaluation samples.
        level: Confidence level.

    Returns:
        Low and high; ``(inf, inf)`` when every ratio is infinite.

    Example:
        >>> low, high = within_run(np.array([0.0001, 0.5]), n=1000, level=0.95)
        >>> low, round(high, 5)
        (0.0, 0.00362)
    """
    from scipy.special import ndtri

    finite = ratios[np.isfinite(ratios)]
    if not len(finite):
        return np.inf, np.inf
    alpha = (1 - level) / 2
    # estimating the variance too widens the law of the standardised mean by 1 + r (normal differences)
    width = np.sqrt(1 + finite)
    t = np.sqrt(2 * finite * (n - 1)) / width
    scale = width**2 / (2 * (n - 1))
    low = scale * _lower(t, alpha) ** 2
    # one-sided, since inverting the folded law upwards would give an interval of width zero at t = 0
    high = scale * (t + float(ndtri(1 - alpha / len(ratios)))) ** 2
    least = float(finite.min())
    return min(float(low.min()), least), max(float(high.min()), least)


def _lower(t: Float[np.ndarray, " candidate"], alpha: float) -> Float[np.ndarray, " candidate"]:
    """The delta at which ``|Z + delta|`` reaches t with chance alpha; 0 where it does so at delta = 0."""
    from scipy.special import ndtr

    a, b = np.zeros_like(t), t + 12.0
    for _ in range(60):
        delta = (a + b) / 2
        reached = 1 - (ndtr(t - delta) - ndtr(-t - delta)) > alpha
        a, b = np.where(reached, a, delta), np.where(reached, delta, b)
    return a
