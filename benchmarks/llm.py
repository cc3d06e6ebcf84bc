"""Language models: token signals against a plain forward pass, bucketing, trajectories of adapters, memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoModelForCausalLM, Qwen2Config

from discreet._spread import one_torch_thread
from discreet.llm import AdapterCheckpoint, LanguageModel, Working, adapters_in, losses, token_signals
from discreet.llm import tokens as llm_tokens
from discreet.llm.encoding import Encoded
from discreet.llm.tokens import BATCH_TOKENS, batches
from discreet.quantizers import quantize_layer
from tuning.rates import timed

QUANTIZER = "hqq(bits=4, group=64)"


def made(hidden: int = 512, layers: int = 6, vocabulary: int = 32_000) -> LanguageModel:
    """A random model in the shape of Qwen2."""
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=hidden * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    module = AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)
    return LanguageModel(module, None, f"{hidden} {layers} {vocabulary}", 1 << 15, "base")


def texts(lengths: np.ndarray, vocabulary: int = 32_000) -> Encoded:
    """Random tokens."""
    rng, count = np.random.default_rng(0), len(lengths)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    tokens = rng.integers(0, vocabulary, bounds[-1])
    return Encoded(np.arange(count), tokens, bounds, np.ones(count, int), np.arange(count), ("",) * count)


def plain(module: nn.Module, encoded: Encoded) -> None:
    """The model's own forward pass with its own loss, in the batches that the signals are measured in."""
    with torch.no_grad():
        for batch in batches(encoded.lengths, BATCH_TOKENS):
            ids, mask = llm_tokens._padded(encoded, batch, torch.device("cpu"))
            labels = ids if mask is None else ids.masked_fill(mask == 0, -100)
            module(input_ids=ids, attention_mask=mask, labels=labels)


def signals(model: LanguageModel) -> None:
    """Print what the signals cost beside the loss, for texts of one length and of mixed ones."""
    mixed = np.random.default_rng(1).lognormal(4.2, 0.7, 48).astype(int).clip(4, 512)
    for name, lengths in (("128 tokens each", np.full(32, 128)), ("4 to 512 tokens", mixed)):
        encoded = texts(lengths)
        took = [
            timed(work, 2)
            for work in (
                lambda encoded=encoded: plain(model.module, encoded),
                lambda encoded=encoded: token_signals(model, encoded),
                lambda encoded=encoded: losses(model, encoded),
            )
        ]
        print(
            f"token signals, {len(lengths)} texts of {name}: {took[1].core / took[0].core:.2f} times a forward pass"
            f" with loss by core time ({took[1].wall / took[0].wall:.2f} by the clock); losses alone"
            f" {took[2].core / took[0].core:.2f}; {encoded.offsets[-1] / took[1].wall:,.0f} tokens a second"
        )


def bucketing(model: LanguageModel) -> None:
    """Print what batches of like lengths save beside sixteen texts at a time as they come."""
    encoded = texts(np.random.default_rng(1).lognormal(4.2, 0.9, 96).astype(int).clip(4, 512))
    bucketed = timed(lambda: token_signals(model, encoded), 2)
    usual = llm_tokens.batches
    llm_tokens.batches = lambda lengths, size: np.split(np.arange(len(lengths)), len(lengths) // 16)
    try:
        arrival = timed(lambda: token_signals(model, encoded), 2)
    finally:
        llm_tokens.batches = usual
    print(
        f"96 texts of 4 to 512 tokens, batches by length: {arrival.core / bucketed.core:.2f} times faster than 16 at"
        f" a time in the order of arrival ({arrival.wall / bucketed.wall:.2f} by the clock)"
    )


def adapters(
    model: LanguageModel, folder: Path, steps: int, targets: tuple[str, ...]
) -> tuple[AdapterCheckpoint, ...]:
    """Random LoRA adapters of rank 16, as peft lays them out."""
    torch.manual_seed(1)
    for step in range(1, steps + 1):
        path = folder / f"checkpoint-{step}"
        path.mkdir(parents=True)
        state = {}
        for name, layer in model.module.named_modules():
            if isinstance(layer, nn.Linear) and name.split(".")[-1] in targets:
                state[f"base_model.model.{name}.lora_A.weight"] = torch.randn(16, layer.in_features) / 100
                state[f"base_model.model.{name}.lora_B.weight"] = torch.randn(layer.out_features, 16) / 100
        save_file(state, path / "adapter_model.safetensors")
        config = {"peft_type": "LORA", "r": 16, "lora_alpha": 32}
        (path / "adapter_config.json").write_text(json.dumps(config))
    return adapters_in(folder)


def requantizing(model: LanguageModel, steps: int = 8) -> None:
    """Print what quantizing a trajectory costs beside quantizing each of its checkpoints anew."""
    for targets in (("q_proj", "v_proj"), ("q_proj", "k_proj", "v_proj", "o_proj")):
        with tempfile.TemporaryDirectory() as folder:
            found = adapters(model, Path(folder), steps, targets)
            whole = timed(lambda: Working(model, [QUANTIZER]).variant(QUANTIZER), 1)
            took = timed(lambda found=found: _trajectory(model, found), 1)
        sizes = {
            name: layer.weight.numel()
            for name, layer in model.module.named_modules()
            if isinstance(layer, nn.Linear) and "lm_head" not in name
        }
        share = sum(size for name, size in sizes.items() if name.split(".")[-1] in targets) / sum(
            sizes.values()
        )
        expected = (1 + (steps - 1) * share) / steps
        print(
            f"{QUANTIZER} of {steps} checkpoints, adapters on {', '.join(targets)} ({share:.0%} of the quantized"
            f" weights): {took.core / (steps * whole.core):.2f} of {steps} full quantizations (the changed share is"
            f" {expected:.2f})"
        )


def _trajectory(model: LanguageModel, found: tuple[AdapterCheckpoint, ...]) -> None:
    working = Working(model, [QUANTIZER])
    for adapter in found:
        working.checkpoint(adapter)
        working.variant(QUANTIZER)


def memory(folder: Path) -> None:
    """Print the peak of a process that quantizes and measures; it is a process of its own."""
    quantize_layer(QUANTIZER, torch.randn(64, 64))  # loads the library
    start = peak()
    model = made(1024, 8)
    size = sum(value.nbytes for value in model.module.parameters()) / 2**20
    names = ["full", "uniform(bits=4, granularity='channel')", QUANTIZER, f"adapter over {QUANTIZER}"]
    working, encoded, most = Working(model, names), texts(np.full(4, 64)), {}
    for name in names:
        for adapter in adapters_in(folder):
            working.checkpoint(adapter)
            token_signals(working.variant(name), encoded)
        most[name] = (peak() - start) / size
    layer = max(model.module.get_parameter(f"{name}.weight").nbytes for name in working.quantized) / 2**20
    print(
        f"memory: a model of {size:.0f} MiB (largest layer {layer:.0f} MiB) beside libraries of {start:.0f} MiB, 2"
        f" checkpoints: peak of {most[names[1]]:.2f} models with uniform, {most[QUANTIZER]:.2f} with hqq,"
        f" {most[names[-1]]:.2f} in the end"
    )


def peak() -> float:
    """The most memory that this program has held, in MiB; the system's own count begins before the program."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Print the ratios."""
    if len(sys.argv) > 1:
        with one_torch_thread():
            memory(Path(sys.argv[1]))
        return
    with one_torch_thread():
        model = made()
        signals(model)
        bucketing(model)
        requantizing(model)
        with tempfile.TemporaryDirectory() as folder:
            adapters(made(1024, 8), Path(folder), 2, ("q_proj", "v_proj"))
            subprocess.run([sys.executable, __file__, folder], check=True)


if __name__ == "__main__":
    main()
