"""Sparse models: masks with exact counts, how they are drawn, and how they change while a model trains.

Prune and grow rules, and allocations, are frozen dataclasses in one file each, found by file name.
"""

from __future__ import annotations

from discreet.sparse._errors import SparseError
from discreet.sparse.allocations import Allocation
from discreet.sparse.counts import counts
from discreet.sparse.grow_rules import Grow
from discreet.sparse.maskable import Maskable, maskable
from discreet.sparse.masks import check_masks, check_zeros, close, dead_units, draw_masks, rescale
from discreet.sparse.module import Masked, attach
from discreet.sparse.plan import PRESETS, Plan, preset
from discreet.sparse.prune_rules import Prune
from discreet.sparse.rewire import Rewired, rewire
from discreet.sparse.schedule import Schedule
from discreet.sparse.training import Sparse, Update, train_sparse

__all__ = [
    "PRESETS",
    "Allocation",
    "Grow",
    "Maskable",
    "Masked",
    "Plan",
    "Prune",
    "Rewired",
    "Schedule",
    "Sparse",
    "SparseError",
    "Update",
    "attach",
    "check_masks",
    "check_zeros",
    "close",
    "counts",
    "dead_units",
    "draw_masks",
    "maskable",
    "preset",
    "rescale",
    "rewire",
    "train_sparse",
]
