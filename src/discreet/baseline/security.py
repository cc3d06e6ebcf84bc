"""The MIS that one attack leaves, with an interval over runs.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", eqs. 4 and 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from discreet._types import Bool, Float
from discreet.baseline.prior import Prior
from discreet.estimate import Estimate
from discreet.intervals import clopper_pearson

__all__ = ["Security", "judge"]

_ALIKE = 1e-9  # of the range; rounding moves equal accuracies apart by 1e-16


@dataclass(frozen=True)
class Security:
    """What an attack on one variant found. Higher is more secure.

    Attributes:
        mis: In [0, 1], n counts the judged runs. An upper estimate: the best attack may find more.
        raw: The same before it was clipped; above 1 for an attack worse than accusing all or none.
        tpr: Share of members accused.
        tnr: Share of non-members not accused.
        runs: Positions of the judged runs.
        accuracy: Accuracy (eq. 4) of each discriminator seed on each of them.
        prior: Share of members and weight of the true positive rate.
    """

    mis: Estimate
    raw: float
    tpr: float
    tnr: float
    runs: tuple[int, ...] = field(repr=False)
    accuracy: Float[np.ndarray, "seed run"] = field(repr=False)
    prior: Prior = field(default_factory=Prior, repr=False)

    @property
    def by_seed(self) -> tuple[float, ...]:
        """The unclipped value of each discriminator seed."""
        return tuple(self.prior.mis(float(value)) for value in self.accuracy.mean(axis=1))

    def less(self, other: Security) -> Estimate:
        """This MIS less that of another attack on the same runs, unclipped, paired run by run and seed by seed.

        The spread over seeds is in the interval as in that of either MIS. Against an attack that has one seed (a
        threshold, say) it is that of the other's; with other numbers of seeds they are not paired.

        Raises:
            ValueError: The runs judged, or the priors, are not the same.
        """
        if self.runs != other.runs or self.prior != other.prior:
            raise ValueError("other: expected an attack judged on the same runs under the same prior")
        least = min(1 - self.prior.eta, self.prior.lam * self.prior.eta)
        theirs, ours = other.accuracy / least, self.accuracy / least
        gap, most = theirs.mean(axis=0) - ours.mean(axis=0), self.prior.most / least
        parts = [theirs - ours] if len(theirs) == len(ours) else [ours, theirs]
        interval = _over_runs(gap, -most, most, self.mis.level)
        low, high, how = _with_seeds(float(gap.mean()), interval, parts, self.mis.level)
        return Estimate(float(gap.mean()), low, high, len(gap), self.mis.level, f"paired {how}")

    def to_json(self) -> dict:
        """Plain JSON values."""
        return {
            "mis": self.mis.to_json(),
            "raw": self.raw,
            "tpr": self.tpr,
            "tnr": self.tnr,
            "by_seed": list(self.by_seed),
        }


def judge(
    accused: Bool[np.ndarray, "seed run row"],
    member: Bool[np.ndarray, "run row"],
    *,
    prior: Prior = Prior(),  # noqa: B008 (frozen)
    level: float = 0.95,
    runs: np.ndarray | None = None,
) -> Security:
    """Accuracy and MIS of an attack, with an interval over runs.

    Rows of one run share its model, so runs are what varies; to that comes the spread over the seeds of the attack.
    Where runs hardly vary (an attack that accuses nobody scores the same on each), their spread says nothing, and
    their number bounds the share of runs that may score otherwise.

    Args:
        accused: Who is called a member, by each seed of the attack.
        member: Who is one.
        prior: Share of members and weight of the true positive rate.
        level: Confidence level.
        runs: Names of the runs, for pairing; 0, 1, … when None.

    Raises:
        ValueError: Fewer than two runs, or a run with members or non-members only.

    Example:
        >>> member = np.tile([True, True, False, False], (10, 1))
        >>> found = judge(np.tile([True, False, False, False], (1, 10, 1)), member)
        >>> found.tpr, found.tnr, found.raw
        (0.5, 1.0, 0.5)
    """
    if member.ndim != 2 or accused.shape[1:] != member.shape or len(member) < 2:
        raise ValueError(
            "accused, member: expected shapes [seed, run, row] and [run, row] with at least two runs, got"
            f" {list(accused.shape)} and {list(member.shape)}"
        )
    inside = member.sum(axis=1)
    if not ((inside > 0) & (inside < member.shape[1])).all():
        run = int(np.argmax((inside == 0) | (inside == member.shape[1])))
        raise ValueError(f"member: expected members and non-members in each run, got one kind in run {run}")
    tpr = (accused & member).sum(axis=2) / inside
    tnr = (~accused & ~member).sum(axis=2) / (member.shape[1] - inside)
    each = prior.accuracy(tpr, tnr)
    accuracy = each.mean(axis=0)
    mean, count = float(accuracy.mean()), len(accuracy)
    least, most, how = _with_seeds(mean, _over_runs(accuracy, 0.0, prior.most, level), [each], level)
    raw = prior.mis(mean)
    value, low, high = (min(1.0, max(0.0, end)) for end in (raw, prior.mis(most), prior.mis(least)))
    names = range(count) if runs is None else runs.tolist()
    return Security(
        Estimate(value, low, high, count, level, how),
        raw,
        float(tpr.mean()),
        float(tnr.mean()),
        tuple(names),
        each,
        prior,
    )


def _with_seeds(
    mean: float,
    interval: tuple[float, float, str],
    parts: list[Float[np.ndarray, "_ run"]],  # [seed, run]; parts may differ in their seeds
    level: float,
) -> tuple[float, float, str]:
    """An interval over runs with the spread over seeds, of each part that has several, added to it as independent."""
    low, high, how = interval
    parts = [part for part in parts if len(part) > 1]
    if parts:
        seeds = math.hypot(*(_half(part.mean(axis=1), level) for part in parts))
        low, high = mean - math.hypot(mean - low, seeds), mean + math.hypot(high - mean, seeds)
        how += f", with the spread over {' and '.join(str(len(part)) for part in parts)} seeds"
    return low, high, how


def _over_runs(
    values: Float[np.ndarray, " run"], floor: float, ceiling: float, level: float
) -> tuple[float, float, str]:
    """Interval of the mean over runs of a number between two bounds, and how it was made.

    A t interval; where nine runs in ten are alike it is widened to an exact bound. Of all runs at most a share q,
    the upper Clopper-Pearson limit, is unlike those; whatever they are, the mean lies no further off than if they
    all stood at a bound. Runs count, not their rows: rows of a run come and go together.
    """
    mean, half = float(values.mean()), _half(values, level)
    low, high, how = mean - half, mean + half, "t interval over runs"
    alike = np.abs(values[:, None] - values) <= _ALIKE * (ceiling - floor)
    usual = int(alike.sum(axis=1).argmax())
    odd = len(values) - int(alike[usual].sum())
    if 10 * odd <= len(values):
        share, value = clopper_pearson(odd, len(values), level=level)[1], float(values[usual])
        low = min(low, value - share * (value - floor))
        high = max(high, value + share * (ceiling - value))
        how += (
            f", widened as {len(values) - odd} of {len(values)} score alike: the exact bound on the share of runs"
            " (not of rows, which are no independent trials) that score otherwise, at their worst"
        )
    return low, high, how


def _half(values: Float[np.ndarray, " n"], level: float) -> float:
    """Half-width of a t interval of the mean."""
    from scipy.special import stdtrit

    n = len(values)
    return float(stdtrit(n - 1, (1 + level) / 2)) * float(values.std(ddof=1)) / math.sqrt(n)
