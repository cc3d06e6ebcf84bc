"""Where in the trajectories the lowest loss falls, which decides whether a ranking by r is to be believed."""

from __future__ import annotations

import numpy as np

from discreet.ranking import Ranking

__all__ = ["optimum"]


def optimum(ranking: Ranking) -> tuple[tuple[float, float], float]:
    """Where the lowest loss falls (of quantizers, of full precision; 0 to 1), and how often at either end."""
    at: dict[bool, list[float]] = {True: [], False: []}
    for each in ranking.indicators:
        for run in each.per_run.values():
            at[each.variant == "full"].append(run.best / (len(run.losses) - 1))
    quantizers = np.array(at[False])
    middle = float(np.median(quantizers)), float(np.median(at[True]))
    return middle, float(np.mean((quantizers == 0) | (quantizers == 1)))
