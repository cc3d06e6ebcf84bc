"""How well the order by r agrees with what attacks find, over the variants of one ranking."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet._types import Float
from discreet.audit import Ranked, RankTable
from discreet.audit_leaks import Agreement, Attack
from discreet.correlation import ranks, spearman

__all__ = ["agreement", "name_of"]

_DRAWS = 1000
_FEWEST = 3


def name_of(row: Attack) -> str:
    """What r is compared with, in words.

    Example:
        >>> name_of(Attack("sign", "loss", "tpr@0.01", 0.1)), name_of(Attack("sign", "loss", "auc", 0.6))
        ('loss attack TPR@0.01', 'loss attack AUC')
    """
    return f"{row.attack} attack {row.metric.replace('tpr', 'TPR').replace('auc', 'AUC')}"


def agreement(table: RankTable, rows: Sequence[Attack], *, seed: int) -> Agreement:
    """Spearman correlation of r with one figure of one attack, over the ranked compressed variants.

    The interval is the wider, on either side, of two: one for so few variants (:func:`discreet.stats.spearman`),
    and one for how uncertain r and the figure are, from draws within their intervals.

    Args:
        table: The ranking.
        rows: That figure of that attack, one row a variant.
        seed: Seed of the draws.
    """
    by_variant = {row.variant: row for row in rows}
    pairs = [
        (ranked, by_variant[ranked.variant])
        for ranked in table.ranked
        if ranked.variant in by_variant and not ranked.is_reference
    ]
    name, n = name_of(rows[0]), len(pairs)
    r = np.array([_r(ranked) for ranked, _ in pairs])
    leak = np.array([row.value for _, row in pairs])
    if n < _FEWEST or len(set(r.tolist())) < 2 or len(set(leak.tolist())) < 2:
        return Agreement(name, None, n=n)
    few = spearman(r, leak, level=table.level)
    rng = np.random.default_rng(seed)
    drawn = [
        _draws(values, figures, table.level, rng)
        for values, figures in ((r, [ranked for ranked, _ in pairs]), (leak, [row for _, row in pairs]))
    ]
    moved = [_correlation(a, b) for a, b in zip(*drawn, strict=True)]
    low, high = np.quantile(moved, [(1 - table.level) / 2, (1 + table.level) / 2]).tolist()
    return Agreement(name, few.value, min(few.low, low, few.value), max(few.high, high, few.value), n)


def _r(row: Ranked) -> float:
    return 0.0 if row.r is None else row.r


def _draws(
    values: Float[np.ndarray, " variant"],
    figures: Sequence[Ranked] | Sequence[Attack],
    level: float,
    rng: np.random.Generator,
) -> Float[np.ndarray, "draw variant"]:
    """Values moved within their intervals, as normal to either side; one without an interval stays."""
    from scipy import special

    z = rng.standard_normal((_DRAWS, len(values))) / float(special.ndtri((1 + level) / 2))
    down = np.array([0.0 if f.low is None else v - f.low for v, f in zip(values, figures, strict=True)])
    up = np.array([0.0 if f.high is None else f.high - v for v, f in zip(values, figures, strict=True)])
    return values + np.where(z < 0, z * down, z * up)


def _correlation(a: Float[np.ndarray, " variant"], b: Float[np.ndarray, " variant"]) -> float:
    x, y = (ranks(values) - (len(values) + 1) / 2 for values in (a, b))
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size else 0.0
