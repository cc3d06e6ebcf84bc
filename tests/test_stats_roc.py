"""ROC and TPR at low FPR: pair loops, tie blocks, exact floors, T7, messages, coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.roc import allowed, smallest_sample
from discreet.stats import auc, ppv, roc, tpr_at_fpr
from discreet.tpr import tpr_influence

rows = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: 0 < sum(y for _, y in rows) < len(rows)
)


def best_rule(scores: np.ndarray, member: np.ndarray, fpr: float) -> tuple[float, float]:
    """Try every rule "accuse above t" and keep the best that obeys the rate."""
    found = [(0.0, 0.0)]
    for t in [*scores, -np.inf]:
        tpr, wrong = np.mean(scores[member] > t), np.mean(scores[~member] > t)
        if wrong <= fpr:
            found.append((tpr, wrong))
    return max(found)


@given(rows, st.sampled_from([0.05, 0.1, 0.25, 0.5, 1.0]))
@settings(max_examples=100, deadline=None)
def test_agrees_with_trying_every_rule(data: list[tuple[int, bool]], fpr: float) -> None:
    scores, member = np.array([s for s, _ in data], float), np.array([y for _, y in data])
    point = tpr_at_fpr(scores, member, fpr)
    assert (point.tpr.value, point.realised_fpr) == pytest.approx(best_rule(scores, member, fpr))
    assert point.realised_fpr <= fpr
    curve = roc(scores, member)
    assert curve.at(np.array([fpr]))[0] == pytest.approx(point.tpr.value)
    assert np.trapezoid(curve.tpr, curve.fpr) == pytest.approx(auc(scores, member).value)
    order = np.random.default_rng(0).permutation(len(data))
    again = tpr_at_fpr(scores[order], member[order], fpr)
    assert (again.tpr, again.realised_fpr) == (point.tpr, point.realised_fpr)


def test_a_block_of_ties_is_accused_whole_or_not_at_all() -> None:
    scores = np.r_[np.zeros(5), np.ones(5), np.ones(10)]
    member = np.arange(20) >= 10
    assert tpr_at_fpr(scores, member, 0.1).tpr.value == 0.0
    assert tpr_at_fpr(scores, member, 0.5).tpr.value == 1.0
    assert roc(scores, member).fpr.tolist() == [0.0, 0.5, 1.0]
    constant = tpr_at_fpr(np.zeros(20), member, 0.1)
    assert (constant.tpr.value, constant.realised_fpr) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("fpr", "tpr", "realised", "resolvable"),
    [
        (0.1, 0.2, 0.1, True),
        (0.01, 0.11, 0.01, True),
        (0.001, 0.101, 0.001, True),
        (0.0001, 0.1, 0.0, False),
        (1.0, 1.0, 1.0, True),
    ],
)
def test_staircase(fpr: float, tpr: float, realised: float, resolvable: bool) -> None:
    scores = np.r_[np.arange(1000.0), np.arange(100.0, 1100.0)]
    point = tpr_at_fpr(scores, np.arange(2000) >= 1000, fpr)
    assert (point.tpr.value, point.realised_fpr, point.resolvable) == (tpr, realised, resolvable)
    assert ("not resolvable: needs 10,000 non-members" in str(point)) != resolvable


def test_interval_mixes_clopper_pearson_over_the_threshold() -> None:
    from scipy import stats

    rng = np.random.default_rng(0)
    members, others = np.round(rng.normal(1, 1, 30), 1), np.round(rng.normal(size=25), 1)
    point = tpr_at_fpr(np.r_[members, others], np.arange(55) < 30, 0.2)
    above = [np.inf, *sorted(others, reverse=True), -np.inf]  # the j-th largest, with ends

    def chance(x: float, side: int) -> float:
        """Confidence that the rate lies below x, if J non-members are above the true threshold."""
        total = 0.0
        for j in range(26):
            c = int((members > above[j + side]).sum())
            rate = (
                stats.beta(c + side, 30 - c + 1 - side).cdf(x) if 0 < c + side < 31 else float(c + side == 0)
            )
            total += float(stats.binom.pmf(j, 25, 0.2)) * float(rate)
        return total

    assert chance(point.tpr.low, 0) == pytest.approx(0.025, abs=1e-6)
    assert chance(point.tpr.high, 1) == pytest.approx(0.975, abs=1e-6)


def test_floor_is_exact() -> None:
    assert [allowed(0.29, 100), allowed(0.07, 100), allowed(0.001, 999), allowed(1.0, 7)] == [29, 7, 0, 7]
    assert [smallest_sample(x) for x in (0.1, 0.01, 0.001, 0.0001, 0.3)] == [10, 100, 1000, 10_000, 4]


def test_a_leak_of_a_few_members() -> None:
    """Three standard deviations for 5 % of the members: 0.05 P(N(3, 1) > 3.09) + 0.95 / 1000 = 2.4 %."""
    rng = np.random.default_rng(0)
    scores, member = rng.normal(size=40_000), np.arange(40_000) < 20_000
    scores[:1000] += 3
    point = tpr_at_fpr(scores, member, 0.001)
    assert point.tpr.covers(0.0241)
    assert point.tpr.low > 0.015
    shown = tpr_at_fpr(scores[member], np.arange(20_000) % 2 == 0, 0.01).tpr
    assert shown.covers(0.01), "members against members: nothing to find"


def test_log_axes_keep_zero_rates() -> None:
    curve = roc(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, False, True, False]))
    fpr, tpr = curve.log_log(0.25)
    assert fpr.tolist() == [0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0]
    assert tpr.tolist() == [0.25, 0.25, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match=r"floor: expected a rate in \(0, 1\), got 0"):
        curve.log_log(0.0)


def test_ppv_is_bayes() -> None:
    scores = np.r_[np.arange(1000.0), np.arange(100.0, 1100.0)]
    point = tpr_at_fpr(scores, np.arange(2000) >= 1000, 0.01)
    for prior in (0.01, 0.1, 0.5):
        got = ppv(point, prior)
        assert got.value == pytest.approx(prior * 0.11 / (prior * 0.11 + (1 - prior) * 0.01))
        assert got.low < got.value < got.high
    with pytest.raises(ValueError, match=r"prior: expected a share in \(0, 1\), got 1"):
        ppv(point, 1.0)


def test_influence_predicts_leaving_out() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(4000) < 2000
    scores = rng.normal(size=4000) + member
    effect = tpr_influence(scores[None], member[None], np.ones((1, 4000), bool), 0.1)[0]
    assert abs(effect.sum()) < 1e-9
    whole = tpr_at_fpr(scores, member, 0.1).tpr.value
    for part in (slice(0, 400), slice(2000, 2400)):
        keep = np.ones(4000, bool)
        keep[part] = False
        left = tpr_at_fpr(scores, member, 0.1, keep=keep).tpr.value
        assert left - whole == pytest.approx(-effect[part].sum() * 2000 / 1600, abs=0.004)


@pytest.mark.parametrize(
    ("fpr", "level", "message"),
    [
        (0.0, 0.95, r"fpr: expected a rate in \(0, 1\], got 0"),
        (1.5, 0.95, r"fpr: expected a rate in \(0, 1\], got 1.5"),
        (0.1, 1.0, r"level: expected a number in \(0, 1\), got 1"),
    ],
)
def test_bad_rates(fpr: float, level: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tpr_at_fpr(np.arange(4.0), np.arange(4) > 1, fpr, level=level)


def test_bad_scores() -> None:
    with pytest.raises(ValueError, match="got nan at sample 1"):
        tpr_at_fpr(np.array([0.0, np.nan]), np.array([True, False]), 0.1)
    with pytest.raises(ValueError, match=r"scores: expected shape \[sample\], got \[2, 2\]"):
        roc(np.zeros((2, 2)), np.eye(2, dtype=bool))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "n", "fpr", "shift", "sd"),
    [
        (50, 50, 0.1, 1.0, 1.0),
        (1000, 1000, 0.1, 0.0, 1.0),
        (1000, 1000, 0.1, 0.5, 2.0),
        (1000, 1000, 0.01, 3.0, 1.0),
        (1000, 1000, 0.01, 0.5, 2.0),
        (200, 5000, 0.01, 1.0, 1.0),
        (200, 5000, 0.001, 0.5, 2.0),
        (2000, 200, 0.1, 1.0, 1.0),
        (2000, 200, 0.01, 3.0, 1.0),
    ],
)
def test_coverage_one_run(m: int, n: int, fpr: float, shift: float, sd: float) -> None:
    from scipy import stats

    true = float(stats.norm.sf((stats.norm.isf(fpr) - shift) / sd))
    rng = np.random.default_rng(1)
    member = np.arange(m + n) < m
    hits = 0
    for _ in range(150):
        scores = np.where(member, rng.normal(shift, sd, m + n), rng.normal(size=m + n))
        hits += tpr_at_fpr(scores, member, fpr).tpr.covers(true)
    assert hits >= 135


@pytest.mark.slow
@pytest.mark.parametrize("halves", ["independent", "complementary"])
@pytest.mark.parametrize(("run_sd", "sample_sd"), [(0.0, 1.0), (0.4, 1.0)])
def test_coverage_runs_share_samples(halves: str, run_sd: float, sample_sd: float) -> None:
    from scipy import stats

    runs, samples, fpr = 6, 600, 0.05
    grid = stats.norm.ppf((np.arange(400) + 0.5) / 400)
    scale = np.sqrt(1 + sample_sd**2)
    true = float(stats.norm.sf((scale * stats.norm.isf(fpr) - (1 + run_sd * grid)) / scale).mean())
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(120):
        half = rng.random((runs, samples)) < 0.5
        if halves == "complementary":
            half[1::2] = ~half[::2]
        shift = (1 + run_sd * rng.normal(size=(runs, 1))) * half
        scores = rng.normal(size=half.shape) + sample_sd * rng.normal(size=samples) + shift
        hits += tpr_at_fpr(scores, half, fpr).tpr.covers(true)
    assert hits >= 108, hits
