"""Carlini et al., "Extracting Training Data from Large Language Models" (2021), section 5.2: the zlib ratio."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._own import own_score
from discreet.attacks._references import check_choice
from discreet.attacks._tokens import token_counts, zlib_bytes
from discreet.records import Record

__all__ = ["Zlib"]


@dataclass(frozen=True)
class Zlib:
    """The loss of a text against what zlib makes of it: score = -loss / bytes.

    A text that is easy for any compressor has a low loss whether it was trained on or not. Needs the number of
    tokens (``offsets``) and ``zlib_bytes`` or ``text``.

    Attributes:
        total: ``"sum"``: the loss of all tokens of the text, nats per compressed byte. ``"mean"``: of one token on
            average, as the source's log-perplexity is; there all texts have one length and the two agree, else the
            mean over the bytes favours long texts.
    """

    total: str = "sum"

    def __post_init__(self) -> None:
        check_choice("total", self.total, ("sum", "mean"))

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        size = zlib_bytes(blind)
        score = own_score(blind, row, "loss")
        return (score * token_counts(blind) if self.total == "sum" else score) / size
