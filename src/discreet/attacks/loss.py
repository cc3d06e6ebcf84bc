"""Yeom et al., "Privacy Risk in Machine Learning: Analyzing the Connection to Overfitting", Adversary 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._own import own_score
from discreet.records import Record

__all__ = ["Loss"]


@dataclass(frozen=True)
class Loss:
    """The lower the loss, the likelier a member: score = -loss, in nats, the mean over queries."""

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        return own_score(blind, row, "loss")
