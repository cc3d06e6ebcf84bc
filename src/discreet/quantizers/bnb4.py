"""Four bits by a table of 16 levels, normal float or float, scaled by the largest weight of a block.

Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs" (2023), section 3, by the package ``bitsandbytes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from discreet._types import Float
from discreet.quantizers._affine import Affine
from discreet.quantizers._fields import one_of
from discreet.quantizers._library import Library

__all__ = ["Bnb4"]

_BLOCKS = (32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class Bnb4(Library):
    """What ``Linear4bit`` without double quantization holds.

    Blocks are runs of weights of a tensor, the last one shorter where they do not divide. Scales are float32, so
    blocks of 64 take 4.5 bits a weight. Weights of more than float32 are rounded to it first. These are the weights
    that the stored codes and scales stand for. On some processors the library's own kernels return others: in
    evaluation ``Linear4bit`` may compute in bfloat16, and ``dequantize_4bit`` of 0.50.2 with AVX512 takes scales of
    other blocks where blocks cross the ends of rows.

    Attributes:
        kind: ``"nf4"``, levels at quantiles of a normal distribution, or ``"fp4"``, a sign, two bits of exponent
            and one of mantissa.
        block: Weights that share a scale: 32, 64, 128, 256, 512, 1024, 2048 or 4096.

    Example:
        >>> str(Bnb4())
        "bnb4(kind='nf4', block=64)"
    """

    kind: str = "nf4"
    block: int = 64

    package: ClassVar[str] = "bitsandbytes"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("kind", self.kind, ("nf4", "fp4"))
        one_of("block", self.block, _BLOCKS)

    @property
    def granularity(self) -> str:
        """One tensor to a call."""
        return "tensor"

    @property
    def run(self) -> int:
        """Weights of a tensor that share their levels."""
        return self.block

    @property
    def levels(self) -> int:
        """16 in each block."""
        return 16

    def encode(self, groups: Float[Tensor, "group weight"]) -> Affine:
        """Codes and scales of each tensor, by ``bitsandbytes.functional.quantize_4bit``."""
        library = self.load("bitsandbytes.functional")
        size = groups.shape[1]
        codes = torch.empty(groups.shape, dtype=torch.uint8, device=groups.device)
        scales = []
        table = library.get_4bit_type(self.kind, device=groups.device)
        for row, tensor in enumerate(groups):
            packed, state = library.quantize_4bit(
                tensor.float()[None], blocksize=self.block, quant_type=self.kind
            )
            pair = packed.reshape(-1)
            codes[row] = torch.stack([pair >> 4, pair & 15], dim=1).reshape(-1)[:size]
            scales.append(state.absmax)
        return Affine(codes, 16, self.block, torch.stack(scales), table=table, dtype=groups.dtype)
