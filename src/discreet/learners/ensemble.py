"""Zhang, Bertran and Roth, "Order of Magnitude Speedups for LLM Membership Inference" (2024): merged regressors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from discreet import _find
from discreet._types import Float, Num
from discreet.learners._attained import attained
from discreet.learners._design import check_fit
from discreet.learners._predictors import Curves, LocationScale
from discreet.learners._protocol import QuantileLearner
from discreet.learners._space import Choice, Range

__all__ = ["Ensemble"]


@dataclass(frozen=True)
class Ensemble:
    """Several regressors of one kind, each on its own part of the rows, merged into one distribution.

    Where each member gives a location mu_m and a scale sigma_m (``ridge``, ``catboost``, ``pinball`` with the head
    ``gaussian`` or ``robust``), the merged ones are mu = mean mu_m and sigma^2 = mean(sigma_m^2 + mu_m^2) - mu^2, so
    that where members disagree nothing is far out. Where each gives one curve a level (``pinball``, ``lightgbm``),
    the curves are averaged level by level.

    Attributes:
        learner: Spec string of the members.
        size: How many.
        share: Share of the rows that each is fitted on, drawn without replacement. With 1 members differ by their
            seed alone, so a learner without randomness gains nothing.
    """

    learner: str = "ridge"
    size: int = 5
    share: float = 0.8

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size: expected at least 1, got {self.size}")
        if not 0 < self.share <= 1:
            raise ValueError(f"share: expected a share above 0 and at most 1, got {self.share}")
        if _find.bare(self.learner).strip() == "ensemble":
            raise ValueError("learner: expected single learners, got an ensemble of ensembles")

    def fit(
        self,
        x: Num[np.ndarray, " n *feature"],
        y: np.ndarray | None,
        s: Float[np.ndarray, " n"],
        *,
        levels: Float[np.ndarray, " level"],
        seed: int,
    ) -> Merged | MergedCurves:
        """Fit all members; see ``QuantileLearner.fit``.

        Raises:
            ValueError: The members do not predict quantiles.
            SpecError: No such learner.
        """
        s, levels = check_fit(x, y, s, levels)
        member = _find.parse(self.learner, "discreet.learners")
        if not isinstance(member, QuantileLearner):
            raise ValueError(f"learner: {self.learner!r} does not predict quantiles of a score")
        fitted = []
        for number in range(self.size):
            rng = np.random.default_rng([seed, number])
            rows = _part(rng, y, len(s), self.share)
            own = None if y is None else y[rows]
            fitted.append(member.fit(x[rows], own, s[rows], levels=levels, seed=int(rng.integers(2**31))))
        curves = tuple(each for each in fitted if isinstance(each, Curves))
        if len(curves) == self.size:
            return MergedCurves(levels, curves)
        located = tuple(each for each in fitted if isinstance(each, LocationScale))
        if len(located) < self.size:
            raise ValueError(f"learner: do not know how to merge what {self.learner!r} predicts")
        return Merged(levels, located)

    def space(self) -> Mapping[str, Range | Choice]:
        return {"size": Choice((1, 3, 5, 10)), "share": Range(0.5, 1.0)}


@dataclass(frozen=True, eq=False)
class Merged:
    """Normal distributions of several members, merged by their moments."""

    levels: Float[np.ndarray, " level"]
    members: tuple[LocationScale, ...]

    def _parts(self, x: np.ndarray, y: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        parts = np.array([member.parts(x, y) for member in self.members])
        mu = parts[:, 0].mean(axis=0)
        # About the merged mean, so that large means cost no digits.
        return mu, np.sqrt((parts[:, 1] ** 2 + (parts[:, 0] - mu) ** 2).mean(axis=0))

    def quantiles(
        self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None
    ) -> Float[np.ndarray, "n level"]:
        mu, sigma = self._parts(x, y)
        return mu[:, None] + sigma[:, None] * ndtri(self.levels)

    def score(
        self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None, s: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        mu, sigma = self._parts(x, y)
        return (s - mu) / sigma

    def crossed(self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None) -> float:
        return 0.0


@dataclass(frozen=True, eq=False)
class MergedCurves:
    """Curves of several members, averaged level by level."""

    levels: Float[np.ndarray, " level"]
    members: tuple[Curves, ...]

    def quantiles(
        self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None
    ) -> Float[np.ndarray, "n level"]:
        return np.mean([member.quantiles(x, y) for member in self.members], axis=0)

    def score(
        self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None, s: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        narrow = float(np.mean([member.narrow for member in self.members]))
        return attained(self.levels, self.quantiles(x, y), s, narrow)

    def crossed(self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None) -> float:
        return float(np.mean([member.crossed(x, y) for member in self.members]))


def _part(rng: np.random.Generator, y: np.ndarray | None, rows: int, share: float) -> np.ndarray:
    """Numbers of the rows that one member sees, in order; at least one of each label."""
    taken = np.zeros(rows, bool)
    taken[rng.permutation(rows)[: max(2, round(share * rows))]] = True
    if y is not None:
        lacking = ~np.isin(y, y[taken])
        taken[lacking] = True
    return np.flatnonzero(taken)
