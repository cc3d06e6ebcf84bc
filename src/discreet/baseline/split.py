"""Which runs the discriminator trains on, which stop it, and which judge it.

Whole runs go to one part: all rows that are judged are then independent of the training ("An Indicator of Membership
Inference Security in Post-Training Quantized Models", section 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Int

__all__ = ["Split", "split_runs"]

_STOP, _TEST = 0.15, 0.25


@dataclass(frozen=True)
class Split:
    """Positions of runs, each in one part.

    Attributes:
        train: The discriminator learns from these.
        stop: Their cross-entropy chooses the epoch.
        test: They judge it.
    """

    train: Int[np.ndarray, " train"]
    stop: Int[np.ndarray, " stop"]
    test: Int[np.ndarray, " test"]


def split_runs(runs: int, *, folds: int = 1, seed: int = 0) -> tuple[Split, ...]:
    """Deal out runs at random.

    Args:
        runs: How many there are.
        folds: 1: one split, 60 % to train, 15 % to stop, 25 % to judge. More: every run is judged once, by a
            discriminator that saw neither it nor its fold.
        seed: Of the order.

    Raises:
        ValueError: Too few runs for every part to have one, and two to be judged.

    Example:
        >>> [split] = split_runs(20)
        >>> len(split.train), len(split.stop), len(split.test)
        (12, 3, 5)
        >>> sorted(np.concatenate([each.test for each in split_runs(20, folds=4)]).tolist()) == list(range(20))
        True
    """
    if folds < 1:
        raise ValueError(f"folds: expected at least 1, got {folds}")
    order = np.random.default_rng([seed, 0x5B117]).permutation(runs)
    held = max(2, round(_TEST * runs))
    tests = [order[:held]] if folds == 1 else np.array_split(order, folds)
    found = []
    for test in tests:
        rest = order[~np.isin(order, test)]
        stop = max(1, round(_STOP / (1 - _TEST) * len(rest)))
        found.append(Split(np.sort(rest[stop:]), np.sort(rest[:stop]), np.sort(test)))
    if runs < 2 or min(min(len(each.train), len(each.stop), len(each.test)) for each in found) < 1:
        raise ValueError(
            f"runs: expected enough for {folds} fold{'s' * (folds > 1)} with runs to train, to stop and to judge,"
            f" got {runs}"
        )
    return tuple(found)
