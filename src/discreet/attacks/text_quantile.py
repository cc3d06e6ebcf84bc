"""Zhang, Bertran and Roth, "Order of Magnitude Speedups for LLM Membership Inference" (2024), quantiles of texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Num
from discreet.attacks._public import texts
from discreet.attacks._tokens import need_texts
from discreet.attacks.quantile import Fitting, Quantile
from discreet.records import Record
from discreet.records.laws import OFFSETS

__all__ = ["TextQuantile"]


@dataclass(frozen=True)
class TextQuantile(Quantile):
    """How high a text's score is for such a text, by an ensemble of small regressors on known non-members.

    As ``quantile``, with other defaults and without the signal ``features``: what is known of a text is its length
    (tokens too, where they were counted), how well zlib compresses it, the kinds of its characters, and hashed
    character n-grams. The source's regressors are small language models; these are linear or small networks, for
    the price of seconds. Needs the signals ``text`` and ``public``, or runs whose membership is known.

    Attributes:
        learner: See ``quantile``; an ensemble of five linear regressors.
        signal: The score, ``"loss"`` as in the source (mean log-probability of the tokens) or ``"confidence"``.
        label: Whether the regressors know the label.
        columns: Into how many numbers n-grams are hashed.
    """

    learner: str | tuple[str, ...] = "ensemble"
    signal: str = "loss"
    label: bool = False
    columns: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns < 1:
            raise ValueError(f"columns: expected at least 1, got {self.columns}")

    def fit(self, blind: Record, row: int) -> Fitting:
        need_texts(blind)
        return super().fit(blind, row)

    def known(self, blind: Record) -> Num[np.ndarray, " sample *feature"]:
        from discreet.text_features import ngrams, sizes

        found = texts(blind)
        parts = [sizes(found), ngrams(found, self.columns)]
        if OFFSETS in blind.signals:
            parts.append(np.log1p(np.diff(np.asarray(blind.signal(OFFSETS)).astype(np.float64)))[:, None])
        return np.hstack(parts)
