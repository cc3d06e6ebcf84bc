"""What a quantizer makes of groups of weights: codes and the few numbers that turn them back into weights.

Four forms cover every method. They read back from stored bytes without the method that made them, so a
packed file needs no code of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float, Int
from discreet.quantizers._affine import Affine
from discreet.quantizers._fields import QuantizerError
from discreet.quantizers._pack import pack, packed_size, unpack

__all__ = ["Affine", "Codes", "Indices", "Multiples", "Raw", "restore"]

Tensors: TypeAlias = dict[str, Tensor]
About: TypeAlias = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Multiples:
    """Each weight is a small whole number times the scale of its group.

    Attributes:
        numbers: Whole numbers from -largest to largest, kept in the floating type of the computation.
        largest: Largest magnitude that a code can name.
        zero: Whether 0 is among the codes; if not, ``numbers`` holds none.
        scale: One factor per group, or None for 1, which costs no storage.
    """

    numbers: Float[Tensor, "group weight"]
    largest: int
    zero: bool
    scale: Float[Tensor, "group 1"] | None = None

    @property
    def levels(self) -> int:
        """How many values a weight of one group can take."""
        return 2 * self.largest + self.zero

    @property
    def block(self) -> int:
        """Weights to a code."""
        return 1

    def dense(self) -> Float[Tensor, "group weight"]:
        """The weights that the codes stand for, with no negative zero among them."""
        if self.scale is not None:
            return (self.numbers * self.scale).add_(0.0)
        return self.numbers + 0.0 if self.zero else self.numbers

    def check(self) -> None:
        """Refuse numbers that no code names.

        Raises:
            QuantizerError: Out of range, not whole, or a zero where there is none.
        """
        low, high = (bound.item() for bound in self.numbers.abs().aminmax())
        if not high <= self.largest:
            raise QuantizerError(f"codes reach {high:g} in magnitude, promised was {self.largest} at most")
        if not self.zero and low == 0:
            raise QuantizerError("a code is 0, which is no level of this quantizer")
        if not torch.equal(self.numbers, self.numbers.round()):
            raise QuantizerError("codes are not whole numbers")

    def stored(self, dtype: torch.dtype) -> tuple[About, Tensors]:
        """Packed codes and scales of one model, with what is needed to read them."""
        number = self.numbers.reshape(-1).to("cpu", torch.int64).numpy()
        codes = number + self.largest
        if not self.zero:
            codes -= number > 0
        tensors = {"codes": torch.from_numpy(pack(codes, self.levels))}
        if self.scale is not None:
            tensors["scale"] = self.scale.reshape(-1).cpu().contiguous()
        compute = str(self.numbers.dtype).removeprefix("torch.")
        about = {"form": "multiples", "largest": self.largest, "zero": self.zero, "compute": compute}
        return about | {"scaled": self.scale is not None}, tensors

    def nbytes(self, dtype: torch.dtype) -> int:
        """Bytes of what is stored of one model."""
        return packed_size(self.numbers.numel(), self.levels) + (
            0 if self.scale is None else self.scale.nbytes
        )


@dataclass(frozen=True, eq=False)
class Indices:
    """Each block of consecutive weights is an entry of the codebook of its group.

    Attributes:
        index: Entry that each block takes; the last block of a group may be cut short by ``size``.
        book: The codebooks.
        size: Weights per group.
    """

    index: Int[Tensor, "group code"]
    book: Float[Tensor, "group entry block"]
    size: int

    @property
    def levels(self) -> int:
        """How many values a block of one group can take."""
        return self.book.shape[1]

    @property
    def block(self) -> int:
        """Weights to a code."""
        return self.book.shape[2]

    def dense(self) -> Float[Tensor, "group weight"]:
        """The weights that the codes stand for."""
        group = torch.arange(len(self.index), device=self.index.device)[:, None]
        return self.book[group, self.index].flatten(1)[:, : self.size].contiguous()

    def check(self) -> None:
        """Refuse indices outside the codebook.

        Raises:
            QuantizerError: An index names no entry, or the blocks do not cover the group.
        """
        low, high = (int(bound) for bound in self.index.aminmax())
        if low < 0 or high >= self.levels:
            raise QuantizerError(f"codes run from {low} to {high}, the codebook has {self.levels} entries")
        if self.index.shape[1] != -(-self.size // self.block):
            raise QuantizerError(f"{self.index.shape[1]} blocks of {self.block} for {self.size} weights")

    def stored(self, dtype: torch.dtype) -> tuple[About, Tensors]:
        """Packed indices and codebooks of one model, with what is needed to read them."""
        codes = pack(self.index.reshape(-1).cpu().numpy(), self.levels)
        book = self.book.cpu().contiguous()
        return {"form": "indices"}, {"codes": torch.from_numpy(codes), "book": book}

    def nbytes(self, dtype: torch.dtype) -> int:
        """Bytes of what is stored of one model."""
        return packed_size(self.index.numel(), self.levels) + self.book.nbytes


@dataclass(frozen=True, eq=False)
class Raw:
    """Weights kept as they are; the form of a quantizer that promises no number of levels."""

    values: Float[Tensor, "group weight"]

    @property
    def levels(self) -> None:
        """No promise."""
        return None

    @property
    def block(self) -> int:
        """Weights to a code."""
        return 1

    def dense(self) -> Float[Tensor, "group weight"]:
        """The weights."""
        return self.values

    def check(self) -> None:
        """Nothing to check: any weight is allowed."""

    def stored(self, dtype: torch.dtype) -> tuple[About, Tensors]:
        """The weights of one model in their own type."""
        return {"form": "raw"}, {"raw": self.values.to("cpu", dtype, copy=True).contiguous()}

    def nbytes(self, dtype: torch.dtype) -> int:
        """Bytes of what is stored of one model."""
        return self.values.numel() * dtype.itemsize


Codes: TypeAlias = Affine | Multiples | Indices | Raw


def restore(about: Mapping[str, Any], tensors: Mapping[str, Tensor], groups: int, size: int) -> Codes:
    """Read back what ``stored`` wrote for ``groups`` groups of ``size`` weights.

    Raises:
        QuantizerError: Unknown form, or a stored tensor that is missing or has the wrong size.
    """
    form = about.get("form")
    if form == "raw":
        return Raw(_floating(_sized(tensors, "raw", (groups, size)), "raw"))
    if form == "multiples":
        largest, zero = int(about["largest"]), bool(about["zero"])
        codes = _codes(tensors, 2 * largest + zero, groups * size)
        number = codes - largest
        if not zero:
            number += number >= 0
        scale = _floating(_sized(tensors, "scale", (groups,)), "scale")[:, None] if about["scaled"] else None
        compute = torch.float64 if about["compute"] == "float64" else torch.float32
        numbers = torch.from_numpy(number).reshape(groups, size).to(compute)
        return Multiples(numbers, largest, zero, scale)
    if form == "indices":
        book = tensors.get("book")
        if book is None or book.ndim != 3 or len(book) != groups:
            raise QuantizerError(f"codebooks of {groups} groups expected, got {_shape(book)}")
        _floating(book, "book")
        blocks = -(-size // book.shape[2])
        codes = _codes(tensors, book.shape[1], groups * blocks)
        return Indices(torch.from_numpy(codes).reshape(groups, blocks), book, size)
    if form == "affine":
        return _affine(about, tensors, groups, size)
    raise QuantizerError(f"unknown form of stored weights: {form!r}")


def _affine(about: Mapping[str, Any], tensors: Mapping[str, Tensor], groups: int, size: int) -> Affine:
    count, run = int(about["count"]), int(about["run"])
    codes = torch.from_numpy(_codes(tensors, count, groups * size).astype(np.uint8)).reshape(groups, size)
    shape = (groups, -(-size // run))
    shapes = {"scale": shape, "zero": shape, "shift": shape, "table": (count,)}
    held = {name: _sized(tensors, name, shapes[name], dtype) for name, dtype in about["holds"].items()}
    compute = torch.float64 if about["compute"] == "float64" else torch.float32
    lowest, factor = int(about["lowest"]), float(about["factor"])
    return Affine(codes, count, run, lowest=lowest, factor=factor, dtype=compute, **held)


def _codes(tensors: Mapping[str, Tensor], levels: int, count: int) -> Int[np.ndarray, " code"]:
    return unpack(_sized(tensors, "codes", (packed_size(count, levels),)).numpy(), levels, count)


def _sized(tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], dtype: str = "") -> Tensor:
    found = tensors.get(name)
    if found is None or found.shape != shape:
        raise QuantizerError(f"stored {name!r} must have shape {shape}, got {_shape(found)}")
    if dtype and str(found.dtype) != f"torch.{dtype}":
        raise QuantizerError(f"stored {name!r} must be {dtype}, got {found.dtype}")
    return found


def _floating(tensor: Tensor, name: str) -> Tensor:
    if not tensor.is_floating_point():
        raise QuantizerError(f"stored {name!r} must be of a floating-point type, got {tensor.dtype}")
    return tensor


def _shape(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else f"{tuple(tensor.shape)}"
