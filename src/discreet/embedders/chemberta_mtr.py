"""ChemBERTa-2 MTR: Ahmad et al., "ChemBERTa-2: Towards Chemical Foundation Models" (2022); a folder of the user.

Needs ``transformers`` and a local copy of the model (``DeepChem/ChemBERTa-77M-MTR``); nothing is downloaded.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet._types import Float
from discreet.embedders._protocol import EmbedderError

__all__ = ["ChembertaMtr"]

_GET = "name a local copy of DeepChem/ChemBERTa-77M-MTR: chemberta_mtr(folder='PATH')"
_BATCH = 64


@dataclass(frozen=True)
class ChembertaMtr:
    """States of the last layer, of the first token or their mean over tokens (384 numbers).

    Attributes:
        folder: The user's copy: configuration, tokenizer and weights as safetensors.
        pooling: ``"first"`` or ``"mean"``; the paper does not say which it took.

    Raises:
        ValueError: Another pooling.
    """

    folder: str = ""
    pooling: str = "first"

    def __post_init__(self) -> None:
        if self.pooling not in ("first", "mean"):
            raise ValueError(f"pooling: expected first or mean, got {self.pooling!r}")

    def embed(self, smiles: Sequence[str]) -> Float[np.ndarray, "molecule feature"]:
        """Embed in batches, long SMILES cut where the model's positions end."""
        import torch

        tokenizer, model = self._loaded()
        longest = min(int(model.config.max_position_embeddings) - 2, 512)
        rows = []
        with torch.inference_mode():
            for start in range(0, len(smiles), _BATCH):
                given = tokenizer(
                    list(smiles[start : start + _BATCH]),
                    padding=True,
                    truncation=True,
                    max_length=longest,
                    return_tensors="pt",
                )
                states = model(**given).last_hidden_state
                seen = given["attention_mask"][..., None]
                mean = (states * seen).sum(1) / seen.sum(1)
                rows.append((states[:, 0] if self.pooling == "first" else mean).numpy())
        return np.concatenate(rows)

    def _loaded(self) -> tuple[Any, Any]:
        if not self.folder:
            raise EmbedderError(f"folder: none given; {_GET}")
        if not (Path(self.folder) / "config.json").is_file():
            raise EmbedderError(f"folder: {self.folder} holds no config.json; {_GET}")
        try:
            transformers = importlib.import_module("transformers")
        except ImportError:
            raise EmbedderError(
                "the package transformers, which runs ChemBERTa, is not installed; pip install transformers"
            ) from None
        try:
            return (
                transformers.AutoTokenizer.from_pretrained(self.folder, local_files_only=True),
                transformers.AutoModel.from_pretrained(
                    self.folder, local_files_only=True, use_safetensors=True
                ).eval(),
            )
        except (OSError, ValueError) as error:
            raise EmbedderError(f"folder: {self.folder} does not load ({error}); {_GET}") from None
