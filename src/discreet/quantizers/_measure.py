"""Statistics of groups of weights, with the same bits however many groups are computed together."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float

__all__ = ["absmean", "order_statistics", "total"]


def absmean(
    groups: Float[Tensor, "group weight"], numbers: Float[Tensor, "group weight"]
) -> Float[Tensor, "group 1"]:
    """Scale at which the non-zero codes have the mean magnitude of the weights that they stand for.

    For signs this is mean|w| (Rastegari et al., "XNOR-Net", Eq. 6), for ternary codes the mean over the
    weights that were kept (Li et al., "Ternary Weight Networks", Eq. 5). A group without codes other than
    0 has scale 0.
    """
    sizes = numbers.abs()
    # Whole numbers add up exactly in whatever order, in float32 as far as it holds all of them.
    exact = torch.float32 if sizes.amax().item() * sizes.shape[1] <= 2**24 else torch.float64
    counted = sizes.sum(dim=1, keepdim=True, dtype=exact).clamp_(min=1)
    covered = total(sizes.clamp_(max=1).mul_(groups.abs()))
    return (covered / counted).to(groups.dtype)


def total(groups: Float[Tensor, "group weight"]) -> Float[Tensor, "group 1"]:
    """Sum of each group in float64, halves added to halves.

    ``Tensor.sum`` may split one long row over threads but many rows whole, which changes the last bits.
    """
    sums = groups.to(torch.float64, copy=True)
    while (width := sums.shape[1]) > 1:
        half = width // 2
        sums[:, :half] += sums[:, width - half :]
        sums = sums[:, : width - half]
    return sums


def order_statistics(
    groups: Float[Tensor, "group weight"], rank: int
) -> tuple[Float[Tensor, "group 1"], Float[Tensor, "group 1"]]:
    """The ``rank``-th smallest value of each group, counted from 1, and the one after it (or infinity)."""
    # NumPy's partition takes a tenth of the time of torch.kthvalue; both select, so they agree exactly.
    select = _select_numpy if groups.device.type == "cpu" else _select_torch
    value, after = select(groups, rank)
    return value, torch.full_like(value, torch.inf) if after is None else after


def _select_numpy(groups: Tensor, rank: int) -> tuple[Tensor, Tensor | None]:
    placed = torch.from_numpy(np.partition(groups.numpy(), rank - 1, axis=1))
    after = placed[:, rank:].amin(dim=1, keepdim=True) if rank < groups.shape[1] else None
    return placed[:, rank - 1 : rank], after


def _select_torch(groups: Tensor, rank: int) -> tuple[Tensor, Tensor | None]:
    after = groups.kthvalue(rank + 1, dim=1, keepdim=True).values if rank < groups.shape[1] else None
    return groups.kthvalue(rank, dim=1, keepdim=True).values, after
