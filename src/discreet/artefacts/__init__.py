"""Files that ship: sparse containers, plain safetensors, ONNX; what each takes, how fast it runs, what it changes."""

from __future__ import annotations

from discreet.artefacts._errors import ArtefactError
from discreet.artefacts.sparse import Saved, load_masks, load_sparse, save_sparse

__all__ = [
    "ArtefactError",
    "Saved",
    "load_masks",
    "load_sparse",
    "save_sparse",
]
