"""Batches with as many members as non-members, whatever their numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from discreet._types import Bool, Int

__all__ = ["balanced", "held_out"]


def balanced(
    member: Bool[np.ndarray, " sample"], size: int, rng: np.random.Generator
) -> Iterator[Int[np.ndarray, " batch"]]:
    """One epoch of batches, half members, half non-members.

    The larger class passes by once; the smaller one is repeated, each time in a new order.

    Args:
        member: The answers; both classes are there.
        size: Samples in a batch; an odd one loses its last.
        rng: Draws the orders.

    Example:
        >>> member = np.array([True, True, True, False])
        >>> [int(member[batch].sum()) for batch in balanced(member, 2, np.random.default_rng(0))]
        [1, 1, 1]
    """
    classes = [np.flatnonzero(member), np.flatnonzero(~member)]
    longest, half = max(map(len, classes)), max(1, size // 2)
    mine, theirs = (_repeated(rows, longest, rng) for rows in classes)
    for start in range(0, longest, half):
        yield np.concatenate([mine[start : start + half], theirs[start : start + half]])


def held_out(
    member: Bool[np.ndarray, " sample"], share: float, rng: np.random.Generator
) -> Bool[np.ndarray, " sample"]:
    """Mark a share of the members and of the non-members; none where either class would give less than one.

    Example:
        >>> member = np.arange(20) < 10
        >>> held_out(member, 0.2, np.random.default_rng(0))[member].sum()
        np.int64(2)
    """
    out = np.zeros(len(member), bool)
    for rows in (np.flatnonzero(member), np.flatnonzero(~member)):
        count = int(share * len(rows))
        if not count:
            return np.zeros(len(member), bool)
        out[rng.permutation(rows)[:count]] = True
    return out


def _repeated(
    rows: Int[np.ndarray, " row"], count: int, rng: np.random.Generator
) -> Int[np.ndarray, " count"]:
    rounds = -(-count // len(rows))
    return np.concatenate([rng.permutation(rows) for _ in range(rounds)])[:count]
