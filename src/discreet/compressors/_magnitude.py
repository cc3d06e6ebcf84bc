"""Keep the largest weights of all layers together, at least one in each."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from discreet._types import Bool, Float
from discreet.sparse import SparseError
from discreet.sparse.counts import portion

__all__ = ["keep", "largest"]


def largest(
    params: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]], density: float | int
) -> dict[str, Tensor]:
    """Masks of exactly floor(density · weights) for each model: the largest magnitudes, of equal ones the first.

    The largest weight of each tensor stays whatever the others are, so no layer is emptied.

    Args:
        params: The stack.
        shapes: Of the masked tensors of one model.
        density: Share that stays.

    Raises:
        SparseError: Fewer weights than tensors.

    Example:
        >>> stack = {"a": torch.tensor([[3.0, -2.0, 1.0]]), "b": torch.tensor([[0.1, 0.2, 0.0]])}
        >>> {name: mask.tolist() for name, mask in largest(stack, {"a": (3,), "b": (3,)}, 0.5).items()}
        {'a': [[True, True, False]], 'b': [[False, True, False]]}
    """
    sizes = [math.prod(shape) for shape in shapes.values()]
    total = portion(density, sum(sizes))
    if total < len(sizes):
        raise SparseError(
            f"density: {density} of {sum(sizes)} weights is {total}; expected at least one weight for each of the"
            f" {len(sizes)} masked tensors"
        )
    flat = torch.cat([params[name].flatten(1) for name in shapes], dim=1).double().numpy(force=True)
    kept = np.stack([keep(np.abs(each), sizes, total) for each in flat])
    parts = torch.from_numpy(kept).split(sizes, dim=1)
    return {name: part.reshape(-1, *shapes[name]) for name, part in zip(shapes, parts, strict=True)}


def keep(worth: Float[np.ndarray, " weight"], sizes: list[int], total: int) -> Bool[np.ndarray, " weight"]:
    """The so many that are worth most, among them the best of each tensor."""
    starts = np.cumsum([0, *sizes[:-1]])
    best = np.array(
        [start + int(worth[start : start + size].argmax()) for start, size in zip(starts, sizes, strict=True)]
    )
    raised = worth.copy()
    raised[best] = np.inf
    kept = np.zeros(len(worth), np.bool_)
    kept[np.argsort(-raised, kind="stable")[:total]] = True
    return kept
