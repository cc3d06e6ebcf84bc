"""Cutting the weights of many models into groups of equal length, and putting the groups back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from discreet._types import Float
from discreet.quantizers._fields import group_size

__all__ = ["Part", "cut"]


@dataclass(frozen=True)
class Part:
    """Columns ``start`` to ``stop`` of some tensors seen as ``[model, channel, weight]``, cut into groups.

    Attributes:
        names: The tensors; several only where groups span a whole model, joined in the order given.
        widths: Weights of each tensor in one model.
        channels: Channels per model.
        groups: Groups per model.
        size: Weights per group.
    """

    names: tuple[str, ...]
    widths: tuple[int, ...]
    channels: int
    start: int
    stop: int
    groups: int
    size: int

    def take(self, stack: Mapping[str, Tensor], dtype: torch.dtype) -> Float[Tensor, "group weight"]:
        """The groups of all models, model by model.

        Args:
            stack: Tensors with a leading model axis.
            dtype: Type to compute in.
        """
        flat = [
            stack[name].flatten(1) if stack[name].ndim > 1 else stack[name][:, None] for name in self.names
        ]
        joined = torch.cat([each.to(dtype) for each in flat], dim=1) if len(flat) > 1 else flat[0].to(dtype)
        seen = joined.reshape(len(joined), self.channels, -1)[:, :, self.start : self.stop]
        return seen.reshape(-1, self.size)

    def put(self, groups: Float[Tensor, "group weight"], stack: Mapping[str, Tensor]) -> None:
        """Write groups, as ``take`` gave them, into contiguous tensors with a leading model axis."""
        models = len(stack[self.names[0]])
        for name, piece in self.split(groups):
            whole = len(self.names) > 1
            seen = stack[name].view(models, 1 if whole else self.channels, -1)
            seen = seen if whole else seen[:, :, self.start : self.stop]
            seen.copy_(piece.reshape(seen.shape))

    def split(self, groups: Float[Tensor, "group weight"]) -> list[tuple[str, Tensor]]:
        """The groups by tensor, where they span several."""
        pieces = groups.split(self.widths, dim=1) if len(self.names) > 1 else (groups,)
        return list(zip(self.names, pieces, strict=True))


def cut(shapes: Mapping[str, tuple[int, ...]], granularity: str) -> tuple[Part, ...]:
    """Plan the groups of one model.

    Args:
        shapes: Shape of each tensor without the model axis, none of them empty.
        granularity: As ``Grouped`` describes it.

    Example:
        >>> [(part.groups, part.size) for part in cut({"w": (3, 10)}, "group(4)")]
        [(6, 4), (3, 2)]
    """
    kind = group_size(granularity)
    widths = {name: math.prod(shape) for name, shape in shapes.items()}
    if kind == "model":
        total = sum(widths.values())
        return (Part(tuple(shapes), tuple(widths.values()), 1, 0, total, 1, total),)
    parts = []
    for name, shape in shapes.items():
        channels = int(shape[0]) if kind != "tensor" and len(shape) > 1 else 1
        width = widths[name] // channels
        size = width if isinstance(kind, str) else min(kind, width)
        whole = width - width % size
        parts.append(Part((name,), (widths[name],), channels, 0, whole, channels * (whole // size), size))
        if whole < width:
            parts.append(Part((name,), (widths[name],), channels, whole, width, channels, width - whole))
    return tuple(parts)
