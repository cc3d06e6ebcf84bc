"""Mireshghallah et al., "An Empirical Analysis of Memorization in Fine-tuned Autoregressive Language Models"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._own import own_score
from discreet.attacks._tokens import need_texts
from discreet.records import Record

__all__ = ["Pretrained"]


@dataclass(frozen=True)
class Pretrained:
    """What fine-tuning gained on a text: the loss of the model before it, less the target's; in nats a token.

    The model before fine-tuning is public and never saw these texts as training data, so it is the reference that
    one has without a second run. Needs the signal ``pretrained_loss`` [sample], which
    ``discreet.llm.losses(base, encoded)`` gives of the texts that are attacked.
    """

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        need_texts(blind)
        if "pretrained_loss" not in blind.signals or blind.axes["pretrained_loss"] != ("sample",):
            raise blind.error(
                "pretrained_loss: this attack needs the signal 'pretrained_loss' [sample], each text's loss under "
                "the model before fine-tuning; discreet.llm.release measures fine-tuned models alone: add what "
                "discreet.llm.losses(base, encoded) gives of the same texts, with the axes ('sample',)"
            )
        before = np.asarray(blind.signal("pretrained_loss"), dtype=np.float64)
        return before + own_score(blind, row, "loss")
