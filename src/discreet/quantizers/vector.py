"""Vector quantization: blocks of weights become the nearest entry of a codebook.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", Example 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from discreet._types import Float, Int
from discreet.quantizers._codes import Indices
from discreet.quantizers._fields import Grouped, whole

__all__ = ["Vector"]

_ROUNDS = 25
# Distances of one pass, in float64: 8 MB.
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Vector(Grouped):
    """Runs of ``block`` weights become the nearest of ``size`` centroids of their group.

    The centroids are those of k-means (Lloyd's algorithm) on the blocks of the group, in float64, at most
    25 rounds from ``size`` distinct blocks drawn with the seed; a centroid that loses all its blocks stays.
    A group of no more than ``size`` distinct blocks is kept exactly. The last block of a group may be cut
    short: it takes part in no mean, and is matched on the weights that it has.

    Attributes:
        size: Entries of the codebook, from 2 to 65536.
        block: Weights to a block, from 1 to 64.
        seed: Seed of the draw of the first centroids.

    Example:
        >>> Vector(size=2, block=2).encode(torch.tensor([[0.0, 1.0, 5.0, 5.0]])).index
        tensor([[0, 1]])
    """

    size: int = 256
    block: int = 4
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("size", self.size, 2, 2**16)
        whole("block", self.block, 1, 64)
        whole("seed", self.seed, 0, 2**32 - 1)

    @property
    def levels(self) -> int:
        """One for each entry of the codebook; it counts blocks, not weights."""
        return self.size

    def encode(self, groups: Float[Tensor, "group weight"]) -> Indices:
        """Codebook and nearest entries of each group."""
        books, indices = [], []
        # Adding 0 turns -0.0 into +0.0, or the two would be distinct blocks.
        for row in (groups + 0.0).cpu().numpy():
            whole_part = row[: len(row) - len(row) % self.block].reshape(-1, self.block)
            tail = row[whole_part.size :]
            points = whole_part if len(whole_part) else np.pad(tail, (0, self.block - len(tail)))[None]
            book = _centroids(points.astype(np.float64), self.size, self.seed).astype(row.dtype)
            index = _nearest(whole_part, book)
            if tail.size:
                index = np.append(index, _nearest(tail[None], book[:, : tail.size]))
            books.append(book)
            indices.append(index)
        book, index = torch.from_numpy(np.stack(books)), torch.from_numpy(np.stack(indices))
        return Indices(index.to(groups.device), book.to(groups.device), groups.shape[1])


def _centroids(
    points: Float[np.ndarray, "point weight"], size: int, seed: int
) -> Float[np.ndarray, "entry weight"]:
    distinct = np.unique(points, axis=0)
    if len(distinct) <= size:
        return np.pad(distinct, ((0, size - len(distinct)), (0, 0)), mode="edge")
    drawn = np.random.default_rng(seed).choice(len(distinct), size, replace=False)
    book = distinct[np.sort(drawn)]
    for _ in range(_ROUNDS):
        nearest = _nearest(points, book)
        counts = np.bincount(nearest, minlength=size)
        sums = [np.bincount(nearest, weights=column, minlength=size) for column in points.T]
        means = np.stack(sums, axis=1) / np.maximum(counts, 1)[:, None]
        moved = np.where(counts[:, None] > 0, means, book)
        if np.array_equal(moved, book):
            break
        book = moved
    return book


def _nearest(
    points: Float[np.ndarray, "point weight"], book: Float[np.ndarray, "entry weight"]
) -> Int[np.ndarray, " point"]:
    step = max(1, _AT_ONCE // len(book))
    passes = [points[start : start + step] for start in range(0, len(points), step)]
    found = [cdist(each, book, "sqeuclidean").argmin(axis=1) for each in passes]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
