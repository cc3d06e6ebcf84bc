"""The indicator without measuring every checkpoint on every sample.

r is decided by two checkpoints: the best one and the one that is hardest to tell from it (Def. 3.5 of "An Indicator
of Membership Inference Security in Post-Training Quantized Models"). All checkpoints are measured on a small random
sample; those that can no longer be either of the two are left out, and the others go on to a larger sample, up to
the whole. r is computed on the whole: a run that lost neither has the r of the full measurement, to rounding.

A checkpoint is left out only if, for every checkpoint that may still be the best one, the lower confidence bound of
its ratio lies above the smallest upper bound of any ratio. With probability ``1 - alpha`` the bounds that matter hold
at all stages (asymptotically: delta method, with the skewness and kurtosis of the differences seen).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet._types import Bool, Float, Int, Num
from discreet.indicator import RunIndicator, measure_run
from discreet.trajectory import Trajectory

__all__ = ["Screened", "screened"]

Evaluate = Callable[[NDArray[np.intp], NDArray[np.intp]], np.ndarray]

_ULPS = 4  # losses that agree so closely are one configuration (see docs/design.md)


@dataclass(frozen=True)
class Screened:
    """What a screened measurement found.

    Attributes:
        indicator: r, its interval and its diagnostics on all samples, with kept checkpoints in place of all;
            ``indicator.best`` and ``indicator.decider`` count among ``kept``.
        kept: The checkpoints measured on all samples, ascending.
        losses: Their losses, in nats.
        stages: For each stage the number of samples and of checkpoints measured on them.
        work: Losses computed, as a share of all.
    """

    indicator: RunIndicator
    kept: Int[np.ndarray, " kept"]
    losses: Float[np.ndarray, "kept sample"]
    stages: tuple[tuple[int, int], ...]
    work: float

    @property
    def r(self) -> float:
        """The indicator, higher is more secure."""
        return self.indicator.r

    @property
    def best(self) -> int:
        """The checkpoint of lowest mean loss, counted among all."""
        return int(self.kept[self.indicator.best])

    @property
    def decider(self) -> int | None:
        """The checkpoint that decides r, counted among all; None if r is undefined."""
        return None if self.indicator.decider is None else int(self.kept[self.indicator.decider])


def screened(
    evaluate: Evaluate,
    n_checkpoints: int,
    n_samples: int,
    *,
    first: int | None = None,
    growth: float = 1.5,
    alpha: float = 0.01,
    level: float = 0.95,
    twin: Num[np.ndarray, " checkpoint"] | None = None,
    seed: int = 0,
) -> Screened:
    """Compute r of one run, measuring only what can decide it.

    Args:
        evaluate: ``(checkpoints, samples) -> losses [checkpoint, sample]`` in nats, both as ascending positions.
            It must give a sample the same loss whichever others come with it.
        n_checkpoints: How many checkpoints there are.
        n_samples: How many evaluation samples there are.
        first: Size of the first sample; a fiftieth of all, but 256 at least, when None.
        growth: How much larger each further sample is.
        alpha: Probability with which a checkpoint that decides r may be left out.
        level: Confidence level of the interval of r.
        twin: Fingerprints of the checkpoints' parameters; of equal ones only the first is measured.
        seed: Draws the samples.

    Returns:
        r on all samples, as ``measure_run`` gives it for the checkpoints kept. Where nothing can be left out, the
        work is that of the full measurement, never more.

    Raises:
        ValueError: Sizes out of range, or losses of another shape than asked for or not finite.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> losses = rng.normal(np.linspace(1, 0, 30)[:, None] ** 2, 0.3, (30, 20_000))
        >>> found = screened(lambda k, i: losses[np.ix_(k, i)], 30, 20_000)
        >>> bool(np.isclose(found.r, measure_run(Trajectory(losses)).r)), found.work < 0.25
        (True, True)
    """
    if first is None:
        first = max(256, n_samples // 50)
    if n_checkpoints < 2 or n_samples < 2 or first < 2 or growth <= 1 or not 0 < alpha < 1:
        raise ValueError(
            "screened: expected at least 2 checkpoints, 2 samples and a first sample of 2, growth above 1 and alpha"
            f" in (0, 1), got {n_checkpoints}, {n_samples}, {first}, {growth} and {alpha}"
        )
    order = np.random.default_rng(seed).permutation(n_samples)
    kept = np.arange(n_checkpoints) if twin is None else np.sort(np.unique(twin, return_index=True)[1])
    sizes = _sizes(first, growth, n_samples)
    error = alpha / max(1, len(sizes) - 1)
    seen = np.empty((len(kept), 0))
    stages, work = [], 0
    for start, stop in zip([0, *sizes], sizes, strict=False):
        samples = np.sort(order[start:stop])
        new = _checked(evaluate(kept, samples), len(kept), len(samples))
        work += new.size
        stages.append((stop, len(kept)))
        seen = np.concatenate([seen.astype(new.dtype, copy=False), new], axis=1)
        order[start:stop] = samples
        if stop < n_samples:
            keep = _may_decide(seen, n_samples, error)
            kept, seen = kept[keep], seen[keep]
    losses = np.empty_like(seen)
    losses[:, order] = seen
    run = measure_run(Trajectory(losses), level=level, seed=seed)
    return Screened(run, kept, losses, tuple(stages), work / (n_checkpoints * n_samples))


def _sizes(first: int, growth: float, n: int) -> list[int]:
    sizes = []
    size = float(first)
    while size * growth**0.5 < n:  # a last step of less would cost more than it spares
        sizes.append(round(size))
        size *= growth
    return [*sizes, n]


def _checked(losses: np.ndarray, checkpoints: int, samples: int) -> np.ndarray:
    losses = np.asarray(losses)
    if losses.shape != (checkpoints, samples):
        raise ValueError(
            f"evaluate: expected losses of shape {[checkpoints, samples]}, got {list(losses.shape)}"
        )
    if not np.isfinite(losses).all():
        raise ValueError(f"evaluate: expected finite losses, got {(~np.isfinite(losses)).sum()} others")
    return losses


def _may_decide(
    losses: Float[np.ndarray, "checkpoint sample"], n: int, error: float
) -> Bool[np.ndarray, " checkpoint"]:
    """Which checkpoints may, on all ``n`` samples, be the best one or the one that decides r."""
    from scipy.special import ndtri

    checkpoints = len(losses)
    if checkpoints == 1:
        return np.ones(1, bool)
    # Of the best one and the decider two bounds must hold, and one of each of the others.
    z = float(-ndtri(error / (checkpoints + 2)))
    lowest = int(losses.mean(axis=1).argmin())
    maybe_best = _Gap.of(losses, lowest, n).may_be_below(z)
    keep = maybe_best.copy()
    for best in np.flatnonzero(maybe_best):
        low, high = _Gap.of(losses, int(best), n).ratio_bounds(z)
        high[best] = np.inf
        keep |= low <= high.min()
    return keep


@dataclass(frozen=True)
class _Gap:
    """Differences of all checkpoints to one, on part of the samples.

    Attributes:
        mean: Mean difference.
        sd: Its standard deviation over samples (ddof 0, as in Def. 3.5).
        noise: Standard error of mean / sd.
        apart: Whether the two losses differ at all, by more than rounding and by more than a constant.
        drawn: Standard error of a mean of unit variance.
    """

    mean: Float[np.ndarray, " checkpoint"]
    sd: Float[np.ndarray, " checkpoint"]
    noise: Float[np.ndarray, " checkpoint"]
    apart: Bool[np.ndarray, " checkpoint"]
    drawn: float

    @classmethod
    def of(cls, losses: Float[np.ndarray, "checkpoint sample"], against: int, n: int) -> _Gap:
        m = losses.shape[1]
        drawn = np.sqrt((1 - m / n) / m)  # a sample of a finite whole, without replacement
        mean, sd, noise, apart = (np.zeros(len(losses)) for _ in range(4))
        for k, own in enumerate(losses):
            gap = own.astype(np.float64) - losses[against]
            mean[k] = gap.mean()
            centred = gap - mean[k]
            sd[k] = np.sqrt(np.mean(centred**2))
            rounding = _ULPS * np.spacing(np.maximum(np.abs(own), np.abs(losses[against])))
            apart[k] = (np.abs(centred) > rounding).any()
            if apart[k]:
                unit = centred / sd[k]
                skew, kurtosis = np.mean(unit**3), np.mean(unit**4)
                ratio = mean[k] / sd[k]
                # Delta method: variance of mean / sd, times m.
                spread = 1 - skew * ratio + (kurtosis - 1) * ratio**2 / 4
                noise[k] = drawn * np.sqrt(max(spread, 1.0))
        return cls(mean, sd, noise, apart.astype(bool), float(drawn))

    def may_be_below(self, z: float) -> Bool[np.ndarray, " checkpoint"]:
        """Whose mean on all samples may be the lower one."""
        return self.mean - z * self.sd * self.drawn <= 0

    def ratio_bounds(
        self, z: float
    ) -> tuple[Float[np.ndarray, " checkpoint"], Float[np.ndarray, " checkpoint"]]:
        """Bounds of 1/2 mean² / variance on all samples; 0 and infinity where the losses are not apart as yet."""
        ratio = np.divide(self.mean, self.sd, out=np.zeros_like(self.mean), where=self.apart)
        low = np.where(self.apart, np.maximum(ratio - z * self.noise, 0), 0.0)
        high = np.where(self.apart, np.maximum(ratio, 0) + z * self.noise, np.inf)
        return low**2 / 2, high**2 / 2
