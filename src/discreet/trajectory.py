"""The losses of one training run's checkpoints, read twice: for the means, then for the differences.

The indicator needs every checkpoint against the best one only, so a second pass over a mapped file costs
less than the co-moments of all pairs, and differences taken before squaring lose no digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum

import numpy as np

from discreet._types import Float, Int, Num
from discreet.moments import BLOCKS, Pair, grid, refuse

__all__ = ["Trajectory"]

_AT_ONCE = 1 << 22
"""Losses up to which one float64 copy is made: no pieces, hence no Python loop over them."""


@dataclass(frozen=True)
class Trajectory:
    """Losses of K checkpoints of one run on the same samples.

    Attributes:
        values: Losses in nats, any float type, in memory or memory-mapped.
        twin: Optional fingerprint of each checkpoint's parameters: equal ones are one configuration.
        steps: Optional name of each checkpoint, for messages.

    Raises:
        ValueError: Fewer than two checkpoints or samples, or (when read) a loss that is not finite.

    Example:
        >>> t = Trajectory(np.array([[2.0, 3.0, 4.0], [1.0, 1.0, 2.0], [1.0, 2.0, 2.0]]))
        >>> t.best, t.ratios.round(3).tolist()
        (1, [6.25, nan, 0.25])
    """

    values: Num[np.ndarray, ...]  # [checkpoint, sample]; the shape is checked below, with a message
    twin: Num[np.ndarray, " checkpoint"] | None = None
    steps: Sequence[object] | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.dtype.kind != "f":
            raise ValueError(
                "losses of one run must be a float array [checkpoint, sample], got "
                f"{self.values.dtype} of shape {self.values.shape}"
            )
        if self.checkpoints < 2:
            raise ValueError(
                f"{self.checkpoints} checkpoint: at least 2 are needed, since the indicator compares the "
                "best one with the others"
            )
        if self.n < 2:
            raise ValueError(f"{self.n} evaluation sample: at least 2 are needed for a variance")

    @property
    def checkpoints(self) -> int:
        """Number of checkpoints, K."""
        return self.values.shape[0]

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.values.shape[1]

    @cached_property
    def count(self) -> Int[np.ndarray, " block"]:
        """Samples in each block."""
        out = np.zeros(min(BLOCKS, self.n), np.int64)
        for block, piece in grid(self.n):
            out[block] += piece.stop - piece.start
        return out

    @cached_property
    def block_means(self) -> Float[np.ndarray, "block checkpoint"]:
        """Mean loss of each checkpoint in each block, in nats (first pass)."""
        if self._by_block is not None:
            losses, starts = self._by_block
            with np.errstate(invalid="ignore", over="ignore"):
                sums = np.add.reduceat(losses, starts, axis=1).T
            if not np.isfinite(sums).all():
                refuse(self.values, self.steps)
            return sums / self.count[:, None]
        out = np.zeros((len(self.count), self.checkpoints))
        for block, piece in grid(self.n):
            with np.errstate(invalid="ignore", over="ignore"):
                sums = np.add.reduce(self.values[:, piece], axis=1, dtype=np.float64)
            if not np.isfinite(sums).all():
                refuse(self.values, self.steps)
            out[block] += sums
        return out / self.count[:, None]

    @cached_property
    def losses(self) -> Float[np.ndarray, " checkpoint"]:
        """Mean loss of each checkpoint, in nats."""
        return self.count @ self.block_means / self.n

    @cached_property
    def best(self) -> int:
        """The checkpoint of lowest mean loss, k* (the first on ties, which are exact)."""
        losses = self.losses
        near = np.flatnonzero(losses - losses.min() <= 1e-12 * np.abs(losses).max())
        if len(near) == 1:
            return int(near[0])
        anchor = int(near[0])
        exact = [self.exact(int(k), anchor) for k in near]
        gaps = [
            0.0 if e.status[0] in (Pair.SAME, Pair.TIED) else float(self.count @ e.mean[:, 0]) for e in exact
        ]
        return int(near[int(np.argmin(gaps))])

    def pairs(self, against: int) -> Pair:
        """Differences of every checkpoint to one, by block (second pass).

        Squares are expanded, ``(a - b)^2 = a^2 - 2ab + b^2``, which costs half of subtracting first; pairs whose
        difference is too small for that are subtracted after all.
        """
        if self._by_block is not None:
            return self._pairs_at_once(*self._by_block, against)
        shape = (len(self.count), self.checkpoints)
        cross, square = np.zeros(shape), np.zeros(shape)
        for block, _, work in self._pieces(np.arange(self.checkpoints)):
            with np.errstate(invalid="ignore", over="ignore"):
                cross[block] += work @ work[against]
                square[block] += np.vecdot(work, work)
            if not np.isfinite(square[block]).all():
                refuse(self.values, self.steps)
        mean = self.block_means - self.block_means[:, [against]]
        own = square[:, [against]]
        scatter = np.maximum(square - 2 * cross + own - self.count[:, None] * mean**2, 0.0)
        scatter[:, against] = 0.0
        small = scatter.sum(axis=0) <= 1e-6 * (square.sum(axis=0) + own.sum())
        small[against] = False
        self._subtract(np.flatnonzero(small), against, mean, scatter)
        return self._resolved(mean, scatter, against, float(own.sum()) / self.n)

    @cached_property
    def _by_block(self) -> tuple[Float[np.ndarray, "checkpoint sample"], Int[np.ndarray, " block"]] | None:
        """All losses in float64, samples of a block side by side, and where blocks begin; None if there are many."""
        if self.values.size > _AT_ONCE:
            return None
        pieces = sorted(grid(self.n), key=lambda piece: piece[0])
        columns = np.concatenate([np.arange(piece.start, piece.stop) for _, piece in pieces])
        starts = np.cumsum(self.count) - self.count
        return np.ascontiguousarray(self.values[:, columns], np.float64), starts

    def _pairs_at_once(
        self,
        losses: Float[np.ndarray, "checkpoint sample"],
        starts: Int[np.ndarray, " block"],
        against: int,
    ) -> Pair:
        with np.errstate(invalid="ignore", over="ignore"):
            gap = losses - losses[against]
            total = np.add.reduceat(gap, starts, axis=1).T
            square = np.add.reduceat(np.square(gap), starts, axis=1).T
            own = float(np.vdot(losses[against], losses[against])) / self.n
        if not (np.isfinite(square).all() and np.isfinite(own)):
            refuse(self.values, self.steps)
        mean = total / self.count[:, None]
        return self._resolved(mean, np.maximum(square - total * mean, 0.0), against, own)

    def _pieces(self, rows: Int[np.ndarray, " row"]) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Rows piece by piece, as float64 in one buffer."""
        work = np.empty((len(rows), max(piece.stop - piece.start for _, piece in grid(self.n))))
        every = len(rows) == self.checkpoints
        for block, piece in grid(self.n):
            here = work[:, : piece.stop - piece.start]
            here[...] = self.values[:, piece] if every else self.values[rows, piece]
            yield block, piece, here

    def _subtract(
        self,
        rows: Int[np.ndarray, " row"],
        against: int,
        mean: Float[np.ndarray, "block checkpoint"],
        scatter: Float[np.ndarray, "block checkpoint"],
    ) -> None:
        """Fill in means and scatters of some rows from the differences themselves."""
        total, square = (np.zeros((len(self.count), len(rows))) for _ in range(2))
        for block, piece, gap in self._pieces(rows):
            gap -= self.values[against, piece].astype(np.float64)
            total[block] += gap.sum(axis=1)
            square[block] += np.vecdot(gap, gap)
        mean[:, rows] = total / self.count[:, None]
        scatter[:, rows] = np.maximum(square - total * mean[:, rows], 0.0)

    def _resolved(
        self,
        mean: Float[np.ndarray, "block checkpoint"],
        scatter: Float[np.ndarray, "block checkpoint"],
        against: int,
        own: float,
    ) -> Pair:
        """Look at each pair that rounding may have decided, one by one.

        Args:
            mean: Mean difference by block.
            scatter: Scatter of the difference by block.
            against: The best checkpoint.
            own: Mean square of its losses.
        """
        status = np.zeros(self.checkpoints, np.int8)
        total, variance = (x[0] for x in Pair(self.count, mean, scatter, status).total())
        # agreeing within 4 ulp bounds the variance; what nearly cancels is summed again, exactly
        floor = 2 * (8 * np.finfo(self._kind).eps) ** 2 * (own + total**2 + variance)
        doubtful = variance <= np.maximum(floor, 1e-8 * total**2)
        doubtful |= np.abs(total) <= 1e-12 * np.sqrt(own + variance)
        doubtful[against] = False
        for k in np.flatnonzero(doubtful):
            exact = self.exact(int(k), against)
            mean[:, k], scatter[:, k], status[k] = exact.mean[:, 0], exact.scatter[:, 0], exact.status[0]
        status[against] = Pair.SAME
        if self.twin is not None:
            status[self.twin == self.twin[against]] = Pair.SAME
        return Pair(self.count, mean, scatter, status)

    @cached_property
    def _kind(self) -> np.dtype:
        """The type whose unit in the last place counts: float32 where every value is exactly one."""
        if self.values.dtype.itemsize < 8:
            return self.values.dtype
        with np.errstate(over="ignore"):
            single = all(
                (self.values[:, piece].astype(np.float32) == self.values[:, piece]).all()
                for _, piece in grid(self.n)
            )
        return np.dtype(np.float32 if single else np.float64)

    def exact(self, k: int, against: int) -> Pair:
        """One pair of checkpoints, looked at directly.

        Two losses agree when they differ by at most 4 units in the last place of their stored type. Means
        are correctly rounded sums, so that equal means differ by exactly zero.
        """
        gaps: list[list[np.ndarray]] = [[] for _ in self.count]
        ulps: list[list[np.ndarray]] = [[] for _ in self.count]
        for block, piece in grid(self.n):
            a, b = (self.values[i, piece].astype(np.float64) for i in (k, against))
            gaps[block].append(a - b)
            ulps[block].append(np.spacing(np.maximum(np.abs(a), np.abs(b)).astype(self._kind)))
        gap = [np.concatenate(part) for part in gaps]
        near = 4 * np.concatenate([u for part in ulps for u in part]).astype(np.float64)
        flat = np.concatenate(gap)
        total = fsum(flat.tolist())
        if (np.abs(flat) <= near).all():
            status = Pair.SAME
        elif (np.abs(flat - total / self.n) <= near).all():
            status = Pair.CONSTANT
        else:
            status = Pair.PLAIN if total else Pair.TIED
        mean = np.array([fsum(g.tolist()) / len(g) for g in gap])
        scatter = np.array([np.square(g - m).sum() for g, m in zip(gap, mean, strict=True)])
        return Pair(self.count, mean[:, None], scatter[:, None], np.array([status], np.int8))

    @cached_property
    def _pairs(self) -> Pair:
        return self.pairs(self.best)

    @property
    def ratios(self) -> Float[np.ndarray, " checkpoint"]:
        """``1/2 (mean D_k)^2 / Var D_k`` of each checkpoint (Def. 3.5); NaN for the best configuration."""
        return self._pairs.ratios()[0]
