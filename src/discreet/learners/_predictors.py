"""The two forms of a fitted distribution: location and scale, or one curve a level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from discreet._types import Float, Num
from discreet.learners._attained import attained
from discreet.learners._design import Scale

__all__ = ["Curves", "LocationScale"]

Outputs = Callable[[np.ndarray, "np.ndarray | None"], np.ndarray]
# Log-scales of standardised scores are held inside: a likelihood can drive the scale of one row to 0.
_LOWEST, _HIGHEST = -7.0, 5.0
# As a share of the usual distance between the outermost quantiles.
_NARROW = 0.02


@dataclass(frozen=True, eq=False)
class LocationScale:
    """A normal distribution for each record: quantiles mu + sigma Phi^-1(level), score (s - mu) / sigma.

    Attributes:
        levels: Levels of the quantiles.
        scale: Centre and width of the scores that were fitted.
        outputs: Gives mu and log sigma of each row, of standardised scores.
    """

    levels: Float[np.ndarray, " level"]
    scale: Scale
    outputs: Outputs

    def parts(self, x: np.ndarray, y: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """mu and sigma of each row, in units of the score."""
        mu, log_sigma = self.outputs(x, y).T
        sigma = np.exp(log_sigma.clip(_LOWEST, _HIGHEST))
        return self.scale.centre + self.scale.width * mu, self.scale.width * sigma

    def quantiles(
        self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None
    ) -> Float[np.ndarray, "n level"]:
        mu, sigma = self.parts(x, y)
        return mu[:, None] + sigma[:, None] * ndtri(self.levels)

    def score(
        self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None, s: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        mu, sigma = self.parts(x, y)
        return (s - mu) / sigma

    def crossed(self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None) -> float:
        return 0.0


@dataclass(frozen=True, eq=False)
class Curves:
    """One predicted quantile a level, sorted (Chernozhukov et al., "Quantile and Probability Curves
    Without Crossing" (2010)), which never raises the pinball loss.

    Attributes:
        levels: Levels of the quantiles.
        scale: Centre and width of the scores that were fitted.
        outputs: Gives the quantiles of each row, of standardised scores, in any order.
        narrow: The least distance between two quantiles from which tails are extrapolated.
    """

    levels: Float[np.ndarray, " level"]
    scale: Scale
    outputs: Outputs
    narrow: float

    @classmethod
    def of(
        cls,
        levels: Float[np.ndarray, " level"],
        scale: Scale,
        outputs: Outputs,
        x: Num[np.ndarray, " n *feature"],
        y: np.ndarray | None,
    ) -> Curves:
        """Take curves as fitted to these rows, whose usual distance between quantiles sets ``narrow``."""
        found = np.sort(outputs(x, y), axis=1)
        width = float(np.median(found[:, -1] - found[:, 0]))
        return cls(levels, scale, outputs, float(scale.width) * _NARROW * (width if width > 0 else 1.0))

    def quantiles(
        self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None
    ) -> Float[np.ndarray, "n level"]:
        return self.scale.centre + self.scale.width * np.sort(self.outputs(x, y), axis=1)

    def score(
        self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None, s: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        return attained(self.levels, self.quantiles(x, y), s, self.narrow)

    def crossed(self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None) -> float:
        return float((np.diff(self.outputs(x, y), axis=1) < 0).any(axis=1).mean())
