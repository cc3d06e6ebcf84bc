"""Task performance of every variant with intervals over runs and molecules: Tables 3, 4 and 5, and shares of the
original, averaged over embedders as there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.correlation import ranks
from discreet.indicator import spread_over_runs
from discreet.moments import BLOCKS, grid
from discreet.studies.molecules import Measured, Molecules, TaskData
from discreet.studies.molecules_unit import FULL, VARIANTS

__all__ = ["FIGURES", "Cell", "Scores", "by_variant", "contrast", "metrics_of", "scores", "shares", "tables"]

LEVEL = 0.95


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        value: Mean over runs and embedders.
        low: Lower end of its interval over runs and molecules.
        high: Upper end.
        share: Mean over embedders of the ratio to the original; NaN, as its interval, unless the original's mean over
            runs is above 0 on each.
        share_low: Lower end.
        share_high: Upper end.
        runs: Runs of each embedder.
        embedders: How many embedders.
    """

    value: float
    low: float
    high: float
    share: float
    share_low: float
    share_high: float
    runs: int
    embedders: int


@dataclass(frozen=True, eq=False)
class Scores:
    """A figure of each run of one variant, and what it would be without one block of molecules.

    Attributes:
        values: The figure.
        dropped: Without each block.
    """

    values: Float[np.ndarray, " run"]
    dropped: Float[np.ndarray, "run block"]


def _auroc(outputs: Float[np.ndarray, " sample"], truth: Float[np.ndarray, " sample"]) -> float:
    positive = truth > 0.5
    count = int(positive.sum())
    if count in (0, len(truth)):
        return np.nan
    above = ranks(outputs)[positive].sum() - count * (count + 1) / 2
    return float(above / (count * (len(truth) - count)))


def _r2(outputs: Float[np.ndarray, " sample"], truth: Float[np.ndarray, " sample"]) -> float:
    """1 - sum of squared errors over that of the mean of the validation labels."""
    error = outputs.astype(np.float64) - truth
    return float(1 - (error @ error) / np.square(truth - truth.mean(dtype=np.float64)).sum(dtype=np.float64))


def _spearman(outputs: Float[np.ndarray, " sample"], truth: Float[np.ndarray, " sample"]) -> float:
    """Correlation of ranks; 0 where all outputs are equal."""
    a, b = (x - x.mean() for x in (ranks(outputs), ranks(truth)))
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else 0.0


FIGURES: Mapping[str, Callable[..., float]] = {"auroc": _auroc, "r2": _r2, "spearman": _spearman}


def metrics_of(task: TaskData) -> tuple[str, ...]:
    """Which figures a task has."""
    return ("auroc",) if task.data.task == "classification" else ("r2", "spearman")


def scores(
    metric: str, outputs: Float[np.ndarray, "run sample"], truth: Float[np.ndarray, " sample"]
) -> Scores:
    """A figure of each run, and without each block of molecules (the blocks that intervals of r use).

    Args:
        metric: A name of ``FIGURES``.
        outputs: Raw outputs.
        truth: Labels.

    Example:
        >>> outputs = np.array([[0.1, 0.9, 0.4, 0.6]])
        >>> scores("auroc", outputs, np.array([0.0, 1.0, 0.0, 1.0])).values.tolist()
        [1.0]
    """
    figure = FIGURES[metric]
    n = len(truth)
    block = np.empty(n, np.int64)
    for number, piece in grid(n):
        block[piece] = number
    values = np.array([figure(row, truth) for row in outputs])
    dropped = np.empty((len(outputs), min(BLOCKS, n)))
    for number in range(dropped.shape[1]):
        kept = block != number
        dropped[:, number] = [figure(row[kept], truth[kept]) for row in outputs]
    return Scores(values, np.where(np.isnan(dropped), values[:, None], dropped))


def tables(found: Molecules, *, own: bool = False) -> dict[tuple[str, str, str], Cell]:
    """Cells by metric, task and variant.

    Args:
        found: What was measured.
        own: Take each variant at its own best checkpoint, not at that of full precision.
    """
    cells = {}
    for name, task in found.tasks.items():
        rows = [row for row in found.measured if row.task == name]
        for metric in metrics_of(task):
            by = [by_variant(row, task, metric, own) for row in rows]
            for variant in VARIANTS if rows else ():
                cells[metric, name, variant] = _cell(
                    [each[variant] for each in by], [each[FULL] for each in by], found.seed
                )
    return cells


def by_variant(row: Measured, task: TaskData, metric: str, own: bool = False) -> dict[str, Scores]:
    """Scores of every variant on one task and embedder."""
    outputs = row.own if own else row.outputs
    return {
        variant: scores(metric, outputs[v].astype(np.float64), task.truth.astype(np.float64))
        for v, variant in enumerate(VARIANTS)
    }


def _cell(these: Sequence[Scores], full: Sequence[Scores], seed: int) -> Cell:
    mean = _averaged(these)
    value, low, high = _interval(mean, seed)
    share, share_low, share_high = _interval(
        _averaged([shares(a, b) for a, b in zip(these, full, strict=True)]), seed
    )
    return Cell(value, low, high, share, share_low, share_high, len(mean.values), len(these))


def shares(over: Scores, under: Scores) -> Scores:
    """The ratio of two means over runs, as pseudo-values of runs (delta method) and without each block.

    NaN where the second mean is 0 or below: -0.5 is no share of -0.004, least of all one of 12500 %.
    """
    base = float(under.values.mean())
    if not base > 0:
        return Scores(np.full_like(over.values, np.nan), np.full_like(over.dropped, np.nan))
    share = float(over.values.mean()) / base
    return Scores(
        share + (over.values - share * under.values) / base,
        np.tile(over.dropped.mean(axis=0) / under.dropped.mean(axis=0), (len(over.values), 1)),
    )


def _averaged(many: Sequence[Scores]) -> Scores:
    """Run by run over embedders: a run trains on the same molecules whatever embeds them."""
    return Scores(
        np.mean([each.values for each in many], axis=0), np.mean([each.dropped for each in many], axis=0)
    )


def _interval(found: Scores, seed: int) -> tuple[float, float, float]:
    from scipy.special import stdtrit

    if np.isnan(found.values).any():
        return np.nan, np.nan, np.nan
    error, dof = spread_over_runs(found.values, found.dropped, "mean", seed)
    centre = float(found.values.mean())
    half = float(stdtrit(dof, (1 + LEVEL) / 2)) * error
    return centre, centre - half, centre + half


def contrast(
    weights: Mapping[str, float], by: Mapping[str, Sequence[Scores]], seed: int
) -> tuple[float, float, float]:
    """A weighted sum over variants, averaged over what each variant's list ranges over, with its interval."""
    total = [_averaged(by[variant]) for variant in weights]
    summed = Scores(
        np.sum([w * each.values for w, each in zip(weights.values(), total, strict=True)], axis=0),
        np.sum([w * each.dropped for w, each in zip(weights.values(), total, strict=True)], axis=0),
    )
    return _interval(summed, seed)
