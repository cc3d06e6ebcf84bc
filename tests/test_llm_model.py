"""Models that are read from folders, known by their content, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from discreet.llm import LanguageModelError, encode, load, losses
from discreet.llm._hash import module_hash, safetensors_hash
from tests import llm


def saved(folder: Path, **more: Any) -> Any:
    base = llm.base(**more)
    base.module.save_pretrained(folder)  # pyright: ignore
    base.tokenizer.save_pretrained(folder)
    return base


def test_a_saved_model_is_loaded_and_known_by_its_content(tmp_path: Path) -> None:
    base = saved(tmp_path / "m")
    found = load(tmp_path / "m")
    assert found.tokenizer("größer 12  is")["input_ids"] == base.tokenizer("größer 12  is")["input_ids"]
    assert (found.name, found.context, found.sha, found.weights) == ("m", llm.CONTEXT, base.sha, base.weights)
    assert not found.module.training
    assert not any(value.requires_grad for value in found.module.parameters())
    encoded = encode(llm.texts(4), found)
    np.testing.assert_allclose(losses(found, encoded), losses(base, encoded), atol=1e-6)
    base.module.save_pretrained(tmp_path / "m2", max_shard_size="20KB")
    assert len(list((tmp_path / "m2").glob("*.safetensors"))) > 2
    assert safetensors_hash(sorted((tmp_path / "m2").glob("*.safetensors"))) == module_hash(base.module)
    half = load(tmp_path / "m", dtype="bfloat16", name="hub/m")
    assert {value.dtype for value in half.module.parameters()} == {torch.bfloat16}
    assert (half.name, half.weights) == ("hub/m", base.weights)
    other = saved(tmp_path / "n", seed=1)
    assert other.sha != base.sha
    assert llm.base(bos=True).sha != base.sha  # another tokenizer
    assert llm.base(bos=True).weights == base.weights


def test_models_that_cannot_be_loaded_say_why(tmp_path: Path) -> None:
    saved(tmp_path / "m")
    (tmp_path / "empty").mkdir()
    weights = tmp_path / "m/model.safetensors"
    for source, more, message in (
        (tmp_path / "none", {}, r"none': there is no such folder, and it is no hub id"),
        (
            "owner/name",
            {},
            r"'owner/name': no such folder, and the hub gave nothing .* Download config.json, every \*.safe",
        ),
        (tmp_path / "empty", {}, r"empty: no weights: expected \*.safetensors files or one .gguf file"),
        (tmp_path / "m", {"dtype": "int8"}, r"dtype: expected one of float32, .*, got 'int8'"),
    ):
        with pytest.raises(LanguageModelError, match=message):
            load(source, **more)
    from safetensors.torch import load_file, save_file

    state = load_file(weights)
    save_file({k: v for k, v in state.items() if "layers.1.mlp.up" not in k}, weights, {"format": "pt"})
    with pytest.raises(
        LanguageModelError, match=r"1 weights are missing, first model.layers.1.mlp.up_proj.weight"
    ):
        load(tmp_path / "m")
    whole = weights.read_bytes()
    weights.write_bytes(whole[:3000])
    with pytest.raises(LanguageModelError, match=r"m: cannot be loaded: .*not fully covered"):
        load(tmp_path / "m")
    weights.write_bytes(whole)
    saved(tmp_path / "mute")
    for path in (tmp_path / "mute").glob("tokenizer*"):
        path.unlink()
    with pytest.raises(LanguageModelError, match=r"mute: no tokenizer: expected tokenizer.json"):
        load(tmp_path / "mute")
    weights.rename(weights.with_name("pytorch_model.bin"))
    with pytest.raises(
        LanguageModelError, match=r"pytorch_model.bin is pickled, which can run code, and is not read"
    ):
        load(tmp_path / "m")
    weights.with_name("adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(LanguageModelError, match=r"this is an adapter without its base"):
        load(tmp_path / "m")
    for name in "ab":
        (tmp_path / f"empty/{name}.gguf").write_bytes(b"")
    with pytest.raises(LanguageModelError, match=r"expected one .gguf file, got 2"):
        load(tmp_path / "empty")


def test_a_models_own_code_is_not_run_unless_trusted(tmp_path: Path) -> None:
    saved(tmp_path / "m")
    config = json.loads((tmp_path / "m/config.json").read_text())
    config |= {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "mine.Mine", "AutoModelForCausalLM": "mine.Model"},
    }
    (tmp_path / "m/config.json").write_text(json.dumps(config))
    (tmp_path / "m/mine.py").write_text("raise SystemExit('ran')\n")
    with pytest.raises(LanguageModelError, match=r"comes with Python code of its own, which is not run"):
        load(tmp_path / "m")


def test_quantized_models_and_other_modules_are_refused(tmp_path: Path) -> None:
    saved(tmp_path / "m")
    config = json.loads((tmp_path / "m/config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
    (tmp_path / "m/config.json").write_text(json.dumps(config))
    with pytest.raises(LanguageModelError, match="the model is quantized already"):
        load(tmp_path / "m")
    with pytest.raises(
        LanguageModelError, match="expected a causal language model of transformers, got Linear"
    ):
        llm.of_module(torch.nn.Linear(2, 2), llm.tokenizer())


def gguf_file(folder: Path) -> Path:
    """A tiny Llama as llama.cpp stores it."""
    import gguf

    tokenizer = json.loads(llm.tokenizer().backend_tokenizer.to_str())["model"]
    vocabulary = sorted(tokenizer["vocab"], key=tokenizer["vocab"].get)
    folder.mkdir()
    writer = gguf.GGUFWriter(folder / "tiny.gguf", "llama")
    writer.add_block_count(1)
    writer.add_context_length(32)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(vocabulary))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([3, 3] + [1] * (len(vocabulary) - 2))
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    rng = np.random.default_rng(0)
    shapes = {"attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32), "attn_output": (32, 32)}
    shapes |= {"ffn_gate": (64, 32), "ffn_up": (64, 32), "ffn_down": (32, 64)}
    for name, shape in shapes.items():
        values = rng.normal(size=shape).astype(np.float32) / 5
        kind = gguf.GGMLQuantizationType.Q4_1
        writer.add_tensor(f"blk.0.{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(32, np.float32))
    writer.add_tensor("token_embd.weight", rng.normal(size=(len(vocabulary), 32)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder


def test_a_gguf_file_becomes_an_ordinary_model(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    folder = gguf_file(tmp_path / "g")
    found = load(folder)
    own = AutoModelForCausalLM.from_pretrained(folder, gguf_file="tiny.gguf", dtype=torch.float32).eval()
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert torch.equal(found.module(input_ids=ids).logits, own(input_ids=ids).logits)
    assert (found.context, found.name) == (32, "g")
    assert getattr(found.module.config, "quantization_config", None) is None
    found.module.save_pretrained(tmp_path / "plain")  # pyright: ignore  # what the loaded one refuses
    assert losses(found, encode(llm.texts(3), found)).shape == (3,)
