"""Candidates from other runs and neighbours: one weight, one level; and pools hold what runs hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from discreet.quantizers import quantize
from discreet.studies.candidates import SOURCES, Setup, candidates, neighbours
from discreet.studies.candidates_command import run, setups_of


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
    setup = Setup(width=6, runs=4, pooled=2, steps=1, epochs=5, evaluation=200, attacked=12)
    found = candidates(setup, workers=1)
    own, pooled, beside, both = (found.rankings[source] for source in SOURCES)
    compared = 0
    for variant in found.mis:
        for number, one in own[variant].per_run.items():
            more = beside[variant].per_run[number]
            np.testing.assert_allclose(more.losses[: len(one.losses)], one.losses, rtol=1e-12)
            if more.best == one.best and one.status == "ok":  # the same best: a minimum over more
                assert more.r <= one.r * (1 + 1e-9)
                compared += 1
        assert list(pooled[variant].per_run) == list(both[variant].per_run) == ["0", "2"]
        assert len(pooled[variant].per_run["2"].losses) == 10
    assert compared >= 8  # of 32: about half of the neighbours are no better than the best
    again = candidates(setup, workers=2)
    assert [r.to_json() for r in again.rankings.values()] == [r.to_json() for r in found.rankings.values()]
    assert all(0 <= each.value <= 1 for each in found.mis.values())
    with pytest.raises(
        ValueError, match="expected two or more pools of equal size, got 4 runs in pools of 3"
    ):
        Setup(runs=4, pooled=3)


def test_the_study_writes_its_files_and_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    changed = ["sets=8x2,6x3", "width=6", "runs=4", "pooled=2", "steps=2", "epochs=4"]
    changed += ["evaluation=200", "attacked=12"]
    page = run(tmp_path, "small", changed, workers=1)
    files = {name: (tmp_path / name).read_bytes() for name in ("study.json", "study.md")}
    assert page == files["study.md"].decode("utf-8")
    assert "| 6, 3 | " in page
    assert "| less own trajectory, paired | | " in page
    kept = sorted((tmp_path / "sets").glob("*.json"))
    assert len(kept) == 2
    stamp = kept[0].stat().st_mtime_ns
    kept[1].unlink()  # as if it had been stopped before
    assert run(tmp_path, "small", changed, workers=2) == page
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
    assert kept[0].stat().st_mtime_ns == stamp
    with pytest.raises(
        ValueError, match=r"--set: expected FIELD=VALUE with one of .*steps, .* got 'stepz=1'"
    ):
        setups_of(["stepz=1"])
