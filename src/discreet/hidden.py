"""What a model computes just before its last linear layer: the activations that white-box attacks read."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor, nn

from discreet._types import Float
from discreet.device import Device
from discreet.forward import Inputs, Model, Stack, collect, count, inputs
from discreet.mlp import ACTIVATIONS, MLP
from discreet.sparse_inputs import SparseRows

__all__ = ["penultimate"]


def penultimate(
    model: Model,
    params: Stack,
    x: Inputs,
    *,
    workers: int | None = None,
    on: Device = Device(),  # noqa: B008 (frozen)
) -> Float[Tensor, "model sample feature"]:
    """Inputs of the last linear layer, of every model of a stack on every sample.

    With them and the raw outputs, the last layer's gradient is known: (softmax - one-hot) times them.

    Args:
        model: The architecture.
        params: Tensors with a leading model axis.
        x: Inputs, or what ``measure.inputs`` made of them.
        workers: Threads; None: one a core. Results do not depend on it.
        on: Where.

    Raises:
        ValueError: A module without ``nn.Linear``, or whose last one sees more than one row a sample.

    Example:
        >>> network = MLP((8, 4, 1))
        >>> penultimate(network, network.init([0, 1]), torch.zeros(5, 8)).shape
        torch.Size([2, 5, 4])
    """
    x = inputs(model, x, next(value.dtype for value in params.values() if value.is_floating_point()))
    network = model if isinstance(model, MLP) else MLP.of(model)
    if network is not None:
        return _of_perceptron(network, params, x, workers, on)
    until = _Until(cast(nn.Module, model))
    return collect(until, {f"module.{name}": value for name, value in params.items()}, x, workers, on)


def _of_perceptron(
    network: MLP, params: Stack, x: Tensor | SparseRows, workers: int | None, on: Device
) -> Float[Tensor, "model sample feature"]:
    if len(network.widths) == 2:
        rows = x.times(torch.eye(x.width)) if isinstance(x, SparseRows) else x
        return rows.expand(count([params]), *rows.shape)
    lower = MLP(network.widths[:-1], network.activation)
    kept = {name for pair in lower.layers for name in pair}
    before = collect(lower, {name: value for name, value in params.items() if name in kept}, x, workers, on)
    return ACTIVATIONS[network.activation].forward_(before)


class _Until(nn.Module):
    """A module that returns what its last linear layer is given."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = copy.deepcopy(module)
        if not any(isinstance(part, nn.Linear) for part in self.module.modules()):
            raise ValueError(
                f"model: {type(module).__name__} has no nn.Linear, so nothing comes before its last one"
            )

    def forward(self, x: Tensor) -> Tensor:
        """The last input seen."""
        seen: list[Tensor] = []
        hooks = [
            part.register_forward_pre_hook(lambda part, args: seen.append(args[0]))
            for part in self.module.modules()
            if isinstance(part, nn.Linear)
        ]
        try:
            self.module(x)
        finally:
            for hook in hooks:
                hook.remove()
        if seen[-1].ndim != 2:
            raise ValueError(
                f"model: expected [rows, features] before the last linear layer, got {list(seen[-1].shape)}"
            )
        return seen[-1]
