"""r without the bias of its plug-in estimate, beside the paper's estimator (which `discreet.indicator` keeps).

The squared mean of n noisy differences is too high by Var/n on average, so ``1/2 m^2/v`` by about 1/(2n); and the
least of many candidates is too low, since it was picked from the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from discreet._types import Float
from discreet.estimate import Estimate
from discreet.indicator import Indicator, RunIndicator, spread_over_runs
from discreet.moments import LossMoments
from discreet.trajectory import Trajectory

__all__ = ["METHODS", "corrected", "corrected_run", "split_run", "unbiased"]

METHODS = ("normal", "jackknife", "bootstrap")


def unbiased(ratio: float | Float[np.ndarray, " n"], n: int) -> Float[np.ndarray, " *n"]:
    """Ratios ``1/2 m^2/v`` (population variance) less their bias: exact for one candidate and normal differences.

    With mean m and variance v/n, m^2 has the mean ``delta^2 + v/n``; 1/v has the mean ``n/((n - 3) sigma^2)`` and is
    independent of m. So ``(n - 3)/n`` times the ratio, less ``1/(2n)``, has the mean ``delta^2/(2 sigma^2)``.

    Args:
        ratio: Plug-in ratios.
        n: Samples, at least 4.

    Returns:
        Below 0 where the plug-in is less than what noise alone gives.

    Raises:
        ValueError: Fewer than 4 samples.

    Example:
        >>> round(float(unbiased(0.001, 500)), 6)
        -6e-06
    """
    if n < 4:
        raise ValueError(f"n: expected at least 4 samples, got {n}")
    return np.asarray((n - 3) / n * np.asarray(ratio, np.float64) - 0.5 / n)


def corrected_run(run: RunIndicator, how: str = "normal") -> float:
    """r of one run, corrected; it may be below 0, so that means over runs stay free of bias. NaN unless r is finite.

    Args:
        run: The run.
        how: ``"normal"`` takes off what one candidate's square is too high, and leaves the pull of the minimum;
            ``"jackknife"`` and ``"bootstrap"`` estimate both from the blocks of samples that the intervals use.

    Raises:
        ValueError: No such method.

    Example:
        >>> from discreet.indicator import measure_run
        >>> from discreet.trajectory import Trajectory
        >>> rng = np.random.default_rng(0)
        >>> run = measure_run(Trajectory(1.0 + rng.standard_normal((2, 400))))
        >>> run.r > 0, corrected_run(run) < run.r
        (True, True)
    """
    if how not in METHODS:
        raise ValueError(f"how: expected one of {', '.join(METHODS)}, got {how!r}")
    if not np.isfinite(run.r):
        return float("nan")
    if how == "normal":
        return float(unbiased(run.r, run.samples))
    if how == "jackknife":
        blocks = len(run.dropped)
        return float(blocks * run.r - (blocks - 1) * _filled(run.dropped, run.r).mean())
    return float(2 * run.r - _filled(run.drawn, run.r).mean())


def split_run(source: Trajectory | LossMoments, *, splits: int = 8, seed: int = 0) -> float:
    """r of one run with the best checkpoint and the deciding one chosen on half of the samples, measured on the rest.

    What is measured was not picked by its own noise, but what is picked may be the wrong pair: too low on average
    where several checkpoints are within about two standard errors of the best (a half then takes another for the
    best, and measures a gap that is smaller than the best one's), too high where it picks another candidate than the
    least. The mean over both halves of several random splits of the blocks of samples.

    Args:
        source: The run's losses.
        splits: Random splits.
        seed: Of the splits.

    Returns:
        NaN where a half of the samples leaves no candidate of finite ratio.

    Raises:
        ValueError: Fewer than 8 samples, or a loss that is not finite.

    Example:
        >>> from discreet.trajectory import Trajectory
        >>> rng = np.random.default_rng(0)
        >>> gaps = 0.2 * np.ones((20, 1))
        >>> found = split_run(Trajectory(np.vstack([np.ones((1, 500)), 1 + gaps + rng.standard_normal((20, 500))])))
        >>> 0.01 < found < 0.03  # the truth is 0.02
        True
    """
    if source.n < 8:
        raise ValueError(f"samples: expected at least 8 to split, got {source.n}")
    rng, blocks, values = np.random.default_rng([seed, 0xB1A5]), len(source.count), []
    for _ in range(splits):
        half = np.isin(np.arange(blocks), rng.permutation(blocks)[: blocks // 2])
        for choosing in (half, ~half):
            best = int((choosing * source.count @ source.block_means).argmin())
            pair = source.pairs(best)
            chosen, measured = (pair.ratios(w[None].astype(np.float64))[0] for w in (choosing, ~choosing))
            known = np.flatnonzero(np.isfinite(chosen) & np.isfinite(measured))
            if not len(known):
                return float("nan")
            rest = int(source.count[~choosing].sum())
            values.append(float(unbiased(measured[known[chosen[known].argmin()]], rest)))
    return float(np.mean(values))


def corrected(
    found: Indicator, how: str = "normal", *, values: Mapping[str, float] | None = None
) -> Estimate:
    """Mean over runs of the corrected r, with an interval over runs and samples.

    Args:
        found: What `discreet.indicator` returned; nothing in it changes.
        how: As in `corrected_run`.
        values: By run, what `split_run` gave, instead of a method that needs the indicator alone.

    Raises:
        ValueError: No such method, or no run of finite r.

    Example:
        >>> from discreet.indicator import indicator
        >>> rng = np.random.default_rng(0)
        >>> gaps = np.array([0.3, 0.0, 0.1])[None, :, None]
        >>> plain = indicator(1 + gaps + 0.1 * rng.standard_normal((4, 3, 500)))
        >>> corrected(plain).value < plain.r
        True
    """
    runs = [run for run in found.per_run.values() if run.status == "ok"]
    if not runs:
        raise ValueError(f"variant {found.variant!r}: no run has a finite r to correct")
    ok = [name for name, run in found.per_run.items() if run.status == "ok"]
    taken = (
        np.array([corrected_run(run, how) for run in runs])
        if values is None
        else np.array([values[name] for name in ok])
    )
    if not np.isfinite(taken).all():
        raise ValueError(
            f"variant {found.variant!r}: the correction of {int((~np.isfinite(taken)).sum())} runs is not finite"
        )
    how = "split" if values is not None else how
    centre = float(taken.mean())
    low, high = _ends(runs, taken, found.level)
    return Estimate(
        centre,
        min(low, centre),
        max(high, centre),
        len(runs),
        found.level,
        f"{how} correction, runs x samples",
    )


def _ends(
    runs: Sequence[RunIndicator], values: Float[np.ndarray, " run"], level: float
) -> tuple[float, float]:
    """A t interval over runs and blocks; of one run, the run's own interval moved by the correction."""
    if len(runs) == 1:
        shift = float(values[0]) - runs[0].r
        return runs[0].low + min(shift, 0.0), runs[0].high + max(shift, 0.0)
    from scipy.special import stdtrit

    n = runs[0].samples
    dropped = np.array([unbiased(_filled(run.dropped, run.r), n) for run in runs])
    error, dof = spread_over_runs(values, dropped, "mean", 0)
    half = float(stdtrit(dof, (1 + level) / 2)) * error
    # picking a candidate shifts all runs alike, and near zero the jackknife sees too little of a square's spread:
    # only the runs' own ends allow for either
    low, high = (float(np.mean([getattr(run, end) for run in runs])) for end in ("low", "high"))
    return min(float(values.mean()) - half, low), max(float(values.mean()) + half, high)


def _filled(values: Float[np.ndarray, " n"], by: float) -> Float[np.ndarray, " n"]:
    return np.where(np.isfinite(values), values, by)
