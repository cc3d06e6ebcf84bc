"""Half-quadratic quantization: a zero and a scale per group, the zero fitted to the weights, no data.

Badri and Shaji, "Half-Quadratic Quantization of Large Machine Learning Models" (2023), by the package ``hqq``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from discreet._types import Float
from discreet.quantizers._affine import Affine
from discreet.quantizers._fields import QuantizerError, one_of, whole
from discreet.quantizers._library import Library, one_thread

__all__ = ["Hqq"]

_BITS = (1, 2, 3, 4, 8)


@dataclass(frozen=True)
class Hqq(Library):
    """What ``HQQLinear`` with ``BaseQuantizeConfig(nbits=bits, group_size=group, axis=1)`` holds.

    Groups are runs of weights of a tensor. The solver stops when the mean error over the whole tensor no longer
    falls, so a group depends on the others: each tensor is one call. It runs on the processor in float32, with one
    thread: on a GPU the library solves in half precision and finds other zeros. Weights of more than float32 are
    rounded to it first.

    Attributes:
        bits: Bits of a code, one of 1, 2, 3, 4, 8.
        group: Weights that share a scale and a zero, a multiple of 8 that divides the number of weights.
        numbers: Type in which scales and zeros are stored and weights computed, the library's ``compute_dtype``:
            ``"float32"``, ``"bfloat16"`` or ``"float16"``.

    Example:
        >>> Hqq(bits=4, group=64).levels
        16
    """

    bits: int = 4
    group: int = 64
    numbers: str = field(default="float32", kw_only=True)

    package: ClassVar[str] = "hqq"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("bits", self.bits, _BITS)
        whole("group", self.group, 8, 2**20)
        if self.group % 8:
            raise QuantizerError(f"group must be a multiple of 8, got {self.group}")
        one_of("numbers", self.numbers, ("float32", "bfloat16", "float16"))

    @property
    def granularity(self) -> str:
        """One tensor to a call."""
        return "tensor"

    @property
    def run(self) -> int:
        """Weights of a tensor that share their levels."""
        return self.group

    @property
    def levels(self) -> int:
        """2^bits in each group."""
        return 2**self.bits

    def why_not(self, shape: tuple[int, ...]) -> str | None:
        """Groups must divide the tensor."""
        count = torch.Size(shape).numel()
        if count % self.group == 0:
            return None
        fits = [size for size in (8, 16, 32, 64, 128, 256) if count % size == 0]
        would = f"these groups would: {', '.join(map(str, fits))}" if fits else "no multiple of 8 does"
        return f"groups of {self.group} do not divide its {count} weights; {would}"

    def encode(self, groups: Float[Tensor, "group weight"]) -> Affine:
        """Codes, scales and zeros of each tensor, by ``hqq.core.quantize.Quantizer``."""
        library = self.load("hqq.core.quantize").Quantizer
        kind = getattr(torch, self.numbers)
        codes = torch.empty(groups.shape, dtype=torch.uint8, device=groups.device)
        scales, zeros = [], []
        for row, tensor in enumerate(groups):
            with one_thread():
                made, meta = library.quantize(
                    tensor.to("cpu", torch.float32)[None],
                    nbits=self.bits,
                    channel_wise=True,
                    group_size=self.group,
                    round_zero=self.bits == 4,
                    axis=1,
                    device="cpu",
                    bitpack=False,
                )
            codes[row] = made.reshape(-1)
            scales.append(meta["scale"].reshape(-1))
            zeros.append(meta["zero"].reshape(-1))
        scale, zero = (torch.stack(each).to(groups.device, kind) for each in (scales, zeros))
        return Affine(codes, self.levels, self.group, scale, zero, dtype=groups.dtype)
