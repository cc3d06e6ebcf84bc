"""Two records and what the variants take on disk, made into one analysis of an audit. Runs no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet import attacks, audit
from discreet._json import read_as
from discreet._types import Float, Int
from discreet.agreement import agreement
from discreet.auc import AucParts, auc
from discreet.crossed import complement_pairs, crossed
from discreet.exposure import expose
from discreet.ranking import SCHEMA, Ranking, rank
from discreet.records import Record
from discreet.runs.worth import Worth, metric_of, worth
from discreet.stability import Curve, runs_needed

__all__ = ["Beside", "Evidence", "analyse", "look_beside", "ratio"]

ATTACK = "loss"
AGREES_WITH = "loss attack AUC"


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that was measured on a set of variants.

    Attributes:
        trajectory: Losses and margins on evaluation samples, all checkpoints; signal ``label`` holds the answers.
        release: The same at each run's shipped checkpoint on all training samples, with membership; a signal
            ``family`` names dependent samples. It may have runs that the trajectory lacks.
        storage: By variant: ``bits_per_weight``, ``bytes``, ``levels``; of variants that it lacks nothing is said.
        full: The variant that is not compressed.
        level: Confidence level of all intervals.
        seed: Seed of the bootstraps.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
    """

    trajectory: Record
    release: Record
    storage: Mapping[str, Mapping[str, Any]]
    full: str = "full"
    level: float = 0.95
    seed: int = 0
    task: str = "bce"


@dataclass(frozen=True)
class Beside:
    """What is known about variants beside r, whatever checkpoints r is taken over."""

    performance: tuple[audit.Performance, ...]
    storage: tuple[audit.Storage, ...]
    attacks: tuple[audit.Attack, ...]
    curves: tuple[audit.Curve, ...]


def look_beside(evidence: Evidence, variants: Sequence[str]) -> Beside:
    """Measure task performance, sizes, an attack and training curves of some variants.

    Args:
        evidence: What was measured.
        variants: The variants, the uncompressed one among them.
    """
    return Beside(
        _performance(evidence, variants),
        _storage(evidence, variants),
        _attacks(evidence, variants),
        _curves(evidence, variants),
    )


def analyse(
    evidence: Evidence, beside: Beside, *, name: str, note: str = "", every: int = 1, curves: bool = True
) -> audit.Analysis:
    """Rank the variants of ``beside``, and put it beside them.

    Args:
        evidence: What was measured.
        beside: What else is known about the variants.
        name: Name of the analysis.
        note: What is special about it.
        every: Which checkpoints r is taken over: those whose step is a multiple of this.
        curves: Whether to include the training curves.
    """
    record, variants = evidence.trajectory, [row.variant for row in beside.performance]
    rows = np.flatnonzero(np.isin(record.variant, variants) & (record.step % every == 0))
    ranking, table = _ranked(evidence, record.take_rows(rows))
    return audit.Analysis(
        name,
        table,
        note,
        performance=beside.performance,
        storage=beside.storage,
        attacks=beside.attacks,
        agreement=() if ranking is None else _agreement(ranking, beside.attacks, evidence.full),
        curves=beside.curves if curves else (),
        lambda_=() if ranking is None else tuple(_lambda(ranking, i.variant) for i in ranking.ranked),
        stability=audit.Stability() if ranking is None else _stability(ranking),
    )


def _ranked(evidence: Evidence, record: Record) -> tuple[Ranking | None, audit.RankTable]:
    """The ranking of the variants with several checkpoints, and the same with the others behind them, unranked."""
    most = {v: max(len(record.rows(v, run)) for run in record.runs) for v in record.variants}
    several = [v for v in record.variants if most[v] > 1]
    single = tuple(_single(record, v) for v in record.variants if most[v] == 1)
    if not several:
        return None, audit.RankTable(SCHEMA, evidence.level, "mean", single, ())
    rows = np.flatnonzero(np.isin(record.variant, several))
    ranking = rank(record.take_rows(rows), level=evidence.level, seed=evidence.seed)
    table = read_as(audit.RankTable, ranking.to_json(), "ranking")
    return ranking, replace(table, variants=(*table.variants, *single))


def _single(record: Record, variant: str) -> audit.Ranked:
    """A variant of which each run has one checkpoint, so that there is no r."""
    runs = len({record.run[row] for row in record.rows(variant)})
    return audit.Ranked(
        variant,
        "undefined",
        r=None,
        r_median=None,
        low=None,
        high=None,
        runs=runs,
        runs_undefined=runs,
        runs_infinite=0,
        checkpoints=1.0,
        candidates=None,
        samples=record.n_samples,
        n_train_r=None,
        resolution=None,
        rank=None,
        rank_low=None,
        rank_high=None,
        diagnostics=(),
    )


def ratio(
    over: Worth | AucParts, under: Worth | AucParts, pairs: Int[np.ndarray, " run"], *, level: float
) -> tuple[float, float, float]:
    """One mean figure as a share of another one on the same runs and samples, with its interval.

    By the delta method on the difference ``over - share * under``, runs and samples crossed, so that what the
    two share cancels.

    Returns:
        The share and the ends of its interval.
    """
    base = float(under.values.mean())
    share = float(over.values.mean()) / base
    spread = crossed(
        (over.values - share * under.values) / base, (over.influence - share * under.influence) / base, pairs
    )
    half = spread.quantile(level) * float(np.sqrt(spread.variance))
    return share, max(0.0, share - half), share + half


def _performance(evidence: Evidence, variants: Sequence[str]) -> tuple[audit.Performance, ...]:
    """Task performance of every variant at each run's shipped checkpoint, on evaluation samples."""
    record, release = evidence.trajectory, evidence.release
    runs = record.runs
    shipped = {run: float(release.step[release.rows(run=run)[0]]) for run in runs}
    rows = {
        variant: np.array([_row(record, variant, run, step) for run, step in shipped.items()])
        for variant in variants
    }
    pairs = complement_pairs(np.array([release.membership(run) for run in runs]))
    full = worth(record, rows[evidence.full], evidence.task)
    metric = metric_of(evidence.task)
    found = []
    for variant in variants:
        own = worth(record, rows[variant], evidence.task)
        value = own.estimate(pairs, level=evidence.level)
        row = audit.Performance(variant, metric, value.value, value.low, value.high, value.n)
        if full.values.mean() > 0:
            share, low, high = ratio(own, full, pairs, level=evidence.level)
            row = replace(row, share_of_full=share, share_low=low, share_high=high)
        found.append(row)
    return tuple(found)


def _row(record: Record, variant: str, run: str, step: float) -> int:
    """The row of a variant at a step, or its only one."""
    found = record.rows(variant, run, step)
    return int(found[0] if found.size else record.rows(variant, run)[0])


def _attacks(evidence: Evidence, variants: Sequence[str]) -> tuple[audit.Attack, ...]:
    """The loss attack on every run in turn: members of its half against those of the other half."""
    release = evidence.release
    if release.member is None or not np.asarray(release.member).any():
        return ()
    family = np.asarray(release.signal("family")) if "family" in release.signals else None
    found = []
    for variant in variants:
        exposed = expose(release.take_rows(release.rows(variant)), attacks.parse(ATTACK), variant)
        value = auc(exposed.scores, exposed.member, keep=exposed.keep, cluster=family, level=evidence.level)
        found.append(
            audit.Attack(
                variant,
                exposed.attack,
                "auc",
                value.value,
                value.low,
                value.high,
                exposed.members,
                exposed.nonmembers,
                len(exposed.runs),
                value.method,
            )
        )
    return tuple(found)


def _storage(evidence: Evidence, variants: Sequence[str]) -> tuple[audit.Storage, ...]:
    if evidence.full not in evidence.storage:
        return ()
    bytes_full = int(evidence.storage[evidence.full]["bytes"])
    return tuple(
        audit.Storage(variant, bytes_full=bytes_full, **evidence.storage[variant])
        for variant in variants
        if variant in evidence.storage
    )


def _agreement(ranking: Ranking, leaks: Sequence[audit.Attack], full: str) -> tuple[audit.Agreement, ...]:
    """Spearman correlation of r with the attack over the compressed variants."""
    found = agreement(ranking, {row.variant: row.value for row in leaks if row.variant != full})
    if found is None:
        return (audit.Agreement(AGREES_WITH, None),)
    return (audit.Agreement(AGREES_WITH, found.value, found.low, found.high, found.n),)


def _curves(evidence: Evidence, variants: Sequence[str]) -> tuple[audit.Curve, ...]:
    """Loss and performance on evaluation samples along training: the mean, the lowest and the highest run."""
    record = evidence.trajectory
    losses = np.array([np.mean(row, dtype=np.float64) for row in record.signal("loss")])
    found = []
    metric = metric_of(evidence.task)
    for variant in variants:
        own = [set(record.step[record.rows(variant, run)].tolist()) for run in record.runs]
        steps = sorted(set.intersection(*own))  # those that every run has
        if len(steps) < 2:
            continue
        rows = np.array([[record.rows(variant, run, step)[0] for run in record.runs] for step in steps])
        found.append(_curve(variant, "loss", steps, losses[rows]))
        values = np.array([worth(record, at, evidence.task).values for at in rows])
        found.append(_curve(variant, metric, steps, values))
    return tuple(found)


def _curve(
    variant: str, signal: str, steps: Sequence[float], values: Float[np.ndarray, "step run"]
) -> audit.Curve:
    mean, low, high = (
        tuple(c.tolist()) for c in (values.mean(axis=1), values.min(axis=1), values.max(axis=1))
    )
    return audit.Curve(variant, signal, tuple(steps), mean, low, high)


def _lambda(ranking: Ranking, variant: str) -> audit.Lambda:
    return read_as(audit.Lambda, {"variant": variant, **ranking.lambda_by_rank(variant).to_json()}, "lambda")


def _stability(ranking: Ranking) -> audit.Stability:
    found = ranking.stability()
    needed = {f"{target:g}": runs_needed(found, target).runs for target in (0.8, 0.9)}
    return audit.Stability(_points(found.subset_vs_all), _points(found.disjoint_halves), needed)


def _points(curve: Curve) -> tuple[audit.StabilityPoint, ...]:
    columns = zip(curve.runs, curve.spearman, curve.low, curve.high, strict=True)
    return tuple(audit.StabilityPoint(*point) for point in columns)
