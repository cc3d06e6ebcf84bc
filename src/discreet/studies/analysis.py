"""Two records and what the variants take on disk, made into one analysis of an audit. Runs no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet import attacks, audit
from discreet._json import read_as
from discreet._types import Bool, Float, Int
from discreet.auc import AucParts, auc, auc_parts
from discreet.crossed import complement_pairs, crossed
from discreet.estimate import Estimate
from discreet.exposure import expose
from discreet.ranking import Ranking, rank
from discreet.records import Record
from discreet.stability import Curve, runs_needed

__all__ = ["Beside", "Evidence", "analyse", "look_beside", "ratio"]

ATTACK = "loss"
AGREES_WITH = "loss attack AUC"


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that was measured on a set of variants.

    Attributes:
        trajectory: Losses and margins on evaluation samples, all checkpoints; signal ``label`` holds 0 and 1.
        release: The same at each run's shipped checkpoint on all training samples, with membership; a signal
            ``family`` names dependent samples.
        storage: By variant: ``bits_per_weight``, ``bytes``, ``levels``.
        full: The variant that is not compressed.
        level: Confidence level of all intervals.
        seed: Seed of the bootstraps.
    """

    trajectory: Record
    release: Record
    storage: Mapping[str, Mapping[str, Any]]
    full: str = "full"
    level: float = 0.95
    seed: int = 0


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
    ranking = rank(record.take_rows(rows), level=evidence.level, seed=evidence.seed)
    return audit.Analysis(
        name,
        read_as(audit.RankTable, ranking.to_json(), "ranking"),
        note,
        performance=beside.performance,
        storage=beside.storage,
        attacks=beside.attacks,
        agreement=_agreement(ranking, beside.attacks, evidence.full),
        curves=beside.curves if curves else (),
        lambda_=tuple(_lambda(ranking, found.variant) for found in ranking.ranked),
        stability=_stability(ranking),
    )


def ratio(
    over: AucParts, under: AucParts, pairs: Int[np.ndarray, " run"], *, level: float
) -> tuple[float, float, float]:
    """One mean AUC as a share of another one on the same runs and samples, with its interval.

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
    """AUROC of every variant at each run's shipped checkpoint, on evaluation samples."""
    record, release = evidence.trajectory, evidence.release
    shipped = {run: float(release.step[release.rows(run=run)[0]]) for run in release.runs}
    rows = {
        variant: np.array([record.rows(variant, run, step)[0] for run, step in shipped.items()])
        for variant in variants
    }
    truth = np.tile(_positive(record), (len(shipped), 1))
    pairs = complement_pairs(np.asarray(release.member))
    full = _auroc(record, rows[evidence.full])
    found = []
    for variant in variants:
        value = auc(_outputs(record, rows[variant]), truth, level=evidence.level)
        share = ratio(_auroc(record, rows[variant]), full, pairs, level=evidence.level)
        found.append(audit.Performance(variant, "auroc", value.value, value.low, value.high, value.n, *share))
    return tuple(found)


def _positive(record: Record) -> Bool[np.ndarray, " sample"]:
    return np.asarray(record.signal("label")) == 1


def _outputs(record: Record, rows: Int[np.ndarray, " row"]) -> Float[np.ndarray, "row sample"]:
    """The logit of the positive class: a margin speaks for the true class."""
    return np.where(_positive(record), 1.0, -1.0) * np.asarray(record.signal("margin")[rows], np.float64)


def _auroc(record: Record, rows: Int[np.ndarray, " row"]) -> AucParts:
    outputs = _outputs(record, rows)
    return auc_parts(outputs, np.tile(_positive(record), (len(rows), 1)), np.ones(outputs.shape, bool))


def _attacks(evidence: Evidence, variants: Sequence[str]) -> tuple[audit.Attack, ...]:
    """The loss attack on every run in turn: members of its half against those of the other half."""
    release = evidence.release
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
    bytes_full = int(evidence.storage[evidence.full]["bytes"])
    return tuple(
        audit.Storage(variant, bytes_full=bytes_full, **evidence.storage[variant]) for variant in variants
    )


def _agreement(ranking: Ranking, leaks: Sequence[audit.Attack], full: str) -> tuple[audit.Agreement, ...]:
    """Spearman correlation of r with the attack over the compressed variants.

    The wider of two intervals on either side: one for the uncertainty of r, one for the few variants.
    """
    aucs = {row.variant: row.value for row in leaks if row.variant != full}
    names = [i.variant for i in ranking.ranked if i.variant in aucs]
    if len(names) < 3:
        return (audit.Agreement(AGREES_WITH, None),)
    moved = ranking.spearman(aucs)
    few = _few(ranking, aucs, names)
    return (
        audit.Agreement(
            AGREES_WITH, moved.value, min(moved.low, few.low), max(moved.high, few.high), moved.n
        ),
    )


def _few(ranking: Ranking, aucs: Mapping[str, float], names: Sequence[str]) -> Estimate:
    from discreet.stats import spearman

    r = np.array([ranking[name].r for name in names], np.float64)
    return spearman(r, np.array([aucs[name] for name in names]), level=ranking.level)


def _curves(evidence: Evidence, variants: Sequence[str]) -> tuple[audit.Curve, ...]:
    """Loss and AUROC on evaluation samples along training: the mean, the lowest and the highest run."""
    record = evidence.trajectory
    steps = sorted(set(record.step.tolist()))
    losses = np.array([np.mean(row, dtype=np.float64) for row in record.signal("loss")])
    found = []
    for variant in variants:
        rows = np.array([[record.rows(variant, run, step)[0] for run in record.runs] for step in steps])
        found.append(_curve(variant, "loss", steps, losses[rows]))
        found.append(_curve(variant, "auroc", steps, np.array([_auroc(record, at).values for at in rows])))
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
