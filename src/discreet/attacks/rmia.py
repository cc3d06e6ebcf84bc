"""Zarifzadeh, Liu and Shokri, "Low-Cost High-Power Membership Inference Attacks" (2024), RMIA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float
from discreet.attacks._references import References, check_choice, read_statistic, references
from discreet.records import Record

__all__ = ["Rmia"]

_FEW = 100


@dataclass(frozen=True)
class Rmia:
    """How the target's probability of a sample compares with its marginal probability over models.

    The paper counts the population samples z that the sample's ratio beats by gamma. For one target that
    count only rounds the ratio p(x | target) / p(x) to steps of 1 / |Z|, so the ratio itself (its
    logarithm) is the default and the count the named ``"paper"`` score.

    Attributes:
        score: ``"ratio"`` or ``"paper"``.
        mode: ``"offline"`` takes p(x) = ((1 + a) P_out + (1 - a)) / 2, ``"online"`` the mean of
            P_in and P_out.
        a: How far training lifts P_in from P_out to 1; tune it on a reference, never on the target.
        gamma: Ratio to beat, for the paper's score.
    """

    score: str = "ratio"
    mode: str = "offline"
    a: float = 0.3
    gamma: float = 2.0

    def __post_init__(self) -> None:
        check_choice("score", self.score, ("ratio", "paper"))
        check_choice("mode", self.mode, ("offline", "online"))
        if not 0 <= self.a <= 1:
            raise ValueError(f"a: expected a number from 0 to 1, got {self.a}")
        if not self.gamma > 0:
            raise ValueError(f"gamma: expected a positive number, got {self.gamma}")

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        refs = references(blind, row)
        target = read_statistic(blind, np.array([row]), "loss")[0]
        ratio = (target - self._log_marginal(read_statistic(blind, refs.rows, "loss"), refs)).mean(axis=0)
        if self.score == "ratio":
            return ratio
        population = np.sort(ratio[_population(blind)])
        # LR(x, z) >= gamma for all z whose ratio is at most ratio(x) / gamma: one search, no N x Z table.
        beaten = np.searchsorted(population, ratio - np.log(self.gamma), side="right")
        return beaten / len(population)

    def _log_marginal(
        self, logs: Float[np.ndarray, "reference query sample"], refs: References
    ) -> Float[np.ndarray, "query sample"]:
        top = logs.max(axis=0)
        ratios = np.exp(logs - top)
        floor = ratios.min(axis=0)
        out = np.maximum(refs.mean_outside(ratios), floor)
        if self.mode == "online":
            return top + np.log((np.maximum(refs.mean_inside(ratios), floor) + out) / 2)
        with np.errstate(divide="ignore"):
            lifted = np.log((1 - self.a) / 2)
            # A ratio of e^-1000 is 0 here; its sum with the other term is not.
            return np.logaddexp(top + np.log(out * (1 + self.a) / 2), lifted)


def _population(blind: Record) -> Bool[np.ndarray, " sample"]:
    """Samples that no known run trained on, or all where they are few."""
    strangers = np.logical_not(np.any(np.asarray(blind.member), axis=0))
    return strangers if strangers.sum() >= _FEW else np.ones(len(strangers), dtype=bool)
