"""Bertran et al., "Scalable Membership Inference Attacks via Quantile Regression" (2023), the baseline A_tau."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._own import own_score
from discreet.attacks._references import SIGNALS, check_choice
from discreet.records import Record

__all__ = ["Marginal"]


@dataclass(frozen=True)
class Marginal:
    """One threshold for all samples, the 1 - alpha quantile of non-members' scores; so the score itself.

    It is what ``quantile`` has to beat, on the same score. Ranking samples needs no threshold, and nothing is
    fitted.

    Attributes:
        signal: ``"margin"`` (true-label logit minus the largest other), ``"confidence"`` or ``"loss"``.
    """

    signal: str = "margin"

    def __post_init__(self) -> None:
        check_choice("signal", self.signal, SIGNALS)

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        return own_score(blind, row, self.signal)
