"""Quantizers that look at inputs: the inputs depend on nothing that was asked for before, nor on what failed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from discreet.llm import Working, adapters_in, encode
from discreet.llm._blocks import find_blocks
from discreet.quantizers import Multiples, QuantizerError
from discreet.quantizers.uniform import Uniform
from tests import llm

SCALED = "tests.test_llm_working_inputs:Scaled"


@dataclass(frozen=True)
class Scaled(Uniform):
    """A quantizer whose weights tell what inputs it was given; it fails at the call numbered ``fails``."""

    granularity: str = "channel"
    needs_inputs: ClassVar[bool] = True
    fails: ClassVar[int] = 0

    def encode_layer(self, weight: Tensor, inputs: Tensor) -> Multiples:
        type(self).fails -= 1
        if self.fails == 0:
            raise QuantizerError("the process ended")
        found = self.encode(weight)
        size = inputs.abs().mean() + 1
        return Multiples(found.numbers, found.largest, found.zero, torch.as_tensor(found.scale) * size)


@pytest.fixture(autouse=True)
def _sound() -> None:
    Scaled.fails = 0


def weights(working: Working, name: str) -> dict[str, Tensor]:
    module = working.variant(name)
    return {each: module.get_parameter(f"{each}.weight").detach().clone() for each in working.quantized}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("more", [{"modules_to_save": ["input_layernorm"]}, {"bias": "all"}])
def test_below_an_adapter_the_base_is_quantized_with_its_own_inputs(
    more: dict[str, Any], tmp_path: Path
) -> None:
    base = llm.base()
    for step in (1, 2):
        llm.adapter(base, tmp_path / f"checkpoint-{step}", step, **more)
    over = f"adapter over {SCALED}"
    working = Working(base, ["full", over], encode(llm.texts(6), base))
    alone = weights(working, over)
    one, two = adapters_in(tmp_path)
    fresh = Working(base, ["full", over], encode(llm.texts(6), base))
    fresh.checkpoint(one)
    assert same(weights(fresh, over), alone)
    prints = []
    for each in (fresh, working):
        each.checkpoint(two)
        assert same(weights(each, over), alone)
        prints.append(each.fingerprint())
    assert prints[0] == prints[1]
    module = fresh.variant(over)
    with torch.no_grad():
        told = module(input_ids=torch.arange(9)[None]).logits
        fresh.checkpoint(None)
        assert not torch.equal(fresh.variant(over)(input_ids=torch.arange(9)[None]).logits, told)


def test_a_change_in_an_early_block_renews_all_that_follow_it(tmp_path: Path) -> None:
    base = llm.base()
    for step in (1, 2):
        llm.adapter(base, tmp_path / f"checkpoint-{step}", step, layers_to_transform=[0])
    one, two = adapters_in(tmp_path)
    calibration = encode(llm.texts(6), base)
    working, fresh = Working(base, [SCALED], calibration), Working(base, [SCALED], calibration)
    working.checkpoint(one)
    before = weights(working, SCALED)
    for each in (working, fresh):
        each.checkpoint(two)
    after = weights(working, SCALED)
    late = [name for name in working.quantized if ".layers.1." in name]
    assert not any(torch.equal(before[name], after[name]) for name in late)
    assert same(after, weights(fresh, SCALED))


def test_dora_counts_where_only_its_lengths_were_trained(tmp_path: Path) -> None:
    base = llm.base()
    wrapped = llm.adapter(base, tmp_path / "checkpoint-1", 1, use_dora=True)
    with torch.no_grad():
        for name, value in wrapped.named_parameters():
            if "lora_B" in name:
                value.zero_()
    wrapped.save_pretrained(tmp_path / "checkpoint-1")
    working = Working(base, ["full"])
    working.checkpoint(adapters_in(tmp_path)[0])
    ids = torch.arange(9)[None]
    with torch.no_grad():
        found, expected = working.variant("full")(input_ids=ids).logits, wrapped(input_ids=ids).logits
        assert not torch.allclose(found, base.module(input_ids=ids).logits, atol=1e-2)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_after_a_failure_in_the_middle_of_a_block_its_inputs_are_taken_anew(tmp_path: Path) -> None:
    base = llm.base()
    llm.adapter(base, tmp_path / "checkpoint-1", 1)
    (adapter,) = adapters_in(tmp_path)
    sound, broken = (Working(base, [SCALED], encode(llm.texts(6), base)) for _ in range(2))
    for working in (sound, broken):
        working.checkpoint(adapter)
    expected = weights(sound, SCALED)
    Scaled.fails = len(find_blocks(base.module).layers[0]) + 6
    with pytest.raises(QuantizerError, match=r"layers\.1\..*the process ended"):
        broken.variant(SCALED)
    Scaled.fails = 0
    assert same(weights(broken, SCALED), expected)
