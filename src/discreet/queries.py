"""Ways to ask a model about an image: as it is, mirrored, shifted. Deterministic, and the same for every model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

__all__ = ["IDENTITY", "MIRRORED", "STRONG", "Query", "mirror", "shift"]

Query = Callable[[Tensor], Tensor]
Images = Tensor  # [sample, channel, height, width], checked with a message


def mirror(x: Images) -> Images:
    """Left and right exchanged.

    Example:
        >>> mirror(torch.tensor([[[[1, 2, 3]]]])).tolist()
        [[[[3, 2, 1]]]]
    """
    _check(x)
    return x.flip(-1)


def shift(down: int, right: int) -> Query:
    """Move images by whole pixels; what comes into sight is 0.

    Example:
        >>> shift(0, 1)(torch.tensor([[[[1, 2, 3]]]])).tolist()
        [[[[0, 1, 2]]]]
    """

    def moved(x: Images) -> Images:
        _check(x)
        out = torch.zeros_like(x)
        height, width = x.shape[-2:]
        to_y, to_x = (slice(max(by, 0), size + min(by, 0)) for by, size in ((down, height), (right, width)))
        from_y, from_x = (
            slice(max(-by, 0), size + min(-by, 0)) for by, size in ((down, height), (right, width))
        )
        out[..., to_y, to_x] = x[..., from_y, from_x]
        return out

    return moved


def _same(x: Tensor) -> Tensor:
    return x


def _check(x: Tensor) -> None:
    if x.ndim != 4:
        raise ValueError(
            f"x: expected images [sample, channel, height, width] to mirror or shift, got {list(x.shape)}"
        )


def _after(first: Query, then: Query) -> Query:
    return lambda x: then(first(x))


IDENTITY: Mapping[str, Query] = {"identity": _same}
MIRRORED: Mapping[str, Query] = {**IDENTITY, "mirror": mirror}
"""The two queries of most of the published LiRA figures."""

_SHIFTS = {
    f"shift({down}, {right})": shift(down, right) if down or right else _same
    for down in (0, -1, 1)
    for right in (0, -1, 1)
}
STRONG: Mapping[str, Query] = {
    name if way == "identity" else f"{way}, {name}": _after(query, moved)
    for way, query in MIRRORED.items()
    for name, moved in _SHIFTS.items()
}
"""Mirror times nine shifts by a pixel: 18 queries."""
