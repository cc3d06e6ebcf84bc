"""BERT and RoBERTa as section 5.1 of "Safety and Performance, Why not Both?" (2022) uses them: from a local folder.

A folder holds what ``save_pretrained`` of a model and its tokenizer write (``config.json``, ``model.safetensors``,
``tokenizer.json``). Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Float, Int
from discreet.data.samples import DataError

__all__ = ["Pretrained", "numbered"]


def numbered(folder: str | Path, texts: Sequence[str], length: int) -> Int[np.ndarray, "text place"]:
    """Token numbers of texts, cut or filled to one length, by the tokenizer of a folder.

    Raises:
        DataError: There is no tokenizer, or one without a token to fill with.
        ModuleNotFoundError: tokenizers is not installed (the extra ``llm``).
    """
    from tokenizers import Tokenizer

    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        raise DataError(f"{path}: no tokenizer there; save the model and its fast tokenizer into {folder}")
    tokenizer = Tokenizer.from_file(str(path))
    pad = _config(folder).pad_token_id
    tokenizer.enable_truncation(length)
    tokenizer.no_padding()
    rows = np.full((len(texts), length), pad, np.int64)
    for row, told in zip(rows, tokenizer.encode_batch(list(texts)), strict=True):
        row[: len(told.ids)] = told.ids
    return rows


class Pretrained(nn.Module):
    """A pretrained encoder with a fresh layer that sorts texts.

    Args:
        folder: Where it is.
        classes: Of the answer.
        share: Of its blocks that are kept, the first ones: a student of distillation.
    """

    def __init__(self, folder: str | Path, classes: int, share: float = 1.0) -> None:
        from transformers import AutoModelForSequenceClassification

        super().__init__()
        config = _config(folder)
        config.num_labels = classes
        config.num_hidden_layers = max(1, int(share * config.num_hidden_layers))
        self.pad = config.pad_token_id
        self.body = AutoModelForSequenceClassification.from_pretrained(
            folder, config=config, local_files_only=True, attn_implementation="eager", use_safetensors=True
        )

    def forward(self, x: Int[Tensor, "text place"]) -> Float[Tensor, "text class"]:
        """Logits; places where a text has ended are not looked at."""
        return self.body(input_ids=x, attention_mask=(x != self.pad).to(torch.int64)).logits


def _config(folder: str | Path) -> Any:
    from transformers import AutoConfig

    if not (Path(folder) / "config.json").is_file():
        raise DataError(f"{folder}: no pretrained model there; save one with save_pretrained into it")
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    if config.pad_token_id is None:
        raise DataError(f"{folder}: the model has no token to fill short texts with")
    return config
