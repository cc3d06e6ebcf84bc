"""Designs that fix how many training sets a sample is in: who counts the other runs then knows the answer.

Disjoint shards, k folds, "exactly half of the runs" not in pairs: of a member of the target one run fewer among the
others trained on it. Even an attack that never counts does so through its references, since a sample with fewer of
them on one side has a wider prediction there. So every sample gets as many on either side as every other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreet._types import Bool
from discreet.crossed import complement_pairs
from discreet.records import Record

__all__ = ["evened", "outside_pool", "tells_by_count"]

_ENOUGH_SETS = 4
_BY_CHANCE = 1 / 8
"""With fewer other runs, or smaller ones, samples of the pool would often be in none of them by chance."""


def tells_by_count(record: Record, run: str) -> Bool[np.ndarray, " sample"] | None:
    """Samples whose membership in ``run`` follows from the number of other runs that trained on them.

    That is so where each sample is in the same number of different training sets, the target's included. Samples that
    every set holds, or none, are no part of such a design. Partners of the run do not count: blind records lack them.

    Returns:
        The samples, or None if the number does not tell.
    """
    sets, _ = _others(record, run)
    return _dealt(record.membership(run), sets)


def evened(blind: Record, dealt: Bool[np.ndarray, " sample"], *, seed: int = 0) -> Record:
    """Give every sample as many references that trained on it, and as many that did not, as any other has.

    Surplus ones, drawn at random, neither trained on the sample nor are strangers to it, as if it had calibrated
    their quantizer. What remains is as likely for members of the target as for others.

    Args:
        blind: A record blind to the target.
        dealt: Samples that have their share (see :func:`tells_by_count`); all others get at most as much.
        seed: Of the draw, which depends on the names of runs and samples and not on their order.
    """
    inside = np.asarray(blind.member)
    noise = np.empty(inside.shape)
    runs = np.argsort(np.array(blind.member_runs), kind="stable")
    noise[np.ix_(runs, np.argsort(blind.sample, kind="stable"))] = np.random.default_rng(seed).random(
        inside.shape
    )
    surplus = np.zeros_like(inside)
    for side in (inside, ~inside):
        place = np.where(side, noise, 2.0).argsort(axis=0).argsort(axis=0)
        surplus |= side & (place >= side[:, dealt].sum(axis=0).min())
    used = np.zeros((len(inside), len(blind.variants), blind.n_samples), dtype=bool)
    if blind.calibration is not None:
        used |= blind.calibration
    return replace(blind, member=inside & ~surplus, calibration=used | surplus[:, None])


def outside_pool(record: Record, run: str) -> Bool[np.ndarray, " sample"]:
    """Samples that the other runs show to be outside the pool that runs draw from.

    None of the others trained on them, though these would have covered the pool: they are complementary pairs, as is
    the target's own run, or at least four that leave an eighth of it or less to chance, or the design puts each
    sample into several training sets. In disjoint shards a sample that no other run trained on is likely a member.
    """
    sets, opposite = _others(record, run)
    mine, unused = record.membership(run), np.logical_not(np.any(sets, axis=0))
    dealt = _dealt(mine, sets)
    if dealt is not None:
        several = int((sets.sum(axis=0) + mine)[dealt][0]) > 1
        return unused if several else np.zeros_like(unused)
    by_chance = np.prod(1 - sets.sum(axis=1) / max(int((~unused).sum()), 1))
    covered = len(sets) >= _ENOUGH_SETS and by_chance <= _BY_CHANCE
    return unused if covered or (opposite and _in_pairs(sets)) else np.zeros_like(unused)


def _others(record: Record, run: str) -> tuple[Bool[np.ndarray, "set sample"], bool]:
    """The different training sets of the runs that a record blind to ``run`` has left; whether it had an opposite."""
    mine, partners = record.membership(run), record.partners(run)
    gone = {run, *partners}
    left = [line for line, other in enumerate(record.member_runs) if other not in gone]
    opposite = any((record.membership(other) != mine).any() for other in partners)
    table = np.asarray(record.member)
    different = {table[line].tobytes(): line for line in left}
    return table[np.array(list(different.values()), dtype=np.int64)], opposite


def _dealt(
    mine: Bool[np.ndarray, " sample"], sets: Bool[np.ndarray, "set sample"]
) -> Bool[np.ndarray, " sample"] | None:
    if len(sets) < 2:
        return None
    total = sets.sum(axis=0) + mine
    dealt = (total > 0) & (total <= len(sets))
    return dealt if dealt.any() and np.ptp(total[dealt]) == 0 else None


def _in_pairs(sets: Bool[np.ndarray, "set sample"]) -> bool:
    number = complement_pairs(sets)
    return len(sets) > 0 and bool((np.bincount(number)[number] == 2).all())
