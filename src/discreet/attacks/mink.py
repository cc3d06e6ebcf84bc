"""Shi et al., "Detecting Pretraining Data from Large Language Models" (2024), Min-K% Prob."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._tokens import fewest, lowest_sums, tokens
from discreet.records import Record

__all__ = ["MinK"]


@dataclass(frozen=True)
class MinK:
    """How likely the model finds the least likely tokens of a text: their mean log-probability, in nats.

    Aubinais et al., "An Indicator of Membership Inference Security in Post-Training Quantized Models", section
    13.2, print the minimum of the *loss* over sets of tokens, which would be the likeliest ones; their text and the
    source mean the least likely, as here.

    Attributes:
        k: Share of the tokens, rounded up, so that it is never none.
    """

    k: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.k <= 1:
            raise ValueError(f"k: expected a share above 0 and at most 1, got {self.k}")

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        found = np.empty(blind.n_samples)
        for part, counts, (logp,) in tokens(blind, row, ("logp",)):
            take = fewest(self.k, counts)
            found[part] = lowest_sums(logp, counts, take) / take
        return found
