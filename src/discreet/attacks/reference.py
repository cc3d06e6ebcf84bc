"""Watson et al., "On the Importance of Difficulty Calibration in Membership Inference Attacks" (2022)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._references import SIGNALS, check_choice, read_statistic, references
from discreet.records import Record

__all__ = ["Reference"]


@dataclass(frozen=True)
class Reference:
    """How much better the target fits a sample than models that never saw it do on average.

    On texts this is LOSS + ref of Aubinais et al., "An Indicator of Membership Inference Security in Post-Training
    Quantized Models", section 13.2, with the mean over reference models where they print the sum.

    Attributes:
        signal: ``"loss"`` (-loss, as in the paper), ``"confidence"`` or ``"margin"``.
    """

    signal: str = "loss"

    def __post_init__(self) -> None:
        check_choice("signal", self.signal, SIGNALS)

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        refs = references(blind, row)
        target = read_statistic(blind, np.array([row]), self.signal)[0]
        outside = refs.mean_outside(read_statistic(blind, refs.rows, self.signal))
        return (target - outside).mean(axis=0)
