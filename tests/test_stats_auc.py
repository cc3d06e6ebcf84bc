"""AUC: pair counting by hand, DeLong by hand, ties, degenerate inputs, row order, coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.auc import auc_parts
from discreet.stats import Estimate, auc


def pairs(scores: np.ndarray, member: np.ndarray) -> float:
    """The definition: every member against every non-member."""
    wins = 0.0
    for a in scores[member]:
        for b in scores[~member]:
            wins += 1.0 if a > b else 0.5 if a == b else 0.0
    return wins / (member.sum() * (~member).sum())


two_classes = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: 0 < sum(y for _, y in rows) < len(rows)
)


@given(two_classes)
@settings(max_examples=150, deadline=None)
def test_counts_pairs_and_ignores_row_order(rows: list[tuple[int, bool]]) -> None:
    scores, member = np.array([s for s, _ in rows], float), np.array([y for _, y in rows])
    got = auc(scores, member)
    assert got.value == pytest.approx(pairs(scores, member), abs=1e-12)
    order = np.random.default_rng(len(rows)).permutation(len(rows))
    assert auc(scores[order], member[order]) == got
    assert auc(-scores, member).value == pytest.approx(1 - got.value, abs=1e-12)
    assert auc(np.exp(scores), member) == got, "only ranks count"


def test_variance_is_delongs() -> None:
    rng = np.random.default_rng(3)
    scores, member = np.round(rng.normal(size=60), 1), np.arange(60) < 25
    scores[member] += 0.5
    x, y = scores[member], scores[~member]
    kernel = (x[:, None] > y) + 0.5 * (x[:, None] == y)
    delong = kernel.mean(1).var(ddof=1) / 25 + kernel.mean(0).var(ddof=1) / 35
    parts = auc_parts(scores[None], member[None], np.ones((1, 60), bool))
    assert (parts.influence**2).sum() == pytest.approx(delong, rel=1e-12)
    got = auc(scores, member)
    centre, half = math.log(got.value / (1 - got.value)), 1.959964 * math.sqrt(delong)
    low = 1 / (1 + math.exp(-(centre - half / (got.value * (1 - got.value)))))
    assert low - 0.01 < got.low <= low + 1e-6


def test_influence_is_what_leaving_out_takes_away() -> None:
    rng = np.random.default_rng(4)
    scores, member = np.round(rng.normal(size=30), 1), np.arange(30) < 12
    effect = auc_parts(scores[None], member[None], np.ones((1, 30), bool)).influence[0]
    for at in range(30):
        rest = np.arange(30) != at
        size = member.sum() if member[at] else (~member).sum()
        lost = pairs(scores, member) - pairs(scores[rest], member[rest])
        assert lost == pytest.approx(effect[at] * math.sqrt(size / (size - 1)))


@pytest.mark.parametrize(("sign", "value"), [(1, 1.0), (-1, 0.0), (0, 0.5)])
def test_degenerate_scores_keep_an_open_interval(sign: int, value: float) -> None:
    member = np.arange(20) >= 10
    got = auc(sign * np.arange(20.0), member)
    assert got.value == value
    assert got.high - got.low > 0.1
    assert 0 <= got.low <= value <= got.high <= 1
    several = auc(np.tile(sign * np.arange(20.0), (4, 1)), np.tile(member, (4, 1)))
    assert several.high - several.low >= got.high - got.low, "identical runs teach nothing new"


def test_two_rows() -> None:
    got = auc(np.array([1.0, 0.0]), np.array([True, False]))
    assert (got.value, got.n) == (1.0, 2)
    assert got.low < 0.4


def test_several_runs_average_and_permute() -> None:
    rng = np.random.default_rng(0)
    member = rng.random((6, 80)) < 0.5
    scores = rng.normal(size=member.shape) + 0.4 * member
    got = auc(scores, member)
    assert got.value == pytest.approx(np.mean([pairs(s, y) for s, y in zip(scores, member, strict=True)]))
    rows, columns = rng.permutation(6), rng.permutation(80)
    assert auc(scores[rows][:, columns], member[rows][:, columns]) == got


def test_keep_drops_entries() -> None:
    rng = np.random.default_rng(1)
    scores, member = rng.normal(size=50), np.arange(50) % 2 == 0
    keep = np.arange(50) < 30
    scores[40] = np.nan
    assert auc(scores, member, keep=keep) == auc(scores[:30], member[:30])


def test_clusters_of_copies_count_once() -> None:
    rng = np.random.default_rng(2)
    scores, member = rng.normal(size=100), np.arange(100) < 50
    copies, truth, label = np.repeat(scores, 9), np.repeat(member, 9), np.repeat(np.arange(100), 9)
    single, naive = auc(scores, member), auc(copies, truth)
    honest = auc(copies, truth, cluster=label)
    assert honest.value == pytest.approx(single.value)
    assert honest.high - honest.low == pytest.approx(single.high - single.low, rel=0.05)
    assert naive.high - naive.low < 0.5 * (single.high - single.low)
    names = np.array([f"scaffold {i}" for i in label])
    assert auc(copies, truth, cluster=names).low == pytest.approx(honest.low)


def test_null_planted_inverted() -> None:
    rng = np.random.default_rng(5)
    member = np.arange(4000) < 2000
    noise = rng.normal(size=4000)
    assert auc(noise, member).covers(0.5)
    assert auc(noise + member, member).covers(0.7602)
    assert auc(noise - member, member).covers(1 - 0.7602)


@pytest.mark.parametrize(
    ("scores", "member", "message"),
    [
        ([1.0, np.nan, 2.0], [True, False, False], r"scores: .* got nan at sample 1 \(1 such"),
        ([1.0, 0.0, np.inf], [True, False, False], "got inf at sample 2"),
        ([1.0, 2.0], [True, True], "member: expected both classes, got no non-member"),
        ([1.0, 2.0], [False, False], "member: expected both classes, got no member"),
        ([1.0, 2.0], [True], r"member: expected the shape of scores, \[2\], got \[1\]"),
        ([], [], r"scores: expected shape \[sample\]"),
    ],
)
def test_bad_input(scores: list[float], member: list[bool], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        auc(np.array(scores, float), np.array(member, bool))


def test_bad_input_names_the_run() -> None:
    member = np.array([[True, False], [True, True]])
    with pytest.raises(ValueError, match="got no non-member in run 1"):
        auc(np.zeros((2, 2)), member)
    with pytest.raises(ValueError, match="got nan at sample 1 of run 0"):
        auc(np.array([[0.0, np.nan], [0.0, 1.0]]), np.array([[True, False], [True, False]]))
    with pytest.raises(ValueError, match=r"level: expected a number in \(0, 1\), got 95.0"):
        auc(np.zeros(2), np.array([True, False]), level=95.0)
    with pytest.raises(ValueError, match="cluster: expected one label a sample, 2, got shape"):
        auc(np.zeros(2), np.array([True, False]), cluster=np.zeros(3))
    with pytest.raises(ValueError, match="cluster: expected at least two different labels"):
        auc(np.zeros(2), np.array([True, False]), cluster=np.zeros(2))


def test_estimate_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="expected finite numbers"):
        Estimate(math.nan, 0.0, 1.0, 1, 0.95)
    with pytest.raises(ValueError, match=r"expected low <= value <= high, got 0\.2 <= 0\.1"):
        Estimate(0.1, 0.2, 0.3, 1, 0.95)
    with pytest.raises(ValueError, match="n: expected at least 1, got 0"):
        Estimate(0.1, 0.0, 0.3, 0, 0.95)
    assert set(Estimate(0.1, 0.0, 0.3, 5, 0.95).to_json()) == {"value", "low", "high", "n", "level", "method"}


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n"), [(10, 10), (10, 100), (300, 300)])
@pytest.mark.parametrize(("shift", "sd"), [(1, 1), (3.5, 1), (0, 2), (1, 0.3)])
def test_coverage_one_run(m: int, n: int, shift: float, sd: float) -> None:
    from scipy import stats

    true = float(stats.norm.cdf(shift / math.sqrt(1 + sd**2)))
    rng = np.random.default_rng(8)
    member = np.arange(m + n) < m
    hits = 0
    for _ in range(300):
        scores = np.where(member, rng.normal(shift, sd, m + n), rng.normal(size=m + n))
        hits += auc(scores, member).covers(true)
    assert hits >= 274


@pytest.mark.slow
@pytest.mark.parametrize("halves", ["independent", "complementary"])
@pytest.mark.parametrize(("run_sd", "sample_sd"), [(0.0, 0.0), (0.3, 0.0), (0.3, 1.5)])
def test_coverage_runs_share_samples(halves: str, run_sd: float, sample_sd: float) -> None:
    """Runs differ in their leak, samples in their difficulty; the true mean AUC comes from a large draw."""
    from scipy import stats

    runs, samples, leak = 8, 200, 0.5
    grid = stats.norm.ppf((np.arange(400) + 0.5) / 400)
    true = stats.norm.cdf((leak + run_sd * grid) / math.sqrt(2 + 2 * sample_sd**2)).mean()
    rng = np.random.default_rng(9)
    hits = 0
    for _ in range(300):
        half = rng.random((runs, samples)) < 0.5
        if halves == "complementary":
            half[1::2] = ~half[::2]
        shift = (leak + run_sd * rng.normal(size=(runs, 1))) * half
        scores = rng.normal(size=half.shape) + sample_sd * rng.normal(size=samples) + shift
        hits += auc(scores, half).covers(float(true))
    assert hits >= 274, hits
