"""From what an attack said to the rows of an audit: figures, curve, records, classes and comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from discreet._types import Bool, Float
from discreet.attacked import Attacked
from discreet.auc import auc
from discreet.audit_leaks import Attack, Exposed, OfClass, Paired, RocCurve
from discreet.estimate import Estimate
from discreet.exposure import Exposure
from discreet.labelled import split_classes
from discreet.paired import compare
from discreet.roc import roc, threshold_at
from discreet.tpr import tpr_at_fpr

__all__ = ["FPR", "MOST_CLASSES", "classes", "curve", "exposed", "figures", "paired"]

FPR = 0.01
"""The false positive rate of comparisons, classes and records."""

MOST_CLASSES = 20
_POINTS = 60


def figures(found: Attacked) -> tuple[Attack, ...]:
    """Every figure of merit of one attack on one variant."""
    e, bound = found.exposure, found.epsilon
    counts = {"members": e.members, "nonmembers": e.nonmembers, "runs": len(e.runs)}

    def row(metric: str, figure: Estimate, **more: Any) -> Attack:
        ends = (figure.value, figure.low, figure.high)
        return Attack(
            e.variant, found.attack, metric, *ends, **counts, rule=figure.method, more={"n": figure.n} | more
        )

    rows = [row("auc", found.auc)]
    for point in found.points:
        told = {"fpr": point.fpr, "realised_fpr": point.realised_fpr}
        told |= {"resolvable": point.resolvable, "needs": point.needs}
        rows.append(row(f"tpr@{point.fpr:g}", point.tpr, **told))
    rows += [row("balanced_accuracy", found.balanced_accuracy), row("advantage", found.advantage)]
    told = {"n": bound.n, "ceiling": bound.ceiling, "level": bound.level, "delta": bound.delta}
    least = (bound.value, bound.value, None, e.members, e.nonmembers, len(e.runs), bound.method, told)
    return (*rows, Attack(e.variant, found.attack, "epsilon", *least))


def curve(attack: str, exposure: Exposure) -> RocCurve:
    """The ROC curve on a logarithmic grid of false positive rates, the mean over runs."""
    e = exposure
    others = int((~e.member & e.keep).sum(axis=1).min())
    grid = np.unique([*np.geomspace(1 / others, 1, _POINTS).tolist(), 1.0])
    curves = [roc(s, y, keep=k).at(grid) for s, y, k in zip(e.scores, e.member, e.keep, strict=True)]
    rates = np.sort(curves, axis=0).mean(axis=0)
    return RocCurve(e.variant, attack, tuple(grid.tolist()), tuple(np.clip(rates, 0, 1).tolist()), 1 / others)


def exposed(
    attack: str, exposure: Exposure, samples: Sequence[str], labels: Sequence[str] | None
) -> tuple[Exposed, ...]:
    """Every record that any run trained on, from the most exposed down.

    In each run a record is accused if it scores above the threshold that accuses at most a share :data:`FPR` of
    the run's non-members; its rank is the share of them that it outscores, ties counted half.
    """
    e = exposure
    accused, rank = np.zeros(e.scores.shape, bool), np.zeros(e.scores.shape)
    for run, (s, y, k) in enumerate(zip(e.scores, e.member, e.keep, strict=True)):
        part = split_classes(s, y, k)
        accused[run] = s > threshold_at(part, FPR)
        below = [np.searchsorted(part.others, s, side) for side in ("left", "right")]
        rank[run] = (below[0] + below[1]) / (2 * len(part.others))
    inside, outside = e.member & e.keep, ~e.member & e.keep
    runs, others = inside.sum(axis=0), outside.sum(axis=0)
    caught, falsely = (accused & inside).sum(axis=0), (accused & outside).sum(axis=0)
    mean = (rank * inside).sum(axis=0) / np.maximum(runs, 1)
    share = caught / np.maximum(runs, 1)
    order: list[int] = [i for i in np.lexsort((np.arange(len(mean)), -mean, -share)).tolist() if runs[i]]
    return tuple(
        Exposed(
            e.variant,
            attack,
            samples[i],
            int(runs[i]),
            int(caught[i]),
            float(min(mean[i], 1.0)),
            int(others[i]),
            int(falsely[i]),
            FPR,
            None if labels is None else labels[i],
        )
        for i in order
    )


def classes(
    attack: str,
    exposure: Exposure,
    labels: Sequence[str],
    cluster: np.ndarray | None,
    level: float,
) -> Iterator[OfClass | str]:
    """AUC and TPR among the records of each class; in words, why a class has none."""
    e, truth = exposure, np.asarray(labels)
    for label in sorted(set(labels)):
        keep = e.keep & (truth == label)
        about: dict[str, Any] = {"level": level, "cluster": cluster, "keep": keep}
        try:
            found = {
                "auc": auc(e.scores, e.member, **about),
                f"tpr@{FPR:g}": tpr_at_fpr(e.scores, e.member, FPR, **about).tpr,
            }
        except ValueError as error:
            yield f"class {label}: {error}"
            continue
        counts = (int((e.member & keep).sum()), int((~e.member & keep).sum()))
        for metric, figure in found.items():
            yield OfClass(e.variant, attack, label, metric, figure.value, figure.low, figure.high, *counts)


def paired(
    attack: str, one: Exposure, other: Exposure, cluster: np.ndarray | None, *, level: float, seed: int
) -> tuple[Paired, Paired]:
    """Does the one variant leak less than the other? By AUC and by TPR, on the rows judged in both."""
    shared = [run for run in one.runs if run in other.runs]
    (a, member, mine), (b, _, theirs) = (_of_runs(e, shared) for e in (one, other))
    found = compare(a, b, member, keep=mine & theirs, fpr=FPR, level=level, seed=seed, cluster=cluster)
    told = {
        "only": found.only_first,
        "only_against": found.only_second,
        "runs": len(shared),
        "n": found.auc.n,
    }
    return (
        _paired(one.variant, other.variant, attack, "auc", found.auc, told),
        _paired(one.variant, other.variant, attack, f"tpr@{FPR:g}", found.tpr, told),
    )


def _of_runs(
    e: Exposure, runs: Sequence[str]
) -> tuple[Float[np.ndarray, "run sample"], Bool[np.ndarray, "run sample"], Bool[np.ndarray, "run sample"]]:
    lines = [e.runs.index(run) for run in runs]
    return e.scores[lines], e.member[lines], e.keep[lines]


def _paired(
    variant: str, against: str, attack: str, metric: str, found: Estimate, more: dict[str, Any]
) -> Paired:
    answer = "less" if found.high < 0 else "more" if found.low > 0 else "not told apart"
    return Paired(variant, against, attack, metric, found.value, found.low, found.high, answer, more)
