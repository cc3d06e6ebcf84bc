"""Rank quantizers by the MIS indicator, and say which of them the data can tell apart.

Order, pairwise probabilities and rank intervals come from one bootstrap over runs and blocks of samples, the
same draws for every variant, since variants share both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from discreet._types import Float
from discreet.deciding import LambdaByRank, lambda_by_rank
from discreet.estimate import Estimate
from discreet.indicator import (
    DRAWS,
    Indicator,
    RunIndicator,
    check_level,
    check_n_train,
    check_statistic,
    measure,
    spread_over_runs,
    stack,
    summarize_runs,
)
from discreet.stability import RunsNeeded, Stability, runs_needed, stability

__all__ = ["SCHEMA", "Pairwise", "Ranking", "rank", "rank_runs"]

SCHEMA = "discreet.rank/1"


@dataclass(frozen=True)
class Pairwise:
    """Two variants, compared on the runs defined in both.

    Attributes:
        safer: The variant ranked higher.
        than: The other one.
        probability: Share of bootstrap draws in which `safer` has the higher r (ties count half); None when
            one of them is not ranked.
        told_apart: The probability passes the level, so does a t test of the paired difference over runs and
            samples (never with one run), and not both are below resolution.
        runs: Runs that the comparison rests on.
    """

    safer: str
    than: str
    probability: float | None
    told_apart: bool
    runs: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "safer": self.safer,
            "than": self.than,
            "probability": self.probability,
            "told_apart": self.told_apart,
        }


@dataclass(frozen=True)
class Ranking:
    """Variants ordered by r, safest first; those without a finite r come last, unranked.

    Attributes:
        indicators: In order of rank.
        level: Confidence level.
        statistic: ``mean`` or ``median`` over runs.
        notes: What was left out on the way, in words.
        seed: Seed of the bootstrap.
    """

    indicators: tuple[Indicator, ...]
    level: float
    statistic: str
    notes: tuple[str, ...] = ()
    seed: int = field(default=0, repr=False)

    def __getitem__(self, variant: str) -> Indicator:
        """The indicator of one variant."""
        for found in self.indicators:
            if found.variant == variant:
                return found
        raise KeyError(f"no variant {variant!r}; there are {', '.join(i.variant for i in self.indicators)}")

    @property
    def ranked(self) -> tuple[Indicator, ...]:
        """The variants that have a finite r."""
        return tuple(i for i in self.indicators if i.status == "ok")

    @cached_property
    def pairwise(self) -> tuple[Pairwise, ...]:
        """Every pair, the one ranked higher first."""
        return tuple(
            self._compare(a, b) for at, a in enumerate(self.indicators) for b in self.indicators[at + 1 :]
        )

    def _compare(self, a: Indicator, b: Indicator) -> Pairwise:
        shared = [
            run
            for run, found in a.per_run.items()
            if found.status == "ok" and run in b.per_run and b.per_run[run].status == "ok"
        ]
        if a.status != "ok" or b.status != "ok" or not shared:
            return Pairwise(a.variant, b.variant, None, False, len(shared))
        picks = np.random.default_rng([self.seed, 0xB007]).integers(len(shared), size=(DRAWS, len(shared)))
        if self.statistic == "mean":
            gap = np.array([_drawn(a.per_run[run]) - _drawn(b.per_run[run]) for run in shared])
            gap = np.take_along_axis(gap.T, picks, axis=1).mean(axis=1)
        else:
            gap = _median_drawn(a, shared, picks) - _median_drawn(b, shared, picks)
        probability = float(np.mean(gap > 0) + 0.5 * np.mean(gap == 0))
        below = "below-resolution"
        resolved = not (below in a.diagnostics and below in b.diagnostics)
        apart = resolved and probability >= (1 + self.level) / 2 and self._beyond_chance(a, b, shared)
        return Pairwise(a.variant, b.variant, probability, apart, len(shared))

    def _beyond_chance(self, a: Indicator, b: Indicator, runs: Sequence[str]) -> bool:
        """Whether the paired difference passes a t test: resampling a few runs spreads too little."""
        if len(runs) < 2:
            return False
        from scipy.special import stdtrit

        gap = np.array([a.per_run[run].r - b.per_run[run].r for run in runs])
        left = np.array([a.per_run[run].dropped - b.per_run[run].dropped for run in runs])
        error, dof = spread_over_runs(gap, left, self.statistic, self.seed)
        centre = float(gap.mean() if self.statistic == "mean" else np.median(gap))
        return centre > float(stdtrit(dof, (1 + self.level) / 2)) * error

    def rank_interval(self, variant: str) -> tuple[int, int]:
        """Ranks that the data allow: above everything it is told apart from, below all that is above it."""
        above = sum(p.told_apart and p.than == variant for p in self.pairwise)
        below = sum(p.told_apart and p.safer == variant for p in self.pairwise)
        return 1 + above, len(self.ranked) - below

    def spearman(self, other: Mapping[str, float]) -> Estimate:
        """Spearman correlation of r with another number, over the ranked variants that have one.

        The interval says how far the uncertainty of r moves the correlation (bootstrap over runs and blocks of
        samples, the other number held fixed); it does not cover other quantizers than these.

        Raises:
            ValueError: Fewer than three variants in common, or all values of `other` are equal.
        """
        names = [i.variant for i in self.ranked if i.variant in other]
        if len(names) < 3:
            raise ValueError(f"a correlation over variants needs at least 3 in common, got {len(names)}")
        values = np.array([other[name] for name in names], np.float64)
        if not np.isfinite(values).all() or np.ptp(values) == 0:
            raise ValueError("the other ordering must be finite and must not be constant")
        point = correlation(np.array([[self[name].r for name in names]], np.float64), values)
        drawn = correlation(self.drawn(names), values)
        tail = (1 - self.level) / 2
        low, high = np.nanquantile(drawn, [tail, 1 - tail])
        value = float(np.nan_to_num(point[0]))
        return Estimate(
            value,
            min(float(low), value),
            max(float(high), value),
            len(names),
            self.level,
            "bootstrap of r over runs and blocks of samples",
        )

    def drawn(self, names: Sequence[str]) -> Float[np.ndarray, "draw variant"]:
        """r of some variants on bootstrap draws of runs and blocks of samples, the same draws for all.

        NaN where no drawn run has an r.
        """
        runs = [run for run in self[names[0]].per_run if all(run in self[n].per_run for n in names)]
        picks = np.random.default_rng([self.seed, 0xB007]).integers(len(runs), size=(DRAWS, len(runs)))
        columns = []
        for name in names:
            table = np.array([_drawn(self[name].per_run[run]) for run in runs])
            table[[self[name].per_run[run].status != "ok" for run in runs]] = np.nan
            chosen = np.take_along_axis(table.T, picks, axis=1)
            known = np.ma.masked_invalid(chosen)
            middle = known.mean(axis=1) if self.statistic == "mean" else np.ma.median(known, axis=1)
            columns.append(np.ma.filled(middle, np.nan))
        return np.array(columns).T

    def stability(self, *, draws: int = 200) -> Stability:
        """How the ranking settles with the number of runs (Figure 2), and between disjoint halves of them."""
        return stability(
            self.table(), statistic=self.statistic, level=self.level, draws=draws, seed=self.seed
        )

    def runs_needed(self, target: float = 0.9) -> RunsNeeded:
        """The least number of runs at which two disjoint sets of runs rank alike."""
        return runs_needed(self.stability(), target)

    def lambda_by_rank(self, variant: str) -> LambdaByRank:
        """Which checkpoints decide r of one variant (Figure 13)."""
        return lambda_by_rank(list(self[variant].per_run.values()))

    def table(self) -> Float[np.ndarray, "run variant"]:
        """r of each run and ranked variant; NaN where it is undefined or infinite."""
        runs = list(dict.fromkeys(run for i in self.ranked for run in i.per_run))
        out = np.full((len(runs), len(self.ranked)), np.nan)
        for v, found in enumerate(self.ranked):
            for u, run in enumerate(runs):
                if run in found.per_run and found.per_run[run].status == "ok":
                    out[u, v] = found.per_run[run].r
        return out

    def to_json(self) -> dict[str, Any]:
        """What ``discreet rank --json`` writes; no NaN and no infinity in it."""
        variants = []
        for place, found in enumerate(self.indicators, start=1):
            low, high = self.rank_interval(found.variant) if found.status == "ok" else (None, None)
            entry = found.to_json()
            diagnostics = entry.pop("diagnostics")
            ranks = {"rank": place if found.status == "ok" else None, "rank_low": low, "rank_high": high}
            variants.append(entry | ranks | {"diagnostics": diagnostics})
        return {
            "schema": SCHEMA,
            "level": self.level,
            "statistic": self.statistic,
            "variants": variants,
            "pairwise": [p.to_json() for p in self.pairwise],
        }


def _drawn(run: RunIndicator) -> Float[np.ndarray, " draw"]:
    """r on each draw of blocks; the run's own r where a draw leaves it undefined or infinite."""
    return np.where(np.isfinite(run.drawn), run.drawn, run.r)


def _median_drawn(found: Indicator, runs: Sequence[str], picks: np.ndarray) -> Float[np.ndarray, " draw"]:
    table = np.array([_drawn(found.per_run[run]) for run in runs])
    return np.median(np.take_along_axis(table.T, picks, axis=1), axis=1)


def correlation(
    drawn: Float[np.ndarray, "draw variant"], other: Float[np.ndarray, " variant"]
) -> Float[np.ndarray, " draw"]:
    """Spearman correlation of each draw with another ordering; NaN where a draw is constant."""
    from scipy.stats import rankdata

    a, b = rankdata(drawn, axis=1), rankdata(other)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean()
    with np.errstate(invalid="ignore"):
        return (a @ b) / np.sqrt((a * a).sum(axis=1) * (b @ b))


def rank_runs(
    per_variant: Mapping[str, Mapping[str, RunIndicator]],
    *,
    level: float = 0.95,
    statistic: str = "mean",
    n_train: int | None = None,
    constant_loss: float | None = None,
    beside: Sequence[str] = (),
    notes: Sequence[str] = (),
    seed: int = 0,
) -> Ranking:
    """Order variants from the indicators of their runs.

    Args:
        per_variant: By variant and run.
        level: Confidence level.
        statistic: ``mean`` or ``median``.
        n_train: Training samples of a run, when known.
        constant_loss: Loss of the best constant prediction, when known.
        beside: Diagnostics that hold for every variant.
        notes: What was left out on the way.
        seed: Seed of the bootstrap.
    """
    every = {run for runs in per_variant.values() for run in runs}
    found = [
        summarize_runs(
            variant,
            runs,
            level=level,
            statistic=statistic,
            n_train=n_train,
            constant_loss=constant_loss,
            beside=(*beside, *(("runs-differ",) if set(runs) != every else ())),
            seed=seed,
        )
        for variant, runs in per_variant.items()
    ]
    found.sort(key=lambda i: (i.status != "ok", -(i.r or 0.0), i.variant))  # names break exact ties
    return Ranking(tuple(found), level, statistic, tuple(notes), seed)


def rank(
    losses: Any,
    *,
    level: float = 0.95,
    statistic: str = "mean",
    n_train: Any = None,
    seed: int = 0,
) -> Ranking:
    """Rank variants by membership-inference security, from per-sample losses along training runs.

    Args:
        losses: For each variant a float array ``[run, checkpoint, sample]`` (or ``[checkpoint, sample]``: one
            run), in nats, all of one shape; or a `discreet.Record`, whose samples that some run trained on are
            left out and counted.
        level: Confidence level of intervals and comparisons, in (0, 1).
        statistic: ``mean`` over runs, as in the paper, or ``median``.
        n_train: Training samples of a run (default: what the record says).
        seed: Seed of the bootstrap.

    Raises:
        ValueError: No variant, variants that do not share runs, checkpoints and samples, fewer than two
            checkpoints or samples, losses that are not finite.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> base = rng.exponential(size=(4, 1, 400))
        >>> noise = 0.1 * rng.standard_normal((4, 3, 400))
        >>> gaps = np.array([0.3, 0.0, 0.1])[:, None]
        >>> found = rank({"2 bits": base + gaps + noise, "sign": base + 2 * gaps + noise})
        >>> [(i.variant, i.status) for i in found.indicators]
        [('sign', 'ok'), ('2 bits', 'ok')]
    """
    check_level(level)
    check_statistic(statistic)
    check_n_train(n_train)
    if isinstance(losses, Mapping):
        if not losses:
            raise ValueError("losses: no variant to rank")
        arrays = {name: stack(array, name) for name, array in losses.items()}
        (first, shape), *rest = [(name, array.shape) for name, array in arrays.items()]
        for name, other in rest:
            if other != shape:
                raise ValueError(
                    "variants must share runs, checkpoints and samples: "
                    f"{first!r} has {list(shape)}, {name!r} has {list(other)} [run, checkpoint, sample]"
                )
        per_variant = {
            name: {str(i): measure(run, name, str(i), level=level, seed=seed) for i, run in enumerate(array)}
            for name, array in arrays.items()
        }
        return rank_runs(per_variant, level=level, statistic=statistic, n_train=n_train, seed=seed)
    from discreet.recorded import measure_record
    from discreet.records import Record

    if not isinstance(losses, Record):
        raise ValueError(f"losses: expected arrays by variant or a Record, got {type(losses).__name__}")
    found = measure_record(losses, level=level, seed=seed)
    return rank_runs(
        found.per_variant,
        level=level,
        statistic=statistic,
        n_train=found.n_train if n_train is None else n_train,
        constant_loss=found.constant_loss,
        beside=found.diagnostics,
        notes=found.notes,
        seed=seed,
    )
