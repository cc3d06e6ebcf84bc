"""Ilić et al., "Powerful Training-Free Membership Inference Against Autoregressive Language Models" (2026)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._references import references
from discreet.attacks._tokens import need_texts, tokens
from discreet.records import Record

__all__ = ["EzMia"]


@dataclass(frozen=True)
class EzMia:
    """Which way training moved the tokens that the target gets wrong: the error zone score.

    Of the tokens that are not the target's likeliest (``rank`` above 0), P adds up what the target gives them more
    than the reference does, in nats, and N what it gives them less. The source takes P / N; here it is
    (P - N) / (P + N), from -1 to 1, which orders alike and is finite. A text without such a token, or with none that
    lost, is the most suspicious of all: it gets 1, where the source's code gives it 0.

    The source's reference is the model before fine-tuning. Here it is the mean over the other runs' models that did
    not train on the text (over all of them, where every one did): they differ from the target by the text alone.
    """

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        need_texts(blind)
        refs = references(blind, row)
        outside = refs.outside | ~refs.outside.any(axis=0)
        found = np.empty(blind.n_samples)
        others = [tokens(blind, int(each), ("logp",)) for each in refs.rows]
        for (part, counts, (logp, rank)), *read in zip(
            tokens(blind, row, ("logp", "rank")), *others, strict=True
        ):
            weight = np.repeat(outside[:, part], counts, axis=1)
            theirs = np.stack([values[0] for _, _, values in read])
            gain = (logp - (theirs * weight).sum(axis=0) / weight.sum(axis=0)) * (rank > 0)
            first = np.cumsum(counts) - counts
            up, down = (np.add.reduceat(np.maximum(each, 0), first) for each in (gain, -gain))
            found[part] = np.where(down > 0, (up - down) / np.where(down > 0, up + down, 1), 1.0)
        return found
