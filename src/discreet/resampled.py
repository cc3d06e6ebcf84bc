"""Paired bootstrap of two attacks on the same rows, the same bytes for any number of workers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from discreet._types import Bool, Float, Int
from discreet.roc import allowed

__all__ = ["resampled_differences"]

_CHUNK = 50


def resampled_differences(
    first: Float[np.ndarray, " sample"],
    second: Float[np.ndarray, " sample"],
    member: Bool[np.ndarray, " sample"],
    fpr: float,
    *,
    seed: int,
    replicates: int,
    workers: int = 1,
) -> tuple[Float[np.ndarray, " replicate"], Float[np.ndarray, " replicate"]]:
    """Differences (first less second) of AUC and of TPR at ``fpr`` in bootstrap replicates.

    Members and non-members are drawn separately, each row with both of its scores; thresholds are
    chosen anew every time. Every 50 replicates have a random stream of their own, keyed by the seed.

    Args:
        first: Scores of the first attack; higher = more likely member.
        second: Scores of the second on the same rows.
        member: The answer.
        fpr: False positive rate allowed.
        seed: Seed.
        replicates: How many.
        workers: Threads.

    Raises:
        ValueError: Fewer than two replicates.
    """
    if replicates < 2:
        raise ValueError(f"replicates: expected at least 2, got {replicates}")
    # Rows in an order of their own make the result blind to the caller's.
    order = np.lexsort((second, first, member))
    member = member[order]
    attacks = [_Ranked(scores[order], member, fpr) for scores in (first, second)]
    sizes = [min(_CHUNK, replicates - start) for start in range(0, replicates, _CHUNK)]

    def chunk(number: int) -> Float[np.ndarray, "figure replicate"]:
        counts = _counts(np.random.default_rng([seed, number]), member, sizes[number])
        one, two = (attack(counts) for attack in attacks)
        return one - two

    found = _each(chunk, range(len(sizes)), workers)
    areas, rates = np.concatenate(found, axis=1)
    return areas, rates


class _Ranked:
    """One attack's scores from the highest down; judges resampled rows by their counts."""

    def __init__(
        self, scores: Float[np.ndarray, " sample"], member: Bool[np.ndarray, " sample"], fpr: float
    ) -> None:
        order = np.argsort(-scores, kind="stable")
        self.members, self.others = order[member[order]], order[~member[order]]
        high, low = -scores[self.members], -scores[self.others]
        self.others_above = np.searchsorted(low, high, side="left")
        self.others_reaching = np.searchsorted(low, high, side="right")
        self.members_above = np.append(np.searchsorted(high, low, side="left"), len(high))
        self.allowed = allowed(fpr, len(low))

    def __call__(self, counts: Int[np.ndarray, "replicate sample"]) -> Float[np.ndarray, "figure replicate"]:
        m, n = len(self.members), len(self.others)
        weight = counts[:, self.members]
        wrong, caught = _running(counts[:, self.others]), _running(weight)
        # A member beats what lies below it, and half of what ties with it.
        twice_beaten = 2 * n - wrong[:, self.others_above] - wrong[:, self.others_reaching]
        area = np.einsum("ij,ij->i", weight, twice_beaten) / (2 * m * n)
        past = wrong > self.allowed
        refused = np.where(past.any(axis=1), past.argmax(axis=1) - 1, n)
        rate = caught[np.arange(len(counts)), self.members_above[refused]] / m
        return np.stack([area, rate])


def _running(counts: Int[np.ndarray, "replicate sample"]) -> Int[np.ndarray, "replicate place"]:
    """Running totals, from 0."""
    totals = np.zeros((len(counts), counts.shape[1] + 1), dtype=np.int64)
    np.cumsum(counts, axis=1, out=totals[:, 1:])
    return totals


def _counts(
    rng: np.random.Generator, member: Bool[np.ndarray, " sample"], replicates: int
) -> Int[np.ndarray, "replicate sample"]:
    counts = np.zeros((replicates, len(member)), dtype=np.int64)
    for kind in (False, True):
        rows = np.flatnonzero(member == kind)
        drawn = rng.integers(len(rows), size=(replicates, len(rows)))
        drawn += np.arange(replicates)[:, None] * len(rows)
        counts[:, rows] = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(replicates, len(rows))
    return counts


def _each(
    work: Callable[[int], Float[np.ndarray, "figure replicate"]], items: range, workers: int
) -> list[Float[np.ndarray, "figure replicate"]]:
    if workers <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))
