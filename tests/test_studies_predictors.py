"""Which predictor agrees with the strongest attack: the plan, the calibration by other runs, a small study."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from discreet.data.mixture import Mixture
from discreet.losses import LOSSES
from discreet.measure import logits
from discreet.records import Record
from discreet.store import Store
from discreet.studies import predictors as study
from discreet.studies import predictors_target as target
from discreet.studies.predictors import PREDICTORS, Cost, Setup, _agree, _calibrated, _made, cost, predictors
from discreet.studies.predictors_command import run
from discreet.studies.predictors_target import ATTACKS, halves, mis_by_attack, strongest
from discreet.studies.synthetic_setting import Setting
from discreet.studies.synthetic_unit import quantized, samples
from discreet.training import train

SMALL = Setting(width=8, epochs=3, n=24, evaluation=64, lr=3e-3)


def test_losses_are_less_those_of_other_runs_on_the_same_samples(tmp_path: Path) -> None:
    made = _made(Store(tmp_path), SMALL, range(3))
    own = {name: made[0].loss[name] for name in ("sign", "5 bits")}
    found = _calibrated(SMALL, made[0].params, range(3), own, references=2)
    stack = quantized(SMALL, made[0].params)["sign"]
    for number in range(3):
        x, y = samples(SMALL, number)
        outputs = logits(SMALL.network, stack, x).double()[..., None]
        losses = np.stack([LOSSES["bce"].per_sample(each, torch_of(y)).numpy() for each in outputs])
        others = [each for each in range(3) if each != number]
        np.testing.assert_allclose(
            found["sign"][number], losses[number] - losses[others].mean(axis=0), atol=1e-6
        )


def torch_of(y: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(y)


def test_agreement_leaves_out_what_has_no_number() -> None:
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    assert _agree(np.array([1.0, np.nan, 5.0, 7.0]), truth) == 1.0
    assert _agree(np.array([3.0, 2.0, 1.0, 0.0]), truth) == -1.0
    assert _agree(np.array([1.0, 1.0, 1.0, 1.0]), truth) == 0.0
    assert _agree(np.array([1.0, np.nan, np.nan, np.inf]), truth) == 0.0


def test_the_calibration_uses_no_run_that_the_budget_did_not_pay_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(budgets=(1, 2), ratio=3, judged=4, references=8, setting=SMALL)
    seen = []

    def noted(setting: Setting, params: dict, numbers: range, own: dict, references: int) -> dict:
        assert all(len(value) == len(numbers) for value in (*params.values(), *own.values()))
        seen.append(list(numbers))
        return _calibrated(setting, params, numbers, own, references)

    monkeypatch.setattr(study, "_calibrated", noted)
    predictors(tmp_path, setup, sets=[(8, 2.0)])
    assert seen == [[2, 3, 4], [5, 6, 7], [2, 3, 4, 5, 6, 7]]  # runs 0 and 1 are the trajectories


def test_judged_runs_are_halves_of_a_pool_that_no_predictor_saw(tmp_path: Path) -> None:
    records = halves(Store(tmp_path), SMALL, range(20, 24))
    assert len(records) == 8
    record = records["sign"]
    assert record.member is not None
    assert record.member.sum(axis=1).tolist() == [SMALL.n] * 4
    assert (record.member[::2] ^ record.member[1::2]).all()
    assert record.partners("20") == ("21",)
    pool, _ = SMALL.mixture.draw(2 * SMALL.n, stream=1)
    for number in range(3):
        mine, _ = samples(SMALL, number)
        assert not (mine[:, None] == pool[None]).all(axis=2).any()
    # members fit better than strangers, so the answers belong to the losses
    fine = records["5 bits"]
    assert fine.signals["loss"][record.member].mean() < fine.signals["loss"][~record.member].mean()


def test_the_strongest_attack_is_one_that_compares_runs_where_samples_differ_in_difficulty() -> None:
    rng = np.random.default_rng(0)
    member = np.zeros((16, 60), bool)
    for pair in range(8):
        member[2 * pair, rng.permutation(60)[:30]] = True
        member[2 * pair + 1] = ~member[2 * pair]
    hard = rng.gamma(2.0, size=60)
    loss = hard * np.exp(0.1 * rng.standard_normal((16, 60)) - 0.5 * member)
    record = Record(
        run=tuple(map(str, range(16))),
        step=np.ones(16),
        variant=("a",) * 16,
        sample=np.arange(60),
        signals={"loss": loss},
        member=member,
    )
    found = mis_by_attack({"a": record})
    assert tuple(found) == ATTACKS
    assert found["loss"]["a"] > 0.6
    attack, least = strongest(found)["a"]
    assert attack.startswith("lira")
    assert least == min(each["a"] for each in found.values()) < 0.3


def test_a_small_study_is_the_same_when_it_is_found_again(tmp_path: Path) -> None:
    setup = Setup(budgets=(1, 2), ratio=3, judged=6, references=2, setting=SMALL)
    one = predictors(tmp_path, setup, sets=[(8, 2.0)])
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    again = predictors(tmp_path, setup, sets=[(8, 2.0)])
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert one[0].agreement == again[0].agreement
    assert set(one[0].agreement) == {(name, budget) for name in PREDICTORS for budget in (1, 2)}
    assert all(-1 <= value <= 1 for value in one[0].agreement.values())
    assert len(one[0].strongest) == 8


def test_costs_are_measured_once_and_a_trajectory_costs_more(tmp_path: Path) -> None:
    found = cost(Store(tmp_path), SMALL, runs=2)
    assert found.ratio == found.trajectory / found.last > 1
    assert cost(Store(tmp_path), SMALL, runs=2) == found
    assert Cost(0.9, 0.03).ratio == pytest.approx(30)


@pytest.mark.slow
def test_the_study_writes_its_files_and_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    changed = ["budgets=1,2", "ratio=3", "judged=4", "references=2", "sets=8x2,6x3"]
    changed += ["width=8", "epochs=3", "n=24", "evaluation=64", "lr=3e-3"]
    page = run(tmp_path, "small", changed)
    files = {name: (tmp_path / name).read_bytes() for name in ("study.json", "study.md", "agreement.svg")}
    assert "A trajectory counts as 3 runs of which only the last checkpoint is measured." in page
    assert page == files["study.md"].decode("utf-8")
    assert len(json.loads(files["study.json"])["sets"]) == 2
    next((tmp_path / "judged").glob("*.safetensors")).unlink()  # as if it had been stopped before
    assert run(tmp_path, "small", changed) == page
    assert {name: (tmp_path / name).read_bytes() for name in files} == files


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("budgets=3,8", r"budgets: expected divisors of the largest, got \[3, 8\]"),
        ("judged=7", "judged: expected an even number of runs from 4 on, got 7"),
        ("ratio=0", "ratio, references: expected at least 1, got 0 and 8"),
        ("ratio=2", "budgets, ratio: expected at least 3 runs for the smallest budget, got 2"),
        ("lr=0", "lr: expected a positive number, got 0.0"),
        ("batch_size=0", "batch_size: expected at least 1, got 0"),
        ("spread=0", "sigma, spread: expected positive numbers, got 2.0 and 0.0"),
        ("sets=8x2,8x2", "--set: expected distinct modes x sigma for sets, got '8x2,8x2'"),
        ("sets=8x2,1x2", "modes, features: expected at least 2 and at least 1, got 1 and 128"),
        ("size=3", "--set: expected FIELD=VALUE with one of .*ratio, .* got 'size=3'"),
    ],
)
def test_setups_that_make_no_sense(changed: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        run(tmp_path / "none", "small", [changed])
    assert not (tmp_path / "none").exists()


def test_a_data_set_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sets: expected at least one, and none twice, got "):
        predictors(tmp_path / "none", Setup(setting=SMALL), sets=[(8, 2.0), (8, 2.0)])
    assert not (tmp_path / "none").exists()


def test_judged_runs_of_two_data_sets_share_no_start_and_no_half(tmp_path: Path) -> None:
    still = SMALL.at(lr=1e-30)  # stays at its start
    found, member = [], []
    with pytest.MonkeyPatch.context() as patch:

        def noted(*given: object, **named: object) -> object:
            last = train(*given, **named)
            found.append(last)
            return last

        patch.setattr(target, "train", noted)
        for each in (still, still.at(sigma=3.0)):
            member.append(halves(Store(tmp_path), each, range(20, 24))["sign"].member)
    assert not any(bool((found[0][name] == found[1][name]).all()) for name in found[0])
    assert (member[0] != member[1]).any(axis=1).all()
    assert len(list((tmp_path / "judged").iterdir())) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mixture, "entropy", 1)
        halves(Store(tmp_path), still, range(20, 24))
    assert len(list((tmp_path / "judged").iterdir())) == 3  # what was made of other data is not taken
