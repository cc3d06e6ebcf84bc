"""A BERT pre-trained on reactions: Schwaller et al., "Mapping the space of chemical reactions using attention-based
neural networks" (2021), with the weights that the Python package ``rxnfp`` ships (MIT).

It was trained on reactions, not on single molecules: an embedder of molecules by transfer only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.data.package_files import package_folder, read_shipped
from discreet.data.samples import DataError
from discreet.embedders._protocol import EmbedderError

__all__ = ["Rxnfp"]

FILES = {
    "pytorch_model.bin": "5bb7f9f5831ec16a4b90545f95394853caf19ff9a8272291c86e0b231e0ff2ba",
    "vocab.txt": "399868a653e85549ce150af4a1f6cd2776240c6a3d951ced2120565f00f027fd",
}
_FOLDER = "models/transformers/bert_ft"
_ADVICE = "install it with: pip install --no-deps rxnfp==0.1.0"
_TOKEN = re.compile(
    r"\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9]"
)
_HEADS, _LONGEST, _BATCH = 4, 512, 64


@dataclass(frozen=True)
class Rxnfp:
    """The state of the first token of the fine-tuned model: 256 numbers.

    A SMILES of more than 510 tokens is cut there.
    """

    def embed(self, smiles: Sequence[str]) -> Float[np.ndarray, "molecule feature"]:
        """Embed in batches of like length."""
        import torch

        from discreet.embedders._bert import Bert

        try:
            vocabulary = read_shipped("rxnfp", f"{_FOLDER}/vocab.txt", FILES["vocab.txt"], _ADVICE)
            read_shipped("rxnfp", f"{_FOLDER}/pytorch_model.bin", FILES["pytorch_model.bin"], _ADVICE)
        except DataError as error:
            raise EmbedderError(str(error)) from None
        number = {token: at for at, token in enumerate(vocabulary.decode("utf-8").split("\n"))}
        path = package_folder("rxnfp", "weights", _ADVICE) / _FOLDER / "pytorch_model.bin"
        bert = Bert(torch.load(path, weights_only=True, map_location="cpu"), _HEADS)
        rows = [_numbers(text, number) for text in smiles]
        order = sorted(range(len(rows)), key=lambda at: len(rows[at]))
        out = np.empty((len(rows), 256), np.float32)
        with torch.inference_mode():
            for start in range(0, len(order), _BATCH):
                places = order[start : start + _BATCH]
                longest = len(rows[places[-1]])
                tokens = torch.full((len(places), longest), number["[PAD]"])
                for row, at in enumerate(places):
                    tokens[row, : len(rows[at])] = torch.tensor(rows[at])
                out[places] = bert.states(tokens, number["[PAD]"])[:, 0].numpy()
        return out


def _numbers(smiles: str, number: dict[str, int]) -> list[int]:
    tokens = [number.get(token, number["[UNK]"]) for token in _TOKEN.findall(smiles)][: _LONGEST - 2]
    return [number["[CLS]"], *tokens, number["[SEP]"]]
