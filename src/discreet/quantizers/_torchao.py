"""Integer weights as ``torchao`` makes them of a Linear layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from discreet._types import Float
from discreet.quantizers._affine import Affine
from discreet.quantizers._library import Library

__all__ = ["encode"]


def encode(
    library: Library, config: Any, groups: Float[Tensor, "group weight"], bits: int, zero: bool
) -> Affine:
    """Codes, scales and zeros of rows, each with its own.

    Args:
        library: The quantizer.
        config: Configuration for ``torchao.quantization.quantize_``, by row.
        groups: The rows.
        bits: Bits of a code.
        zero: Whether rows have zeros of their own.
    """
    layer = nn.Linear(groups.shape[1], len(groups), bias=False, device="meta")
    layer.weight = nn.Parameter(groups.to(torch.float32), requires_grad=False)
    library.load("torchao.quantization").quantize_(layer, config)
    made: Any = layer.weight
    lowest = -(2 ** (bits - 1))
    codes = (made.qdata.to(torch.int16) - lowest).to(torch.uint8)
    zeros = made.zero_point.reshape(-1, 1) if zero else None
    return Affine(
        codes, 2**bits, groups.shape[1], made.scale.reshape(-1, 1), zeros, lowest=lowest, dtype=groups.dtype
    )
