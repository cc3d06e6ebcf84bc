"""Merged weights against peft, quantized ones against the quantizer itself, and how often layers are quantized."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from discreet.llm import LanguageModelError, Working, adapters_in, encode, losses
from discreet.llm._blocks import find_blocks
from discreet.llm._changes import changes
from discreet.quantizers import Multiples, QuantizerError, quantize_layer
from discreet.quantizers.uniform import Uniform
from tests import llm

SPEC = "uniform(bits=4, granularity='channel', scope='weights')"
COUNTED = "tests.test_llm_working:Counted"
TARGETS = {
    "qwen2": ("q_proj", "v_proj", "down_proj"),
    "llama": ("k_proj", "up_proj"),
    "gpt2": ("c_attn", "c_proj"),
    "gemma2": ("q_proj", "o_proj"),
}


@dataclass(frozen=True)
class Counted(Uniform):
    """A quantizer that counts its calls."""

    granularity: str = "channel"
    calls: ClassVar[list[tuple[int, ...]]] = []

    def encode(self, groups: Tensor) -> Multiples:
        self.calls.append(tuple(groups.shape))
        return super().encode(groups)


@dataclass(frozen=True)
class Broken(Uniform):
    """A quantizer that yields NaN."""

    granularity: str = "channel"

    def encode(self, groups: Tensor) -> Multiples:
        found = super().encode(groups)
        return Multiples(
            found.numbers, largest=found.largest, zero=False, scale=torch.as_tensor(found.scale) * torch.nan
        )


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    Counted.calls.clear()


def logits(module: nn.Module) -> Tensor:
    with torch.no_grad():
        return module(input_ids=torch.arange(40)[None]).logits


CASES = [
    ("qwen2", {}),
    ("llama", {"use_rslora": True}),
    ("gpt2", {"fan_in_fan_out": True}),
    ("gemma2", {"rank_pattern": {"o_proj": 2}, "alpha_pattern": {"layers.1.self_attn.q_proj": 32}}),
    ("qwen2", {"use_dora": True}),
    ("gpt2", {"use_dora": True, "fan_in_fan_out": True}),
    ("qwen2", {"bias": "all"}),
    ("qwen2", {"bias": "lora_only", "use_rslora": True}),
    ("llama", {"modules_to_save": ["norm"]}),
    ("qwen2", {"modules_to_save": ["gate_proj", "input_layernorm"]}),
    ("gpt2", {"modules_to_save": ["c_fc"], "fan_in_fan_out": True}),
    ("qwen2", {"layers_to_transform": [1]}),
]


@pytest.mark.parametrize(("kind", "more"), CASES)
def test_merged_weights_are_those_of_peft(kind: str, more: dict[str, Any], tmp_path: Path) -> None:
    base = llm.base(kind)
    before = copy.deepcopy(base.module.state_dict())
    wrapped = llm.adapter(base, tmp_path / "checkpoint-7", 1, TARGETS[kind], **more)
    (found,) = adapters_in(tmp_path)
    assert found.step == 7
    working = Working(base, ["full"])
    working.checkpoint(found)
    module = working.variant("full")
    live = logits(wrapped)
    merged = wrapped.merge_and_unload()
    expected = merged.state_dict()
    state = module.state_dict()
    assert set(state) == set(expected)
    changed = 0
    for name, value in state.items():
        torch.testing.assert_close(value, expected[name], atol=1e-6, rtol=1e-6)
        changed += not torch.equal(value, before[name])
    assert changed >= 2
    torch.testing.assert_close(logits(module), live, atol=1e-4, rtol=1e-4)
    assert all(torch.equal(value, before[name]) for name, value in base.module.state_dict().items())
    working.checkpoint(None)
    back = working.variant("full").state_dict()
    assert all(torch.equal(value, before[name]) for name, value in back.items())


@pytest.mark.parametrize("kind", TARGETS)
def test_each_layer_is_merged_then_quantized_and_nothing_else_is(kind: str, tmp_path: Path) -> None:
    base = llm.base(kind)
    merged = llm.adapter(base, tmp_path, 1, TARGETS[kind]).merge_and_unload()
    working = Working(base, ["full", SPEC])
    working.checkpoint(adapters_in(tmp_path)[0])
    module = working.variant(SPEC)
    assert len(working.quantized) == {"gpt2": 8}.get(kind, 14)
    assert not any("head" in name or "embed" in name for name in working.quantized)
    assert {"model.embed_tokens.weight", "transformer.wte.weight"} & set(working.kept)
    for name, layer in merged.named_modules():
        if name in working.quantized:
            weight = layer.weight.data.T if kind == "gpt2" else layer.weight.data
            expected = quantize_layer(SPEC, weight.contiguous()).dense
            found = module.get_submodule(name).weight
            torch.testing.assert_close(found.T if kind == "gpt2" else found, expected, atol=1e-5, rtol=1e-5)
    kept = {name: value for name, value in module.named_parameters() if name in working.kept}
    assert set(kept) == set(working.kept)
    assert all(torch.equal(value, merged.get_parameter(name)) for name, value in kept.items())
    torch.testing.assert_close(logits(working.variant("full")), logits(merged), atol=1e-4, rtol=1e-4)


def test_an_adapter_over_a_quantized_base_is_its_own_variant(tmp_path: Path) -> None:
    base = llm.base()
    wrapped = llm.adapter(base, tmp_path, 1, TARGETS["qwen2"])
    over = f"adapter over {SPEC}"
    working = Working(base, [SPEC, over])
    working.checkpoint(adapters_in(tmp_path)[0])
    first = logits(working.variant(SPEC))
    found = logits(working.variant(over))
    for name in working.quantized:  # peft's own model with the base below its adapter quantized
        layer = wrapped.base_model.model.get_submodule(name)
        layer = getattr(layer, "base_layer", layer)
        layer.weight.data = quantize_layer(SPEC, layer.weight.data).dense
    torch.testing.assert_close(found, logits(wrapped), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(found, first, atol=1e-3)
    torch.testing.assert_close(logits(working.variant(SPEC)), first)
    working.checkpoint(None)
    torch.testing.assert_close(logits(working.variant(over)), logits(working.variant(SPEC)))


@pytest.mark.parametrize("kind", ["qwen2", "gpt2"])
def test_dora_over_a_quantized_base(kind: str, tmp_path: Path) -> None:
    base = llm.base(kind)
    wrapped = llm.adapter(base, tmp_path, 1, TARGETS[kind], use_dora=True, fan_in_fan_out=kind == "gpt2")
    over = f"adapter over {SPEC}"
    working = Working(base, [over])
    working.checkpoint(adapters_in(tmp_path)[0])
    found = logits(working.variant(over))
    for name in working.quantized:
        layer = wrapped.base_model.model.get_submodule(name)
        layer = getattr(layer, "base_layer", layer)
        weight = layer.weight.data
        flat = quantize_layer(SPEC, (weight.T if kind == "gpt2" else weight).contiguous()).dense
        layer.weight.data = flat.T.contiguous() if kind == "gpt2" else flat
    torch.testing.assert_close(found, logits(wrapped), atol=2e-4, rtol=2e-4)


def test_only_changed_layers_are_quantized_again(tmp_path: Path) -> None:
    base = llm.base()
    found = adapters_in(llm.run(base, tmp_path, 1, steps=4))  # q and v of both blocks: 4 of 14 layers
    over = f"adapter over {COUNTED}"
    working = Working(base, ["full", COUNTED, over])
    for adapter in found:
        working.checkpoint(adapter)
        working.variant(COUNTED)
    assert len(Counted.calls) == 14 + 3 * 4
    assert working.requantized == 14 + 3 * 4
    working.variant(COUNTED)
    assert len(Counted.calls) == 14 + 3 * 4
    Counted.calls.clear()
    for adapter in found:
        working.checkpoint(adapter)
        working.variant(over)
    assert len(Counted.calls) == 4  # the base's own q and v; the other layers hold the base already
    working.checkpoint(None)
    working.variant(COUNTED)
    assert len(Counted.calls) == 4


def test_equal_checkpoints_have_equal_fingerprints_and_others_do_not(tmp_path: Path) -> None:
    base = llm.base()
    llm.run(base, tmp_path, 1, steps=2)
    llm.adapter(base, tmp_path / "checkpoint-30", 101)  # as checkpoint-10
    one, two, again = adapters_in(tmp_path)
    assert (one.sha == again.sha, one.sha == two.sha) == (True, False)
    names = ["full", SPEC, f"adapter over {SPEC}"]
    working = Working(base, names)
    prints = {}
    for label, adapter in (("one", one), ("two", two), ("again", again), ("base", None)):
        working.checkpoint(adapter)
        for name in names:
            working.variant(name)
            prints[label, name] = working.fingerprint()
    for name in names:
        assert prints["one", name] == prints["again", name]
        assert len({prints[label, name] for label in ("one", "two", "base")}) == 3
    fresh = Working(base, names)
    fresh.checkpoint(two)
    fresh.variant(SPEC)
    assert fresh.fingerprint() == prints["two", SPEC]


def test_a_whole_model_as_a_checkpoint_is_as_its_adapter(tmp_path: Path) -> None:
    for kind in ("qwen2", "gpt2"):
        base, folder = llm.base(kind), tmp_path / kind
        merged = llm.adapter(base, folder / "lora/checkpoint-1", 3, TARGETS[kind]).merge_and_unload()
        with torch.no_grad():
            norm = next(value for name, value in merged.named_parameters() if "norm" in name or "ln" in name)
            norm.mul_(1.5)
        merged.save_pretrained(folder / "full/checkpoint-5")
        (found,) = adapters_in(folder / "full")
        assert (found.kind, found.step) == ("full", 5)
        working = Working(base, ["full", SPEC, f"adapter over {SPEC}"])
        working.checkpoint(found)
        torch.testing.assert_close(logits(working.variant("full")), logits(merged))
        opened = changes(found, base)
        assert len(opened.layers) == {"qwen2": 6, "gpt2": 6}[kind]
        assert len(opened.others) == 1
        calls = working.requantized
        working.variant(SPEC)
        assert working.requantized - calls == len(working.quantized)
        with pytest.raises(LanguageModelError, match="needs adapters, but this checkpoint is a whole model"):
            working.variant(f"adapter over {SPEC}")
        working.checkpoint(None)
        torch.testing.assert_close(logits(working.variant("full")), logits(base.module))


def test_tied_embeddings_of_a_whole_model_follow_it(tmp_path: Path) -> None:
    base = llm.base()
    other = copy.deepcopy(base.module)
    with torch.no_grad():
        other.get_input_embeddings().weight.add_(0.1)  # pyright: ignore
    other.save_pretrained(tmp_path / "checkpoint-1")  # pyright: ignore
    working = Working(base, ["full"])
    working.checkpoint(adapters_in(tmp_path)[0])
    torch.testing.assert_close(logits(working.variant("full")), logits(other))


def test_storage_counts_codes_and_what_is_kept(tmp_path: Path) -> None:
    base = llm.base()
    llm.adapter(base, tmp_path, 1)
    over = f"adapter over {SPEC}"
    working = Working(base, ["full", SPEC, over])
    working.checkpoint(adapters_in(tmp_path)[0])
    for name in ("full", SPEC, over):
        working.variant(name)
    whole = sum(value.nbytes for value in base.module.parameters())
    assert working.stored("full").bytes == whole
    weights = sum(base.module.get_submodule(name).weight.numel() for name in working.quantized)  # pyright: ignore
    found = working.stored(SPEC)
    assert found.weights == weights
    sizes = [
        quantize_layer(SPEC, base.module.get_submodule(name).weight.data).bytes  # pyright: ignore
        for name in working.quantized
    ]
    assert found.bits_per_weight == pytest.approx(8 * sum(sizes) / weights)
    assert found.bytes == whole - 4 * weights + sum(sizes)
    rank = 4 * 4 * (2 * (32 + 32) + 2 * (32 + 16))  # rank 4, float32; q is 32 to 32, v 32 to 16, two blocks
    assert working.stored(over).bytes == found.bytes + rank


@dataclass(frozen=True)
class Looking(Uniform):
    """A quantizer that looks at what goes into a layer, and keeps it."""

    granularity: str = "channel"
    seen: ClassVar[list[Tensor]] = []

    @property
    def needs_inputs(self) -> bool:
        return True

    def encode_layer(self, weight: Tensor, inputs: Tensor) -> Multiples:
        self.seen.append(inputs.clone())
        return self.encode(weight)


def test_inputs_are_those_of_the_blocks_before_quantized_already(tmp_path: Path) -> None:
    base = llm.base()
    merged = llm.adapter(base, tmp_path / "checkpoint-1", 1).merge_and_unload()
    llm.adapter(base, tmp_path / "checkpoint-2", 2)
    calibration = encode(llm.texts(10), base)
    looking = "tests.test_llm_working:Looking"
    with pytest.raises(ValueError, match="looks at what goes into each layer: give calibration texts"):
        Working(base, [looking])
    working = Working(base, ["full", looking], calibration, rows=50)
    one, two = adapters_in(tmp_path)
    working.checkpoint(one)
    Looking.seen.clear()
    working.variant(looking)
    assert {tuple(seen.shape) for seen in Looking.seen} == {(50, 32), (50, 48)}
    blocks = find_blocks(base.module)
    for name in blocks.layers[0]:
        layer = merged.get_submodule(name)
        layer.weight.data = quantize_layer("uniform(bits=4, granularity='channel')", layer.weight.data).dense
    given: list[Tensor] = []
    hook = merged.get_submodule(blocks.layers[1][0]).register_forward_pre_hook(
        lambda _, x: given.append(x[0][0])
    )
    for window in range(3):
        with torch.no_grad():
            merged(input_ids=torch.from_numpy(calibration.window(window))[None])
    hook.remove()
    torch.testing.assert_close(
        Looking.seen[7][: len(torch.cat(given))], torch.cat(given)[:50], atol=1e-4, rtol=1e-4
    )
    Looking.seen.clear()
    working.variant(looking)
    assert not Looking.seen
    working.checkpoint(two)
    working.variant(looking)
    assert len(Looking.seen) == 14


def test_a_quantizer_that_yields_nan_is_named_with_variant_and_layer(tmp_path: Path) -> None:
    base = llm.base()
    working = Working(base, ["full", "tests.test_llm_working:Broken"])
    where = r"variant 'tests.test_llm_working:Broken', layer 'model.layers.0.self_attn.q_proj'"
    with pytest.raises(QuantizerError, match=where):
        working.variant("tests.test_llm_working:Broken")
    torch.testing.assert_close(logits(working.variant("full")), logits(base.module))


def test_variants_that_cannot_be_are_refused_at_once() -> None:
    base = llm.base()
    for names, message in (
        ([], "variants: expected at least one"),
        (["full", "full"], "'full' is given twice"),
        (["sign"], "its groups span the whole model; add granularity="),
        (["adapter over ternary"], "its groups span the whole model"),
        (["hqqq(bits=4)"], "unknown quantizer 'hqqq'.*did you mean 'hqq'"),
        (["hqq(bits=5)"], "bits must be 1, 2, 3, 4 or 8, got 5"),
    ):
        with pytest.raises(ValueError, match=message):
            Working(base, names)
    with pytest.raises(ValueError, match=r"variant 'sign' was not announced; there are full"):
        Working(base, ["full"]).variant("sign")


def test_terms_of_tied_heads_are_refused(tmp_path: Path) -> None:
    base = llm.base()
    llm.adapter(base, tmp_path / "tied", 1, ["lm_head"])
    with pytest.raises(
        LanguageModelError, match=r"'lm_head', which in 'qwen2' is tied to 'model.embed_tokens'"
    ):
        changes(adapters_in(tmp_path / "tied")[0], base)
    free = llm.base(tied=False)
    merged = llm.adapter(free, tmp_path / "free", 1, ["lm_head", "q_proj"]).merge_and_unload()
    working = Working(free, ["full", SPEC])
    working.checkpoint(adapters_in(tmp_path / "free")[0])
    torch.testing.assert_close(logits(working.variant("full")), logits(merged), atol=1e-4, rtol=1e-4)
    assert torch.equal(working.variant(SPEC).get_submodule("lm_head").weight, merged.lm_head.weight)  # pyright: ignore


def test_half_precision_models_keep_their_type(tmp_path: Path) -> None:
    base = llm.of_module(llm.module().to(torch.bfloat16), llm.tokenizer(), "qwen2")
    llm.adapter(base, tmp_path, 1)
    working = Working(base, ["full", SPEC, f"adapter over {SPEC}"])
    working.checkpoint(adapters_in(tmp_path)[0])
    encoded = encode(llm.texts(4), base)
    for name in working.variants:
        module = working.variant(name)
        assert {value.dtype for value in module.parameters()} == {torch.bfloat16}
        assert np.isfinite(losses(module, encoded)).all()
