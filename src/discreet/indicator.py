"""The MIS indicator r_Q: how fast membership-inference security grows with the training set, attack-free.

From "An Indicator of Membership Inference Security in Post-Training Quantized Models": Definition 3.5,
estimated along training trajectories as in Algorithms 1 and 2. Higher is more secure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from discreet._types import Bool, Float, Num
from discreet.diagnostics import diagnose
from discreet.moments import LossMoments, Pair
from discreet.noncentral import resolution, within_run
from discreet.trajectory import Trajectory

__all__ = [
    "DRAWS",
    "Indicator",
    "RunIndicator",
    "indicator",
    "measure",
    "measure_run",
    "summarize_runs",
]

DRAWS = 1000
"""Bootstrap draws over blocks of samples."""


@dataclass(frozen=True)
class RunIndicator:
    """The indicator of one training run.

    Attributes:
        r: ``1/2 min_k m_k^2 / v_k`` over the candidates; infinite when all differ from the best one by a
            constant; NaN (undefined) when there is no candidate.
        low: Lower end of the interval within the run.
        high: Upper end.
        best: The checkpoint of lowest mean loss, k*.
        decider: The checkpoint that decides, k (None when undefined).
        candidates: Distinct candidates: configurations other than that of k*.
        samples: Evaluation samples.
        tied: The decider's mean loss equals that of k*, exactly.
        losses: Mean loss of each checkpoint, in nats.
        ratios: ``1/2 m_k^2 / v_k`` of each checkpoint; NaN where it is no candidate.
        dropped: r without one block of samples, for each block.
        drawn: r on each bootstrap draw of blocks.
    """

    r: float
    low: float
    high: float
    best: int
    decider: int | None
    candidates: int
    samples: int
    tied: bool
    losses: Float[np.ndarray, " checkpoint"]
    ratios: Float[np.ndarray, " checkpoint"]
    dropped: Float[np.ndarray, " block"] = field(repr=False)
    drawn: Float[np.ndarray, " draw"] = field(repr=False)

    @property
    def status(self) -> Literal["ok", "infinite", "undefined"]:
        """Whether r is a number, infinite, or undefined."""
        return "undefined" if np.isnan(self.r) else "infinite" if np.isinf(self.r) else "ok"


def block_draws(blocks: int, draws: int, seed: int) -> Float[np.ndarray, "draw block"]:
    """How often each block counts in each bootstrap draw; the same for every run and variant."""
    rng = np.random.default_rng([seed, 0x5A3])
    return rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=draws).astype(np.float64)


def measure_run(
    source: Trajectory | LossMoments, *, level: float = 0.95, seed: int = 0, draws: int = DRAWS
) -> RunIndicator:
    """The indicator of one run, with what the intervals over runs need (Algorithm 1).

    Args:
        source: The run's losses on evaluation samples that it did not train on.
        level: Confidence level of the interval within the run.
        seed: Seed of the bootstrap draws.
        draws: Number of bootstrap draws.

    Raises:
        ValueError: A loss is not finite.
    """
    best = source.best
    pair = source.pairs(best)
    cache = {best: pair}
    ratios = pair.ratios()[0]
    candidates = np.flatnonzero(~np.isnan(ratios))
    blocks = len(source.count)
    if len(candidates):
        decider = int(candidates[ratios[candidates].argmin()])
        r = float(ratios[decider])
        low, high = within_run(ratios[_distinct(pair)], source.n, level)
    else:
        decider, r, low, high = None, np.nan, np.nan, np.nan
    return RunIndicator(
        r=r,
        low=low,
        high=high,
        best=best,
        decider=decider,
        candidates=int(_distinct(pair).sum()),
        samples=source.n,
        tied=decider is not None and r == 0.0,
        losses=source.losses,
        ratios=ratios,
        dropped=_resampled(source, 1.0 - np.eye(blocks), cache),
        drawn=_resampled(source, block_draws(blocks, draws, seed), cache),
    )


def _distinct(pair: Pair) -> Bool[np.ndarray, " checkpoint"]:
    """The first of each group of candidates whose differences are the same."""
    keys = np.concatenate([pair.mean, pair.scatter]).T
    _, first = np.unique(keys, axis=0, return_index=True)
    out = np.zeros(len(pair.status), bool)
    out[first] = True
    return out & (pair.status != Pair.SAME)


def _resampled(
    source: Trajectory | LossMoments, times: Float[np.ndarray, "draw block"], cache: dict[int, Pair]
) -> Float[np.ndarray, " draw"]:
    """r when block j counts ``times[draw, j]`` times, the choice of k* included."""
    count = times * source.count
    best = (count @ source.block_means).argmin(axis=1)
    out = np.full(len(times), np.nan)
    for k in np.unique(best):
        pair = cache.setdefault(int(k), cache.get(int(k)) or source.pairs(int(k)))
        if (pair.status != Pair.SAME).any():
            out[best == k] = np.nanmin(pair.ratios(times[best == k]), axis=1)
    return out


@dataclass(frozen=True)
class Indicator:
    """r_Q of one quantizer over its training runs, with its interval and everything that qualifies it.

    Attributes:
        variant: Name of the quantizer.
        status: ``ok``; ``infinite`` (every defined run is); ``undefined`` (no run explored an alternative).
        r: Mean (or median) over the defined, finite runs. Higher is more secure. None unless ``ok``.
        r_median: Median over the same runs.
        low: Lower end of the interval over runs and samples.
        high: Upper end.
        level: Confidence level.
        statistic: ``mean`` or ``median``.
        checkpoints: K (the most, where runs differ).
        candidates: Least number of distinct candidates in a defined run.
        samples: Evaluation samples.
        n_train: Training samples of a run, the theorem's n; None when not known.
        resolution: ``z^2/(2 samples)``: r below this cannot be told from zero, however many runs.
        runs: The defined, finite runs; `runs_undefined` and `runs_infinite` count the others.
        per_run: Each run's own indicator.
        diagnostics: Names of what to heed, see `discreet.diagnostics.ADVICE`.
    """

    variant: str
    status: Literal["ok", "infinite", "undefined"]
    r: float | None
    r_median: float | None
    low: float | None
    high: float | None
    level: float
    statistic: str
    checkpoints: int
    candidates: int
    samples: int
    n_train: int | None
    resolution: float
    per_run: Mapping[str, RunIndicator] = field(repr=False)
    diagnostics: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        """Runs that r was taken over."""
        return sum(run.status == "ok" for run in self.per_run.values())

    @property
    def runs_undefined(self) -> int:
        """Runs without a candidate."""
        return sum(run.status == "undefined" for run in self.per_run.values())

    @property
    def runs_infinite(self) -> int:
        """Runs whose candidates all differ from the best one by a constant."""
        return sum(run.status == "infinite" for run in self.per_run.values())

    @property
    def n_train_r(self) -> float | None:
        """``n_train * r``: by Theorem 3.4, 1 - MIS falls like exp(-n_train * r)."""
        return None if self.n_train is None or self.r is None else self.n_train * self.r

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, as ``discreet rank --json`` writes them (less the ranks)."""
        names = (
            "variant",
            "status",
            "r",
            "r_median",
            "low",
            "high",
            "runs",
            "runs_undefined",
            "runs_infinite",
        )
        more = ("checkpoints", "candidates", "samples", "n_train_r", "resolution")
        return {name: getattr(self, name) for name in names + more} | {"diagnostics": list(self.diagnostics)}


def summarize_runs(
    variant: str,
    per_run: Mapping[str, RunIndicator],
    *,
    level: float = 0.95,
    statistic: str = "mean",
    n_train: int | None = None,
    constant_loss: float | None = None,
    beside: Collection[str] = (),
    seed: int = 0,
) -> Indicator:
    """Aggregate the runs of one variant; undefined and infinite runs are counted and left out.

    With one run the interval is over evaluation samples alone: how far another run would differ is not in it
    (diagnostic ``single-run``).

    Args:
        variant: Name of the quantizer.
        per_run: Each run's indicator.
        level: Confidence level, in (0, 1).
        statistic: What to take over runs.
        n_train: Training samples of a run.
        constant_loss: Loss of the best constant prediction, in nats, when known.
        beside: Diagnostics that only the whole set of variants shows.
        seed: Seed of the bootstrap (median only).
    """
    runs = list(per_run.values())
    used = [run for run in runs if run.status == "ok"]
    floor = resolution(runs[0].samples, level)
    r = low = high = median = None
    if used:
        values = np.array([run.r for run in used])
        median = float(np.median(values))
        r = float(values.mean()) if statistic == "mean" else median
        low, high = _interval(used, level, statistic, seed)
    defined = [run for run in runs if run.status != "undefined"]
    return Indicator(
        variant=variant,
        status="ok" if used else "infinite" if defined else "undefined",
        r=r,
        r_median=median,
        low=low,
        high=high,
        level=level,
        statistic=statistic,
        checkpoints=max(len(run.losses) for run in runs),
        candidates=min((run.candidates for run in defined), default=0),
        samples=runs[0].samples,
        n_train=n_train,
        resolution=floor,
        per_run=dict(per_run),
        diagnostics=diagnose(
            variant, runs, r=r, floor=floor, n_train=n_train, constant_loss=constant_loss, beside=beside
        ),
    )


def spread_over_runs(
    values: Float[np.ndarray, " run"], dropped: Float[np.ndarray, "run block"], statistic: str, seed: int
) -> tuple[float, float]:
    """Standard error of a mean (or median) over runs that share their evaluation samples, and its t quantile's dof.

    Between-run part plus a block jackknife over samples, the same block left out for every run (Satterthwaite).

    Args:
        values: The figure of each run, at least two.
        dropped: The same without one block of samples.
        statistic: ``mean`` or ``median``.
        seed: Seed of the bootstrap of a median.
    """
    take = np.mean if statistic == "mean" else np.median
    if statistic == "mean":
        between = float(values.var(ddof=1)) / len(values)
    else:
        picks = np.random.default_rng([seed, 0x3ED]).integers(len(values), size=(DRAWS, len(values)))
        between = float(np.median(values[picks], axis=1).var(ddof=1)) * len(values) / (len(values) - 1)
    blocks = dropped.shape[1]
    left = take(np.where(np.isfinite(dropped), dropped, values[:, None]), axis=0)
    shared = (blocks - 1) * float(np.var(left))
    variance = between + shared
    if variance == 0:
        return 0.0, float(len(values) - 1)
    dof = variance**2 / (between**2 / (len(values) - 1) + shared**2 / max(blocks - 1, 1))
    return variance**0.5, dof


def _interval(runs: Sequence[RunIndicator], level: float, statistic: str, seed: int) -> tuple[float, float]:
    """Interval of the mean (or median) over runs; of one run, over its evaluation samples only."""
    if len(runs) == 1:
        return runs[0].low, runs[0].high
    from scipy.special import stdtrit

    take = np.mean if statistic == "mean" else np.median
    values, dropped = np.array([run.r for run in runs]), np.array([run.dropped for run in runs])
    centre = float(take(values))
    error, dof = spread_over_runs(values, dropped, statistic, seed)
    half = float(stdtrit(dof, (1 + level) / 2)) * error
    # the square of a noisy mean is too large by its variance, 1/(2n) in units of r; picking the least of nearly
    # tied candidates makes r too small in every run alike, which only the runs' own upper ends allow for
    excess = 0.5 / runs[0].samples
    reach = float(take([run.high for run in runs]))
    return max(0.0, centre - excess - half), max(centre + half, reach)


def indicator(
    losses: Any,
    *,
    level: float = 0.95,
    statistic: str = "mean",
    n_train: Any = None,
    variant: str = "losses",
    seed: int = 0,
) -> Indicator:
    """r_Q of one quantizer from per-sample losses along its training runs (Def. 3.5, Algorithm 2).

    Args:
        losses: Float array ``[run, checkpoint, sample]`` or ``[checkpoint, sample]``, in nats, on samples that
            no run trained on.
        level: Confidence level of the interval, in (0, 1).
        statistic: ``mean`` over runs, as in the paper, or ``median``.
        n_train: Training samples of a run, for ``n_train * r``.
        variant: A name for messages and results.
        seed: Seed of the bootstrap.

    Raises:
        ValueError: Wrong shape or type, fewer than two checkpoints or samples, a loss that is not finite.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> gaps = np.array([0.3, 0.0, 0.1])[None, :, None]
        >>> found = indicator(1 + gaps + 0.1 * rng.standard_normal((4, 3, 500)))
        >>> found.status, found.runs, found.low < 0.25 < found.high  # true r = 1/2 * 0.1^2 / 0.02
        ('ok', 4, True)
    """
    check_level(level)
    check_statistic(statistic)
    check_n_train(n_train)
    runs = stack(losses, variant)
    found = {str(i): measure(run, variant, str(i), level=level, seed=seed) for i, run in enumerate(runs)}
    return summarize_runs(variant, found, level=level, statistic=statistic, n_train=n_train, seed=seed)


def measure(
    losses: Num[np.ndarray, "checkpoint sample"],
    variant: str,
    run: str,
    *,
    twin: Num[np.ndarray, " checkpoint"] | None = None,
    steps: Sequence[object] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> RunIndicator:
    """`measure_run` on an array, with messages that name the variant, the run and the step."""
    try:
        return measure_run(Trajectory(losses, twin, steps), level=level, seed=seed)
    except ValueError as error:
        raise ValueError(f"variant {variant!r}, run {run!r}: {error}") from None


def stack(losses: Any, name: str) -> Num[np.ndarray, "run checkpoint sample"]:
    """Losses as ``[run, checkpoint, sample]``; two axes are one run."""
    array = np.asarray(losses)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.dtype.kind not in "fiu":
        raise ValueError(
            f"losses of variant {name!r} must be numbers [run, checkpoint, sample] or [checkpoint, sample], got "
            f"{array.dtype} of shape {array.shape}"
        )
    if not len(array):
        raise ValueError(f"losses of variant {name!r} hold no run")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def check_level(level: float) -> None:
    """Refuse a confidence level outside (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, as 0.95 does, got {level}")


def check_statistic(statistic: str) -> None:
    """Refuse a statistic other than the two."""
    if statistic not in ("mean", "median"):
        raise ValueError(f"statistic must be 'mean' or 'median', got {statistic!r}")


def check_n_train(n_train: object) -> None:
    """Refuse a training size that is no whole number of at least 1."""
    if n_train is None:
        return
    if isinstance(n_train, bool) or not isinstance(n_train, int | np.integer) or n_train < 1:
        raise ValueError(f"n_train must be a whole number of at least 1, got {n_train!r}")
