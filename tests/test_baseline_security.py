"""Accusations judged: by hand, inverted, perfect; intervals over runs, and of runs that score alike."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.baseline import Prior, judge


def test_the_interval_is_over_runs_and_covers() -> None:
    """Rows of a run share its model: ten times as many of them tell nothing about other runs."""
    rng = np.random.default_rng(0)
    member = np.tile([True, False], (25, 5))
    rates = rng.beta(4, 2, size=(400, 25, 1))
    hits = 0
    for rate in rates:
        accused = np.where(member, rng.random(member.shape) < rate, rng.random(member.shape) >= rate)
        hits += judge(accused[None], member).mis.covers(2 - 2 * 4 / 6)
    assert 0.92 < hits / len(rates) < 0.98
    once = rng.random((1, 25, 10)) < np.where(member, 0.7, 0.3)
    tenfold = judge(np.tile(once, (1, 1, 10)), np.tile(member, (1, 10)))
    assert tenfold.mis == judge(once, member).mis
    assert tenfold.mis.n == 25


def test_judged_by_hand_inverted_and_perfect() -> None:
    rng = np.random.default_rng(1)
    member = rng.permuted(np.tile([True, False], (12, 8)), axis=1)
    accused = rng.random((3, *member.shape)) < np.where(member, 0.7, 0.4)
    right = np.mean(accused == member)
    told = judge(accused, member)
    assert told.raw == pytest.approx(2 - 2 * right)
    assert judge(~accused, member).raw == pytest.approx(2 * right)
    assert judge(~accused, member).mis.value == 1.0  # accusing nobody is better
    perfect = judge(member[None], member)
    assert perfect.mis.value == 0.0
    assert 0.1 < perfect.mis.high < 0.6  # twelve runs cannot promise more
    with pytest.raises(ValueError, match="accused, member: expected shapes"):
        judge(accused[:, :1], member[:1])
    with pytest.raises(
        ValueError, match="expected members and non-members in each run, got one kind in run 1"
    ):
        judge(accused, np.vstack([member[:1], np.ones((11, 16), bool)]))
    with pytest.raises(ValueError, match="other: expected an attack judged on the same runs"):
        told.less(judge(accused[:, :5], member[:5]))


@pytest.mark.parametrize("runs", [2, 3, 20, 25, 60, 75, 300])
@pytest.mark.parametrize("eta", [0.01, 0.1, 0.3, 0.5])
def test_runs_that_score_alike_are_bounded_by_their_number_and_not_by_rounding(runs: int, eta: float) -> None:
    member, prior = np.tile(np.arange(20) < 10, (runs, 1)), Prior(eta)
    nobody = judge(np.zeros((1, runs, 20), bool), member, prior=prior)
    missed = 1 - 0.025 ** (1 / runs)  # a larger share of other runs would have shown, at 97.5 %
    assert nobody.mis.value == pytest.approx(1)
    assert nobody.mis.low == pytest.approx(1 - missed)
    assert nobody.mis.high == 1.0
    assert "exact bound on the share of runs" in nobody.mis.method
    third = member[None] & (np.arange(20) < 3)
    some = judge(third, member, prior=prior)  # TPR 0.3 on each
    assert some.mis.low == pytest.approx(0.7 * (1 - missed))
    assert some.mis.value == pytest.approx(0.7)
    assert some.mis.high > 0.7 + 1e-3
    gap = nobody.less(nobody)
    assert gap.covers(0.0)
    assert gap.high == -gap.low == pytest.approx(missed / min(eta, 1 - eta))
    assert nobody.less(some).low < 0.3 < nobody.less(some).high
    if runs >= 20:  # two runs of twenty that differ do not make a t interval honest
        third[0, :1] = member[:1]
        nearly = judge(third, member, prior=prior).mis
        assert nearly.high - nearly.low > some.mis.high - some.mis.low or some.mis.high == 1.0
        assert f"{runs - 1} of {runs} score alike" in nearly.method


def test_rounding_does_not_make_runs_differ() -> None:
    """Right on 13 of 20 rows in each run, but on other rows: accuracies that differ in their last digit."""
    member = np.tile(np.arange(20) < 10, (8, 1))
    right = np.array([[*(np.arange(10) < k), *(np.arange(10) < 13 - k)] for k in range(3, 11)])
    found = judge((right == member)[None], member, prior=Prior())
    assert found.accuracy.shape == (1, 8)
    assert 0 < np.ptp(found.accuracy) < 1e-12
    assert found.mis.value == pytest.approx(0.7)
    assert "8 of 8 score alike" in found.mis.method
    assert found.mis.high - found.mis.low > 0.1


def test_rare_runs_that_an_attack_breaks_are_covered() -> None:
    """One run in fifty is told without error: most studies of twenty see none such, and must allow for it."""
    rng, member, hits = np.random.default_rng(0), np.tile(np.arange(20) < 10, (20, 1)), 0
    for _ in range(300):
        broken = rng.random(20) < 0.02
        hits += judge((member & broken[:, None])[None], member).mis.covers(0.98)
    assert hits / 300 > 0.95


def test_the_method_tells_whether_seeds_are_in_it() -> None:
    rng, member = np.random.default_rng(0), np.tile(np.arange(20) < 10, (20, 1))
    accused = rng.random((3, 20, 20)) < np.where(member, 0.7, 0.4)
    assert judge(accused[:1], member).mis.method == "t interval over runs"
    assert judge(accused, member).mis.method == "t interval over runs, with the spread over 3 seeds"


def attacks(rng: np.random.Generator, rates: list[float], runs: int = 25) -> tuple[np.ndarray, np.ndarray]:
    """Whom attacks accuse whose true positive and negative rates are these, seed by seed; and who is a member."""
    member = np.tile(np.arange(40) < 20, (runs, 1))
    right = np.array(rates)[:, None, None]
    return rng.random((len(rates), *member.shape)) < np.where(member, right, 1 - right), member


def test_the_spread_over_seeds_is_in_a_difference_by_hand() -> None:
    rng = np.random.default_rng(3)
    one, other = (judge(*attacks(rng, rates)) for rates in ([0.8, 0.6], [0.7, 0.65]))
    assert one.accuracy.shape == (2, 25)
    assert one.by_seed == pytest.approx(2 - 2 * one.accuracy.mean(axis=1))
    gap = 2 * (other.accuracy - one.accuracy)  # eq. 6: the MIS is 2 - 2 accuracy
    over_runs = 2.0639 * gap.mean(axis=0).std(ddof=1) / 5  # t of 24 degrees of freedom
    over_seeds = 12.7062 * abs(gap[0].mean() - gap[1].mean()) / 2  # of 1
    found = one.less(other)
    assert found.value == pytest.approx(gap.mean())
    assert found.high - found.value == pytest.approx(np.hypot(over_runs, over_seeds), rel=1e-4)
    assert found.value - found.low == pytest.approx(np.hypot(over_runs, over_seeds), rel=1e-4)
    assert found.method == "paired t interval over runs, with the spread over 2 seeds"
    back = other.less(one)
    assert (back.low, back.value, back.high) == pytest.approx((-found.high, -found.value, -found.low))


def test_seeds_are_paired_where_both_attacks_have_them() -> None:
    rng = np.random.default_rng(4)
    accused, member = attacks(rng, [0.8, 0.6, 0.7])
    one = judge(accused, member)
    same = one.less(
        judge(accused & (rng.random(accused.shape) < 0.9), member)
    )  # the same seeds are good and bad
    assert same.high - same.low < 0.2 < one.mis.high - one.mis.low
    plain = judge(accused[:1], member)
    alone = one.less(plain)  # a threshold has no seeds
    assert alone.method.endswith("with the spread over 3 seeds")
    assert alone.high - alone.low > 0.9 * (one.mis.high - one.mis.low)
    assert one.less(judge(accused[:2], member)).method.endswith("with the spread over 3 and 2 seeds")
    assert plain.less(judge(accused[1:2], member)).method == "paired t interval over runs"


def test_attacks_whose_seeds_differ_are_not_told_apart_too_often() -> None:
    """Both are as good on average over seeds; two of each are trained, on the same runs."""
    rng, hits = np.random.default_rng(5), 0
    for _ in range(400):
        one, other = (judge(*attacks(rng, list(0.7 + 0.04 * rng.standard_normal(2)))) for _ in range(2))
        hits += one.less(other).covers(0.0)
    assert hits / 400 > 0.92
