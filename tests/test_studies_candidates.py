"""Candidates from other runs and neighbours: one weight, one level; and pools hold what runs hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from discreet.quantizers import quantize
from discreet.studies.candidates import SOURCES, Setup, candidates, neighbours


@pytest.mark.parametrize("spec", ["sign", "ternary(zeros=0.5)", "uniform(bits=3)"])
def test_one_weight_moves_one_level(spec: str) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = {"a": torch.randn(5, 4, generator=generator), "b": torch.randn(5, generator=generator)}
    model = dict(quantize(weights, spec).dense)
    found = neighbours(model, 25, np.random.default_rng(1))
    moved = set()
    for copy in range(25):
        changed = [
            (k, i)
            for k in model
            for i in range(model[k].numel())
            if found[k][copy].view(-1)[i] != model[k].view(-1)[i]
        ]
        ((name, at),) = changed
        levels = torch.unique(model[name]).tolist()
        was, now = float(model[name].view(-1)[at]), float(found[name][copy].view(-1)[at])
        assert abs(levels.index(was) - levels.index(now)) == 1
        moved.add((name, at))
    assert len(moved) == 25  # each weight once
    with pytest.raises(ValueError, match="expected a tensor with at least two levels"):
        neighbours({"a": torch.ones(3)}, 1, np.random.default_rng(0))


@pytest.mark.slow
def test_more_candidates_never_raise_r_and_workers_change_nothing() -> None:
    setup = Setup(width=6, runs=4, pooled=2, steps=4, epochs=5, evaluation=200, attacked=12)
    found = candidates(setup, workers=1)
    own, pooled, beside, both = (found.rankings[source] for source in SOURCES)
    for variant in found.mis:
        for run, one in own[variant].per_run.items():
            more = beside[variant].per_run[run]
            np.testing.assert_allclose(more.losses[: len(one.losses)], one.losses, rtol=1e-12)
            if (
                more.best == one.best and one.status == "ok"
            ):  # the same best configuration: a minimum over more
                assert more.r <= one.r * (1 + 1e-9)
        assert list(pooled[variant].per_run) == list(both[variant].per_run) == ["0", "2"]
        assert len(pooled[variant].per_run["2"].losses) == 10
    again = candidates(setup, workers=2)
    assert [r.to_json() for r in again.rankings.values()] == [r.to_json() for r in found.rankings.values()]
    assert all(0 <= each.value <= 1 for each in found.mis.values())
    with pytest.raises(
        ValueError, match="expected two or more pools of equal size, got 4 runs in pools of 3"
    ):
        Setup(runs=4, pooled=3)
