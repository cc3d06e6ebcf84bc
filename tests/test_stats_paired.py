"""Paired comparison, advantage: replicates by naive loops, workers and row order, McNemar, coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.resampled import _Ranked, resampled_differences
from discreet.stats import Comparison, Estimate, advantage, auc, balanced_accuracy, compare, tpr_at_fpr


def two_variants(rng: np.random.Generator, n: int, leaks: tuple[float, float], shared: float = 1.0) -> tuple:
    member = np.arange(n) < n // 2
    hard = shared * rng.normal(size=n)
    return *(rng.normal(size=n) + hard + leak * member for leak in leaks), member


def test_resampled_figures_are_those_of_the_resampled_rows() -> None:
    rng = np.random.default_rng(0)
    scores, member = rng.integers(0, 6, 40).astype(float), np.arange(40) < 15
    judge = _Ranked(scores, member, 0.2)
    for _ in range(20):
        picks = np.r_[rng.integers(0, 15, 15), rng.integers(15, 40, 25)]
        area, rate = judge(np.bincount(picks, minlength=40)[None])[:, 0]
        assert area == pytest.approx(auc(scores[picks], member[picks]).value)
        assert rate == pytest.approx(tpr_at_fpr(scores[picks], member[picks], 0.2).tpr.value)


def test_workers_and_row_order_change_no_bit() -> None:
    a, b, member = two_variants(np.random.default_rng(1), 120, (1.0, 0.5))
    alone = compare(a, b, member, replicates=230, fpr=0.1)
    assert compare(a, b, member, replicates=230, fpr=0.1, workers=4) == alone
    order = np.random.default_rng(2).permutation(120)
    assert compare(a[order], b[order], member[order], replicates=230, fpr=0.1) == alone
    assert compare(a, b, member, replicates=230, fpr=0.1, seed=1) != alone


def test_replicates_are_distinct() -> None:
    a, b, member = two_variants(np.random.default_rng(1), 200, (1.0, 0.5))
    areas, _ = resampled_differences(a, b, member, 0.1, seed=0, replicates=400)
    assert len(np.unique(areas)) > 350


def test_planted_inverted_null() -> None:
    leaky, shy, member = two_variants(np.random.default_rng(3), 1000, (2.0, 0.5))
    found = compare(leaky, shy, member, replicates=300)
    assert (found.answer, found.answer_at_fpr) == ("the second leaks less", "the second leaks less")
    turned = compare(shy, leaky, member, replicates=300)
    assert turned.answer == "the first leaks less"
    assert turned.auc.value == -found.auc.value
    assert (turned.only_first, turned.only_second) == (found.only_second, found.only_first)
    assert found.mcnemar == turned.mcnemar
    assert found.mcnemar is not None
    assert found.mcnemar < 1e-6
    one, two, member = two_variants(np.random.default_rng(4), 1000, (1.0, 1.0))
    assert compare(one, two, member, replicates=300).answer == "not told apart"


def test_values_are_plain_differences() -> None:
    a, b, member = two_variants(np.random.default_rng(5), 300, (1.0, 0.3))
    found = compare(a, b, member, fpr=0.1, replicates=50)
    assert found.auc.value == pytest.approx(auc(a, member).value - auc(b, member).value)
    assert found.tpr.value == pytest.approx(
        tpr_at_fpr(a, member, 0.1).tpr.value - tpr_at_fpr(b, member, 0.1).tpr.value
    )
    caught = [s > tpr_at_fpr(s, member, 0.1).thresholds[0] for s in (a, b)]
    only = int((caught[0] & ~caught[1] & member).sum()), int((caught[1] & ~caught[0] & member).sum())
    assert (found.only_first, found.only_second) == only
    assert only[0] > 0
    n = sum(only)
    tail = sum(math.comb(n, k) for k in range(min(only) + 1)) / 2**n
    assert found.mcnemar == pytest.approx(min(1.0, 2 * tail))


def test_pairing_sees_what_two_intervals_hide() -> None:
    a, b, member = two_variants(np.random.default_rng(6), 600, (1.5, 1.0), shared=3.0)
    assert auc(a, member).low < auc(b, member).high
    assert compare(a, b, member, replicates=300).answer == "the second leaks less"


def test_no_difference_seen_is_not_no_difference() -> None:
    member = np.arange(40) < 20
    a = np.arange(40.0)[::-1]
    found = compare(a, a + 0.25 * np.sin(a), member, replicates=50, fpr=0.1)
    assert found.auc.value == found.tpr.value == 0
    assert found.auc.low < -0.05
    assert found.auc.high > 0.05
    assert found.tpr.low < 0 < found.tpr.high
    same = compare(a, a, member, replicates=50, fpr=0.1)
    assert (same.auc.low, same.auc.high, same.tpr.low, same.tpr.high) == (0, 0, 0, 0)


def test_several_runs() -> None:
    rng = np.random.default_rng(7)
    member = rng.random((4, 300)) < 0.5
    member[1::2] = ~member[::2]
    base = rng.normal(size=member.shape)
    a, b = base + 2.0 * member, base + 0.4 * rng.normal(size=member.shape) + 1.0 * member
    found = compare(a, b, member, fpr=0.1)
    assert found.answer == "the second leaks less"
    assert found.mcnemar is None
    rows, columns = rng.permutation(4), rng.permutation(300)
    again = compare(a[rows][:, columns], b[rows][:, columns], member[rows][:, columns], fpr=0.1)
    assert again == found
    clustered = compare(a[0], b[0], member[0], fpr=0.1, cluster=np.arange(300) // 2)
    assert clustered.mcnemar is None


def test_only_an_interval_on_one_side_of_zero_answers() -> None:
    unsure, less = Estimate(-0.1, -0.3, 0.1, 10, 0.95), Estimate(-0.1, -0.2, -0.05, 10, 0.95)
    more = Estimate(0.1, 0.05, 0.2, 10, 0.95)
    words = [Comparison(x, x, 0.01, 0, 0, None).answer for x in (unsure, less, more)]
    assert words == ["not told apart", "the first leaks less", "the second leaks less"]


def test_bad_input() -> None:
    member = np.arange(10) > 4
    with pytest.raises(ValueError, match=r"second: expected the shape of first, \[10\], got \[9\]"):
        compare(np.arange(10.0), np.arange(9.0), member)
    with pytest.raises(ValueError, match="replicates: expected at least 2, got 1"):
        compare(np.arange(10.0), np.arange(10.0) ** 2, member, replicates=1)
    with pytest.raises(ValueError, match="expected at least two of each class, got one non-member"):
        advantage(np.arange(3.0), np.array([True, True, False]))


def test_advantage() -> None:
    rng = np.random.default_rng(0)
    noise, member = rng.normal(size=6000), np.arange(6000) < 1000
    null = advantage(noise, member)
    assert null.covers(0.0)
    assert np.max([np.mean(noise[member] > t) - np.mean(noise[~member] > t) for t in noise]) > null.value
    planted = advantage(noise + 2 * member, member)
    assert planted.covers(0.6827)
    assert advantage(noise - 2 * member, member).value < 0.05, "no folding"
    balanced = balanced_accuracy(noise + 2 * member, member)
    assert balanced.value == pytest.approx((1 + planted.value) / 2)
    order = rng.permutation(6000)
    assert advantage(noise[order], member[order]) == null
    assert advantage(np.zeros(6000), member).value == 0


@pytest.mark.slow
def test_advantage_covers_nothing_on_noise() -> None:
    rng = np.random.default_rng(1)
    member = np.arange(200) < 80
    assert sum(advantage(rng.normal(size=200), member).covers(0.0) for _ in range(200)) >= 182


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, 6])
@pytest.mark.parametrize(("leaks", "fpr"), [((1.0, 1.0), 0.1), ((1.5, 0.5), 0.1)])
def test_coverage(runs: int, leaks: tuple[float, float], fpr: float) -> None:
    from scipy import stats

    spread = math.sqrt(2)
    areas = [stats.norm.cdf(leak / 2) for leak in leaks]
    rates = [stats.norm.sf(stats.norm.isf(fpr) - leak / spread) for leak in leaks]
    rng = np.random.default_rng(3)
    hits = np.zeros(2)
    for _ in range(100):
        member = rng.random((runs, 400)) < 0.5
        hard = rng.normal(size=400)
        a, b = (rng.normal(size=member.shape) + hard + leak * member for leak in leaks)
        rows = (a, b, member) if runs > 1 else (a[0], b[0], member[0])
        found = compare(*rows, fpr=fpr, replicates=200)
        hits += [
            found.auc.covers(float(areas[0] - areas[1])),
            found.tpr.covers(float(rates[0] - rates[1])),
        ]
    assert (hits >= 89).all(), hits
