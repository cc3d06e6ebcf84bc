"""A convolution of outer products: the image has rank one, so it is a product of two thin matrices.

sum over a, b of K[a, b] u[i + a] h[j + b] = sum over a of u[i + a] (sum over b of K[a, b] h[j + b]).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pad

from discreet._types import Float

__all__ = ["OuterConvolution", "outer"]


class OuterConvolution(nn.Module):
    """What ``Conv2d(1, 1, kernel, padding=kernel // 2)``, ReLU and ``MaxPool2d(2)`` make of u ⊗ h, flattened.

    Odd sides keep their last row or column (as with ``ceil_mode``).

    Example:
        >>> OuterConvolution(5)(torch.ones(3, 1), torch.ones(3, 7)).shape
        torch.Size([3, 4])
    """

    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, 1, kernel, kernel))
        self.bias = nn.Parameter(torch.empty(1))
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        nn.init.zeros_(self.bias)

    def forward(self, u: Float[Tensor, "sample row"], h: Float[Tensor, "sample column"]) -> Tensor:
        kernel = self.weight.shape[-1]
        edge = (kernel // 2, kernel // 2)
        left = pad(u, edge).unfold(1, kernel, 1)
        right = torch.einsum("njb,ab->naj", pad(h, edge).unfold(1, kernel, 1), self.weight[0, 0])
        image = torch.baddbmm(self.bias[:, None, None], left, right)
        # rectified after pooling, which is the same and four times less to do
        return max_pool2d(image[:, None], 2, ceil_mode=True).relu().flatten(1)


def outer(
    u: Float[Tensor, "sample row"], h: Float[Tensor, "sample column"]
) -> Float[Tensor, "sample row column"]:
    """Gradient of a linear layer's weight for each sample, from the gradients of its outputs and its inputs."""
    return u[:, :, None] * h[:, None, :]
