"""Eight bits, one scale per output channel: the weights of LLM.int8.

Dettmers et al., "LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale" (2022), section 3, by the package
``bitsandbytes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from discreet._types import Float
from discreet.quantizers._affine import Affine
from discreet.quantizers._fields import QuantizerError
from discreet.quantizers._library import Library

__all__ = ["Bnb8"]


@dataclass(frozen=True)
class Bnb8(Library):
    """What ``Linear8bitLt`` holds: 255 levels from minus to plus the largest magnitude of a row.

    It is a quantizer of weights alone. ``Linear8bitLt`` rounds its inputs to 8 bits as well, outliers apart: that is
    another quantizer, whose outputs differ a little from those of these weights. As there, weights are rounded to
    float16 first.

    Example:
        >>> Bnb8().levels
        255
    """

    package: ClassVar[str] = "bitsandbytes"

    @property
    def granularity(self) -> str:
        """One scale per row."""
        return "channel"

    @property
    def levels(self) -> int:
        """-127 to 127."""
        return 255

    def encode(self, groups: Float[Tensor, "group weight"]) -> Affine:
        """Codes and scales of each row, by ``bitsandbytes.functional.int8_vectorwise_quant``."""
        library = self.load("bitsandbytes.functional")
        half = groups.to(torch.float16)
        if not half.isfinite().all():
            largest = groups.abs().max().item()
            raise QuantizerError(
                f"{self}: bitsandbytes takes weights to float16, which ends at 65504; one has magnitude {largest:g}"
            )
        codes, scale, _ = library.int8_vectorwise_quant(half)
        # A row of zeros is divided by 0 there, and what a NaN is as a whole number is anyone's guess.
        codes = torch.where(scale[:, None] > 0, codes, 0)
        shifted = (codes.to(torch.int16) + 127).to(torch.uint8)
        # The library multiplies by its own constant for 1 / 127.
        return Affine(
            shifted,
            self.levels,
            groups.shape[1],
            scale[:, None],
            lowest=-127,
            factor=7.874015718698502e-3,
            dtype=groups.dtype,
        )
