"""Intervals for proportions: exact for one, score-based for the difference of two."""

from __future__ import annotations

import math

from discreet.labelled import check_level

__all__ = ["clopper_pearson", "difference", "wilson"]


def clopper_pearson(hits: int | float, n: int | float, *, level: float = 0.95) -> tuple[float, float]:
    """Exact two-sided interval of a proportion; each end alone holds at (1 + level) / 2.

    Clopper and Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the
    Binomial" (1934). Guaranteed coverage for n independent trials.

    Args:
        hits: Successes, 0 to n.
        n: Trials.
        level: Confidence level.

    Raises:
        ValueError: ``hits`` is not in [0, n], n is not positive, or the level is outside (0, 1).

    Example:
        >>> low, high = clopper_pearson(0, 5000)
        >>> low, round(100 * high, 4)
        (0.0, 0.0738)
    """
    _check(hits, n, level)
    from scipy import special

    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(special.betaincinv(hits, n - hits + 1, tail))
    high = 1.0 if hits == n else float(special.betaincinv(hits + 1, n - hits, 1 - tail))
    return low, high


def wilson(hits: int | float, n: int | float, *, level: float = 0.95) -> tuple[float, float]:
    """Score interval of a proportion: Wilson, "Probable Inference, the Law of Succession, …" (1927).

    Example:
        >>> low, high = wilson(5, 10)
        >>> round(low, 4), round(high, 4)
        (0.2366, 0.7634)
    """
    _check(hits, n, level)
    from scipy import special

    z = float(special.ndtri((1 + level) / 2))
    p, spread = hits / n, z * z / n
    centre = (p + spread / 2) / (1 + spread)
    half = math.sqrt(p * (1 - p) * spread + spread * spread / 4) / (1 + spread)
    low = 0.0 if hits == 0 else max(0.0, centre - half)
    return low, 1.0 if hits == n else min(1.0, centre + half)


def difference(
    hits: int | float, n: int | float, other_hits: int | float, other_n: int | float, *, level: float = 0.95
) -> tuple[float, float]:
    """Interval of the difference of two independent proportions.

    Newcombe, "Interval estimation for the difference between independent proportions" (1998), method 10.

    Example:
        >>> low, high = difference(56, 70, 48, 80)  # the paper's example (a)
        >>> round(low, 4), round(high, 4)
        (0.0524, 0.3339)
    """
    p, q = hits / n, other_hits / other_n
    low, high = wilson(hits, n, level=level)
    other_low, other_high = wilson(other_hits, other_n, level=level)
    return (
        p - q - math.hypot(p - low, other_high - q),
        p - q + math.hypot(high - p, q - other_low),
    )


def _check(hits: int | float, n: int | float, level: float) -> None:
    check_level(level)
    if not n > 0:
        raise ValueError(f"n: expected a positive number of trials, got {n}")
    if not 0 <= hits <= n:
        raise ValueError(f"hits: expected a number from 0 to n = {n}, got {hits}")
