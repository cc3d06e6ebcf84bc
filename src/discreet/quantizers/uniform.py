"""Evenly spaced levels up to a power of two, and one beyond.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", Table 2 and Figure 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from discreet._types import Float
from discreet.quantizers._codes import Multiples
from discreet.quantizers._fields import Scaled, whole
from discreet.quantizers._measure import absmean

__all__ = ["Uniform"]


@dataclass(frozen=True)
class Uniform(Scaled):
    """The paper's "k bits": magnitudes rounded up to the next of 2^(k-1) steps below alpha, or one beyond.

    Q(t) = sign(t) · alpha/2^(k-1) · floor(1 + clip(2^(k-1)|t|/alpha, 0, 2^(k-1))), with
    alpha = 2^round(log2 max|t|) over the group and sign(0) = +1. (Table 2 prints t where its Figure 6 shows
    |t|.) Two things follow that the name hides. There is no level 0. And magnitudes of alpha and more, which
    occur as alpha is rounded, get one level of their own: 2^k + 2 signed levels, which take k + 1 bits of
    code. A group of zeros has alpha = 0 and stays 0.

    With ``scale="absmean"`` the codes are the same, but alpha/2^(k-1) is replaced by the step at which the
    mean magnitude of a group does not change. (Rounding up inflates small weights: at k = 2 most of a
    normal sample comes out at half its maximum.)

    Attributes:
        bits: k, from 2 to 16.

    Example:
        >>> Uniform(bits=2).encode(torch.tensor([[-1.0, -0.3, 0.0, 0.5]])).dense()
        tensor([[-1.5000, -0.5000,  0.5000,  1.0000]])
    """

    bits: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("bits", self.bits, 2, 16)

    @property
    def levels(self) -> int:
        """2^k + 2."""
        return 2**self.bits + 2

    def encode(self, groups: Float[Tensor, "group weight"]) -> Multiples:
        """Numbers of steps, and the step of each group (Table 2, "k bits")."""
        steps = 2 ** (self.bits - 1)
        sizes = groups.abs()
        step = _alpha(sizes.amax(dim=1, keepdim=True)) / steps
        # Dividing by a power of two is exact, and 1 + floor(x) is floor(1 + x) without the rounding of 1 + x.
        counts = sizes.div_(torch.where(step > 0, step, 1.0)).floor_().clamp_(max=steps).add_(1.0)
        numbers = torch.copysign(counts, groups + 0.0)
        scale = absmean(groups, numbers) if self.scale == "absmean" else step
        return Multiples(numbers, largest=steps + 1, zero=False, scale=scale)


def _alpha(peak: Float[Tensor, "group 1"]) -> Float[Tensor, "group 1"]:
    """2^round(log2 peak) without a logarithm, and 0 for 0.

    With peak = m · 2^e and m in [1/2, 1), log2 m rounds to 0 above sqrt(1/2) and to -1 below it; the
    irrational bound is never met, and peak / m is an exact power of two.
    """
    mantissa = torch.frexp(peak).mantissa
    rounds_up = mantissa.double() >= math.sqrt(0.5)
    alpha = peak / torch.where(rounds_up, mantissa, 2 * mantissa)
    return torch.where(peak > 0, alpha, torch.zeros_like(peak))
