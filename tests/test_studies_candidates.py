"""Candidates from other runs and neighbours: one weight, one level; and pools hold what runs hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from discreet.data.mixture import Mixture
from discreet.mlp import MLP
from discreet.quantizers import PRESETS, quantize
from discreet.recipe import Recipe
from discreet.studies import candidates as study
from discreet.studies import candidates_command
from discreet.studies.candidates import SOURCES, Setup, candidates, neighbours
from discreet.studies.candidates_command import _page, run


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


def test_data_sets_have_starts_orders_and_neighbours_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[list[int]] = []
    seeds, starts, fresh, trained = [], [], np.random.default_rng, study.train

    def drawing(seed: object = None) -> np.random.Generator:
        if isinstance(seed, list) and seed[-1] == 0x57E9:
            moves.append(seed)
        return fresh(seed)

    def training(*given: object, **named: object) -> object:
        seeds.append(named["seed"])
        return trained(*given, **named)

    monkeypatch.setattr(np.random, "default_rng", drawing)
    monkeypatch.setattr(study, "train", training)
    still = Recipe("bce", "adam", lr=1e-30, epochs=2)  # stays at its start
    monkeypatch.setattr(Setup, "recipe", property(lambda self: still))
    small = Setup(width=4, runs=2, pooled=1, steps=2, epochs=2, n=16, evaluation=64, attacked=5)
    for setup in (small, replace(small, sigma=3.0)):
        network = MLP((128, 4, 1))
        history = study._train(setup, network, *study._drawn(setup.mixture, range(2), setup.n), 1)
        study._by_source(setup, network, "sign", history, setup.mixture.draw(64, stream=0))
        starts.append(history[-1])
    assert not any(bool((starts[0][name] == starts[1][name]).all()) for name in starts[0])
    assert len(set(seeds)) == 2  # of starts and orders
    assert len(moves) == len({tuple(each) for each in moves}) == 4


@pytest.mark.slow
def test_more_candidates_never_raise_r_and_workers_change_nothing() -> None:
    setup = Setup(width=24, runs=4, pooled=2, steps=1, epochs=5, evaluation=200, attacked=12)
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
    changed = ["sets=8x2,6x3", "width=24", "runs=4", "pooled=2", "steps=2", "epochs=6"]
    changed += ["evaluation=200", "attacked=12"]
    page = run(tmp_path, "small", changed, workers=1)
    files = {name: (tmp_path / name).read_bytes() for name in ("study.json", "study.md", "agreement.svg")}
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


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("stepz=1", r"--set: expected FIELD=VALUE with one of .*steps, .* got 'stepz=1'"),
        ("sets=8x2,8x2", "--set: expected distinct modes x sigma for sets, got '8x2,8x2'"),
        ("sets=8x2,1x2", "modes, features: expected at least 2 and at least 1, got 1 and 128"),
        ("sets=8x2,8xnan", "sigma, spread: expected positive numbers, got nan and 0.3"),
        ("attacked=3", "attacked: expected at least 5, got 3"),
        ("n=0", "n: expected at least 2, got 0"),
        ("steps=0", "steps: expected at least 1, got 0"),
        ("pooled=0", "pooled: expected at least 1, got 0"),
        ("pooled=3", "runs, pooled: expected two or more pools of equal size, got 8 runs in pools of 3"),
        ("batch_size=0", "batch_size: expected at least 1, got 0"),
        ("width=0", "width: expected at least 1, got 0"),
        ("epochs=1", "epochs: expected at least 2, got 1"),
        ("evaluation=1", "evaluation: expected at least 2, got 1"),
        ("spread=0", "sigma, spread: expected positive numbers, got 1.5 and 0.0"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(
    changed: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        run(tmp_path / "none", "small", [changed])
    assert not (tmp_path / "none").exists()


def told() -> dict:
    source = {"agreement": {"value": 0.5, "low": 0.0, "high": 1.0}, "below resolution": 0}
    r = {spec: None if spec == "sign" else 2e-4 for spec in PRESETS["paper"]}
    return {"setup": {"modes": 8, "sigma": 2.0}, "sources": {key: {**source, "r": r} for key in SOURCES}}


def test_a_quantizer_without_r_on_any_data_set_is_told() -> None:
    assert "| own trajectory | not defined | 2 | 2 |" in _page([told()])


def test_what_was_made_of_other_data_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates_command, "_measured", lambda *given: told())
    run(tmp_path, changed=["sets=8x2"])
    run(tmp_path, changed=["sets=8x2"])
    assert len(list((tmp_path / "sets").glob("*.json"))) == 1
    monkeypatch.setattr(Mixture, "entropy", 1)
    run(tmp_path, changed=["sets=8x2"])
    assert len(list((tmp_path / "sets").glob("*.json"))) == 2
