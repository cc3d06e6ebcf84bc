"""Which predictor agrees with the strongest attack: the plan, the calibration by other runs, a small study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from discreet.losses import LOSSES
from discreet.measure import logits
from discreet.store import Store
from discreet.studies.predictors import PREDICTORS, Setup, _agree, _calibrated, _made, predictors
from discreet.studies.synthetic_setting import Setting
from discreet.studies.synthetic_unit import quantized, samples

SMALL = Setting(width=8, epochs=3, n=24, evaluation=64, lr=3e-3)


def test_losses_are_less_those_of_other_runs_on_the_same_samples(tmp_path: Path) -> None:
    made = _made(Store(tmp_path), SMALL, range(3))
    found = _calibrated(SMALL, made, ["sign", "5 bits"], references=2)
    stack = quantized(SMALL, made[0].params)["sign"]
    for run in range(3):
        x, y = samples(SMALL, run)
        outputs = logits(SMALL.network, stack, x).double()[..., None]
        losses = np.stack([LOSSES["bce"].per_sample(each, torch_of(y)).numpy() for each in outputs])
        others = [each for each in range(3) if each != run]
        np.testing.assert_allclose(found["sign"][run], losses[run] - losses[others].mean(axis=0), atol=1e-6)


def torch_of(y: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(y)


def test_agreement_leaves_out_what_has_no_number() -> None:
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    assert _agree(np.array([1.0, np.nan, 5.0, 7.0]), truth) == 1.0
    assert _agree(np.array([3.0, 2.0, 1.0, 0.0]), truth) == -1.0
    assert _agree(np.array([1.0, 1.0, 1.0, 1.0]), truth) == 0.0
    assert _agree(np.array([1.0, np.nan, np.nan, np.inf]), truth) == 0.0


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


def test_budgets_that_do_not_divide() -> None:
    with pytest.raises(ValueError, match=r"budgets: expected divisors of the largest, got \[3, 8\]"):
        Setup(budgets=(3, 8))
