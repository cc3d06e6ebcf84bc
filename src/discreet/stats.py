"""Figures of merit: what an attack's scores (or a model's outputs) are worth, each with its interval.

One idea a file; this page is the index. Higher scores always mean "more likely a member".
"""

from __future__ import annotations

from discreet.advantage import advantage, balanced_accuracy
from discreet.auc import auc
from discreet.average_precision import average_precision
from discreet.correlation import ranks, spearman
from discreet.epsilon import EpsilonBound, epsilon_many_runs, epsilon_one_run
from discreet.estimate import Estimate
from discreet.intervals import clopper_pearson, difference, wilson
from discreet.paired import Comparison, compare
from discreet.roc import Roc, roc
from discreet.tpr import OperatingPoint, ppv, tpr_at_fpr

__all__ = [
    "Comparison",
    "EpsilonBound",
    "Estimate",
    "OperatingPoint",
    "Roc",
    "advantage",
    "auc",
    "average_precision",
    "balanced_accuracy",
    "clopper_pearson",
    "compare",
    "difference",
    "epsilon_many_runs",
    "epsilon_one_run",
    "ppv",
    "ranks",
    "roc",
    "spearman",
    "tpr_at_fpr",
    "wilson",
]
