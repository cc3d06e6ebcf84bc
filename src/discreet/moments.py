"""Moments of the losses along one trajectory, gathered in one pass and mergeable.

For losses that stream by, or lie on several machines, and cannot be read twice. The unit is the co-moment
matrix of shifted losses, kept for each block of samples. Counts, means and co-moments merge exactly (Chan,
Golub and LeVeque, 1983), so memory does not grow with the number of samples, and the blocks are what the
jackknife and the bootstrap over samples later recombine. Losses in a file are better read twice, see
`discreet.trajectory`.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NoReturn

import numpy as np

from discreet._types import Float, Int, Num

__all__ = ["BLOCKS", "LossMoments", "Pair", "grid", "refuse"]

BLOCKS = 32
"""Blocks of samples: enough degrees of freedom for a jackknife, few enough to keep co-moments of each."""

_PIECES_PER_BLOCK = 8
_SMALLEST_PIECE = 64
_LARGEST_PIECE = 2048
_ODD = np.uint64(0x9E3779B97F4A7C15)


def grid(n: int) -> list[tuple[int, slice]]:
    """Cut `n` samples into pieces and deal them to blocks, the same way whoever does it.

    Pieces are consecutive samples; block ``j`` takes every ``BLOCKS``-th piece, so that a file sorted by
    label still gives blocks that resemble one another.

    Returns:
        ``(block, slice)`` for each piece, in sample order.

    Example:
        >>> grid(3)
        [(0, slice(0, 1, None)), (1, slice(1, 2, None)), (2, slice(2, 3, None))]
    """
    blocks = min(BLOCKS, n)
    pieces = int(np.clip(n // _SMALLEST_PIECE, blocks, blocks * _PIECES_PER_BLOCK))
    pieces = max(pieces, -(-n // _LARGEST_PIECE))
    edges = np.linspace(0, n, pieces + 1).round().astype(int)
    return [(i % blocks, slice(int(a), int(b))) for i, (a, b) in enumerate(itertools.pairwise(edges))]


@dataclass(frozen=True)
class LossMoments:
    """Moments of the losses of K checkpoints, relative to the first checkpoint, by block of samples.

    Attributes:
        count: Samples in each block.
        first: Mean loss of the first checkpoint in each block, in nats.
        mean: Mean over the block of ``L_k - L_0``.
        comoment: Sum over the block of the products of centred ``L_k - L_0`` and ``L_l - L_0``.
        digest: A hash of each checkpoint's losses: equal losses have equal digests.
        single: Every loss seen is exactly a float32, so float32 sets the size of one ulp.
    """

    count: Int[np.ndarray, " block"]
    first: Float[np.ndarray, " block"]
    mean: Float[np.ndarray, "block checkpoint"]
    comoment: Float[np.ndarray, "block checkpoint checkpoint"]
    digest: Num[np.ndarray, " checkpoint"]
    single: bool = True

    @classmethod
    def of(cls, losses: Num[np.ndarray, "checkpoint sample"]) -> LossMoments:
        """Gather the moments of losses (in nats; any float type, memory-mapped or not) in one pass.

        Raises:
            ValueError: Losses that are not finite, or too large to be squared.

        Example:
            >>> moments = LossMoments.of(np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]))
            >>> moments.losses.tolist(), moments.pairs(1).ratios().tolist()
            ([2.0, 1.0], [[0.75, nan]])
        """
        out = cls.empty(losses.shape[0], min(BLOCKS, losses.shape[1]))
        buffer = np.empty((losses.shape[0] + 1, _LARGEST_PIECE))
        for position, (block, piece) in enumerate(grid(losses.shape[1])):
            try:
                out = out.updated(block, losses[:, piece], position=position, buffer=buffer)
            except ValueError:
                refuse(losses)
        return out

    @classmethod
    def empty(cls, checkpoints: int, blocks: int = BLOCKS) -> LossMoments:
        """No samples yet."""
        return cls(
            count=np.zeros(blocks, np.int64),
            first=np.zeros(blocks),
            mean=np.zeros((blocks, checkpoints)),
            comoment=np.zeros((blocks, checkpoints, checkpoints)),
            digest=np.zeros(checkpoints, np.uint64),
        )

    def updated(
        self,
        block: int,
        piece: Num[np.ndarray, "checkpoint piece"],
        *,
        position: int,
        buffer: np.ndarray | None = None,
    ) -> LossMoments:
        """Add one piece of samples to a block, in place of the block's row (the arrays are shared).

        Args:
            block: The block that the piece belongs to, see `grid`.
            piece: Losses of all checkpoints on consecutive samples.
            position: Number of the piece in the grid, which the digests depend on.
            buffer: Scratch of at least ``[checkpoint + 1, piece]`` float64.
        """
        k, m = piece.shape
        work = np.empty((k + 1, m)) if buffer is None or buffer.shape[1] < m else buffer[:, :m]
        with np.errstate(invalid="ignore", over="ignore"):
            first = piece[0].astype(np.float64)
            shift = np.subtract(piece[:, 0], piece[0, 0], dtype=np.float64)
            np.subtract(piece, first, out=work[:k], dtype=np.float64)
            work[:k] -= shift[:, None]
            work[k] = 1.0
            gram = work @ work.T  # the row of ones yields the sums
            # a product of zero and infinity is caught by the sums, an overflow by the diagonal
            if not (np.isfinite(gram).all() and np.isfinite(first.sum())):
                refuse(piece)
        here = gram[k, :k] / m
        self._merge_block(
            block, m, float(first.mean()), here + shift, gram[:k, :k] - m * np.outer(here, here)
        )
        self.digest[:] += _digest(piece, position)
        single = self.single and (piece.dtype.itemsize < 8 or bool((piece.astype(np.float32) == piece).all()))
        return self if single == self.single else replace(self, single=single)

    def _merge_block(
        self,
        j: int,
        m: int,
        first: float,
        mean: Float[np.ndarray, " checkpoint"],
        comoment: Float[np.ndarray, "checkpoint checkpoint"],
    ) -> None:
        n = int(self.count[j])
        gap = mean - self.mean[j]
        self.comoment[j] += comoment + (n * m / (n + m)) * np.outer(gap, gap)
        self.mean[j] += gap * (m / (n + m))
        self.first[j] += (first - self.first[j]) * (m / (n + m))
        self.count[j] = n + m

    def merge(self, other: LossMoments) -> LossMoments:
        """Moments of the union of two disjoint sets of samples of the same checkpoints.

        Raises:
            ValueError: The two do not have the same checkpoints and blocks.
        """
        if self.mean.shape != other.mean.shape:
            raise ValueError(
                f"moments of {self.mean.shape} and {other.mean.shape} [block, checkpoint] do not merge"
            )
        out = replace(
            self,
            **{name: getattr(self, name).copy() for name in ("count", "first", "mean", "comoment")},
            digest=self.digest + other.digest,
            single=self.single and other.single,
        )
        for j in np.flatnonzero(other.count):
            out._merge_block(int(j), int(other.count[j]), other.first[j], other.mean[j], other.comoment[j])
        return out

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.count.sum())

    @property
    def checkpoints(self) -> int:
        """Number of checkpoints, K."""
        return self.mean.shape[1]

    @property
    def shifted(self) -> Float[np.ndarray, " checkpoint"]:
        """Mean of ``L_k - L_0`` over all samples: mean losses up to a constant, in nats."""
        return self.count @ self.mean / self.n

    @property
    def losses(self) -> Float[np.ndarray, " checkpoint"]:
        """Mean loss of each checkpoint, in nats."""
        return self.count @ self.first / self.n + self.shifted

    @property
    def best(self) -> int:
        """The checkpoint of lowest mean loss, k* (the first on ties)."""
        return int(self.shifted.argmin())

    @property
    def block_means(self) -> Float[np.ndarray, "block checkpoint"]:
        """Mean loss in each block, up to a constant of the block."""
        return self.mean

    def pairs(self, against: int) -> Pair:
        """Differences of every checkpoint to one, by block; what cancels below rounding counts as the same."""
        mean = self.mean - self.mean[:, [against]]
        diagonal = np.einsum("jkk->jk", self.comoment)
        size = diagonal + diagonal[:, [against]]
        scatter = np.maximum(size - 2 * self.comoment[:, :, against], 0.0)
        centred = self.mean - self.shifted
        spread = self.count @ centred**2
        size = size.sum(axis=0) + spread + spread[against]
        gap, variance = (
            x[0] for x in Pair(self.count, mean, scatter, np.zeros(self.checkpoints, np.int8)).total()
        )
        lost = self.n * variance <= 1e-13 * size
        scatter[:, lost] = 0.0
        level = np.abs(self.losses) + np.sqrt(size / self.n)
        ulp = np.finfo(np.float32 if self.single else np.float64).eps
        status = np.where(
            lost, np.where(np.abs(gap) <= 4 * ulp * level, Pair.SAME, Pair.CONSTANT), Pair.PLAIN
        )
        status[self.digest == self.digest[against]] = Pair.SAME
        return Pair(self.count, mean, scatter, status.astype(np.int8))


@dataclass(frozen=True)
class Pair:
    """Differences ``D_k = L_k - L_k*`` of every checkpoint to one of them, by block of samples.

    Attributes:
        count: Samples in each block.
        mean: Mean of D_k in the block, in nats.
        scatter: Sum of squares of D_k about the block's mean.
        status: Whether D_k is the best checkpoint's own configuration (`SAME`: no candidate), a constant
            other than zero (`CONSTANT`), of mean exactly zero (`TIED`), or none of these (`PLAIN`).
    """

    PLAIN: ClassVar[int] = 0
    SAME: ClassVar[int] = 1
    CONSTANT: ClassVar[int] = 2
    TIED: ClassVar[int] = 3

    count: Int[np.ndarray, " block"]
    mean: Float[np.ndarray, "block checkpoint"]
    scatter: Float[np.ndarray, "block checkpoint"]
    status: Int[np.ndarray, " checkpoint"]

    def total(
        self, times: Float[np.ndarray, "draw block"] | None = None
    ) -> tuple[Float[np.ndarray, "draw checkpoint"], Float[np.ndarray, "draw checkpoint"]]:
        """Mean and population variance of D_k when block j counts ``times[draw, j]`` times.

        Without `times` there is one draw: every block once.
        """
        times = np.ones((1, len(self.count))) if times is None else times
        count = times * self.count
        n = count.sum(axis=1, keepdims=True)
        # about the plain mean, so that a common offset does not cancel
        centre = self.count @ self.mean / self.count.sum()
        local = self.mean - centre
        mean = count @ local / n
        second = (times @ self.scatter + count @ (local * local)) / n
        return mean + centre, np.maximum(second - mean * mean, 0.0)

    def ratios(
        self, times: Float[np.ndarray, "draw block"] | None = None
    ) -> Float[np.ndarray, "draw checkpoint"]:
        """``1/2 (mean D_k)^2 / Var D_k`` (Def. 3.5): NaN for the same configuration, infinite for a constant."""
        mean, variance = self.total(times)
        with np.errstate(divide="ignore", invalid="ignore"):
            out = 0.5 * mean**2 / variance
        out[:, self.status == self.CONSTANT] = np.inf
        out[:, self.status == self.SAME] = np.nan
        if times is None:
            out[:, self.status == self.TIED] = 0.0
        # a draw in which a plain difference is constant tells nothing about its spread
        out[np.isnan(out) & (self.status != self.SAME)] = 0.0
        return out


def _digest(piece: Num[np.ndarray, "checkpoint piece"], position: int) -> Num[np.ndarray, " checkpoint"]:
    crc = np.array([zlib.crc32(np.ascontiguousarray(row).data, position) for row in piece], np.uint64)
    with np.errstate(over="ignore"):
        return (crc + np.uint64(2 * position + 1)) * _ODD


def refuse(losses: Num[np.ndarray, "checkpoint sample"], steps: Sequence[object] | None = None) -> NoReturn:
    """Say which losses cannot be used, once it is known that some cannot."""
    name = "checkpoint" if steps is None else "step"
    label = range(len(losses)) if steps is None else steps
    for k, row in enumerate(losses):
        if bad := int((~np.isfinite(row)).sum()):
            raise ValueError(f"{name} {label[k]} has {bad} of {len(row)} losses that are NaN or infinite")
    size = [float(np.abs(row.astype(np.float64)).max()) for row in losses]
    k = int(np.argmax(size))
    raise ValueError(f"{name} {label[k]} has a loss of {size[k]:.3g} nats: too large to be squared")
