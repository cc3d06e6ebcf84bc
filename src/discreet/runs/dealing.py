"""Who is trained on, who chooses the checkpoint that ships, and on whom r is measured; groups stay whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Int
from discreet.data.splits import complementary_halves, first_of_each, split_groups

__all__ = ["Parts", "deal"]


@dataclass(frozen=True, eq=False)
class Parts:
    """Positions of the samples that play each part; a group is wholly in one of them.

    Attributes:
        training: Samples that runs train on, each in half of the runs.
        validation: Samples that choose the shipped checkpoint, one a group; there may be none.
        evaluation: Samples that r and task performance are measured on, one a group.
        halves: Which training samples each run sees; runs 2i and 2i + 1 complement each other.
    """

    training: Int[np.ndarray, " trained"]
    validation: Int[np.ndarray, " validated"]
    evaluation: Int[np.ndarray, " evaluated"]
    halves: Bool[np.ndarray, "run trained"]

    @property
    def n_train(self) -> int:
        """Training samples of a run, the theorem's n."""
        return len(self.training) // 2


def deal(
    group: Int[np.ndarray, " sample"],
    shares: Sequence[float],
    pairs: int,
    *,
    seed: int,
    among: Int[np.ndarray, " kept"] | None = None,
) -> Parts:
    """Deal samples out at random.

    Args:
        group: The group of each sample; different numbers where each is alone.
        shares: Of the groups: for training, validation and evaluation; validation may get 0.
        pairs: Pairs of runs.
        seed: Seed of the splits and the halves; the first pairs of more pairs are the same.
        among: Positions of the samples to deal out; None: all.

    Raises:
        ValueError: Too few groups for the shares, or training samples that cannot be halved.

    Example:
        >>> parts = deal(np.arange(10), (0.4, 0.0, 0.6), 1, seed=0)
        >>> len(parts.training), len(parts.validation), len(parts.evaluation), parts.halves.sum(axis=1).tolist()
        (4, 0, 6, [2, 2])
    """
    kept = np.arange(len(group)) if among is None else among
    given = [share for share in shares if share > 0]
    found = iter(split_groups(group[kept], given, seed=seed))
    none = np.empty(0, np.int64)
    training, validation, evaluation = (kept[next(found)] if share > 0 else none for share in shares)
    if len(training) % 2:
        training = np.delete(training, _loner(group[training]))
    halves = complementary_halves(group[training], pairs, seed=seed)
    return Parts(training, first_of_each(group, validation), first_of_each(group, evaluation), halves)


def _loner(group: Int[np.ndarray, " trained"]) -> int:
    """The last sample that is alone in its group: without it the rest can be halved."""
    names, size = np.unique(group, return_counts=True)
    alone = np.flatnonzero(np.isin(group, names[size == 1]))
    if not alone.size:
        raise ValueError(
            f"group: expected a sample that is alone in its group, so that {len(group)} training samples can be "
            "halved without it, got none"
        )
    return int(alone[-1])
