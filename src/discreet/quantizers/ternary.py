"""Three levels: the smallest weights become 0, the others their sign.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", section 4.1 and Table 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from discreet._types import Bool, Float
from discreet.quantizers._codes import Multiples
from discreet.quantizers._fields import QuantizerError, Scaled
from discreet.quantizers._measure import absmean, order_statistics

__all__ = ["Ternary"]


@dataclass(frozen=True)
class Ternary(Scaled):
    """A share of the weights becomes 0, those of smallest magnitude; the rest become their sign.

    This is the paper's "1.58b x%", read as its section 4.1 says it (Table 2 prints the inequality the
    other way round). Of the d weights of a group exactly floor(zeros · d) are dropped, ``zeros`` being
    taken as the decimal it is written as (29 % of 100 weights are 29). Of equal magnitudes the first are
    dropped: in the order of tensor names, then of position. Weights that are 0 stay 0, even if
    there are more of them.

    With ``scale="absmean"`` a group's signs are multiplied by the mean magnitude of the weights that were
    not dropped (Li et al., "Ternary Weight Networks", Eq. 5).

    Attributes:
        zeros: Share of the weights that becomes 0, at least 0 and below 1.

    Example:
        >>> Ternary(zeros=0.5).encode(torch.tensor([[-0.2, 0.1, 3.0, 0.1]])).dense()
        tensor([[-1.,  0.,  1.,  0.]])
    """

    zeros: float | int = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.zeros, bool) or not isinstance(self.zeros, int | float) or not 0 <= self.zeros < 1:
            raise QuantizerError(f"zeros must be a share, at least 0 and below 1, got {self.zeros!r}")
        object.__setattr__(self, "zeros", float(self.zeros))

    @property
    def levels(self) -> int:
        """-1, 0 and +1."""
        return 3

    def encode(self, groups: Float[Tensor, "group weight"]) -> Multiples:
        """Signs of the weights above the quantile q(|θ|, zeros) of their group (Table 2, "1.58b")."""
        stays = self._stays(groups.abs())
        numbers = torch.copysign(stays.to(groups.dtype), groups)
        scale = absmean(groups, numbers) if self.scale == "absmean" else None
        return Multiples(numbers, largest=1, zero=True, scale=scale)

    def _stays(self, sizes: Float[Tensor, "group weight"]) -> Bool[Tensor, "group weight"]:
        dropped = int(Fraction(repr(self.zeros)) * sizes.shape[1])
        if dropped == 0:
            return sizes > 0
        edge, after = order_statistics(sizes, dropped)
        stays = sizes > edge
        rows = torch.nonzero((edge == after) & (edge > 0))[:, 0]
        if len(rows):
            sizes, edge = sizes[rows], edge[rows]
            tied = sizes == edge
            spare = dropped - (sizes < edge).sum(dim=1, keepdim=True)
            stays[rows] |= tied & (tied.cumsum(dim=1) > spare)
        return stays
