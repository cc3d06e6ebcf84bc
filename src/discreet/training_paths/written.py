"""Multilayer perceptrons with the backward pass written out as batched matrix products.

Batched autograd does the same products and spends as long again on its graph and on buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from discreet._types import Float, Num
from discreet.losses import Loss
from discreet.mlp import ACTIVATIONS, MLP
from discreet.sparse_inputs import SparseRows
from discreet.training_paths import Epoch, batches
from discreet.training_paths.sparse_batches import sparse_batches

__all__ = ["Written"]


@runtime_checkable
class Rows(Protocol):
    """The inputs of one batch, as the first layer needs them."""

    def times(self, weight: Tensor, bias: Tensor) -> Float[Tensor, "model batch out"]:
        """The first layer's output before the activation."""
        ...

    def weight_gradient(self, slope: Float[Tensor, "model batch out"]) -> Tensor:
        """Gradient of the first weight, in the weight's layout, given that of the layer's output."""
        ...


@dataclass(frozen=True)
class DenseRows:
    """Inputs as they are; the weight is [model, out, in]."""

    x: Float[Tensor, "model batch in"]

    def times(
        self, weight: Float[Tensor, " model out in"], bias: Float[Tensor, "model out"]
    ) -> Float[Tensor, "model batch out"]:
        """``x W' + b``."""
        return torch.baddbmm(bias[:, None], self.x, weight.mT)

    def weight_gradient(self, slope: Float[Tensor, "model batch out"]) -> Float[Tensor, " model out in"]:
        """``slope' x``."""
        return torch.bmm(slope.mT, self.x)


class Written:
    """A path for one architecture and one data set.

    Args:
        network: The architecture.
        x: Inputs, dense, or sparse for the sums of weight rows instead of the first product.
        y: Labels.
        loss: What is minimised.
    """

    def __init__(
        self,
        network: MLP,
        x: Float[Tensor, "sample features"] | SparseRows,
        y: Num[Tensor, " sample *target"],
        loss: Loss,
    ) -> None:
        self.network, self.x, self.y, self.loss = network, x, y, loss
        self.activation = ACTIVATIONS[network.activation]
        sparse = isinstance(x, SparseRows)
        self.transposed = frozenset({network.layers[0][0]} if sparse else ())

    def steps(self, params: dict[str, Tensor], epoch: Epoch) -> Iterator[dict[str, Tensor]]:
        """See ``Path.steps``. With sparse inputs the first weight is [model, in, out]."""
        if isinstance(self.x, SparseRows):
            for rows, y in sparse_batches(self.x, self.y, epoch):
                yield self._gradients(params, rows, y)
        else:
            for batch in batches(self.x, self.y, epoch):
                yield self._gradients(params, DenseRows(batch.x), batch.y)

    def _gradients(
        self, params: Mapping[str, Tensor], rows: Rows, y: Num[Tensor, " model batch *target"]
    ) -> dict[str, Tensor]:
        (weight, bias), *upper = self.network.layers
        hidden = [rows.times(params[weight], params[bias])]
        for upper_weight, upper_bias in upper:
            self.activation.forward_(hidden[-1])
            hidden.append(torch.baddbmm(params[upper_bias][:, None], hidden[-1], params[upper_weight].mT))
        slope = self._loss_slope(hidden.pop(), y)
        gradients: dict[str, Tensor] = {}
        for (upper_weight, upper_bias), below in zip(reversed(upper), reversed(hidden), strict=True):
            gradients[upper_weight] = torch.bmm(slope.mT, below)
            gradients[upper_bias] = slope.sum(1)
            slope = self.activation.backward(torch.bmm(slope, params[upper_weight]), below)
        gradients[weight] = rows.weight_gradient(slope)
        gradients[bias] = slope.sum(1)
        return gradients

    def _loss_slope(
        self, outputs: Float[Tensor, "model batch out"], y: Num[Tensor, " model batch *target"]
    ) -> Float[Tensor, "model batch out"]:
        """Gradient of each model's mean loss with respect to its outputs."""
        if self.loss.gradient is not None:
            return self.loss.gradient(outputs, y).div_(outputs.shape[1])

        def mean_loss(outputs: Tensor, y: Tensor) -> Tensor:
            return self.loss.per_sample(outputs, y).mean()

        return torch.func.vmap(torch.func.grad(mean_loss))(outputs, y)
