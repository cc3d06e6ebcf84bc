"""A finite class whose membership-inference security is known exactly, by enumeration.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", section 7 (eqs. 7 to 11) and
Theorem 3.4: samples take finitely many values, learning picks the parameter of least empirical loss among finitely
many, and so the law of (parameter, sample) is a sum over the counts of a multinomial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._types import Float, Int

__all__ = ["FiniteClass", "Law", "law"]

_MOST = 6_000_000


@dataclass(frozen=True, eq=False)
class FiniteClass:
    """Parameters, samples, and the loss of each on each.

    Attributes:
        loss: Loss of each parameter on each value of a sample.
        chance: Probability of each value.

    Raises:
        ValueError: Shapes that do not fit, fewer than two parameters or values, or chances that are not positive or
            do not sum to 1.

    Example:
        >>> coin = FiniteClass(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.6, 0.4]))
        >>> round(coin.r, 4)
        0.0208
    """

    loss: Float[np.ndarray, ...]  # [parameter, value]; shapes are checked below, with messages
    chance: Float[np.ndarray, ...]  # [value]

    def __post_init__(self) -> None:
        if self.loss.ndim != 2 or min(self.loss.shape) < 2 or self.chance.shape != self.loss.shape[1:]:
            raise ValueError(
                "loss, chance: expected shapes [parameter, value] and [value], two of each at least, got"
                f" {list(self.loss.shape)} and {list(self.chance.shape)}"
            )
        if not np.isfinite(self.loss).all():
            raise ValueError("loss: expected finite numbers")
        if not ((self.chance > 0).all() and abs(self.chance.sum() - 1) < 1e-12):
            raise ValueError(f"chance: expected positive numbers with sum 1, got {self.chance.tolist()}")

    @property
    def best(self) -> int:
        """The parameter of least expected loss, the first of them."""
        return int((self.loss @ self.chance).argmin())

    @property
    def gap(self) -> Float[np.ndarray, " parameter"]:
        """``delta_k``: expected loss less that of the best parameter."""
        mean = self.loss @ self.chance
        return mean - mean[self.best]

    @property
    def variance(self) -> Float[np.ndarray, " parameter"]:
        """``rho_kk``: variance of the difference to the best parameter's loss."""
        difference = self.loss - self.loss[self.best]
        return np.square(difference - self.gap[:, None]) @ self.chance

    @property
    def r(self) -> float:
        """The indicator of Definition 3.5, without any estimation; the minimum is over the parameters of other losses
        than the best one's, as equal ones are one configuration. Infinite if there is none, as nothing leaks then.
        """
        others = (self.loss != self.loss[self.best]).any(axis=1)
        with np.errstate(divide="ignore"):
            return float((self.gap[others] ** 2 / self.variance[others]).min(initial=math.inf) / 2)

    @property
    def large_deviation(self) -> float:
        """How fast another parameter than the best one stops being learned: ``-log P / n`` for a class that does not
        change with n, the least of the Chernoff rates ``-min_t log E exp(-t L_k)``.

        For small gaps it is r; Theorem 3.4 is about gaps that shrink (A1).
        """
        from scipy.optimize import minimize_scalar

        rates = []
        for k, difference in enumerate(self.loss - self.loss[self.best]):
            if k == self.best or (difference >= 0).all():
                continue

            def cumulant(t: float, difference=difference) -> float:
                exponent = np.log(self.chance) - t * difference
                top = exponent.max()
                return float(top + np.log(np.exp(exponent - top).sum()))

            found: Any = minimize_scalar(cumulant, bracket=(0.0, 1.0), tol=1e-12)
            rates.append(-float(found.fun))
        return min(rates, default=math.inf)


@dataclass(frozen=True, eq=False)
class Law:
    """The joint law of the learned parameter and a sample, for a training set of n.

    Attributes:
        apart: P(parameter) P(value): the sample is fresh.
        together: P(parameter, value) when the sample is one of the n that were learned from.
        gap: ``apart - together``, summed without cancellation: its small entries are right to many digits.
        n: Training samples.
    """

    apart: Float[np.ndarray, "parameter value"]
    together: Float[np.ndarray, "parameter value"]
    gap: Float[np.ndarray, "parameter value"]
    n: int

    def leak(self, gamma: float = 1.0, sees: np.ndarray | None = None) -> float:
        """``1 - MIS = D_gamma`` (eqs. 7 and 10, in the form of Proposition 8.1).

        Args:
            gamma: ``(1 - eta) / (lambda eta)``; see ``baseline.Prior``.
            sees: For each parameter and value what the attacker is told; equal entries look alike. None: all;
                the class's losses give the MIS against attacks on the loss alone (section 5).

        Raises:
            ValueError: ``gamma`` is not positive, or ``sees`` has another shape.

        Example:
            >>> coin = FiniteClass(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.5, 0.5]))
            >>> law(coin, 1).leak()  # one sample decides: total variation 1/2
            0.5
        """
        if not 0 < gamma < math.inf:
            raise ValueError(f"gamma: expected a positive number, got {gamma}")
        apart, together, gap = (self._merged(cells, sees) for cells in (self.apart, self.together, self.gap))
        if gamma == 1.0:
            return float(np.abs(gap).sum() / 2)
        part = apart - together / gamma if gamma < 1 else together - gamma * apart
        return float(np.maximum(part, 0.0).sum())

    def mis(self, gamma: float = 1.0, sees: np.ndarray | None = None) -> float:
        """Membership-inference security against the best attack (eq. 7)."""
        return 1.0 - self.leak(gamma, sees)

    def _merged(self, cells: Float[np.ndarray, "parameter value"], sees: np.ndarray | None) -> np.ndarray:
        if sees is None:
            return cells.ravel()
        if sees.shape != cells.shape:
            raise ValueError(f"sees: expected shape {list(cells.shape)}, got {list(sees.shape)}")
        names, at = np.unique(sees, return_inverse=True)
        return np.bincount(at.ravel(), cells.ravel(), len(names))


def law(finite: FiniteClass, n: int) -> Law:
    """Sum over all training sets of size n, by their counts.

    Learning takes the parameter of least empirical loss, the first of them on ties. A learned-from sample has value z
    with probability ``count_z / n`` given the counts.

    Args:
        finite: The class.
        n: Training samples.

    Raises:
        ValueError: n below 1, or too many sets of counts.
    """
    values = len(finite.chance)
    sets = math.comb(n + values - 1, values - 1) if n >= 1 else 0
    if not 1 <= sets <= _MOST:
        raise ValueError(
            f"n: expected at least 1, and at most {_MOST:,} ways to split it over {values} values, got {n}"
        )
    from scipy.special import gammaln

    counts = _counts(n, values)
    chance = np.exp(gammaln(n + 1) - gammaln(counts + 1).sum(axis=1) + counts @ np.log(finite.chance))
    learned = (counts @ finite.loss.T).argmin(axis=1)
    parameters = len(finite.loss)
    gap = np.zeros((parameters, values))
    taken = np.zeros(parameters)
    for k in range(parameters):
        rows = learned == k
        taken[k] = chance[rows].sum()
        gap[k] = chance[rows] @ (finite.chance - counts[rows] / n)
    # Each column sums to 0, so the largest row is minus the others, which are small together.
    usual = int(taken.argmax())
    others = np.arange(parameters) != usual
    gap[usual] = -gap[others].sum(axis=0)
    apart = taken[:, None] / taken.sum() * finite.chance
    return Law(apart, apart - gap, gap, n)


def _counts(n: int, values: int) -> Int[np.ndarray, "sets value"]:
    """All ways to split n over the values."""
    found = np.arange(n + 1)[:, None]  # first counts; what is left follows
    for _ in range(values - 2):
        left = n - found.sum(axis=1)
        rows = np.repeat(np.arange(len(found)), left + 1)
        starts = np.repeat(np.cumsum(left + 1) - left - 1, left + 1)
        found = np.column_stack([found[rows], np.arange(len(rows)) - starts])
    return np.column_stack([found, n - found.sum(axis=1)])
