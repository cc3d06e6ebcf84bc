"""Quantizers on sparse models: zeros stay, each model alone, honest bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from discreet.artefacts import (
    ArtefactError,
    SparseQuantized,
    load_quantized,
    quantize_sparse,
    quantize_sparse_stack,
    save_sparse,
)
from discreet.mlp import MLP
from discreet.quantizers import QuantizerError, quantize
from discreet.sparse import close, counts, draw_masks

NETWORK = MLP((20, 64, 64, 10))
SPECS = (
    "sign(scale='absmean')",
    "ternary(zeros=0.5)",
    "uniform(bits=4, scope='weights', granularity='tensor')",
    "uniform(bits=4, granularity='channel', scale='absmean')",
    "uniform(bits=3, granularity='group(4)', scale='absmean')",
    "uniform(bits=8, granularity='model')",
    "vector(size=16, scope='weights')",
)


def models(density: float = 0.1) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    stack = NETWORK.init([1, 2, 3])
    shapes = {name: tuple(stack[name].shape[1:]) for name, _ in NETWORK.layers}
    masks = draw_masks(shapes, counts(shapes, density), [1, 2, 3])
    return close(stack, masks), masks


def one(row: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    stack, masks = models()
    return {name: value[row] for name, value in stack.items()}, {
        name: mask[row] for name, mask in masks.items()
    }


@pytest.mark.parametrize("spec", SPECS)
def test_masked_weights_stay_zero_and_each_model_is_alone(spec: str, tmp_path: Path) -> None:
    stack, masks = models()
    before = {name: value.clone() for name, value in stack.items()}
    together = quantize_sparse_stack(stack, masks, spec)
    assert list(together) == list(stack)
    for name, mask in masks.items():
        assert not bool(together[name][~mask].any())
        assert not torch.equal(together[name], stack[name])
    for row in range(3):
        state, own = one(row)
        done = quantize_sparse(state, own, spec)
        assert all(torch.equal(done.dense[name], together[name][row]) for name in state)
        done.save(tmp_path / "model")
        again = load_quantized(tmp_path / "model")
        assert all(torch.equal(again.dense[name], done.dense[name]) for name in state)
        assert all(torch.equal(again.masks[name], own[name]) for name in own)
        assert list(again.dense) == list(state)
        assert done.bytes == (tmp_path / "model").stat().st_size
        if "scope='weights'" in spec:
            assert torch.equal(done.dense["0.bias"], state["0.bias"])
    assert all(torch.equal(stack[name], before[name]) for name in stack)


def test_a_tensor_is_quantized_as_its_weights_in_use_alone() -> None:
    state, masks = one(0)
    for spec in ("sign(granularity='tensor', scale='absmean')", "uniform(granularity='tensor', bits=3)"):
        done = quantize_sparse(state, masks, spec)
        for name, mask in masks.items():
            alone = quantize({"w": state[name][mask][None]}, spec).dense["w"][0]
            assert torch.equal(done.dense[name][mask], alone)


def test_a_channel_is_quantized_as_its_weights_in_use_alone() -> None:
    state, masks = one(0)
    spec = "sign(granularity='channel', scale='absmean')"
    done = quantize_sparse(state, masks, spec).dense["2.weight"]
    for row, mask in enumerate(masks["2.weight"]):
        if bool(mask.any()):
            scale = state["2.weight"][row][mask].double().abs().mean()
            assert done[row][mask].abs().double().allclose(scale, rtol=1e-6)


def test_the_scale_is_not_pulled_to_zero_by_weights_that_are_not_there() -> None:
    state, masks = one(0)
    spec = "sign(granularity='tensor', scale='absmean')"
    used = masks["2.weight"]
    mean = state["2.weight"][used].abs().mean()
    assert torch.allclose(quantize_sparse(state, masks, spec).dense["2.weight"][used].abs(), mean)
    naive = quantize(state, spec).dense["2.weight"]
    assert float(naive.abs().max()) < 0.5 * float(mean)


def test_bytes_are_honest(tmp_path: Path) -> None:
    mask = torch.rand(500, 500) < 0.1
    state = {"w": torch.randn(500, 500).masked_fill(~mask, 0)}
    full = save_sparse(tmp_path / "full", state, {"w": mask})
    done = quantize_sparse(state, {"w": mask}, "sign")
    assert done.used == full.used
    assert done.bits_per_weight == pytest.approx(1, abs=0.01)
    assert done.index_bytes == full.index
    assert done.bytes == pytest.approx(full.index + full.used / 8, abs=1000)


def test_bad_input(tmp_path: Path) -> None:
    state, masks = one(0)
    weight = state["0.weight"]
    cases = (
        ({}, "masks: expected at least one, got none"),
        ({"v": masks["0.weight"]}, "masks: expected a tensor of that name for 'v', got none"),
        ({"0.weight": masks["0.weight"][:3]}, r"masks: expected bools of shape \[64, 20\] for '0.weight', got"),
        ({"0.weight": torch.zeros_like(masks["0.weight"])}, r"masks: \d+ weights of '0.weight' outside the mask"),
    )  # fmt: skip
    for wrong, message in cases:
        with pytest.raises(ArtefactError, match=message):
            quantize_sparse(state, wrong, "sign")
    nothing = {"0.weight": torch.zeros_like(weight)}
    with pytest.raises(ArtefactError, match=r"masks: no weight of '0.weight' is in use"):
        quantize_sparse(nothing, {"0.weight": torch.zeros_like(weight) > 0}, "sign")
    with pytest.raises(QuantizerError, match="NaN"):
        quantize_sparse({"w": torch.full((2, 2), torch.nan)}, {"w": torch.ones(2, 2) > 0}, "sign")
    done = quantize_sparse(state, masks, "sign")
    assert isinstance(done, SparseQuantized)
    done.save(tmp_path / "model")
    data = bytearray((tmp_path / "model").read_bytes())
    data[-1] ^= 1
    (tmp_path / "model").write_bytes(data)
    with pytest.raises(ArtefactError, match="the checksum does not match"):
        load_quantized(tmp_path / "model")
