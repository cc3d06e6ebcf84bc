"""Splits that keep related samples together, and training halves that make members and non-members."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from discreet._types import Bool, Int

__all__ = ["complementary_halves", "first_of_each", "split_groups"]


def split_groups(
    group: Int[np.ndarray, " sample"], shares: Sequence[float], *, seed: int
) -> tuple[Int[np.ndarray, " _part"], ...]:
    """Deal whole groups out to parts, at random.

    Args:
        group: The group of each sample; a group is never cut.
        shares: The share of the *groups* that each part gets; they add up to 1.
        seed: Seed of the shuffle.

    Returns:
        The samples of each part, ascending.

    Raises:
        ValueError: The shares are not positive, do not add up to 1, or leave a part without a group.

    Example:
        >>> [part.tolist() for part in split_groups(np.array([0, 0, 1, 2]), [0.34, 0.66], seed=0)]
        [[3], [0, 1, 2]]
    """
    if min(shares, default=0.0) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise ValueError(f"shares: expected positive shares that add up to 1, got {list(shares)}")
    names, place = np.unique(group, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(names))
    bounds = np.rint(np.cumsum([0.0, *shares]) * len(names)).astype(int)
    if (np.diff(bounds) == 0).any():
        raise ValueError(f"group: expected enough groups for {len(shares)} parts, got {len(names)}")
    part = np.empty(len(names), dtype=np.int64)
    for i, (start, stop) in enumerate(pairwise(bounds)):
        part[order[start:stop]] = i
    return tuple(np.flatnonzero(part[place] == i) for i in range(len(shares)))


def first_of_each(
    group: Int[np.ndarray, " sample"], samples: Int[np.ndarray, " part"]
) -> Int[np.ndarray, " _group"]:
    """Keep the first sample of each group, so that what is left is independent across groups.

    Args:
        group: The group of each sample.
        samples: Numbers of the samples to choose from, ascending.

    Example:
        >>> first_of_each(np.array([5, 7, 5, 7]), np.array([1, 2, 3]))
        array([1, 2])
    """
    return samples[np.sort(np.unique(group[samples], return_index=True)[1])]


def complementary_halves(group: np.ndarray, pairs: int, *, seed: int) -> Bool[np.ndarray, "run sample"]:
    """Draw training sets in pairs: each holds half of the samples, and its partner the other half.

    Every sample is then a member of exactly half of the runs, and the two halves of a pair are equally large.

    Args:
        group: The group of each sample; a group is wholly in a half or wholly out of it.
        pairs: How many pairs to draw.
        seed: Seed of the draws; the first pairs of more pairs are the same.

    Returns:
        Membership; runs 2i and 2i + 1 are partners.

    Raises:
        ValueError: The number of samples is odd, or the groups cannot be cut into equal halves this way.

    Example:
        >>> halves = complementary_halves(np.array([0, 0, 1, 2]), 1, seed=0)
        >>> halves.sum(axis=1).tolist(), bool((halves[0] ^ halves[1]).all())
        ([2, 2], True)
    """
    if len(group) % 2:
        raise ValueError(f"group: expected an even number of samples, got {len(group)}")
    names, place = np.unique(group, return_inverse=True)
    sizes = np.bincount(place)
    halves = np.empty((2 * pairs, len(group)), dtype=bool)
    for pair in range(pairs):
        inside = _half(sizes, np.random.default_rng([seed, pair]).permutation(len(names)))
        halves[2 * pair], halves[2 * pair + 1] = inside[place], ~inside[place]
    return halves


def _half(sizes: Int[np.ndarray, " group"], order: Int[np.ndarray, " group"]) -> Bool[np.ndarray, " group"]:
    """Take groups in the order given, passing over those that no longer fit, until half is taken."""
    left = int(sizes.sum()) // 2
    inside = np.zeros(len(sizes), dtype=bool)
    for name in order:
        if sizes[name] <= left:
            inside[name] = True
            left -= int(sizes[name])
    if left:
        raise ValueError(f"group: cannot fill a half, {left} of {int(sizes.sum()) // 2} samples are missing")
    return inside
