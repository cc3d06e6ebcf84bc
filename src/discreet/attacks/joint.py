"""Several variants of one model released together: multivariate LiRA, after Carlini et al. (2022), Algorithm 1.

Publishing a model and its compressed versions gives an attacker several looks at one training set. The
statistics of the variants are joined by a Gaussian copula with the margins of :mod:`discreet.attacks.lira`;
with one variant it is that attack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float
from discreet.attacks._predictive import fit
from discreet.attacks._references import SIGNALS, References, check_choice, read_statistic, references
from discreet.attacks._sides import need_side
from discreet.records import Record

__all__ = ["Joint"]

# Pulls correlations towards 0, so that two all but equal variants do not count as contradicting.
_RIDGE = 0.02


@dataclass(frozen=True)
class Joint:
    """Likelihood ratio of all variants' statistics at once, with and without the sample.

    The target's row only says which run and step; its other variants at that step are taken with it. It is compared
    with the other runs that have all of these variants.

    Attributes:
        variants: Variants released together; all of the target's run when empty.
        variance: Variance rule of each margin, as in ``lira``.
        signal: ``"confidence"``, ``"margin"`` or ``"loss"``.
    """

    variants: tuple[str, ...] = ()
    variance: str = "bayes"
    signal: str = "confidence"

    def __post_init__(self) -> None:
        check_choice("variance", self.variance, ("bayes", "sample", "pooled"))
        check_choice("signal", self.signal, SIGNALS)

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        own = self._rows(blind, row)
        refs = _shared(blind, [references(blind, each) for each in own])
        for each in refs:
            need_side(blind, each.inside, "trained")
            need_side(blind, each.outside, "did not train")
        looks = [self._look(blind, *each) for each in zip(own, refs, strict=True)]
        inside = _log_density([(look, look.refs.inside, True) for look in looks], self.variance)
        outside = _log_density([(look, look.refs.outside, False) for look in looks], self.variance)
        return (inside - outside).mean(axis=0)

    def _rows(self, blind: Record, row: int) -> list[int]:
        own = blind.rows(run=blind.run[row], step=float(blind.step[row]))
        at = {blind.variant[number]: int(number) for number in own}
        for variant in self.variants:
            if variant not in at:
                raise blind.error(
                    f"variants: run {blind.run[row]!r} has no {variant!r} at step {blind.step[row]:g}; "
                    f"it has {', '.join(at)}"
                )
        return [at[variant] for variant in self.variants or sorted(at)]

    def _look(self, blind: Record, row: int, refs: References) -> _Look:
        return _Look(
            refs,
            read_statistic(blind, np.array([row]), self.signal)[0],
            read_statistic(blind, refs.rows, self.signal),
        )


@dataclass(frozen=True, eq=False)
class _Look:
    """One variant of the target and of the references."""

    refs: References
    target: Float[np.ndarray, "query sample"]
    values: Float[np.ndarray, "reference query sample"]


def _shared(blind: Record, found: Sequence[References]) -> list[References]:
    """The references of each variant, from the runs that have all of them: residuals are compared run by run."""
    runs = set.intersection(*({blind.run[int(row)] for row in refs.rows} for refs in found))
    if not runs:
        raise blind.error(
            "variants: no other run has all of those released together; record them in the same runs"
        )
    kept = [np.array([blind.run[int(row)] in runs for row in refs.rows]) for refs in found]
    return [
        References(refs.rows[own], refs.inside[own], refs.outside[own])
        for refs, own in zip(found, kept, strict=True)
    ]


def _log_density(
    looks: list[tuple[_Look, Bool[np.ndarray, "reference sample"], bool]], variance: str
) -> Float[np.ndarray, "query sample"]:
    """Log-density of the target's statistics under one of the two hypotheses, up to no constant."""
    margins, scores, residuals = [], [], []
    for look, mask, trained in looks:
        centre = look.refs.mean_inside(look.values) if trained else look.refs.mean_outside(look.values)
        predictive = fit(look.values, mask, centre, variance)
        margins.append(predictive.log_density(look.target))
        scores.append(predictive.normal_score(look.target))
        residuals.append((((look.values - centre) / predictive.scale) * mask[:, None, :]).ravel())
    z = np.stack(scores)
    correlation = _correlation(np.stack(residuals))
    turned = np.linalg.solve(correlation, z.reshape(len(z), -1)).reshape(z.shape)
    _, log_det = np.linalg.slogdet(correlation)
    # log of the copula's density: N(z; 0, R) over the product of N(z; 0, 1).
    copula = -(z * (turned - z)).sum(axis=0) / 2 - log_det / 2
    return np.sum(margins, axis=0) + copula


def _correlation(residuals: Float[np.ndarray, "variant n"]) -> Float[np.ndarray, "variant variant"]:
    """Correlation of the variants' residuals over references and samples (those masked are 0 in all)."""
    size = np.sqrt((residuals**2).sum(axis=1))
    scaled = residuals / np.where(size > 0, size, math.inf)[:, None]
    off = (1 - _RIDGE) * (scaled @ scaled.T)
    np.fill_diagonal(off, 1.0)
    return off
