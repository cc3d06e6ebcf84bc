"""Which checkpoints decide the indicator: Lambda_kk by loss rank (section 14.2, Figure 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._types import Float, Int
from discreet.indicator import RunIndicator

__all__ = ["LambdaByRank", "lambda_by_rank"]


@dataclass(frozen=True)
class LambdaByRank:
    """``Lambda_kk = (delta_2 / delta_k)^2 sigma_k^2`` of candidates by the rank of their mean loss.

    ``r = delta_2^2 / (2 max_k Lambda_kk)``: where Lambda_kk peaks at low ranks, the checkpoints of lowest loss
    decide, as section 14.2 expects.

    Attributes:
        rank: 2 for the candidate of lowest loss after the best checkpoint, and so on.
        median: Median over runs of ``Lambda_kk``, in nats squared.
        deciding: Runs in which the candidate of this rank decides r.
        runs: Runs counted: those with a finite r above zero.
    """

    rank: Int[np.ndarray, " rank"]
    median: Float[np.ndarray, " rank"]
    deciding: Int[np.ndarray, " rank"]
    runs: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "rank": self.rank.tolist(),
            "median": self.median.tolist(),
            "deciding": self.deciding.tolist(),
        }


def lambda_by_rank(runs: Sequence[RunIndicator]) -> LambdaByRank:
    """Order each run's candidates by mean loss, and find the one of largest Lambda_kk.

    Example:
        >>> from discreet.indicator import measure_run
        >>> from discreet.trajectory import Trajectory
        >>> run = measure_run(Trajectory(np.array([[1.0, 1, 1], [1, 2, 2], [1, 2, 9]])))
        >>> lambda_by_rank([run]).deciding.tolist()
        [0, 1]
    """
    rows, deciders = [], []
    for run in runs:
        if run.status != "ok" or run.r == 0:
            continue
        gap = run.losses - run.losses[run.best]
        known = np.flatnonzero(np.isfinite(run.ratios) & (gap > 0))
        order = known[np.argsort(gap[known], kind="stable")]
        if not len(order):
            continue
        # sigma_k^2 = delta_k^2 / (2 r_k)
        rows.append(0.5 * gap[order[0]] ** 2 / run.ratios[order])
        deciders.append(int(np.argmax(rows[-1])))
    width = max(map(len, rows), default=0)
    table = np.full((len(rows), width), np.nan)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return LambdaByRank(
        np.arange(2, width + 2),
        np.nanmedian(table, axis=0) if rows else np.zeros(0),
        np.bincount(deciders, minlength=width) if rows else np.zeros(0, np.int64),
        len(rows),
    )
