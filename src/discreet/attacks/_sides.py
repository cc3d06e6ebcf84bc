"""References that trained on a sample and references that did not: some attacks need both."""

from __future__ import annotations

import numpy as np

from discreet._types import Bool
from discreet.records import Record

__all__ = ["need_side"]


def need_side(blind: Record, side: Bool[np.ndarray, "reference sample"], did: str) -> None:
    """Refuse references that are all of the other side, on every sample.

    Disjoint shards and folds end there, since each sample has as many on a side as every other
    (:func:`discreet.fixed_counts.evened`), and some have none.

    Args:
        blind: The record, for its name.
        side: Where a reference is on the side that is needed.
        did: What such references did.

    Raises:
        RecordError: None is on that side.
    """
    if not side.any():
        raise blind.error(
            f"references: this attack needs models of other runs that {did} on a sample, as many for members as for "
            "others, and this design leaves none (disjoint shards leave lira(mode='offline'), folds `reference`)"
        )
