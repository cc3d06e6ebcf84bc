"""Masks of many models at once, drawn with exact counts, each model's from its own seed; and their first weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from discreet._types import Int
from discreet.model_seeds import stream
from discreet.sparse._errors import SparseError
from discreet.sparse.allocations import Shapes

__all__ = ["DRAW", "check_masks", "check_zeros", "close", "dead_units", "draw_masks", "rescale"]

DRAW = 2  # what ``stream`` draws for here


def draw_masks(
    shapes: Shapes, counts: Mapping[str, int], models: Sequence[int], *, seed: int = 0
) -> dict[str, Tensor]:
    """Draw which weights are in use, without replacement.

    Args:
        shapes: Of the masked tensors of one model.
        counts: How many weights of each are in use.
        models: Ids; a model's masks depend on the seed and its own id alone.
        seed: Of the whole training.

    Returns:
        For each tensor bools [model, *shape].

    Example:
        >>> masks = draw_masks({"w": (4, 8)}, {"w": 5}, [0, 1, 2])
        >>> masks["w"].shape, masks["w"].sum((1, 2)).tolist()
        (torch.Size([3, 4, 8]), [5, 5, 5])
    """
    masks = {name: np.zeros((len(models), math.prod(shape)), np.bool_) for name, shape in shapes.items()}
    for row, model in enumerate(models):
        for number, (name, mask) in enumerate(masks.items()):
            draw = stream(seed, model, DRAW, number)
            mask[row, draw.choice(mask.shape[1], counts[name], replace=False, shuffle=False)] = True
    return {name: torch.from_numpy(mask).reshape(-1, *shapes[name]) for name, mask in masks.items()}


def close(stack: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy of a stack with 0 where a mask is False."""
    return {
        name: value.masked_fill(~masks[name], 0) if name in masks else value.clone()
        for name, value in stack.items()
    }


def rescale(stack: Mapping[str, Tensor], shapes: Shapes, counts: Mapping[str, int]) -> dict[str, Tensor]:
    """A copy of a stack with each masked tensor divided by the root of its density.

    A unit then sums as much variance over its few inputs as it would over all of them (Evci et al., "Gradient Flow in
    Sparse Neural Networks and How Lottery Tickets Win", section 3, on the average over units).
    """
    factor = {name: math.sqrt(math.prod(shape) / counts[name]) for name, shape in shapes.items()}
    return {name: value * factor.get(name, 1) for name, value in stack.items()}


def check_masks(
    masks: Mapping[str, Tensor], shapes: Shapes, counts: Mapping[str, int], ids: Sequence[int]
) -> None:
    """Refuse masks whose counts are not what they must be at every moment.

    Raises:
        SparseError: Naming the first wrong tensor and model.
    """
    for name, count in counts.items():
        mask = masks.get(name)
        wanted = (len(ids), *shapes[name])
        if mask is None or tuple(mask.shape) != wanted:
            got = "none" if mask is None else list(mask.shape)
            raise SparseError(f"masks: expected a mask of shape {list(wanted)} for {name!r}, got {got}")
        for row, own in enumerate(mask.numpy(force=True)):
            many = int(np.count_nonzero(own))
            if many != count:
                raise SparseError(
                    f"masks: expected {count} weights of {name!r} in use at every moment, model {ids[row]} has {many}"
                )


def check_zeros(stack: Mapping[str, Tensor], masks: Mapping[str, Tensor], ids: Sequence[int]) -> None:
    """Refuse weights that are not 0 outside their mask.

    Raises:
        SparseError: Naming the first such tensor and model.
    """
    for name, mask in masks.items():
        outside = (stack[name] != 0).logical_and_(~mask)
        if bool(outside.any()):
            wrong = outside.flatten(1).sum(1)
            row = int(wrong.nonzero()[0])
            raise SparseError(
                f"masks: {int(wrong[row])} weights of {name!r} of model {ids[row]} are not 0 although they are"
                " masked; something else changes them"
            )


def dead_units(masks: Mapping[str, Tensor]) -> dict[str, Int[Tensor, " model"]]:
    """How many units of each layer have no weight in use, by model: they are constants, and take no space.

    Units are slices of the weight's first axis (of a transposed convolution: its inputs).

    Example:
        >>> dead_units({"w": torch.tensor([[[True, False], [False, False]]])})
        {'w': tensor([1])}
    """
    return {name: (~mask.flatten(2).any(2)).sum(1) for name, mask in masks.items()}
