"""Lower bounds on the epsilon of differential privacy that an attack's success proves.

A bound is a certificate: if training had been (epsilon, delta)-private with a smaller epsilon, this much
success would happen with probability at most 1 - level. It never says that a model is private.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float, Int, Num
from discreet.advantage import halves
from discreet.labelled import Labelled, check_level, labelled, split_classes

__all__ = ["EpsilonBound", "epsilon_many_runs", "epsilon_one_run", "one_run_p_value"]


@dataclass(frozen=True)
class EpsilonBound:
    """A lower bound on epsilon, beside the largest one these counts could ever have shown.

    Attributes:
        value: Epsilon is at least this, at confidence ``level``; 0 proves nothing.
        ceiling: The bound a flawless attack would have got from as many rows.
        n: Rows judged.
        level: Confidence level (one-sided).
        delta: The delta of (epsilon, delta) privacy.
        method: Which theorem.
    """

    value: float
    ceiling: float
    n: int
    level: float
    delta: float
    method: str


def epsilon_many_runs(
    scores: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    *,
    level: float = 0.95,
    delta: float = 0.0,
    seed: int = 0,
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> EpsilonBound:
    """Bound from independent trainings, each giving one score with the record in or out.

    Clopper-Pearson limits of TPR and FPR, and of TNR and FNR (Kairouz et al., "The Composition Theorem for
    Differential Privacy" (2015)), at one threshold, which one half of the rows chooses and
    the other half judges. For many scores of *one* training use :func:`epsilon_one_run`: they are not
    independent trials.

    Args:
        scores: [trial]; higher = more likely member.
        member: [trial], whether the record was in.
        level: Confidence level.
        delta: Delta, in [0, 1).
        seed: Which half chooses.
        keep: [trial], the trials to use; all when None.

    Raises:
        ValueError: Shapes differ, a score is not finite, or a class has fewer than two trials.

    Example:
        >>> bound = epsilon_many_runs(np.arange(2000.0), np.arange(2000) >= 1000)
        >>> bound.value <= bound.ceiling < 5
        True
    """
    check_level(level)
    _check_delta(delta)
    choose, judge = halves(split_classes(scores, member, keep), seed)
    candidates = np.unique(np.concatenate([choose.members, choose.others]))
    accuse, clear = _bounds(choose, candidates, level, delta)
    side = int(clear.max() > accuse.max())
    threshold = candidates[[int(np.argmax((accuse, clear)[side]))]]
    value = max(0.0, float(_bounds(judge, threshold, level, delta)[side][0]))
    m, n = len(judge.members), len(judge.others)
    best = _log_ratio(np.array([m, n]), np.array([m, n]), np.array([0, 0]), np.array([n, m]), level, delta)
    return EpsilonBound(
        value,
        max(0.0, float(best.max())),
        m + n,
        level,
        delta,
        "Clopper-Pearson, threshold chosen on the other half",
    )


def epsilon_one_run(
    scores: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    *,
    guesses: int | Sequence[int] | None = None,
    level: float = 0.95,
    delta: float = 0.0,
    cluster: np.ndarray | None = None,
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> EpsilonBound:
    """Bound from a single training in which each record was in or out by its own fair coin.

    Steinke, Nasr and Jagielski, "Privacy Auditing with One (1) Training Run" (2023), Appendix D. The
    top half of the guesses say "in", the bottom half "out"; scores tied with the first one left out are
    left out too, so what is guessed depends on scores alone. Halves of a fixed size break the theorem's
    premise (coins are then not independent).

    Samples of one cluster share one coin: they are one guess, by their mean score, and a guess on g records that go
    in or out together is right with odds of at most exp(g · epsilon), which is as far as the epsilon of one carries.

    Args:
        scores: [sample]; higher = more likely member.
        member: [sample], the answer.
        guesses: How many samples to guess, fixed before looking; with several numbers each is tried at a
            share of the error (Bonferroni). A tenth of the samples when None.
        level: Confidence level.
        delta: Delta, in [0, 1); 0 where a cluster has several samples.
        cluster: One label a sample; samples with one label were in or out together. Where they were not, the cluster
            is not guessed.
        keep: [sample], the samples whose coin was fair; all when None.

    Returns:
        Epsilon of one record; n counts the coins.

    Raises:
        ValueError: Shapes differ, a score is not finite, a class is missing, or there are more guesses
            than coins, or fewer than 2.

    Example:
        >>> bound = epsilon_one_run(np.arange(1000.0), np.arange(1000) >= 500, guesses=100)
        >>> round(bound.value, 2), round(bound.ceiling, 2)
        (3.49, 3.49)
    """
    check_level(level)
    _check_delta(delta)
    if np.ndim(scores) != 1:
        raise ValueError(f"scores: expected shape [sample], got {list(np.shape(scores))}")
    values, truth, mask = labelled(scores, member, keep)
    x, y, sizes = _coins(values[0], truth[0], mask[0], cluster)
    alone = bool((sizes == 1).all())
    if delta and not alone:
        raise ValueError(f"delta: expected 0 where samples share a coin, got {delta}")
    count = len(x)
    how = "one run of independent coins" + ("" if alone else ", one a cluster")
    if cluster is not None and count < 2:
        return EpsilonBound(0.0, 0.0, count, level, delta, how)
    tried = (
        (max(2, count // 10),)
        if guesses is None
        else (guesses,)
        if isinstance(guesses, int)
        else tuple(guesses)
    )
    bad = [number for number in tried if not 2 <= number <= count]
    if bad or not tried:
        raise ValueError(f"guesses: expected numbers from 2 to {count}, got {list(tried)}")
    share = (1 - level) / len(tried)
    found = []
    for number in tried:
        top, bottom = _guess(x, number)
        right = int((top & y).sum() + (bottom & ~y).sum())
        flawless = np.sort(sizes)[:number]
        found.append(
            (
                _invert(count, sizes[top | bottom], right, delta, share),
                _invert(count, flawless, number, delta, share),
            )
        )
    value, ceiling = (max(pair) for pair in zip(*found, strict=True))
    return EpsilonBound(value, ceiling, count, level, delta, how)


def one_run_p_value(samples: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Largest chance of this many correct guesses under (epsilon, delta) privacy (Appendix D of the paper).

    Args:
        samples: Records with a coin of their own.
        guesses: How many the attack dared to guess.
        correct: How many of these were right.
        epsilon: The privacy to refute.
        delta: The same.
    """
    from scipy import stats

    accuracy = 1 / (1 + math.exp(-epsilon))
    tail = float(stats.binom.sf(correct - 1, guesses, accuracy))
    if delta == 0 or correct == 0:
        return min(1.0, tail)
    near = np.cumsum(stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, accuracy))
    return min(1.0, tail + 2 * samples * delta * float((near / np.arange(1, correct + 1)).max()))


def _bounds(
    parts: Labelled, threshold: Float[np.ndarray, " t"], level: float, delta: float
) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    """Bounds of every threshold, from accusing (TPR over FPR) and from clearing (TNR over FNR)."""
    m, n = (np.full(len(threshold), len(values)) for values in (parts.members, parts.others))
    missed = np.searchsorted(parts.members, threshold, side="right")
    cleared = np.searchsorted(parts.others, threshold, side="right")
    return (
        _log_ratio(m - missed, m, n - cleared, n, level, delta),
        _log_ratio(cleared, n, missed, m, level, delta),
    )


def _log_ratio(
    hits: Int[np.ndarray, " t"],
    n: Int[np.ndarray, " t"],
    errors: Int[np.ndarray, " t"],
    other_n: Int[np.ndarray, " t"],
    level: float,
    delta: float,
) -> Float[np.ndarray, " t"]:
    """log((hit rate's lower limit - delta) / error rate's upper limit); -inf where nothing is proved."""
    from scipy import special

    tail = (1 - level) / 2
    low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), n - hits + 1, tail), 0.0)
    high = np.where(
        errors < other_n, special.betaincinv(errors + 1, np.maximum(other_n - errors, 1), 1 - tail), 1.0
    )
    proved = low > delta
    return np.where(proved, np.log(np.where(proved, low - delta, 1.0) / high), -np.inf)


def _coins(
    scores: Float[np.ndarray, " sample"],
    member: Bool[np.ndarray, " sample"],
    keep: Bool[np.ndarray, " sample"],
    cluster: np.ndarray | None,
) -> tuple[Float[np.ndarray, " coin"], Bool[np.ndarray, " coin"], Int[np.ndarray, " coin"]]:
    """Score and answer of each coin, and on how many records it fell; coins that are not told are left out."""
    if cluster is None:
        return scores[keep], member[keep], np.ones(int(keep.sum()), dtype=np.int64)
    if np.shape(cluster) != scores.shape:
        raise ValueError(
            f"cluster: expected one label a sample, {len(scores)}, got shape {list(np.shape(cluster))}"
        )
    _, unit, sizes = np.unique(np.asarray(cluster), return_inverse=True, return_counts=True)
    kept, inside = (np.bincount(unit[rows], minlength=len(sizes)) for rows in (keep, keep & member))
    told = (kept > 0) & ((inside == 0) | (inside == kept))
    order = np.lexsort((scores[keep], unit[keep]))  # so that no order of rows changes a bit of a sum
    sums = np.bincount(unit[keep][order], scores[keep][order], minlength=len(sizes))
    return sums[told] / kept[told], inside[told] > 0, sizes[told].astype(np.int64)


def _guess(
    scores: Float[np.ndarray, " coin"], number: int
) -> tuple[Bool[np.ndarray, " coin"], Bool[np.ndarray, " coin"]]:
    """Which coins are guessed "in", and which "out"."""
    order = np.sort(scores)
    ins, outs = number - number // 2, number // 2
    # A block of ties across the cut is not guessed at all.
    top = scores > order[-1 - ins] if ins < len(order) else np.ones(len(order), dtype=bool)
    return top, scores < order[outs]


def _p_value(
    samples: int, sizes: Int[np.ndarray, " guess"], correct: int, epsilon: float, delta: float
) -> float:
    """``one_run_p_value`` for guesses on several records each: a sum of coins of unlike odds."""
    if (sizes == 1).all():
        return one_run_p_value(samples, len(sizes), correct, epsilon, delta)
    from scipy import stats

    law = np.ones(1)
    for size, many in zip(*np.unique(sizes, return_counts=True), strict=True):
        accuracy = 1 / (1 + math.exp(-float(size) * epsilon))
        law = np.convolve(law, stats.binom.pmf(np.arange(many + 1), many, accuracy))
    return min(1.0, float(law[correct:].sum()))


def _invert(
    samples: int, sizes: Int[np.ndarray, " guess"], correct: int, delta: float, error: float
) -> float:
    """Largest epsilon that is refuted at this error, by bisection (the p-value rises with epsilon)."""
    if not len(sizes) or _p_value(samples, sizes, correct, 0.0, delta) > error:
        return 0.0
    low, high = 0.0, 1.0
    while high < 64 and _p_value(samples, sizes, correct, high, delta) <= error:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        if _p_value(samples, sizes, correct, middle, delta) <= error:
            low = middle
        else:
            high = middle
    return low


def _check_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise ValueError(f"delta: expected a number in [0, 1), got {delta}")
