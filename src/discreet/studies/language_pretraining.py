"""A small model of Qwen2's architecture with its tokenizer, trained from nothing on texts that serve nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet._quiet import quiet_transformers
from discreet.model_seeds import init_seed, stream

__all__ = ["ARCHITECTURE", "batches", "pad", "pretrain"]

ARCHITECTURE: dict[str, Any] = {
    "vocab_size": 1024,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
"""0.92 million parameters; everything else as Qwen2 has it."""

END = "<|endoftext|>"
_LR, _BATCH = 3e-3, 64
_MODEL = 1 << 20  # a model id that no run has


def pretrain(
    texts: Sequence[str],
    folder: Path,
    *,
    passes: int,
    length: int,
    seed: int,
    on_step: Callable[[float], None] = lambda share: None,
) -> None:
    """Train a byte-level BPE tokenizer and a model, and save both as ``transformers`` does.

    Args:
        texts: Whole texts; longer ones are cut at ``length`` tokens.
        folder: Where to.
        passes: Over the texts.
        length: Tokens that the model takes.
        seed: Of the initial weights and the order of the texts.
        on_step: Called with the share that is done; what it raises ends the training.
    """
    with quiet_transformers():
        from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokenizer = _tokenizer(texts)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, bos_token=END).save_pretrained(folder)
    end = tokenizer.token_to_id(END)
    ids = [[*each.ids[: length - 1], end] for each in tokenizer.encode_batch(list(texts))]
    torch.manual_seed(init_seed(seed, _MODEL))
    model = Qwen2ForCausalLM(
        Qwen2Config(**ARCHITECTURE, max_position_embeddings=length, bos_token_id=end, eos_token_id=end)
    )
    steps = passes * -(-len(ids) // _BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LR, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LR, total_steps=steps + 1, pct_start=0.05)
    model.train()
    order = batches(ids, _BATCH, steps, stream(seed, _MODEL, 2))
    for step, chosen in enumerate(order, 1):
        loss_of(model, [ids[i] for i in chosen], [1] * len(chosen)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        on_step(step / steps)
    with quiet_transformers():
        model.eval().save_pretrained(folder, safe_serialization=True)


def batches(
    ids: Sequence[Sequence[int]], size: int, steps: int, generator: np.random.Generator
) -> Iterator[np.ndarray]:
    """Draw the texts of each step, pass after pass; those of one step have similar lengths.

    A pass is shuffled, then sorted by length within stretches of 16 batches, and its batches are shuffled.
    """
    lengths = np.array([len(each) for each in ids])
    done = 0
    while done < steps:
        order = generator.permutation(len(ids))
        stretches = np.split(order, range(16 * size, len(order), 16 * size))
        order = np.concatenate([each[np.argsort(lengths[each], kind="stable")] for each in stretches])
        whole = np.split(order, range(size, len(order), size))
        for number in generator.permutation(len(whole)):
            if done < steps:
                done += 1
                yield whole[number]


def loss_of(model: nn.Module, ids: Sequence[Sequence[int]], first: Sequence[int]) -> Tensor:
    """Mean loss of the tokens of a batch, in nats; those before place ``first`` of a text do not count."""
    device = next(model.parameters()).device
    tokens, mask = (each.to(device) for each in pad(ids))
    logits = model(input_ids=tokens, attention_mask=mask).logits[:, :-1]
    place = torch.arange(1, tokens.shape[1], device=device)
    counted = (mask[:, 1:] > 0) & (place[None] >= torch.tensor(first, device=device)[:, None])
    target = tokens[:, 1:].masked_fill(~counted, -100)
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), target.flatten())


def pad(ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Texts as one array, filled up at the end, and a mask of what is no filling."""
    longest = max(map(len, ids))
    tokens, mask = (np.zeros((len(ids), longest), np.int64) for _ in range(2))
    for row, each in enumerate(ids):
        tokens[row, : len(each)], mask[row, : len(each)] = each, 1
    return torch.from_numpy(tokens), torch.from_numpy(mask)


def _tokenizer(texts: Sequence[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=ARCHITECTURE["vocab_size"],
        initial_alphabet=alphabet,
        special_tokens=[END],
        show_progress=False,
    )
    found.train_from_iterator(texts, trainer)
    return found
