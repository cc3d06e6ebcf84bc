"""Figures of merit: what an attack's scores (or a model's outputs) are worth, each with its interval.

One idea a file; this page is the index.
"""

from __future__ import annotations

from discreet.auc import auc
from discreet.correlation import ranks, spearman
from discreet.estimate import Estimate

__all__ = ["Estimate", "auc", "ranks", "spearman"]
