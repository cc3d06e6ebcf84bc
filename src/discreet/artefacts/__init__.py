"""Files that ship: sparse containers, plain safetensors, ONNX; what each takes, how fast it runs, what it changes."""

from __future__ import annotations

from discreet.artefacts._errors import ArtefactError
from discreet.artefacts.csr import CsrLinear, Swap, Swapped, csr_linears
from discreet.artefacts.dense import save_dense
from discreet.artefacts.latency import Latency, latency
from discreet.artefacts.narrow import Narrowed, narrow
from discreet.artefacts.onnx_file import OnnxFile, OnnxModel, load_onnx, save_onnx
from discreet.artefacts.quantized import (
    SparseQuantized,
    load_quantized,
    quantize_sparse,
    quantize_sparse_stack,
)
from discreet.artefacts.sparse import Saved, load_masks, load_sparse, save_sparse

__all__ = [
    "ArtefactError",
    "CsrLinear",
    "Latency",
    "Narrowed",
    "OnnxFile",
    "OnnxModel",
    "Saved",
    "SparseQuantized",
    "Swap",
    "Swapped",
    "csr_linears",
    "latency",
    "load_masks",
    "load_onnx",
    "load_quantized",
    "load_sparse",
    "narrow",
    "quantize_sparse",
    "quantize_sparse_stack",
    "save_dense",
    "save_onnx",
    "save_sparse",
]
