"""Two to eight bits (one, with a zero) by group, rounded to the nearest: ``torchao``'s ``IntxWeightOnlyConfig``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from discreet._types import Float
from discreet.quantizers import _torchao
from discreet.quantizers._affine import Affine
from discreet.quantizers._fields import QuantizerError, one_of, whole
from discreet.quantizers._library import Library

__all__ = ["Intx"]


@dataclass(frozen=True)
class Intx(Library):
    """Whole numbers times a scale per group; no fitting and no data, so a plain baseline at any width.

    Attributes:
        bits: Bits of a code, from 1 to 8.
        group: Weights of a row that share a scale; it must divide rows.
        mapping: ``"symmetric"``, the library's default, codes for plus and minus the largest magnitude of a group; or
            ``"asymmetric"``, from the smallest weight of a group to the largest, with a zero of 8 bits. One bit
            has to be asymmetric: symmetric codes of one bit are -1 and 0, and rounding makes them all 0.
    """

    bits: int = 4
    group: int = 64
    mapping: str = field(default="symmetric", kw_only=True)

    package: ClassVar[str] = "torchao"
    scopes: ClassVar[tuple[str, ...]] = ("linear",)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("bits", self.bits, 1, 8)
        whole("group", self.group, 1, 2**20)
        one_of("mapping", self.mapping, ("symmetric", "asymmetric"))
        if self.bits == 1 and self.mapping == "symmetric":
            raise QuantizerError(
                "bits=1 needs mapping='asymmetric': torchao's symmetric codes of 1 bit round every weight to 0"
            )

    @property
    def granularity(self) -> str:
        """Runs of ``group`` weights of a row."""
        return f"group({self.group})"

    @property
    def levels(self) -> int:
        """2^bits."""
        return 2**self.bits

    def why_not(self, shape: tuple[int, ...]) -> str | None:
        """Groups must divide rows."""
        width = shape[-1]
        if width % self.group == 0:
            return None
        fits = [size for size in (16, 32, 64, 128, 256, width) if width % size == 0]
        return (
            f"groups of {self.group} do not divide rows of {width}; these would: {', '.join(map(str, fits))}"
        )

    def encode(self, groups: Float[Tensor, "group weight"]) -> Affine:
        """Codes and scales of each group, by ``torchao.quantization.quantize_``."""
        library = self.load("torchao.quantization")
        config = library.IntxWeightOnlyConfig(
            weight_dtype=getattr(torch, f"int{self.bits}"),
            granularity=library.PerGroup(groups.shape[1]),
            mapping_type=library.MappingType[self.mapping.upper()],
        )
        return _torchao.encode(self, config, groups, self.bits, zero=self.mapping == "asymmetric")
