"""Quantized models: few levels whatever the training; aware training follows gradients at the quantized weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from discreet._find import SpecError
from discreet.compressors.quantize import _followed
from discreet.defences._gradients import plain
from discreet.defences.even import Even
from discreet.measure import measure_stack
from discreet.methods import fit
from discreet.phase import fresh_phase
from discreet.quantizers import quantize_stack
from discreet.training_paths import Batch, Epoch
from discreet.trajectory import Trajectory
from tests.compression import setting

SIGN = "sign(granularity='channel', scope='weights', scale='absmean')"


@pytest.mark.parametrize("aware", [False, True])
def test_weights_have_two_values_a_channel(aware: bool) -> None:
    done = fit(f"quantize(quantizer={SIGN!r}, aware={aware})", setting(2))
    for row in done.params["0.weight"].flatten(0, 1):
        assert len(row.abs().unique()) == 1


def test_after_training_it_is_the_dense_model_quantized() -> None:
    dense, done = fit("dense", setting(2)), fit(f"quantize(quantizer={SIGN!r})", setting(2))
    for name, value in quantize_stack(dense.params, SIGN).items():
        assert torch.equal(done.params[name], value)


def test_an_aware_step_is_the_gradient_at_the_quantized_weights() -> None:
    given = setting(2, recipe={"epochs": 1, "batch_size": 10_000, "optimizer": "sgd", "lr": 0.1})
    phase = fresh_phase(given)
    start = fit("dense", setting(2, recipe={"epochs": 1, "lr": 1e-30})).params
    samples = torch.from_numpy(phase.subsets)
    batch = Batch(phase.x[samples], phase.y[samples], samples, Epoch(1, (0, 1), samples, 10_000, 0), 0)
    slope = plain(phase)(quantize_stack(start, SIGN), batch)
    moved = {name: value - 0.1 * slope[name] for name, value in start.items()}
    done = fit(f"quantize(quantizer={SIGN!r}, aware=True)", given)
    for name, value in quantize_stack(moved, SIGN).items():
        torch.testing.assert_close(done.params[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aware", [False, True])
def test_the_indicator_is_that_of_the_quantized_checkpoints(aware: bool) -> None:
    given = setting(2, recipe={"epochs": 3})
    done = fit(f"quantize(quantizer={SIGN!r}, aware={aware})", given)
    stacks = {}
    for epochs in (1, 2, 3):
        short = setting(2, recipe={"epochs": epochs})
        stacks[epochs] = fit(f"quantize(quantizer={SIGN!r}, aware={aware})", short).params
    for run in range(2):
        at = torch.from_numpy(given.roles.validation[run])
        own = {str(k): {n: v[run : run + 1] for n, v in stack.items()} for k, stack in stacks.items()}
        told = measure_stack(given.model, own, given.x[at], given.y[at], given.kind, which=["loss"])
        found = Trajectory(told["loss"][0])
        assert done.history["r_of_run"][run] == pytest.approx(np.nanmin(found.ratios), rel=1e-4)
        assert done.history["best"][run] == found.best + 1
    assert done.history["r"]["r"] == pytest.approx(np.mean(done.history["r_of_run"]))
    assert done.history["r"]["low"] <= done.history["r"]["r"] <= done.history["r"]["high"]
    assert fit(f"quantize(quantizer={SIGN!r})", setting(1, recipe={"epochs": 1})).history["r"] is None


def test_runs_have_samples_of_their_own() -> None:
    """Which sample of one run stands beside which of another says nothing."""
    rng = np.random.default_rng(0)
    gaps = np.array([0.3, 0.0, 0.1])[None, :, None]
    common = rng.standard_normal((1, 3, 400))
    found = 1 + gaps + 0.1 * (common + 0.1 * rng.standard_normal((4, 3, 400)))
    mixed = found.copy()
    mixed[1] = mixed[1][:, rng.permutation(400)]
    one, other = _followed(found)["r"], _followed(mixed)["r"]
    for end in ("r", "low", "high"):
        assert one[end] == pytest.approx(other[end], rel=1e-9)
    assert one["low"] < one["r"] < one["high"]


def test_even_adds_the_variance_of_the_batch() -> None:
    losses = torch.tensor([1.0, 2.0, 6.0])
    found = Even(0.5).change(losses, torch.zeros(3, 2), torch.zeros(3), 1)
    assert float(found.mean()) == pytest.approx(3.0 + 0.5 * float(losses.var(unbiased=False)))


def test_settings_that_there_are_not() -> None:
    with pytest.raises(SpecError, match="warmup: expected 0 or more, got -1"):
        fit("quantize(warmup=-1)", setting(1))
    with pytest.raises(SpecError, match="unknown quantizer 'sine'"):
        fit("quantize(quantizer='sine')", setting(1))
