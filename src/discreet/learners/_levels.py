"""Levels of quantiles, and the loss that elicits them (Koenker and Bassett, "Regression Quantiles" (1978))."""

from __future__ import annotations

import numpy as np

from discreet._types import Float

__all__ = ["LEVELS", "check_level", "check_levels", "pinball_loss", "resolvable"]

# 1 - 10^e for e = -4, -3.9, ..., -0.1: dense where false positives are rare.
LEVELS: Float[np.ndarray, " level"] = 1 - 10.0 ** (np.arange(-1, -41, -1) / 10)
LEVELS.flags.writeable = False


def check_level(level: float, name: str = "level") -> float:
    """Refuse a level that is no quantile's.

    Example:
        >>> check_level(0.99)
        0.99
    """
    if not 0 < level < 1:
        raise ValueError(f"{name}: expected a number above 0 and below 1, got {level}")
    return float(level)


def check_levels(levels: Float[np.ndarray, " level"]) -> Float[np.ndarray, " level"]:
    """Return levels as float64, if they rise and each is a quantile's."""
    found = np.array(levels, dtype=np.float64)
    if not found.size:
        raise ValueError("levels: expected at least one level")
    for level in found:
        check_level(level, "levels")
    if not (np.diff(found) > 0).all():
        raise ValueError(f"levels: expected rising numbers, got {found.tolist()}")
    return found


def resolvable(rows: int, level: float) -> Float[np.ndarray, " level"]:
    """The usual levels above which at least one of so many rows is expected, and ``level`` itself.

    Example:
        >>> resolvable(100, 0.995)[-3:].round(4).tolist()
        [0.9874, 0.99, 0.995]
    """
    # Two ways to compute a level may differ by rounding: those are one level.
    kept = LEVELS[(rows * (1 - LEVELS) >= 1 - 1e-9) & (np.abs(LEVELS - level) > 1e-12)]
    return np.sort(np.append(kept, level))


def pinball_loss(
    q: Float[np.ndarray, " n *level"] | float, s: Float[np.ndarray, " n"], level: float | np.ndarray
) -> Float[np.ndarray, " n *level"]:
    """Pinball loss of predicted quantiles, one value for each; its mean is least at the quantile.

    Bertran et al., "Scalable Membership Inference Attacks via Quantile Regression" (2023):
    PB_level(q, s) = level (s - q) where s exceeds q, (1 - level) (q - s) elsewhere.

    Args:
        q: Predicted quantiles, one a row, or one for each of several levels.
        s: Scores.
        level: The level of all quantiles, or one for each column of ``q``.

    Example:
        >>> round(float(pinball_loss(99.5, np.arange(1.0, 101), 0.99).mean()), 9)
        0.495
    """
    for each in np.atleast_1d(level):
        check_level(each)
    q = np.asarray(q, dtype=np.float64)
    residual = (s[:, None] if q.ndim == 2 else s) - q
    return np.maximum(level * residual, (level - 1) * residual)
