"""Ye et al., "Enhanced Membership Inference Attacks against Machine Learning Models" (2022), Attack P."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._references import SIGNALS, check_choice, read_statistic, references
from discreet.records import Record

__all__ = ["AttackP"]


@dataclass(frozen=True)
class AttackP:
    """Share of the population's non-members that the sample fits better than: one threshold for all.

    The population is what the reference models never saw. With ``signal="margin"`` this is the marginal
    baseline of Bertran et al., "Scalable Membership Inference Attacks via Quantile Regression" (2023).

    Attributes:
        signal: ``"loss"``, ``"confidence"`` or ``"margin"``.
    """

    signal: str = "loss"

    def __post_init__(self) -> None:
        check_choice("signal", self.signal, SIGNALS)

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        refs = references(blind, row)
        own = read_statistic(blind, np.array([row]), self.signal)[0].mean(axis=0)
        theirs = read_statistic(blind, refs.rows, self.signal).mean(axis=1)
        known = np.sort(theirs[refs.outside])
        if not known.size:
            raise blind.error("no population: the references trained on every sample")
        beaten = np.searchsorted(known, own, "left") + np.searchsorted(known, own, "right")
        return beaten / (2 * len(known))
