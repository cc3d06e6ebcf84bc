"""Bring the arguments of a training into one form, and refuse what does not fit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from discreet._once import once
from discreet._types import Int
from discreet.forward import perceptron
from discreet.mlp import MLP
from discreet.recipe import Recipe

__all__ = ["check_subsets", "fit_masks", "fit_stack", "key_of", "tensors"]


def tensors(
    model: MLP | nn.Module, x: Tensor | np.ndarray, y: Tensor | np.ndarray, recipe: Recipe
) -> tuple[Tensor, Tensor]:
    """Inputs and labels in the types that training needs.

    Raises:
        ValueError: No samples, inputs that are not finite, or other numbers of inputs and labels.
    """
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y) or not len(x):
        raise ValueError(
            f"x, y: expected the same number of samples, at least one, got shapes {list(x.shape)} and {list(y.shape)}"
        )
    network = perceptron(model)
    if network is not None:
        x = x if x.is_floating_point() else x.to(torch.float32)
        if x.ndim != 2 or x.shape[1] != network.widths[0]:
            raise ValueError(f"x: expected shape [sample, {network.widths[0]}], got {list(x.shape)}")
    wrong = once(x, "not finite", lambda: _not_finite(x))
    if len(wrong):
        raise ValueError(
            f"x: expected finite numbers, got others in sample {int(wrong[0])} ({len(wrong)} such samples)"
        )
    floating = x.dtype if x.is_floating_point() else torch.float32
    if recipe.loss in ("bce", "mse") or (y.is_floating_point() and recipe.loss != "ce"):
        y = y.to(floating)
    return x, y


def _not_finite(x: Tensor) -> Int[Tensor, " wrong"]:
    """Positions of the samples with numbers that are not finite."""
    if not x.is_floating_point():
        return torch.zeros(0, dtype=torch.int64)
    return (~torch.isfinite(x).reshape(len(x), -1).all(1)).nonzero()[:, 0]


def check_subsets(subsets: Int[np.ndarray, "model n"], samples: int, ids: Sequence[int]) -> None:
    """Refuse subsets that are empty or point nowhere, and ids that do not name their models.

    Raises:
        ValueError: Naming the first wrong place.
    """
    if subsets.ndim != 2 or not subsets.size:
        raise ValueError(f"subsets: expected shape [model, n], none empty, got {list(subsets.shape)}")
    wrong = np.argwhere((subsets < 0) | (subsets >= samples))
    if len(wrong):
        model, place = wrong[0]
        raise ValueError(
            f"subsets: expected positions from 0 to {samples - 1}, got {subsets[model, place]} at model {model},"
            f" place {place}"
        )
    if len(ids) != len(subsets) or len(set(ids)) != len(ids) or min(ids) < 0:
        raise ValueError(f"model_ids: expected {len(subsets)} different numbers from 0, got {list(ids)}")


def fit_stack(name: str, stack: Mapping[str, Tensor], models: int) -> dict[str, Tensor]:
    """Check the leading axis of a stack, and copy it.

    Raises:
        ValueError: Another number of models.
    """
    for key, value in stack.items():
        if value.ndim == 0 or len(value) != models:
            raise ValueError(f"{name}: expected {models} models in {key!r}, got shape {list(value.shape)}")
    return {key: value.detach().clone() for key, value in stack.items()}


def fit_masks(masks: Mapping[str, Tensor], params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Views of the masks in the shape of the stack, so that a change of the caller's mask shows.

    Raises:
        ValueError: An unknown name, a shape that does not fit, or other numbers than 0 and 1.
    """
    fitted = {}
    for name, mask in masks.items():
        if name not in params:
            raise ValueError(f"masks: the model has no {name!r}; it has {', '.join(params)}")
        if mask.shape not in (params[name].shape, params[name].shape[1:]):
            raise ValueError(
                f"masks: expected shape {list(params[name].shape)} or {list(params[name].shape[1:])} for {name!r},"
                f" got {list(mask.shape)}"
            )
        if not bool(((mask == 0) | (mask == 1)).all()):
            raise ValueError(f"masks: expected only 0 and 1 in {name!r}")
        fitted[name] = mask.expand(params[name].shape)
    return fitted


def key_of(
    recipe: Recipe, seed: int, ids: Sequence[int], path: str, arrays: Sequence[Tensor | np.ndarray]
) -> str:
    """Hash of all that the bytes of a training depend on, but how long it goes on."""
    settings = recipe.to_json() | {"seed": seed, "ids": list(ids), "path": path}
    del settings["epochs"]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for array in arrays:
        values = np.ascontiguousarray(array.numpy() if isinstance(array, Tensor) else array)
        digest.update(f"{values.dtype.str}{values.shape}".encode())
        digest.update(values.data)
    return digest.hexdigest()
