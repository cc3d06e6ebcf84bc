"""Tiny language models, a tokenizer trained on the spot, and adapters, for the tests of ``discreet.llm``."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn
from transformers import (
    CohereConfig,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

from discreet.llm import LanguageModel, Texts, of_module

WORDS = [
    "ethanol",
    "benzene",
    "CC(=O)O",
    "c1ccccc1",
    "naphthalene",
    "is",
    "the",
    "name",
    "of",
    "Paris",
    "größer",
    "12",
]
SENTENCES = tuple(
    " ".join(WORDS[(i * k + k) % len(WORDS)] for k in range(1, 3 + (i * 7) % 23)) + "." for i in range(40)
)
ARCHITECTURES = ("qwen2", "llama", "gpt2", "gemma2", "cohere")
CONTEXT = 64


@functools.cache
def tokenizer(bos: bool = False, template: bool = False) -> PreTrainedTokenizerFast:
    """Byte-level BPE of 384 tokens, without a pad token."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=384,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(SENTENCES, trainer)
    if bos:
        made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    fast = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")
    if template:
        fast.chat_template = (
            "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
            "{% if add_generation_prompt %}<s>assistant: {% endif %}"
        )
    return fast


def module(kind: str = "qwen2", seed: int = 0, tied: bool = True, **more: Any) -> nn.Module:
    """A random model of two blocks; weights are large enough for peaked distributions."""
    from transformers import AutoModelForCausalLM

    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    size |= {"num_key_value_heads": 2, "vocab_size": 384, "max_position_embeddings": CONTEXT}
    configs: dict[str, Any] = {
        "qwen2": lambda: Qwen2Config(**size, tie_word_embeddings=tied, **more),
        "llama": lambda: LlamaConfig(**size, tie_word_embeddings=tied, **more),
        "gemma2": lambda: Gemma2Config(
            **size, head_dim=8, final_logit_softcapping=3.0, sliding_window=16, **more
        ),
        "cohere": lambda: CohereConfig(**size, logit_scale=0.25, **more),
        "gpt2": lambda: GPT2Config(
            vocab_size=384, n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=4, **more
        ),
    }
    torch.manual_seed(seed)
    config = configs[kind]()
    config.pad_token_id = None
    made = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, value in made.named_parameters():
            value.copy_(
                torch.randn(value.shape) * (0.3 if value.ndim > 1 else 0.1) + ("norm" in name or "ln" in name)
            )
    return made


def base(kind: str = "qwen2", *, bos: bool = False, template: bool = False, **more: Any) -> LanguageModel:
    """A base with its tokenizer."""
    return of_module(module(kind, **more), tokenizer(bos, template), kind)


def texts(count: int = 12, *, prompts: bool = False) -> Texts:
    """Texts of mixed length."""
    chosen = SENTENCES[:count]
    asked = [f"What is {WORDS[i % len(WORDS)]}? " if prompts else "" for i in range(count)]
    return Texts.of(chosen, asked, [f"t{i}" for i in range(count)])


def adapter(
    model: LanguageModel, folder: Path, seed: int, targets: Sequence[str] = ("q_proj", "v_proj"), **more: Any
) -> Any:
    """Save a random LoRA adapter of peft, and return peft's own model (a copy of the base in it)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(r=4, lora_alpha=8, target_modules=list(targets), task_type="CAUSAL_LM", **more)
        torch.manual_seed(seed)
        wrapped = get_peft_model(copy.deepcopy(model.module), config)
        with torch.no_grad():
            for name, value in wrapped.named_parameters():
                if value.requires_grad:
                    value.add_(torch.randn(value.shape) * (0.1 if "lora" in name else 0.05))
        wrapped.save_pretrained(folder)
    return wrapped.eval()


def run(model: LanguageModel, folder: Path, seed: int, steps: int = 3, **more: Any) -> Path:
    """A Trainer's output folder of adapters."""
    for step in range(1, steps + 1):
        adapter(model, folder / f"checkpoint-{10 * step}", 100 * seed + step, **more)
    return folder
