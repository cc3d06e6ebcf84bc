"""Designs that fix how many training sets a sample is in: who counts the other runs then knows the answer.

Disjoint shards, k folds, "exactly half of the runs" not in pairs: of a member of the target one run fewer among the
others trained on it. Even an attack that never counts does so through its references, since a sample with fewer of
them on one side has a wider prediction there. So every sample gets as many on either side as every other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreet._types import Bool, Int
from discreet.crossed import complement_pairs
from discreet.records import Record

__all__ = ["evened", "fewest", "may_tell_by_count", "outside_pool", "tells_by_count", "unused_by_all"]

_ENOUGH_SETS = 4
_BY_CHANCE = 1 / 8
"""With fewer other runs, or smaller ones, samples of the pool would often be in none of them by chance."""

_ANY_COUNT = 3
"""So few sets hold a sample never, in all of them, and so often as is left in between, whatever the design."""


def tells_by_count(record: Record, run: str) -> Bool[np.ndarray, " sample"] | None:
    """Samples whose membership in ``run`` follows from the number of other runs that trained on them.

    That is so where each sample is in the same number of different training sets, the target's included. Samples that
    every set holds, or none, are no part of such a design. Partners of the run do not count: blind records lack them.

    Returns:
        The samples, or None if the number does not tell.
    """
    sets, _ = _others(record, run)
    return _dealt(record.membership(run), sets)


def may_tell_by_count(
    blind: Record, answer: Int[np.ndarray, " sample"]
) -> Bool[np.ndarray, " sample"] | None:
    """:func:`tells_by_count` for one who does not know the target's membership.

    Each sample is in so many of the other sets, or in one fewer, of those in none or all aside. Few independent draws
    can look so as well; :func:`evened` then costs references and nothing else. One pair of complementary halves, and
    samples in neither, looks like two of three disjoint shards.

    Args:
        blind: A record blind to the target.
        answer: What is known of the target: 1 a member, 0 no member, -1 unknown.

    Returns:
        The unknown samples whose membership the number may tell; None if the other runs show that it does not.
    """
    sets = _different(blind)
    if len(sets) < 2:
        return None
    times, unknown = sets.sum(axis=0), answer < 0
    none, all_ = unknown & (times == 0), unknown & (times == len(sets))
    if len(sets) <= _ANY_COUNT and none.any() and all_.any():
        return None
    settled = none | all_ | (~unknown & ((times + answer) % (len(sets) + 1) == 0))
    for total in range(1, len(sets) + 1):
        member, other = unknown & (times == total - 1), unknown & (times == total)
        fits = member | other | settled | (~unknown & (times + answer == total))
        if fits.all() and member.any() and other.any():
            return member | other
    return None


def fewest(blind: Record, dealt: Bool[np.ndarray, " sample"]) -> tuple[int, int]:
    """How many references every one of the samples has at least: that trained on it, and that did not."""
    inside = np.asarray(blind.member)[:, dealt]
    trained = inside.sum(axis=0)
    return int(trained.min()), int((len(inside) - trained).min())


def evened(
    blind: Record,
    dealt: Bool[np.ndarray, " sample"],
    *,
    most: tuple[int, int] | None = None,
    seed: int = 0,
) -> Record:
    """Give every sample as many references that trained on it, and as many that did not, as any other has.

    Surplus ones, drawn at random, neither trained on the sample nor are strangers to it, as if it had calibrated
    their quantizer. What remains is as likely for members of the target as for others.

    Args:
        blind: A record blind to the target.
        dealt: Samples that have their share (see :func:`tells_by_count`); all others get at most as much.
        most: The share, where it is to be smaller than what all of them have (:func:`fewest`).
        seed: Of the draw, which depends on the names of runs and samples and not on their order.
    """
    inside = np.asarray(blind.member)
    noise = np.empty(inside.shape)
    runs = np.argsort(np.array(blind.member_runs), kind="stable")
    noise[np.ix_(runs, np.argsort(blind.sample, kind="stable"))] = np.random.default_rng(seed).random(
        inside.shape
    )
    surplus = np.zeros_like(inside)
    for side, share in zip((inside, ~inside), most or fewest(blind, dealt), strict=True):
        place = np.where(side, noise, 2.0).argsort(axis=0).argsort(axis=0)
        surplus |= side & (place >= share)
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
    mine = record.membership(run)
    dealt = _dealt(mine, sets)
    total = None if dealt is None else int((sets.sum(axis=0) + mine)[dealt][0])
    return _outside(sets, total, opposite)


def unused_by_all(blind: Record, dealt: Bool[np.ndarray, " sample"] | None) -> Bool[np.ndarray, " sample"]:
    """:func:`outside_pool` for one who does not know the target's membership.

    Args:
        blind: A record blind to the target.
        dealt: What :func:`may_tell_by_count` said.
    """
    sets = _different(blind)
    return _outside(sets, None if dealt is None else int(sets.sum(axis=0)[dealt].max()), True)


def _outside(
    sets: Bool[np.ndarray, "set sample"], total: int | None, opposite: bool
) -> Bool[np.ndarray, " sample"]:
    unused = np.logical_not(np.any(sets, axis=0))
    if total is not None:
        return unused if total > 1 else np.zeros_like(unused)
    by_chance = np.prod(1 - sets.sum(axis=1) / max(int((~unused).sum()), 1))
    covered = len(sets) >= _ENOUGH_SETS and by_chance <= _BY_CHANCE
    return unused if covered or (opposite and _in_pairs(sets)) else np.zeros_like(unused)


def _others(record: Record, run: str) -> tuple[Bool[np.ndarray, "set sample"], bool]:
    """The different training sets of the runs that a record blind to ``run`` has left; whether it had an opposite."""
    mine, partners = record.membership(run), record.partners(run)
    gone = {run, *partners}
    left = [line for line, other in enumerate(record.member_runs) if other not in gone]
    opposite = any((record.membership(other) != mine).any() for other in partners)
    return _sets(np.asarray(record.member)[left]), opposite


def _different(blind: Record) -> Bool[np.ndarray, "set sample"]:
    """The different training sets of the runs that a blind record has left."""
    return _sets(
        np.zeros((0, blind.n_samples), dtype=bool) if blind.member is None else np.asarray(blind.member)
    )


def _sets(table: Bool[np.ndarray, "run sample"]) -> Bool[np.ndarray, "set sample"]:
    different = {line.tobytes(): number for number, line in enumerate(table)}
    return table[np.array(list(different.values()), dtype=np.int64)]


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
