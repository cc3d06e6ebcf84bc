"""Layers of the blocks that an adapter trained whole (``modules_to_save``), against peft's own model."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discreet.llm import Working, adapters_in
from discreet.quantizers import quantize_layer
from tests import llm
from tests.test_llm_working import SPEC, logits

OVER = f"adapter over {SPEC}"
WHOLE = {"qwen2": "mlp.up_proj", "gpt2": "mlp.c_fc"}


def turned(weight: Tensor, kind: str) -> Tensor:
    return (weight.T if kind == "gpt2" else weight).contiguous()


def quantized(module: nn.Module, names: tuple[str, ...], kind: str) -> nn.Module:
    """Layers quantized where they are; of peft's own model those of the base below what was trained."""
    for name in names:
        layer: Any = module.get_submodule(name)
        layer = getattr(layer, "base_layer", getattr(layer, "original_module", layer))
        layer.weight.data = turned(quantize_layer(SPEC, turned(layer.weight.data, kind)).dense, kind)
    return module


@pytest.fixture(params=WHOLE)
def tuned(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any, dict[int, Any]]:
    """A base, and by step peft's own model; at the last step no layer was trained whole."""
    kind, found = request.param, {}
    base = llm.base(kind)
    targets = {"qwen2": ["q_proj"], "gpt2": ["c_attn"]}[kind]
    for step in (1, 2, 3):
        more = {"modules_to_save": [WHOLE[kind]]} if step < 3 else {}
        found[step] = llm.adapter(
            base, tmp_path / f"checkpoint-{step}", step, targets, fan_in_fan_out=kind == "gpt2", **more
        )
    return kind, base, found


def test_it_is_quantized_as_trained_at_every_checkpoint(tuned: Any, tmp_path: Path) -> None:
    kind, base, models = tuned
    working = Working(base, ["full", SPEC])
    for checkpoint in adapters_in(tmp_path):
        working.checkpoint(checkpoint)
        merged = copy.deepcopy(models[checkpoint.step]).merge_and_unload()
        torch.testing.assert_close(logits(working.variant("full")), logits(merged), atol=1e-4, rtol=1e-4)
        found, expected = working.variant(SPEC), quantized(merged, working.quantized, kind)
        for name in working.quantized:
            one, other = found.get_parameter(f"{name}.weight"), expected.get_parameter(f"{name}.weight")
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
            assert torch.equal(one, other) or not name.endswith(WHOLE[kind])


def test_the_base_stays_as_it_is(tuned: Any, tmp_path: Path) -> None:
    _, base, _ = tuned
    before = {name: value.clone() for name, value in base.module.named_parameters()}
    working = Working(base, ["full", SPEC, OVER])
    one, two, without = adapters_in(tmp_path)
    for checkpoint in (one, None, two, without, one, None):
        working.checkpoint(checkpoint)
        for name in (SPEC, OVER, "full"):
            working.variant(name)
    assert all(torch.equal(value, before[name]) for name, value in base.module.named_parameters())
    plain = working.variant("full")
    assert all(torch.equal(value, before[name]) for name, value in plain.named_parameters())


def test_over_a_quantized_base_it_is_in_full_precision(tuned: Any, tmp_path: Path) -> None:
    kind, base, models = tuned
    working = Working(base, [SPEC, OVER])
    prints = set()
    for checkpoint in adapters_in(tmp_path):
        working.checkpoint(checkpoint)
        served = models[checkpoint.step]
        own = dict(served.named_parameters())
        top = sum(value.nbytes for name, value in own.items() if "lora_" in name)
        top += sum(v.nbytes for name, v in own.items() if "modules_to_save" in name and v.ndim == 2)
        quantized(served.base_model.model, working.quantized, kind)
        found = logits(working.variant(OVER))
        torch.testing.assert_close(found, logits(served), atol=2e-4, rtol=2e-4)
        prints.add(working.fingerprint())
        working.variant(SPEC)
        assert working.stored(OVER).bytes == working.stored(SPEC).bytes + top
    assert len(prints) == 3
