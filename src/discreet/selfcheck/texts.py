"""Made-up texts around the losses of a record, so that attacks on texts are tried as all others are."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from discreet.records import Record

__all__ = ["with_texts"]

_WORDS = np.array(["one", "Two", "three", "4", "five,", "six."])
_TEXTS = 5
"""A stream of its own."""


def with_texts(record: Record, seed: int, longest: int = 24) -> Record:
    """The record with signals of tokens: each sample becomes a text whose tokens have its losses on average.

    How a loss is shared out among the tokens is the same in every model, and no text depends on who was a member: all
    that attacks on texts can find is in the losses.

    Args:
        record: Measurements with ``loss`` [row, sample], at least 0.
        seed: Of the lengths, the shares and the words.
        longest: Tokens of the longest text.

    Example:
        >>> record = Record(
        ...     run=("a",), step=np.ones(1), variant=("full",), sample=np.arange(2),
        ...     signals={"loss": np.array([[1.0, 3.0]])},
        ... )
        >>> made = with_texts(record, 0)
        >>> first = slice(*made.signal("offsets")[:2])
        >>> round(float(made.signal("logp")[0, first].mean()), 6)
        -1.0
    """
    rng = np.random.default_rng([seed, _TEXTS])
    loss = np.asarray(record.signal("loss"), dtype=np.float64)
    counts = rng.integers(4, longest + 1, record.n_samples)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    share = rng.exponential(1.0, offsets[-1])
    share *= np.repeat(counts / np.add.reduceat(share, offsets[:-1]), counts)
    logp = -share * np.repeat(loss, counts, axis=1)
    words = rng.choice(_WORDS, offsets[-1])
    text = [" ".join([*words[a:b].tolist(), str(at)]) for at, (a, b) in enumerate(pairwise(offsets))]
    made = {
        "offsets": offsets,
        "logp": logp,
        "logp_mean": np.tile(-1.0 - share, (len(loss), 1)),
        "logp_std": np.tile(1.0 + rng.random(offsets[-1]), (len(loss), 1)),
        "rank": np.floor(-3 * logp).astype(np.int64),
        "text": np.array(text),
        "pretrained_loss": np.full(record.n_samples, 1.0),
    }
    axes = {
        **dict.fromkeys(("logp", "logp_mean", "logp_std", "rank"), ("row", "token")),
        "offsets": ("bound",),
    }
    return replace(record, signals={**record.signals, **made}, axes={**record.axes, **axes})
