"""Optimizers of torch on stacks: they work entry by entry, so a step on a stack is a step on every model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from discreet.recipe import Recipe

__all__ = ["SLOTS", "Step", "step_of"]

Stack = Mapping[str, Tensor]
Step = Callable[[Stack, Stack, Mapping[str, Stack], int], None]

SLOTS: Mapping[str, tuple[str, ...]] = {
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
    "sgd": ("momentum",),
}


def step_of(recipe: Recipe, epoch: int = 1) -> Step:
    """The update ``(params, gradients, moments, count)`` of a recipe in an epoch, in place; ``count`` begins at 1.

    Moments start at zero, one stack for each name in ``SLOTS[recipe.optimizer]``.

    Example:
        >>> params, zero = {"w": torch.ones(2, 1)}, {"w": torch.zeros(2, 1)}
        >>> step_of(Recipe(optimizer="sgd", lr=0.5))(params, {"w": torch.ones(2, 1)}, {"momentum": zero}, 1)
        >>> params["w"].tolist()
        [[0.5], [0.5]]
    """
    if recipe.optimizer == "sgd":
        return partial(_sgd, recipe, recipe.rate(epoch))
    return partial(_adam, recipe, recipe.rate(epoch), adam if recipe.optimizer == "adam" else adamw)


def _adam(
    recipe: Recipe,
    rate: float,
    update: Callable[..., None],
    params: Stack,
    gradients: Stack,
    moments: Mapping[str, Stack],
    count: int,
) -> None:
    names = list(gradients)
    update(
        [params[name] for name in names],
        [gradients[name].contiguous() for name in names],  # the fused kernel reads memory in order
        [moments["exp_avg"][name] for name in names],
        [moments["exp_avg_sq"][name] for name in names],
        [],
        list(torch.full((len(names),), count - 1.0).unbind()),
        foreach=False,
        fused=True,  # one pass over memory instead of six
        amsgrad=False,
        beta1=recipe.betas[0],
        beta2=recipe.betas[1],
        lr=rate,
        weight_decay=recipe.weight_decay,
        eps=recipe.eps,
        maximize=False,
    )


def _sgd(
    recipe: Recipe,
    rate: float,
    params: Stack,
    gradients: Stack,
    moments: Mapping[str, Stack],
    count: int,
) -> None:
    del count
    for name, gradient in gradients.items():
        if recipe.weight_decay:
            gradient = gradient.add(params[name], alpha=recipe.weight_decay)
        if recipe.momentum:
            momentum = moments["momentum"][name].mul_(recipe.momentum).add_(gradient)
            gradient = gradient.add(momentum, alpha=recipe.momentum) if recipe.nesterov else momentum
        params[name].add_(gradient, alpha=-rate)
