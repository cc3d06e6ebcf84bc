"""Four bits by group on a GPU, by ``torchao``'s ``Int4WeightOnlyConfig``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from discreet._types import Float
from discreet.quantizers._affine import Affine
from discreet.quantizers._fields import QuantizerError, one_of
from discreet.quantizers._library import Library

__all__ = ["Int4"]

_GROUPS = (32, 64, 128, 256)


@dataclass(frozen=True)
class Int4(Library):
    """What the library's kernel for tensor cores multiplies by, 16 levels from the least weight of a group upwards.

    It needs a CUDA GPU (compute capability 8.0 or newer), weights on it, and computes in bfloat16. The weights are
    what the library's layer makes of the identity; codes are read off them, and a weight that is none is an error.

    Attributes:
        group: Weights of a row that share a scale: 32, 64, 128 or 256; it must divide rows.
    """

    group: int = 64

    package: ClassVar[str] = "torchao"
    scopes: ClassVar[tuple[str, ...]] = ("linear",)
    device: ClassVar[str] = "cuda"
    """Where it runs, if not everywhere."""

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("group", self.group, _GROUPS)

    @property
    def granularity(self) -> str:
        """Rows, cut into groups."""
        return "channel"

    @property
    def run(self) -> int:
        """Weights of a row that share their levels."""
        return self.group

    @property
    def levels(self) -> int:
        """16 in each group."""
        return 16

    def why_not(self, shape: tuple[int, ...]) -> str | None:
        """Groups must divide rows."""
        if shape[-1] % self.group == 0:
            return None
        fits = [size for size in _GROUPS if shape[-1] % size == 0]
        would = f"these would: {', '.join(map(str, fits))}" if fits else "none of 32, 64, 128, 256 does"
        return f"groups of {self.group} do not divide rows of {shape[-1]}; {would}"

    def encode(self, groups: Float[Tensor, "group weight"]) -> Affine:
        """Codes, scales and shifts of each group, by ``torchao.quantization.quantize_``.

        Raises:
            QuantizerError: The weights are not on a CUDA GPU, or the library's layer has weights that are no levels.
        """
        if groups.device.type != self.device:
            raise QuantizerError(
                f"{self}: torchao's Int4WeightOnlyConfig needs a CUDA GPU, the weights are on {groups.device.type}; "
                f"torchao's 4 bits everywhere are intx(bits=4, group={self.group})"
            )
        library = self.load("torchao.quantization")
        layer = nn.Linear(groups.shape[1], len(groups), bias=False, device="meta")
        layer.weight = nn.Parameter(groups.to(torch.bfloat16), requires_grad=False)
        config = library.Int4WeightOnlyConfig(
            group_size=self.group, int4_packing_format="tile_packed_to_4d", set_inductor_config=False
        )
        library.quantize_(layer, config)
        made: Any = layer.weight
        with torch.no_grad():
            dense = layer(torch.eye(groups.shape[1], dtype=torch.bfloat16, device=groups.device)).T
        # [block, row, (scale, shift)], padded at the ends.
        numbers = made.scale_and_zero[: groups.shape[1] // self.group, : len(groups)].transpose(0, 1)
        codes = read_codes(dense, numbers[..., 0], numbers[..., 1], self.group, groups.dtype)
        if differ := int((codes.dense() != dense.to(groups.dtype)).sum()):
            raise QuantizerError(f"{self}: {differ} weights of torchao's layer are no levels of their group")
        return codes


def read_codes(
    dense: Float[Tensor, "group weight"],
    scale: Float[Tensor, "group block"],
    shift: Float[Tensor, "group block"],
    run: int,
    dtype: torch.dtype,
) -> Affine:
    """Codes of weights that are level · scale + shift, with levels from -8 to 7."""
    wide = [each.float().repeat_interleave(run, dim=1) for each in (scale, shift)]
    levels = ((dense.float() - wide[1]) / wide[0]).round().clamp(-8, 7)
    codes = (levels + 8).to(torch.uint8)
    return Affine(codes, 16, run, scale.contiguous(), lowest=-8, dtype=dtype, shift=shift.contiguous())
