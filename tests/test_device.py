"""Where forward passes run: the processor by name is the processor by default; mixed precision is close."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from discreet.batches import Batches
from discreet.device import Device
from discreet.forward import stack_of
from discreet.hidden import penultimate
from discreet.measure import measure_stack
from discreet.mlp import MLP
from discreet.recorder import Recorder

NETWORK = MLP((8, 16, 3))


def convolutions() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))


def tokens() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.LayerNorm(20), nn.Linear(20, 3))


def case(kind: str) -> tuple[Any, dict[str, torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    if kind == "perceptron":
        return NETWORK, NETWORK.init([0, 1]), torch.randn(700, 8, generator=generator)
    if kind == "convolutions":
        module = convolutions()
        return module, stack_of(module), torch.randn(300, 1, 6, 6, generator=generator)
    module = tokens()
    return module, stack_of(module), torch.randint(0, 9, (300, 5), generator=generator)


@pytest.mark.parametrize("kind", ["perceptron", "convolutions", "tokens"])
def test_the_processor_by_name_is_the_default(kind: str) -> None:
    model, stack, x = case(kind)
    y = torch.arange(len(x)) % 3
    default, named = (
        measure_stack(model, {"a": stack}, x, y, "ce", on=on) for on in (Device(), Device("cpu"))
    )
    for name, values in default.items():
        assert np.array_equal(values, named[name])


@pytest.mark.parametrize("kind", ["perceptron", "convolutions", "tokens"])
def test_mixed_precision_is_close_and_losses_stay_in_float64(kind: str) -> None:
    model, stack, x = case(kind)
    y = torch.arange(len(x)) % 3
    full = measure_stack(model, {"a": stack}, x, y, "ce")
    mixed = measure_stack(model, {"a": stack}, x, y, "ce", on=Device(precision="mixed"))
    assert mixed["loss"].dtype == np.float64
    assert not np.array_equal(mixed["loss"], full["loss"])
    np.testing.assert_allclose(mixed["loss"], full["loss"], atol=0.05)
    assert abs(mixed["loss"].mean() - full["loss"].mean()) < 2e-3
    hidden = penultimate(model, stack, x, on=Device(precision="mixed"))
    torch.testing.assert_close(hidden.float(), penultimate(model, stack, x), atol=0.1, rtol=0.05)


def test_sparse_rows_are_measured_the_same_in_mixed_precision() -> None:
    network = MLP((2048, 4, 1))
    x = (torch.rand(400, 2048, generator=torch.Generator().manual_seed(2)) < 0.02).float()
    stack, y = network.init([0]), torch.arange(400) % 2
    full = measure_stack(network, {"a": stack}, x, y)
    mixed = measure_stack(network, {"a": stack}, x, y, on=Device(precision="mixed"))
    np.testing.assert_allclose(mixed["loss"], full["loss"], atol=0.02)


def test_a_recorder_says_where_it_measured() -> None:
    x, y = torch.randn(20, 8), torch.arange(20) % 3
    module = nn.Linear(8, 3)
    plain = Recorder(x, y, ["sign"], task="ce")
    mixed = Recorder(x, y, ["sign"], task="ce", on=Device("cpu", "mixed"))
    for recorder in (plain, mixed):
        recorder.step(module)
    assert "precision" not in plain.record().about
    assert (mixed.record().about["device"], mixed.record().about["precision"]) == ("cpu", "mixed")


def test_batches_are_measured_where_the_model_is() -> None:
    batches = Batches([torch.zeros(4, 8)], lambda module, batch: module(batch))
    with pytest.raises(
        ValueError, match="on: batches are measured where the model is, as it computes; expected none"
    ):
        Recorder(batches, torch.zeros(4).long(), ["sign"], task="ce", on=Device(precision="mixed"))


@pytest.mark.parametrize(
    ("name", "precision", "message"),
    [
        ("gpu", "full", r"name: expected cpu, cuda, mps or cuda:N, got 'gpu'"),
        ("cuda:x", "full", r"name: expected cpu, cuda, mps or cuda:N, got 'cuda:x'"),
        (
            "cuda:99",
            "full",
            r"name: 'cuda:99' is not there; PyTorch sees (none|\d+) of that kind on this machine",
        ),
        ("cpu:1", "full", r"name: 'cpu:1' is not there; PyTorch sees 1 of that kind"),
        ("cpu", "half", r"precision: expected full or mixed, got 'half'"),
    ],
)
def test_devices_that_there_are_not(name: str, precision: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Device(name, precision)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", ["perceptron", "convolutions", "tokens"])
def test_a_gpu_measures_the_same_up_to_rounding(kind: str) -> None:
    model, stack, x = case(kind)
    y = torch.arange(len(x)) % 3
    own = measure_stack(model, {"a": stack}, x, y, "ce")
    there = measure_stack(model, {"a": {n: v.cuda() for n, v in stack.items()}}, x, y, "ce")
    np.testing.assert_allclose(there["loss"], own["loss"], atol=1e-2)
