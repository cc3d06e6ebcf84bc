"""Sparse from scratch against dense and pruned models on tab20, whose labels are partly wrong."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
import torch

from discreet.data import tab20
from discreet.methods import fit
from discreet.mlp import MLP
from discreet.phase import Setting
from discreet.recipe import Recipe
from discreet.release_audit import Assessment, assess
from discreet.roles import Sizes, deal

RUNS = 2


@cache
def found(method: str, density: float = 0.1) -> Assessment:
    data = tab20.load(12_000)
    sizes = Sizes(fit=3000, loop=500, audit=2500, validation=500, test=3000, reference=1500)
    recipe = Recipe(
        "ce", "sgd", lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4, epochs=40, batch_size=128
    )
    roles = deal(12_000, RUNS, sizes)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    setting = Setting(MLP((20, 256, 256, 10)), x, y, roles, recipe, density)
    done = fit(method, setting)
    return assess(setting, done.model, done.params)


@pytest.mark.slow
def test_a_sparse_model_leaks_less_than_dense_and_pruned_ones_at_no_less_accuracy() -> None:
    dense, sparse, pruned, early = (found(method) for method in ("dense", "set", "prune", "early(epochs=5)"))
    assert dense.mia.value - sparse.mia.value >= 0.1
    assert sparse.task.value >= dense.task.value
    assert dense.mia.value - pruned.mia.value >= 0.02
    assert early.mia.value < sparse.mia.value  # the control that is hardest to beat


@pytest.mark.slow
def test_leakage_grows_with_density() -> None:
    leaks = [found("set", density).mia.value for density in (0.05, 0.1, 0.2)] + [found("dense").mia.value]
    assert all(later > earlier - 0.01 for earlier, later in pairwise(leaks))
    assert leaks[-1] - leaks[0] > 0.1
