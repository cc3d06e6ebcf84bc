"""Samples that depend on each other: where nothing varies a cluster is one answer, and one coin is one guess."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from discreet.epsilon import _p_value
from discreet.stats import (
    advantage,
    auc,
    average_precision,
    compare,
    epsilon_one_run,
    tpr_at_fpr,
)

SIDES = [(10, 20), (4, 7), (2, 2)]


def families(units: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Membership and labels of as many families of members as of non-members."""
    label = np.repeat(np.arange(2 * units), size)
    return label < units, label


@pytest.mark.parametrize(("units", "size"), SIDES)
def test_an_auc_of_one_is_as_open_as_that_of_the_families(units: int, size: int) -> None:
    member, label = families(units, size)
    few = np.arange(2 * units) < units
    for sign in (1.0, -1.0):
        found = auc(sign * member, member, cluster=label)
        alone = auc(sign * few, few)
        assert (found.value, found.low, found.high) == pytest.approx((alone.value, alone.low, alone.high))
    assert auc(1.0 * member, member).low > alone.low + 0.05, "as rows they prove more than they can"
    two = np.stack([member, member])
    assert auc(1.0 * two, two, cluster=label).low < auc(1.0 * two, two).low


def test_families_of_unlike_sizes_count_by_the_size_that_a_row_sees() -> None:
    label = np.repeat(np.arange(6), [1, 1, 8, 1, 1, 8])
    member = label < 3
    effective = 10**2 / (1 + 1 + 64)
    found = average_precision(1.0 * member, member, cluster=label)
    assert found.low == pytest.approx(0.025 ** (1 / effective))


@pytest.mark.parametrize(("units", "size"), SIDES)
@pytest.mark.parametrize("caught", [False, True])
def test_nobody_or_everybody_caught_is_one_answer_a_family(units: int, size: int, caught: bool) -> None:
    member, label = families(units, size)
    scores = np.where(member, 1.0 if caught else -1.0, 0.0)
    if not caught:
        scores[~member & (label == label.max())] = 1e-9  # whatever the threshold is, no member lies above it
    point = tpr_at_fpr(scores, member, 0.3, cluster=label).tpr
    open_to = 0.025 ** (1 / units)
    assert point.value == float(caught)
    if caught:
        assert point.low <= open_to, "the threshold may lie above every member besides"
        if units == 10:
            often = tpr_at_fpr(scores, member, 0.9, cluster=label).tpr
            assert often.low == pytest.approx(open_to, rel=0.02)
    else:
        assert point.high >= 1 - open_to - 1e-6
    rows = tpr_at_fpr(scores, member, 0.3).tpr
    assert rows.high - rows.low < point.high - point.low or size == 2, (
        "of four rows nothing is known either way"
    )


def test_the_tpr_of_families_is_covered() -> None:
    units, size, sims = 40, 10, 100
    member, label = families(units, size)
    truth = 0.05
    hits = rows = 0
    for seed in range(sims):
        own = np.random.default_rng(seed).random(2 * units)  # no leak: TPR is FPR
        scores = own[label]
        found = tpr_at_fpr(scores, member, truth, cluster=label).tpr
        hits += found.covers(truth)
        rows += tpr_at_fpr(scores, member, truth).tpr.covers(truth)
    assert hits >= 0.9 * sims, (hits, rows)


def test_no_difference_between_variants_is_as_open_as_that_of_the_families() -> None:
    member, label = families(5, 12)
    first, second = 1.0 * member, 2.0 * member
    found = compare(first, second, member, cluster=label)
    few = np.arange(10) < 5
    alone = compare(1.0 * few, 2.0 * few, few, cluster=np.arange(10))
    assert (found.auc.low, found.auc.high) == pytest.approx((alone.auc.low, alone.auc.high))
    assert found.tpr.low < -0.2 < 0.2 < found.tpr.high


def test_advantage_and_auc_agree_on_what_a_family_is() -> None:
    member, label = families(10, 20)
    assert advantage(1.0 * member, member, cluster=label).low < 0.75 < advantage(1.0 * member, member).low


def test_families_without_a_leak_prove_no_epsilon() -> None:
    label = np.repeat(np.arange(20), 50)
    clustered = rows = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        member, scores = (rng.random(20) < 0.5)[label], rng.random(20)[label]
        if member.all() or not member.any():
            continue
        scores = scores + 1e-6 * rng.random(1000)
        clustered += epsilon_one_run(scores, member, cluster=label).value > 0
        rows += epsilon_one_run(scores, member).value > 0
    assert clustered <= 8
    assert rows > 18, "as if each record had a coin of its own, luck proves a leak"


def test_clusters_of_one_change_no_bit() -> None:
    rng = np.random.default_rng(3)
    member = rng.random(300) < 0.5
    scores = rng.normal(size=300) + 2 * member
    alone, one = epsilon_one_run(scores, member), epsilon_one_run(scores, member, cluster=np.arange(300))
    assert (alone.value, alone.ceiling, alone.n, alone.method) == (one.value, one.ceiling, one.n, one.method)


def test_coins_on_several_records_prove_as_much_less_of_each() -> None:
    rng = np.random.default_rng(4)
    coins = rng.random(200) < 0.5
    own = rng.normal(size=200) + 3 * coins
    label = np.repeat(np.arange(200), 4)
    alone = epsilon_one_run(own, coins)
    found = epsilon_one_run(own[label], coins[label], cluster=label)
    assert found.value == pytest.approx(alone.value / 4)
    assert found.ceiling == pytest.approx(alone.ceiling / 4)
    assert found.n == 200
    assert "one a cluster" in found.method
    order = rng.permutation(800)
    again = epsilon_one_run(own[label][order], coins[label][order], cluster=label[order])
    assert again == found
    keep = np.arange(800) % 4 == 0
    assert epsilon_one_run(own[label], coins[label], cluster=label, keep=keep).value == found.value, (
        "records that are not judged went in or out all the same"
    )


def test_unlike_clusters_by_enumeration() -> None:
    sizes, epsilon = np.array([1, 1, 2, 5]), 0.6
    odds = 1 / (1 + np.exp(-sizes * epsilon))
    for right in range(5):
        chance = sum(
            np.prod(np.where(hits, odds, 1 - odds))
            for hits in itertools.product([False, True], repeat=4)
            if sum(hits) >= right
        )
        assert _p_value(4, sizes, right, epsilon, 0.0) == pytest.approx(float(chance))


def test_private_answers_about_families_stay_below_their_epsilon() -> None:
    label = np.repeat(np.arange(120), np.tile([1, 2, 3], 40))
    size = np.bincount(label)
    above = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        coins = rng.random(120) < 0.5
        true = rng.random(120) < 1 / (1 + np.exp(-0.7 * size))  # randomised response on all records of a coin
        own = np.where(true, coins, ~coins) + 0.1 * rng.random(120)
        bound = epsilon_one_run(own[label], coins[label], cluster=label, guesses=60)
        above += bound.value > 0.7
    assert above <= 6


def test_a_cluster_on_both_sides_is_not_guessed() -> None:
    label = np.repeat(np.arange(30), 2)
    member = label < 15
    member[0] = False
    scores = 1.0 * member
    assert epsilon_one_run(scores, member, cluster=label).n == 29
    everyone = np.zeros(60, dtype=int)
    nothing = epsilon_one_run(scores, member, cluster=everyone)
    assert (nothing.value, nothing.ceiling, nothing.n) == (0.0, 0.0, 0)


def test_bad_clusters() -> None:
    member, label = families(5, 2)
    scores = 1.0 * member
    with pytest.raises(ValueError, match="delta: expected 0 where samples share a coin, got 1e-05"):
        epsilon_one_run(scores, member, cluster=label, delta=1e-5)
    with pytest.raises(ValueError, match=r"cluster: expected one label a sample, 20, got shape \[3\]"):
        epsilon_one_run(scores, member, cluster=label[:3])
