"""Linear mean and linear log-scale by penalised maximum likelihood (Harvey, "Estimating Regression Models
with Multiplicative Heteroscedasticity" (1976)): the Gaussian head of Bertran et al. (2023), NumPy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from discreet._types import Float, Num
from discreet.learners._design import Design, Scale, check_fit
from discreet.learners._predictors import LocationScale
from discreet.learners._space import Choice, Range

__all__ = ["Ridge"]

# Log-scales further from the typical one are held there, so that far-out features stay comparable.
_FURTHEST = 4.0


@dataclass(frozen=True)
class Ridge:
    """Mean and log-scale of the score, both linear in standardised features.

    Attributes:
        penalty: Weight of the squared coefficients, in rows: at 10 a feature counts as if ten rows said
            that it does not matter.
        rounds: Alternations between mean and scale.
    """

    penalty: float = 3.0
    rounds: int = 3

    def __post_init__(self) -> None:
        if not self.penalty > 0:
            raise ValueError(f"penalty: expected a positive number, got {self.penalty}")
        if self.rounds < 1:
            raise ValueError(f"rounds: expected at least 1, got {self.rounds}")

    def fit(
        self,
        x: Num[np.ndarray, " n *feature"],
        y: np.ndarray | None,
        s: Float[np.ndarray, " n"],
        *,
        levels: Float[np.ndarray, " level"],
        seed: int,
    ) -> LocationScale:
        """Fit; nothing in it is random."""
        del seed
        s, levels = check_fit(x, y, s, levels)
        design, scale = Design.of(x, y), Scale.of(s)
        table, target = _with_constant(design.table(x, y)), scale(s)
        mean = spread = np.zeros(table.shape[1])
        for _ in range(self.rounds):
            weight = np.exp(-2 * _held(table @ spread, spread[0]))
            mean, left_out = _weighted_ridge(table, target, weight, self.penalty)
            spread = _log_scale(table, left_out**2, self.penalty, spread)

        def outputs(x: np.ndarray, y: np.ndarray | None) -> np.ndarray:
            rows = _with_constant(design.table(x, y))
            return np.stack([rows @ mean, _held(rows @ spread, spread[0])], axis=1)

        return LocationScale(levels, scale, outputs)

    def space(self) -> Mapping[str, Range | Choice]:
        return {"penalty": Range(0.1, 1000.0, log=True)}


def _with_constant(table: Float[np.ndarray, "n column"]) -> Float[np.ndarray, "n column1"]:
    return np.hstack([np.ones((len(table), 1)), table])


def _held(values: Float[np.ndarray, " n"], centre: float) -> Float[np.ndarray, " n"]:
    return np.clip(values, centre - _FURTHEST, centre + _FURTHEST)


def _weighted_ridge(
    table: Float[np.ndarray, "n column"],
    target: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    penalty: float,
) -> tuple[Float[np.ndarray, " column"], Float[np.ndarray, " n"]]:
    """Coefficients, and each row's residual had it been left out: the scale of new rows, not of fitted ones."""
    weight = weight / weight.mean()
    gram = (table.T * weight) @ table + _penalties(table, penalty)
    solved = np.linalg.solve(gram, table.T * weight)
    mean = solved @ target
    leverage = np.einsum("nc,cn->n", table, solved).clip(max=1 - 1e-6)
    return mean, (target - table @ mean) / (1 - leverage)


def _log_scale(
    table: Float[np.ndarray, "n column"],
    squares: Float[np.ndarray, " n"],
    penalty: float,
    start: Float[np.ndarray, " column"],
) -> Float[np.ndarray, " column"]:
    """Newton's method for log sigma = table @ b, with steps halved until the likelihood rises; it is convex.

    It begins at ``start`` or at one scale for all, whichever is likelier.
    """
    # No residual at all would ask for a scale of zero.
    squares = np.maximum(squares, 1e-12)
    weights = _penalties(table, penalty)
    flat = np.zeros(table.shape[1])
    flat[0] = np.log(squares.mean()) / 2

    def loss(b: np.ndarray) -> float:
        eta = table @ b
        with np.errstate(over="ignore"):
            return float((eta + squares * np.exp(-2 * eta) / 2).sum() + b @ weights @ b / 2)

    b = min(flat, start, key=loss)
    best = loss(b)
    for _ in range(100):
        ratio = squares * np.exp(-2 * (table @ b))
        slope = table.T @ (1 - ratio) + weights @ b
        step = np.linalg.solve(2 * (table.T * ratio) @ table + weights, slope)
        tried = next((t for t in 0.5 ** np.arange(30) if loss(b - t * step) < best), 0.0)
        b = b - tried * step
        now = loss(b)
        if best - now <= 1e-7 * (1 + abs(best)):
            break
        best = now
    return b


def _penalties(table: Float[np.ndarray, "n column"], penalty: float) -> Float[np.ndarray, "column column"]:
    """The same for every column but the constant, which is free but for the rounding of a singular system."""
    return np.diag(np.r_[1e-9 * len(table), np.full(table.shape[1] - 1, penalty)])
