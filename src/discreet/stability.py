"""How many runs a ranking needs: Figure 2's curve, and the stricter one from disjoint sets of runs.

A subset of the runs agrees with all of them by construction, more so the larger it is. Two disjoint sets
share nothing but the evaluation samples, so their agreement is what a second study would see.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._types import Float

__all__ = ["Curve", "RunsNeeded", "Stability", "rank_until_stable", "runs_needed", "stability"]


@dataclass(frozen=True)
class Curve:
    """Spearman correlation between two rankings, against the number of runs behind them.

    Attributes:
        runs: Numbers of runs.
        spearman: Mean correlation over random choices of runs.
        low: Lower quantile of the correlation over those choices.
        high: Upper quantile.
    """

    runs: tuple[int, ...]
    spearman: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def to_json(self) -> list[dict[str, int | float]]:
        """One entry a number of runs."""
        rows = zip(self.runs, self.spearman, self.low, self.high, strict=True)
        return [{"runs": n, "spearman": s, "low": a, "high": b} for n, s, a, b in rows]


@dataclass(frozen=True)
class Stability:
    """Both curves; each is empty where there are too few runs or variants to draw it."""

    subset_vs_all: Curve
    disjoint_halves: Curve

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "subset_vs_all": self.subset_vs_all.to_json(),
            "disjoint_halves": self.disjoint_halves.to_json(),
        }


@dataclass(frozen=True)
class RunsNeeded:
    """The least number of runs at which disjoint sets of runs agree to a target.

    Attributes:
        target: Spearman correlation asked for.
        runs: That number; None when it was not reached with half of the runs at hand.
        reached: The agreement of the two halves of all runs; None when there are too few to say.
    """

    target: float
    runs: int | None
    reached: float | None


def stability(
    table: Float[np.ndarray, "run variant"],
    *,
    statistic: str = "mean",
    level: float = 0.95,
    draws: int = 200,
    seed: int = 0,
) -> Stability:
    """Draw both curves from r of each run and variant (NaN where undefined).

    Example:
        >>> table = np.arange(3.0) + np.zeros((8, 3))
        >>> stability(table).disjoint_halves.spearman
        (1.0, 1.0, 1.0, 1.0)
    """
    runs, variants = table.shape
    if variants < 2 or runs < 2:
        empty = Curve((), (), (), ())
        return Stability(empty, empty)
    rng = np.random.default_rng([seed, 0x57AB])
    orders = rng.permuted(np.tile(np.arange(runs), (draws, 1)), axis=1)
    whole = _aggregate(table[None], statistic)
    subsets = {
        m: _agreement(_aggregate(table[orders[:, :m]], statistic), np.repeat(whole, draws, axis=0))
        for m in _sizes(runs)
    }
    halves = {
        m: _agreement(
            _aggregate(table[orders[:, :m]], statistic), _aggregate(table[orders[:, m : 2 * m]], statistic)
        )
        for m in _sizes(runs // 2)
    }
    return Stability(_curve(subsets, level), _curve(halves, level))


def runs_needed(found: Stability, target: float = 0.9) -> RunsNeeded:
    """The least number of runs from which on disjoint sets agree to the target.

    Raises:
        ValueError: The target is no correlation in (0, 1].
    """
    if not 0 < target <= 1:
        raise ValueError(f"target must be a correlation in (0, 1], got {target}")
    curve = found.disjoint_halves
    if not curve.runs:
        return RunsNeeded(target, None, None)
    enough = None
    for runs, value in zip(reversed(curve.runs), reversed(curve.spearman), strict=True):
        if value < target:
            break
        enough = runs
    return RunsNeeded(target, enough, curve.spearman[-1])


def rank_until_stable(
    runs: Iterable[Mapping[str, Any]],
    *,
    target: float = 0.9,
    patience: int = 3,
    least: int = 8,
    level: float = 0.95,
    statistic: str = "mean",
    n_train: int | None = None,
    seed: int = 0,
) -> tuple[Any, bool]:
    """Take runs one by one until disjoint halves of them rank alike, then stop.

    Args:
        runs: For each run, the losses ``[checkpoint, sample]`` of every variant; may be a generator that
            trains the next run only when asked.
        target: Spearman correlation between disjoint halves to reach.
        patience: How many runs in a row it must hold.
        least: Runs before the first judgement.
        level: Confidence level of the ranking.
        statistic: ``mean`` or ``median``.
        n_train: Training samples of a run.
        seed: Seed of the bootstrap.

    Returns:
        The `discreet.ranking.Ranking` of the runs taken, and whether it was stable (False: runs ran out).

    Raises:
        ValueError: There is no run, or a run has other variants than the first.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> def one():
        ...     noise = 0.1 * rng.standard_normal((3, 300))
        ...     return {name: noise + np.array([[0.3 * s], [0], [s]]) for name, s in zip("abc", (0.1, 0.2, 0.4))}
        >>> found, stable = rank_until_stable(one() for _ in range(100))
        >>> stable, found["a"].runs < 100
        (True, True)
    """
    from discreet.indicator import check_level, check_statistic, measure
    from discreet.ranking import rank_runs

    check_level(level)
    check_statistic(statistic)
    taken: dict[str, dict[str, Any]] = {}
    held, found = 0, None
    for number, losses in enumerate(runs):
        if taken and set(losses) != set(taken):
            raise ValueError(f"run {number} has variants {sorted(losses)}, the first had {sorted(taken)}")
        for variant, values in losses.items():
            found_run = measure(np.asarray(values), variant, str(number), level=level, seed=seed)
            taken.setdefault(variant, {})[str(number)] = found_run
        if number + 1 < least:
            continue
        found = rank_runs(taken, level=level, statistic=statistic, n_train=n_train, seed=seed)
        reached = runs_needed(found.stability(), target).reached
        held = held + 1 if reached is not None and reached >= target else 0
        if held >= patience:
            return found, True
    if not taken:
        raise ValueError("no run to rank")
    return rank_runs(taken, level=level, statistic=statistic, n_train=n_train, seed=seed), False


def _sizes(most: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, … and the largest."""
    steps = {m for k in range(int(math.log2(most)) + 1) for m in (2**k, 3 * 2**k // 2)} if most else set()
    return sorted({m for m in steps if 1 <= m <= most} | ({most} if most else set()))


def _aggregate(
    tables: Float[np.ndarray, "draw run variant"], statistic: str
) -> Float[np.ndarray, "draw variant"]:
    """Mean or median over runs, NaN left out; NaN where no run is left."""
    known = ~np.isnan(tables)
    if statistic == "mean":
        with np.errstate(invalid="ignore"):
            return np.where(known, tables, 0.0).sum(axis=1) / known.sum(axis=1)
    return np.ma.median(np.ma.masked_array(tables, ~known), axis=1).filled(np.nan)


def _agreement(
    a: Float[np.ndarray, "draw variant"], b: Float[np.ndarray, "draw variant"]
) -> Float[np.ndarray, " draw"]:
    """Spearman correlation, draw by draw, over variants known on both sides; 0 where a side is constant."""
    from scipy.stats import rankdata

    known = ~np.isnan(a) & ~np.isnan(b)
    if not known.all():  # only variants with undefined runs need the slow way
        whole = [_agreement(x[k][None], y[k][None]) for x, y, k in zip(a, b, known, strict=True)]
        return np.concatenate(whole)
    if a.shape[1] < 2:
        return np.zeros(len(a))
    x, y = rankdata(a, axis=1), rankdata(b, axis=1)
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    size = np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    return np.divide((x * y).sum(axis=1), size, out=np.zeros(len(a)), where=size > 0)


def _curve(by_size: Mapping[int, Float[np.ndarray, " draw"]], level: float) -> Curve:
    tail = (1 - level) / 2
    quantiles = [np.quantile(values, [tail, 1 - tail]) for values in by_size.values()]
    return Curve(
        tuple(by_size),
        tuple(float(values.mean()) for values in by_size.values()),
        tuple(float(q[0]) for q in quantiles),
        tuple(float(q[1]) for q in quantiles),
    )
