"""What the synthetic study finds: one data set, one setting of the map, and all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._types import Float
from discreet.baseline.security import Security
from discreet.correlation import ranks, spearman
from discreet.estimate import Estimate
from discreet.indicator import DRAWS
from discreet.ranking import Ranking
from discreet.stability import Curve
from discreet.studies.optimum import optimum
from discreet.studies.synthetic_setting import FULL, Setting

__all__ = ["MapRow", "SetFound", "Synthetic", "agreement", "mean_over", "needed", "trend"]

_TREND_DRAWS = 2000


@dataclass(frozen=True, eq=False)
class SetFound:
    """One data set.

    Attributes:
        setting: What was trained.
        ranking: r by the mean over runs, as in the paper.
        median: r by the median.
        security: By kind of attack and variant; the kind ``"best"`` is the MIS that the study goes by.
        agreement: Spearman correlation of r with the MIS over quantizers, by statistic and kind of attack; None where
            it is not defined. Quantizers without a finite r are left out.
        stability: How the ranking of the quantizers by r settles with the number of runs (subset against all).
        attack_stability: The same for the MIS by the full discriminator, trained anew on each subset.
        threshold_stability: The same for the MIS by the best loss threshold.
        curves: Mean training and evaluation loss of each variant by epoch, in nats.
        points: The first evaluation samples in the plane of their two principal components.
        labels: Their labels.
    """

    setting: Setting
    ranking: Ranking
    median: Ranking
    security: Mapping[tuple[str, str], Security]
    agreement: Mapping[tuple[str, str], Estimate | None]
    stability: Curve
    attack_stability: Curve
    threshold_stability: Curve
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    points: Float[np.ndarray, "sample 2"]
    labels: np.ndarray

    @property
    def left_out(self) -> tuple[str, ...]:
        """Variants without a finite r."""
        return tuple(each.variant for each in self.ranking.indicators if each.status != "ok")

    def worse_than_loss(self, kind: str) -> int:
        """Variants on which a trained attack finds less than the one on losses alone, beyond their noise."""
        alone = {v: each for (k, v), each in self.security.items() if k == "loss-only"}
        return sum(each.less(self.security[kind, v]).high < 0 for v, each in alone.items())

    @property
    def optimum(self) -> float:
        """Where the quantizers' lowest loss falls, from 0 (first checkpoint) to 1 (last); the median over runs."""
        return optimum(self.ranking)[0][0]


@dataclass(frozen=True, eq=False)
class MapRow:
    """One setting of the map.

    Attributes:
        setting: What was trained.
        optimum: Where the lowest loss falls in the trajectory, from 0 (first checkpoint) to 1 (last): the median over
            the runs of all quantizers, and of full precision.
        edges: Share of the quantizers' runs whose lowest loss is the first or the last checkpoint.
        agreement: Spearman correlation of r (mean, median) with the MIS by the best loss threshold.
        mis: That MIS by variant.
        r: Mean r by variant; None where it is not defined.
    """

    setting: Setting
    optimum: tuple[float, float]
    edges: float
    agreement: Mapping[str, Estimate | None]
    mis: Mapping[str, Estimate]
    r: Mapping[str, float | None]


@dataclass(frozen=True, eq=False)
class Synthetic:
    """The whole study.

    Attributes:
        scale: How large it was.
        sets: The data sets.
        average: Mean over data sets of each agreement, with a t interval over them.
        rows: The map of settings.
        trend: Spearman correlation, over data sets and settings, of where the quantizers' lowest loss falls with
            how r (its mean) agrees with the MIS by the loss threshold; None with fewer than four data sets.
        claims: What the paper says, and what was found.
    """

    scale: Mapping[str, Any]
    sets: tuple[SetFound, ...]
    average: Mapping[tuple[str, str], Estimate | None]
    rows: tuple[MapRow, ...]
    trend: Estimate | None
    claims: tuple[Any, ...]


def agreement(ranking: Ranking, security: Mapping[str, Security], *, seed: int = 0) -> Estimate | None:
    """Spearman correlation of r with the MIS over the quantizers that have both, full precision left out.

    Both sides are drawn anew: r over runs and blocks of samples, the MIS over judged runs. Noise lowers a
    correlation, and so the interval may lie mostly below the value. It does not cover other quantizers than these.

    Args:
        ranking: r of every variant.
        security: MIS of every variant.
        seed: Of the draws of the MIS.

    Returns:
        None with fewer than three such quantizers, or if all are alike.
    """
    names = [each.variant for each in ranking.ranked if each.variant != FULL and each.variant in security]
    if len(names) < 3:
        return None
    accuracy = np.array([security[name].accuracy.mean(axis=0) for name in names])
    picks = np.random.default_rng([seed, 0xA12]).integers(accuracy.shape[1], size=(DRAWS, accuracy.shape[1]))
    drawn_mis = -accuracy[:, picks].mean(axis=2).T
    r, mis = np.array([ranking[name].r for name in names]), -accuracy.mean(axis=1)
    value = _spearman(r[None].astype(np.float64), mis[None])[0]
    if np.isnan(value):
        return None
    drawn = _spearman(ranking.drawn(names), drawn_mis)
    drawn = np.append(drawn[~np.isnan(drawn)], value)
    tail = (1 - ranking.level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Estimate(
        float(value),
        min(float(low), float(value)),
        max(float(high), float(value)),
        len(names),
        ranking.level,
        "bootstrap of r over runs and samples and of the MIS over judged runs; n counts quantizers",
    )


def mean_over(found: Sequence[Estimate | None]) -> Estimate | None:
    """Mean of correlations over data sets, with a t interval over them; None with fewer than two.

    The data sets share no centre, label, sample or start. The interval covers the noise of each and how much they
    differ, as if their modes and sigmas had been drawn at random; quantizers, network and training are fixed.
    """
    from scipy.special import stdtrit

    values = np.array([each.value for each in found if each is not None])
    if len(values) < 2:
        return None
    level = next(each.level for each in found if each is not None)
    mean = float(values.mean())
    half = float(stdtrit(len(values) - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(
        mean,
        max(-1.0, mean - half),
        min(1.0, mean + half),
        len(values),
        level,
        "t interval over data sets, which are independent; other modes and sigmas are covered, other quantizers,"
        " networks and ways of training are not",
    )


def trend(sets: Sequence[SetFound], rows: Sequence[MapRow], *, seed: int = 0) -> Estimate | None:
    """How the agreement of r with the MIS goes with where the lowest loss falls, over data sets and settings.

    Settings of one data set share its samples, and so they are drawn together.
    """
    known = [
        (found.setting.mixture, at, each.value)
        for found, at, each in (
            *((one, one.optimum, one.agreement["mean", "loss threshold"]) for one in sets),
            *((row, row.optimum[0], row.agreement["mean"]) for row in rows),
        )
        if each is not None
    ]
    mixtures = list(dict.fromkeys(mixture for mixture, _, _ in known))
    if len(mixtures) < 4 or any(len({row[column] for row in known}) == 1 for column in (1, 2)):
        return None
    of = [[place for place, row in enumerate(known) if row[0] == mixture] for mixture in mixtures]
    at, value = (np.array([row[column] for row in known]) for column in (1, 2))
    point, rng, drawn = spearman(at, value), np.random.default_rng([seed, 0x77E]), []
    for picks in rng.integers(len(of), size=(_TREND_DRAWS, len(of))):
        chosen = [place for pick in picks for place in of[pick]]
        drawn.append(_spearman(at[None, chosen], value[None, chosen])[0])
    told = np.append(np.array(drawn)[~np.isnan(drawn)], point.value)
    tail = (1 - point.level) / 2
    low, high = np.quantile(told, [tail, 1 - tail])
    return Estimate(
        point.value,
        min(float(low), point.value),
        max(float(high), point.value),
        len(known),
        point.level,
        f"bootstrap over {len(of)} data sets, settings that share one's samples drawn together; n counts settings",
    )


def needed(curve: Curve, target: float = 0.9) -> int | None:
    """The least number of runs from which on the mean correlation with all runs reaches a target.

    All runs agree with themselves, so the last point of a curve says nothing and is not counted.
    """
    enough = None
    for runs, value in list(zip(curve.runs, curve.spearman, strict=True))[-2::-1]:
        if value < target:
            break
        enough = runs
    return enough


def _spearman(a: Float[np.ndarray, "draw v"], b: Float[np.ndarray, "draw v"]) -> Float[np.ndarray, " draw"]:
    """Row by row; NaN where a row is constant or has a NaN."""
    unknown = np.isnan(a).any(axis=1) | np.isnan(b).any(axis=1)
    x, y = (np.array([ranks(row) for row in values]) for values in (a, b))
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        found = (x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    return np.where(unknown, np.nan, found)
