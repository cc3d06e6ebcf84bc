"""Zhang et al., "Min-K%++: Improved Baseline for Detecting Pre-Training Data from Large Language Models" (2025)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._tokens import fewest, lowest_sums, tokens
from discreet.records import Record

__all__ = ["MinKPlusPlus"]

# Of log-probabilities in nats: less than float32 tells of a flat or one-hot prediction.
_LEAST = 1e-4


@dataclass(frozen=True)
class MinKPlusPlus:
    """Min-K% of log-probabilities standardised by what the model expected at that place.

    A token counts (l - mu) / sigma: its log-probability less the mean over the vocabulary, in standard deviations,
    both under the model's own prediction. Where the model is equally sure of all tokens or wholly sure of one, sigma
    is 0; a sigma below 0.0001 counts as that, so a token that the prediction expects counts 0, and one that it
    rules out is far below all others, and finite.

    Attributes:
        k: Share of the tokens, rounded up, so that it is never none.
    """

    k: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.k <= 1:
            raise ValueError(f"k: expected a share above 0 and at most 1, got {self.k}")

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        found = np.empty(blind.n_samples)
        for part, counts, (logp, mean, std) in tokens(blind, row, ("logp", "logp_mean", "logp_std")):
            take = fewest(self.k, counts)
            standard = (logp - mean) / np.maximum(std, _LEAST)
            found[part] = lowest_sums(standard, counts, take) / take
        return found
