"""From scores to p-values that hold for a finite sample: Bates et al., "Testing for Outliers with Conformal
p-values" (2023), Eq. 1, after Vovk et al., "Algorithmic Learning in a Random World" (2005).

An attack's score is compared with the scores of non-members that nothing was fitted to. Whatever the attack, a fresh
non-member then gets a p-value of alpha or less with probability at most alpha. Higher score = more likely member.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet._types import Float, Num
from discreet.labelled import check_level
from discreet.roc import check_fpr

__all__ = ["Calibrated", "calibrate", "needs", "p_values", "realised_band"]


@dataclass(frozen=True)
class Calibrated:
    """A threshold with a guaranteed false positive rate.

    Attributes:
        alpha: The rate: over draws of the calibration rows, a fresh non-member is accused at most so often.
        threshold: Scores above it are accused: the k-th largest calibration score, k = floor(alpha (n + 1));
            +inf where k is 0, -inf where alpha is 1.
        n: Calibration rows.
        low: Lower end of the band in which the rate given *these* calibration rows lies.
        high: Upper end of that band.
        level: Confidence level of the band.
    """

    alpha: float
    threshold: float
    n: int
    low: float
    high: float
    level: float

    @property
    def resolvable(self) -> bool:
        """Whether there are enough calibration rows to accuse anybody at this rate."""
        return self.n >= self.needs

    @property
    def needs(self) -> int:
        """Calibration rows needed for that."""
        return needs(self.alpha)

    def __str__(self) -> str:
        if not self.resolvable:
            return f"FPR {self.alpha:.4g} is not resolvable (needs {self.needs:,} calibration rows, has {self.n:,})"
        return (
            f"FPR at most {self.alpha:.4g}, realised {self.low:.3g} to {self.high:.3g} "
            f"({self.level:.4g}, {self.n:,} calibration rows)"
        )


def p_values(
    scores: Num[np.ndarray, " sample"], calibration: Num[np.ndarray, " calibrated"]
) -> Float[np.ndarray, " sample"]:
    """Conformal p-values, (1 + number of calibration scores at least as high) / (n + 1): Eq. 1.

    Small means "unlike a non-member". Ties count against an accusation, so the guarantee needs no
    continuous scores.

    Args:
        scores: Scores to judge; higher = more likely member.
        calibration: Scores of non-members exchangeable with the non-members to judge; that the attack
            saw neither of them, or both alike, is what this stands on.

    Returns:
        Values in [1 / (n + 1), 1].

    Raises:
        ValueError: No calibration score, or a score that is not finite.

    Example:
        >>> p_values(np.array([3.0, 2.0, 0.0, -5.0]), np.array([-1.0, 0.0, 0.0, 1.0, 2.0])) * 6
        array([1., 2., 5., 6.])
    """
    asked, known = _finite("scores", scores), np.sort(_finite("calibration", calibration))
    if not known.size:
        raise ValueError("calibration: expected at least one score of a non-member, got none")
    as_high = len(known) - np.searchsorted(known, asked, side="left")
    return (1 + as_high) / (len(known) + 1)


def calibrate(
    calibration: Num[np.ndarray, " calibrated"], alpha: float, *, level: float = 0.95
) -> Calibrated:
    """The threshold that accuses exactly the samples whose conformal p-value is at most ``alpha``.

    Args:
        calibration: Scores of non-members that nothing was fitted to.
        alpha: False positive rate, in (0, 1].
        level: Confidence level of the band of the realised rate.

    Raises:
        ValueError: No calibration score, one that is not finite, or a rate out of range.

    Example:
        >>> print(calibrate(np.arange(5.0), 0.01))
        FPR 0.01 is not resolvable (needs 99 calibration rows, has 5)
    """
    known = np.sort(_finite("calibration", calibration))
    if not known.size:
        raise ValueError("calibration: expected at least one score of a non-member, got none")
    k, n = _rank(alpha, len(known)), len(known)
    threshold = math.inf if k == 0 else -math.inf if k > n else float(known[n - k])
    low, high = realised_band(n, alpha, level=level)
    return Calibrated(float(alpha), threshold, n, low, high, level)


def needs(alpha: float) -> int:
    """Fewest calibration rows at which a p-value can be as small as ``alpha``.

    Example:
        >>> needs(0.01), needs(0.001), needs(1.0)
        (99, 999, 1)
    """
    check_fpr(alpha)
    return max(1, math.ceil(1 / _decimal(alpha)) - 1)


def realised_band(
    n: int, alpha: float, *, level: float = 0.95, judged: int | None = None
) -> tuple[float, float]:
    """Where the false positive rate lies, given the calibration rows that happened to be drawn.

    The rate of the threshold at the k-th largest of n continuous scores is Beta(k, n + 1 - k); the share
    accused among ``judged`` fresh non-members is beta-binomial. Tied scores only lower both.

    Args:
        n: Calibration rows.
        alpha: The rate asked for.
        level: Probability of the band, shared evenly between its two ends.
        judged: Fresh non-members that the share is taken of; None: infinitely many.

    Example:
        >>> [round(100 * end, 2) for end in realised_band(1000, 0.01)]
        [0.48, 1.7]
    """
    check_level(level)
    if n < 1:
        raise ValueError(f"n: expected at least one calibration row, got {n}")
    k = _rank(alpha, n)
    if k == 0 or k > n:
        return (0.0, 0.0) if k == 0 else (1.0, 1.0)
    tail = (1 - level) / 2
    if judged is None:
        from scipy import special

        return float(special.betaincinv(k, n + 1 - k, tail)), float(
            special.betaincinv(k, n + 1 - k, 1 - tail)
        )
    if judged < 1:
        raise ValueError(f"judged: expected at least one non-member, got {judged}")
    from scipy import stats

    law = stats.betabinom(judged, k, n + 1 - k)
    return float(law.ppf(tail)) / judged, float(law.ppf(1 - tail)) / judged


def _rank(alpha: float, n: int) -> int:
    """floor(alpha (n + 1)) of the decimal that the user wrote: 0.29 of 100 is 29 (floats say 28)."""
    check_fpr(alpha)
    return math.floor(_decimal(alpha) * (n + 1))


def _decimal(alpha: float) -> Fraction:
    return Fraction(repr(float(alpha)))


def _finite(name: str, scores: Num[np.ndarray, "*_n"]) -> Float[np.ndarray, " n"]:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"{name}: expected one score a sample, got shape {list(values.shape)}")
    bad = ~np.isfinite(values)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(
            f"{name}: expected finite numbers, got {values[at]} at {at} ({int(bad.sum())} such scores)"
        )
    return values
