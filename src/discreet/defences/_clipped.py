"""Sums of clipped gradients, one for each sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from discreet._types import Float, Num
from discreet.mlp import ACTIVATIONS, MLP
from discreet.outputs import columns

__all__ = ["by_layer", "by_sample"]

Stack = dict[str, Tensor]
Losses = Callable[[Tensor, Tensor], Tensor]

_CELLS = 2**25  # numbers of per-sample gradients held at a time: 128 MB


def by_sample(
    module: nn.Module,
    own: Stack,
    fixed: Stack,
    masks: Mapping[str, Tensor],
    x: Num[Tensor, " batch *features"],
    y: Num[Tensor, " batch *target"],
    losses: Losses,
    clip: float | int,
) -> Stack:
    """For any module: each sample's gradient is written out, masked, and clipped.

    Args:
        module: The architecture.
        own: Trained parameters of one model.
        fixed: Its other tensors.
        masks: 0 or False where a gradient does not count.
        x: Inputs.
        y: Labels.
        losses: ``(outputs [1, out], y [1, …]) -> loss [1]``.
        clip: Largest norm.

    Returns:
        The sum over samples, for each trained parameter.
    """

    def loss(own: Stack, x: Tensor, y: Tensor) -> Tensor:
        return losses(columns(functional_call(module, {**own, **fixed}, (x[None],))), y[None])[0]

    total = {name: torch.zeros_like(value) for name, value in own.items()}
    size = max(1, _CELLS // sum(value.numel() for value in own.values()))
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        slopes = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")(own, x[part], y[part])
        for name, mask in masks.items():
            slopes[name] = slopes[name] * mask
        squares = torch.stack([value.flatten(1).square().sum(1) for value in slopes.values()]).sum(0)
        factor = _factor(squares, clip)
        for name, value in slopes.items():
            total[name] += torch.tensordot(factor, value, 1)
    return total


def by_layer(
    network: MLP,
    own: Stack,
    masks: Mapping[str, Tensor],
    x: Float[Tensor, "batch features"],
    y: Num[Tensor, " batch *target"],
    losses: Losses,
    clip: float | int,
) -> Stack:
    """The same for a perceptron, without any sample's gradient: it is the product of a layer's slope and input.

    Its square, masked, sums to slope² · mask · input², and the clipped sum is one product of matrices.
    """
    if not len(x):
        return {name: torch.zeros_like(value) for name, value in own.items()}
    activation = ACTIVATIONS[network.activation]
    inputs = [x]
    for weight, bias in network.layers[:-1]:
        inputs.append(activation.forward_(torch.addmm(own[bias], inputs[-1], own[weight].T)))
    weight, bias = network.layers[-1]
    outputs = torch.addmm(own[bias], inputs[-1], own[weight].T)

    def loss(output: Tensor, y: Tensor) -> Tensor:
        return losses(output[None], y[None])[0]

    slope, slopes = vmap(grad(loss))(outputs, y), []
    for place in reversed(range(len(network.layers))):
        slopes.append(slope)
        if place:
            slope = activation.backward(slope @ own[network.layers[place][0]], inputs[place])
    slopes.reverse()
    squares = torch.zeros_like(x[:, 0])
    for (weight, bias), each, below in zip(network.layers, slopes, inputs, strict=True):
        mask = masks[weight].to(x.dtype) if weight in masks else torch.ones_like(own[weight])
        squares += ((each.square() @ mask) * below.square()).sum(1)
        squares += (each * masks[bias] if bias in masks else each).square().sum(1)
    factor = _factor(squares, clip)[:, None]
    total = {}
    for (weight, bias), each, below in zip(network.layers, slopes, inputs, strict=True):
        total[weight], total[bias] = (factor * each).T @ below, (factor * each).sum(0)
    return {name: value * masks[name] if name in masks else value for name, value in total.items()}


def _factor(squares: Float[Tensor, " batch"], clip: float | int) -> Float[Tensor, " batch"]:
    return (clip / (squares.sqrt() + 1e-6)).clamp(max=1)
