"""Does r order variants as an attack does?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from discreet.estimate import Estimate
from discreet.ranking import Ranking

__all__ = ["agreement"]


def agreement(ranking: Ranking, values: Mapping[str, float]) -> Estimate | None:
    """Spearman correlation of r with a figure of merit over the ranked variants that have one.

    The wider of two intervals on either side: one for the uncertainty of r, one for the few variants.

    Args:
        ranking: r of the variants.
        values: The figure, by variant; leave full precision out, of which the theorem says nothing.

    Returns:
        The correlation, -1 where larger r always goes with a smaller figure; n counts variants. None of fewer than
        three variants, or of figures that are all equal.
    """
    from discreet.correlation import spearman

    names = [found.variant for found in ranking.ranked if found.variant in values]
    if len(names) < 3 or len({values[name] for name in names}) == 1:
        return None
    moved = ranking.spearman({name: values[name] for name in names})
    r = np.array([ranking[name].r for name in names], np.float64)
    few = spearman(r, np.array([values[name] for name in names]), level=ranking.level)
    return replace(moved, low=min(moved.low, few.low), high=max(moved.high, few.high))
