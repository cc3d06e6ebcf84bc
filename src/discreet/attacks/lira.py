"""Carlini et al., "Membership Inference Attacks From First Principles" (2022), LiRA, Eqs. 3 and 4, Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from discreet._types import Float
from discreet.attacks._predictive import fit
from discreet.attacks._references import SIGNALS, check_choice, read_statistic, references
from discreet.attacks._sides import need_side
from discreet.records import Record

__all__ = ["Lira"]


@dataclass(frozen=True)
class Lira:
    """Likelihood ratio of the target's statistic under models trained with and without the sample.

    Attributes:
        mode: ``"online"`` compares with both, ``"offline"`` asks how unusual the target is among models
            that never saw the sample.
        variance: ``"bayes"`` (shrunken variances with a Student-t predictive, good for any number of
            references), ``"sample"`` (the paper's, from about 64 references) or ``"pooled"`` (the
            paper's fixed variance, from residuals).
        tail: Offline only: ``"upper"`` as in the paper's Eq. 4, or ``"both"``, the density that much
            published code uses.
        signal: ``"confidence"`` (the paper's logit-scaled one), ``"margin"`` or ``"loss"``. Of texts the first is
            the logit of the geometric mean of the tokens' probabilities, so the default serves them too.
        references: How many of the other runs' models to compare with, as if no more had been trained; all when
            None. Each sample is compared with those of them that did not train on it (online: with the others as
            well), half of them where each run trained on a random half.
        seed: Which ones; by the names of the runs, so nearly the same ones for every target.
    """

    mode: str = "online"
    variance: str = "bayes"
    tail: str = "upper"
    signal: str = "confidence"
    references: int | None = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, ("online", "offline"))
        check_choice("variance", self.variance, ("bayes", "sample", "pooled"))
        check_choice("tail", self.tail, ("upper", "both"))
        check_choice("signal", self.signal, SIGNALS)
        if self.references is not None and self.references < 1:
            raise ValueError(f"references: expected at least 1, or None for all, got {self.references}")
        if self.seed < 0:
            raise ValueError(f"seed: expected at least 0, got {self.seed}")

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        refs = references(blind, row).drawn(blind, self.references, self.seed)
        need_side(blind, refs.outside, "did not train")
        target = read_statistic(blind, np.array([row]), self.signal)[0]
        values = read_statistic(blind, refs.rows, self.signal)
        outside = fit(values, refs.outside, refs.mean_outside(values), self.variance)
        if self.mode == "online":
            need_side(blind, refs.inside, "trained")
            inside = fit(values, refs.inside, refs.mean_inside(values), self.variance)
            return (inside.log_density(target) - outside.log_density(target)).mean(axis=0)
        if self.tail == "both":
            return -outside.log_density(target).mean(axis=0)
        return outside.normal_score(target).mean(axis=0)
