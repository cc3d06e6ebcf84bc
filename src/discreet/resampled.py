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
    """One attack's scores in descending blocks of ties; judges resampled rows by their counts."""

    def __init__(
        self, scores: Float[np.ndarray, " sample"], member: Bool[np.ndarray, " sample"], fpr: float
    ) -> None:
        self.order = np.argsort(-scores, kind="stable")
        ranked = scores[self.order]
        self.ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
        self.member = member[self.order]
        self.allowed = allowed(fpr, int((~member).sum()))

    def __call__(self, counts: Int[np.ndarray, "replicate sample"]) -> Float[np.ndarray, "figure replicate"]:
        ranked = counts[:, self.order]
        # Members and non-members at or above each block of ties.
        caught = np.cumsum(ranked * self.member, axis=1)[:, self.ends]
        wrong = np.cumsum(ranked * ~self.member, axis=1)[:, self.ends]
        m, n = caught[:, -1], wrong[:, -1]
        here = np.diff(caught, axis=1, prepend=0)
        below = (
            2 * n[:, None] - wrong - np.concatenate([np.zeros((len(wrong), 1), int), wrong[:, :-1]], axis=1)
        )
        area = (here * below).sum(axis=1) / (2 * m * n)
        past = wrong > self.allowed
        first_refused = np.where(past.any(axis=1), past.argmax(axis=1), past.shape[1])
        padded = np.concatenate([np.zeros((len(caught), 1), int), caught], axis=1)
        rate = padded[np.arange(len(caught)), first_refused] / m
        return np.stack([area, rate])


def _counts(
    rng: np.random.Generator, member: Bool[np.ndarray, " sample"], replicates: int
) -> Int[np.ndarray, "replicate sample"]:
    counts = np.zeros((replicates, len(member)), dtype=np.int64)
    for kind in (False, True):
        rows = np.flatnonzero(member == kind)
        drawn = rows[rng.integers(len(rows), size=(replicates, len(rows)))]
        for replicate, picks in enumerate(drawn):
            counts[replicate] += np.bincount(picks, minlength=len(member))
    return counts


def _each(
    work: Callable[[int], Float[np.ndarray, "figure replicate"]], items: range, workers: int
) -> list[Float[np.ndarray, "figure replicate"]]:
    if workers <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))
