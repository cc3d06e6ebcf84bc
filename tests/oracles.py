"""Naive twins of the statistics, in exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def exact_ratios(losses: np.ndarray) -> tuple[int, list[Fraction | None]]:
    """k* and ``1/2 m_k^2 / v_k`` of each checkpoint by Definition 3.5; None where D_k is all zero."""
    rows = [[Fraction(float(x)) for x in row] for row in losses]
    n = len(rows[0])
    means = [sum(row) / n for row in rows]
    best = means.index(min(means))
    out: list[Fraction | None] = []
    for row in rows:
        gap = [a - b for a, b in zip(row, rows[best], strict=True)]
        mean = sum(gap) / n
        variance = sum((g - mean) ** 2 for g in gap) / n
        out.append(None if not any(gap) else Fraction(10**30) if variance == 0 else mean**2 / variance / 2)
    return best, out
