"""The form of most libraries: levels, moved and scaled block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from discreet._types import Float, Num
from discreet.quantizers._fields import QuantizerError
from discreet.quantizers._pack import pack, packed_size

__all__ = ["Affine"]


@dataclass(frozen=True, eq=False)
class Affine:
    """Each weight is one of a few levels, less the zero of its block, times the scale of its block.

    A block is a run of weights of a group. Weights are computed as (level - zero) · scale · factor, one operation
    after the other in the type of the scale: that is what libraries do, so their weights come out bit for bit. With a
    shift it is level · scale + shift, rounded once, to the type of the scale.

    Attributes:
        codes: Number of the level that each weight takes, from 0.
        count: Levels that a code can name, at most 256.
        run: Weights of a block; the last one of a group may be shorter.
        scale: One factor per block.
        zero: What is taken from the levels of each block, or None for nothing, which costs no storage.
        lowest: Level of code 0, the others follow in steps of 1; without a table.
        table: The levels, where they are not whole numbers.
        factor: A constant of the method.
        dtype: Type of the weights.
        shift: What is added to the weights of each block.
    """

    codes: Num[Tensor, "group weight"]
    count: int
    run: int
    scale: Float[Tensor, "group block"]
    zero: Num[Tensor, "group block"] | None = None
    lowest: int = 0
    table: Float[Tensor, " level"] | None = None
    factor: float = 1.0
    dtype: torch.dtype = torch.float32
    shift: Float[Tensor, "group block"] | None = None

    @property
    def levels(self) -> int:
        """How many values a weight of one block can take."""
        return self.count

    @property
    def block(self) -> int:
        """Weights to a code."""
        return 1

    def dense(self) -> Float[Tensor, "group weight"]:
        """The weights that the codes stand for."""
        kind = self.scale.dtype if self.shift is None else torch.float32
        whole = self.codes.to(kind) + self.lowest
        level = whole if self.table is None else self.table[self.codes.long()].to(kind)
        if self.zero is not None:
            level = self._by_block(level, self.zero.to(kind), torch.sub)
        value = self._by_block(level, self.scale.to(kind), torch.mul)
        value = value if self.factor == 1 else value * self.factor
        if self.shift is not None:
            value = self._by_block(value, self.shift.to(kind), torch.add).to(self.scale.dtype)
        return value.to(self.dtype)

    def check(self) -> None:
        """Refuse codes that name no level, and blocks that do not cover the weights.

        Raises:
            QuantizerError: With what was promised and what came.
        """
        low, high = (int(bound) for bound in self.codes.aminmax())
        if low < 0 or high >= self.count:
            raise QuantizerError(f"codes run from {low} to {high}, there are {self.count} levels")
        expected = (len(self.codes), -(-self.codes.shape[1] // self.run))
        for name, each in (("scale", self.scale), ("zero", self.zero), ("shift", self.shift)):
            if each is not None and tuple(each.shape) != expected:
                raise QuantizerError(
                    f"{name} must have shape {expected} [group, block], got {tuple(each.shape)}"
                )
        if self.table is not None and len(self.table) != self.count:
            raise QuantizerError(f"the table names {len(self.table)} levels, promised were {self.count}")

    def stored(self, dtype: torch.dtype) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Packed codes, scales, zeros and table of one model, with what is needed to read them."""
        tensors = {"codes": torch.from_numpy(pack(self.codes.reshape(-1).cpu().numpy(), self.count))}
        tensors |= {name: each.cpu().contiguous() for name, each in self._numbers().items()}
        holds = {name: str(each.dtype).removeprefix("torch.") for name, each in self._numbers().items()}
        compute = str(self.dtype).removeprefix("torch.")
        about = {"form": "affine", "count": self.count, "run": self.run, "lowest": self.lowest}
        return about | {"factor": self.factor, "compute": compute, "holds": holds}, tensors

    def nbytes(self, dtype: torch.dtype) -> int:
        """Bytes of what is stored of one model."""
        numbers = sum(each.nbytes for each in self._numbers().values())
        return packed_size(self.codes.numel(), self.count) + numbers

    def _numbers(self) -> dict[str, Tensor]:
        held = {"scale": self.scale, "zero": self.zero, "shift": self.shift, "table": self.table}
        return {name: each for name, each in held.items() if each is not None}

    def _by_block(self, weights: Tensor, numbers: Tensor, operation: Any) -> Tensor:
        groups, size = weights.shape
        if size % self.run == 0:
            return operation(weights.view(groups, -1, self.run), numbers[:, :, None]).view(groups, size)
        return operation(weights, numbers.repeat_interleave(self.run, dim=1)[:, :size])
