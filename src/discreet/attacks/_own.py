"""The target's own score of each sample: one number, averaged over queries."""

from __future__ import annotations

import numpy as np

from discreet._types import Float
from discreet.attacks._references import read_statistic
from discreet.records import Record

__all__ = ["own_score"]


def own_score(blind: Record, row: int, signal: str) -> Float[np.ndarray, " sample"]:
    """The statistic ``signal`` of the model in ``row``; higher = fits better.

    The margin of a model with one logit z is z (2y - 1), which is its confidence as well.
    """
    return read_statistic(blind, np.array([row]), signal)[0].mean(axis=0)
