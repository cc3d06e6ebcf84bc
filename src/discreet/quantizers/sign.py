"""One bit per weight, its sign.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", Example 3.1 and Table 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discreet._types import Float
from discreet.quantizers._codes import Multiples
from discreet.quantizers._fields import Scaled
from discreet.quantizers._measure import absmean

__all__ = ["Sign"]


@dataclass(frozen=True)
class Sign(Scaled):
    """Every weight becomes its sign, and 0 (of either sign) becomes +1: one bit has no zero.

    With ``scale="absmean"`` a group's signs are multiplied by its mean|w|, which minimises the squared
    error (Rastegari et al., "XNOR-Net: ImageNet Classification Using Binary Convolutional Neural Networks",
    Eq. 6).

    Example:
        >>> Sign().encode(torch.tensor([[-0.2, 0.0, 3.0]])).dense()
        tensor([[-1.,  1.,  1.]])
    """

    @property
    def levels(self) -> int:
        """-1 and +1."""
        return 2

    def encode(self, groups: Float[Tensor, "group weight"]) -> Multiples:
        """Signs of the weights (Table 2, "Sign")."""
        # Adding 0 turns -0.0 into +0.0.
        numbers = torch.copysign(torch.ones((), dtype=groups.dtype, device=groups.device), groups + 0.0)
        scale = absmean(groups, numbers) if self.scale == "absmean" else None
        return Multiples(numbers, largest=1, zero=False, scale=scale)
