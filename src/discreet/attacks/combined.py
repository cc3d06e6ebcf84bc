"""Aubinais et al., "An Indicator of Membership Inference Security in Post-Training Quantized Models", sec. 13.2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._references import read_statistic, references
from discreet.attacks._tokens import fewest, lowest_sums, token_counts, tokens, zlib_bytes
from discreet.records import Record

__all__ = ["Combined"]


@dataclass(frozen=True)
class Combined:
    """LOSS + zlib + ref: the loss of a text, less that of models that did not train on it, over its zlib bytes.

    The paper takes the sum over the reference models away; with more than one of them that is mostly their own
    loss, so it is the mean here. Either part can be left out: without ``reference`` this orders texts as ``zlib``
    does, without ``zlib`` it is ``reference`` times the number of tokens.

    Attributes:
        zlib: Whether to divide by the compressed size.
        reference: Whether to compare with the other runs' models.
        k: Share of the tokens of each text that counts, the least likely ones of each model (see ``mink``); with 1
            all, from the losses alone.
    """

    zlib: bool = True
    reference: bool = True
    k: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.k <= 1:
            raise ValueError(f"k: expected a share above 0 and at most 1, got {self.k}")

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        size = zlib_bytes(blind) if self.zlib else 1
        score = self._sums(blind, row)
        if self.reference:
            refs = references(blind, row)
            score = score - refs.mean_outside(np.stack([self._sums(blind, int(each)) for each in refs.rows]))
        return score / size

    def _sums(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        """Log-probability of each text under one model, or of its least likely tokens."""
        if self.k == 1:
            return read_statistic(blind, np.array([row]), "loss")[0].mean(axis=0) * token_counts(blind)
        found = np.empty(blind.n_samples)
        for part, counts, (logp,) in tokens(blind, row, ("logp",)):
            found[part] = lowest_sums(logp, counts, fewest(self.k, counts))
        return found
