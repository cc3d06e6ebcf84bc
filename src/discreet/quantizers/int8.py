"""Eight bits, one scale per output channel, by ``torchao``'s ``Int8WeightOnlyConfig``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from discreet._types import Float
from discreet.quantizers import _torchao
from discreet.quantizers._affine import Affine
from discreet.quantizers._library import Library

__all__ = ["Int8"]


@dataclass(frozen=True)
class Int8(Library):
    """Whole multiples, from -128 to 127, of the largest magnitude of a row over 127.5, rounded to the nearest.

    The library's steps are never finer than 1.2e-7, so a row of weights that all lie below 1.5e-5 gets fewer levels.
    """

    package: ClassVar[str] = "torchao"
    scopes: ClassVar[tuple[str, ...]] = ("linear",)

    @property
    def granularity(self) -> str:
        """One scale per row."""
        return "channel"

    @property
    def levels(self) -> int:
        """-128 to 127."""
        return 256

    def encode(self, groups: Float[Tensor, "group weight"]) -> Affine:
        """Codes and scales of each row, by ``torchao.quantization.quantize_``."""
        config = self.load("torchao.quantization").Int8WeightOnlyConfig(set_inductor_config=False)
        return _torchao.encode(self, config, groups, 8, zero=False)
