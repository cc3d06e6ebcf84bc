"""What qualifies an indicator, each with what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from discreet.indicator import RunIndicator

__all__ = ["ADVICE", "FEW_RUNS", "diagnose"]

FEW_RUNS = 15
"""Runs after which the paper found its rankings stable (section 4.1, Figure 2)."""

_SHARE_OF_RUNS = 0.1
_SILENT_BELOW = 3.0
_EARLY, _LATE = 1 / 6, 0.6
"""Of the trajectory, between which the lowest loss should fall in the median run."""

ADVICE: dict[str, tuple[str, str]] = {
    "not-converged": (
        "The lowest loss falls on the last checkpoint in more than one run of ten: training had not yet passed "
        "its optimum, and rankings from such trajectories were reversed in trials.",
        "Train longer, or raise the learning rate, until the evaluation loss has risen again.",
    ),
    "optimum-late": (
        "The lowest loss falls beyond three fifths of the trajectory (median over runs): in our study of the paper's "
        "synthetic task rankings agreed with the security where it fell in the first half, and seldom later.",
        "Train longer, or raise the learning rate, and check the ranking with attacks.",
    ),
    "optimum-early": (
        "The lowest loss falls in the first sixth of the trajectory (median over runs): in our study of language "
        "models that learned their texts by heart after it, r did not see what attacks found.",
        "Save checkpoints more often at the start, or lower the learning rate.",
    ),
    "worse-than-constant": (
        "The quantized loss is higher than that of the best constant prediction: r then says little.",
        "Rescale the quantizer (scale='absmean'), or leave this variant out.",
    ),
    "below-resolution": (
        "r is too small to be told from zero with this many evaluation samples.",
        "Add evaluation samples (the resolution is z^2/(2n)); more runs do not help.",
    ),
    "theorem-silent": (
        f"n_train * r is below {_SILENT_BELOW:g}: the theorem's bound exp(-n_train * r) says nothing yet.",
        "Read r as a ranking only, and rely on attacks for how much leaks.",
    ),
    "few-runs": (
        f"Fewer than {FEW_RUNS} runs: the paper's rankings were stable only after about that many.",
        "Add training runs, each on another subset and seed.",
    ),
    "single-run": (
        "One run: the interval covers the evaluation samples alone, not how far another run would differ, and no "
        "two variants are told apart.",
        "Train at least a few runs, each on another subset and seed.",
    ),
    "runs-differ": (
        "This variant was not measured on every run; comparisons rest on the runs that both variants have.",
        "Measure every variant on the same runs.",
    ),
    "not-comparable": (
        "The runs do not share their checkpoints, and r depends on how many there are and how they are spaced.",
        "Measure all runs and variants on the same checkpoints.",
    ),
    "runs-undefined": (
        "In some runs every checkpoint quantized to the same configuration: no alternative was explored, and "
        "those runs were left out.",
        "Save checkpoints further apart, or use a finer quantizer.",
    ),
    "runs-infinite": (
        "In some runs all alternatives differ from the best by a constant: r is infinite there, and they were "
        "left out.",
        "Check that the losses are per sample and not averages.",
    ),
    "one-run-dominates": (
        "One run carries over a fifth of the mean (of fewer than ten runs: over twice its even share).",
        "Read the median beside it (--statistic median), and add runs.",
    ),
    "decided-by-tie": (
        "In some runs two configurations share the lowest mean loss exactly, so r is 0 there.",
        "Add evaluation samples; a true tie means that membership can decide between the two.",
    ),
    "full-precision-reference": (
        "Full precision is outside the theorem, which is about small discrete sets of configurations.",
        "Use it as a reference only.",
    ),
}


def diagnose(
    variant: str,
    runs: Sequence[RunIndicator],
    *,
    r: float | None,
    floor: float,
    n_train: int | None,
    constant_loss: float | None,
    beside: Collection[str] = (),
) -> tuple[str, ...]:
    """Names of everything to heed in the runs of one variant, in the order of `ADVICE`.

    Args:
        variant: Its name.
        runs: Its runs.
        r: Its aggregate, if there is one.
        floor: Resolution of r.
        n_train: Training samples of a run, if known.
        constant_loss: Loss of the best constant prediction, if known.
        beside: Diagnostics that only the whole set of variants shows.
    """
    last = np.array([len(run.losses) - 1 for run in runs])
    at = np.array([run.best for run in runs])
    used = np.array([run.r for run in runs if run.status == "ok"])
    status = [run.status for run in runs]
    lowest = float(np.median([run.losses.min() for run in runs]))
    found = {
        "not-converged": np.mean(at == last) > _SHARE_OF_RUNS,
        "optimum-late": np.median(at / np.maximum(last, 1)) > _LATE and np.mean(at == last) <= _SHARE_OF_RUNS,
        "optimum-early": np.median(at / np.maximum(last, 1)) < _EARLY,
        "worse-than-constant": constant_loss is not None and lowest > constant_loss,
        "below-resolution": r is not None and r < floor,
        "theorem-silent": r is not None and n_train is not None and n_train * r < _SILENT_BELOW,
        "few-runs": len(used) < FEW_RUNS,
        "single-run": len(used) == 1,
        "runs-differ": "runs-differ" in beside,
        "not-comparable": "not-comparable" in beside,
        "runs-undefined": "undefined" in status,
        "runs-infinite": "infinite" in status,
        "one-run-dominates": len(used) > 1 and used.max() > max(0.2, 2 / len(used)) * used.sum(),
        "decided-by-tie": any(run.tied for run in runs),
        "full-precision-reference": variant == "full",
    }
    return tuple(name for name in ADVICE if found[name])
