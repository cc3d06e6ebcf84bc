"""Spearman: against SciPy with ties, exact ends, messages, coverage at n = 9."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from discreet.stats import ranks, spearman

lists = st.integers(2, 30).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 8), min_size=n, max_size=n)] * 2)
)


@given(lists.filter(lambda ab: len(set(ab[0])) > 1 and len(set(ab[1])) > 1))
@settings(max_examples=60, deadline=None)
def test_agrees_with_scipy_and_ignores_order(ab: tuple[list[int], list[int]]) -> None:
    a, b = (np.array(x, float) for x in ab)
    got = spearman(a, b)
    assert got.value == pytest.approx(scipy_stats.spearmanr(a, b)[0], abs=1e-12)
    assert np.array_equal(ranks(a), scipy_stats.rankdata(a))
    order = np.random.default_rng(0).permutation(len(a))
    assert spearman(a[order], b[order]) == got
    assert spearman(b, a).value == got.value
    assert spearman(a, -b).value == pytest.approx(-got.value)


def test_perfect_agreement_of_nine_is_not_certainty() -> None:
    got = spearman(np.arange(9.0), np.arange(9.0) ** 3)
    assert (got.value, got.high, got.n) == (1.0, 1.0, 9)
    assert 0.8 < got.low < 0.95
    turned = spearman(np.arange(9.0), -np.arange(9.0))
    assert (turned.value, turned.low) == (-1.0, -1.0)
    assert turned.high == pytest.approx(-got.low)


def test_infinite_values_only_rank() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0, np.inf]), np.arange(4.0)).value == 1.0


def test_three_pairs_say_nothing() -> None:
    got = spearman(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    assert (got.value, got.low, got.high) == (0.5, -1.0, 1.0)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], "a: expected values that differ, got 3 times 1.0"),
        ([1.0, 2.0], [1.0, np.nan], "b: expected numbers, got NaN at place 1"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], "b: expected as many values as a, 2, got 3"),
        ([1.0], [1.0], "a: expected one axis with at least 2 values"),
    ],
)
def test_bad_input(a: list[float], b: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spearman(np.array(a), np.array(b))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rho"), [(5, 0.8), (9, 0.0), (9, 0.8), (9, 0.95), (9, 0.99), (20, 0.99)])
def test_coverage(n: int, rho: float) -> None:
    rng = np.random.default_rng(4)
    r = 2 * np.sin(np.pi * rho / 6)  # Pearson's, of a normal pair whose Spearman is rho
    hits = 0
    for _ in range(500):
        x = rng.normal(size=n)
        hits += spearman(x, r * x + np.sqrt(1 - r * r) * rng.normal(size=n)).covers(rho)
    assert hits >= 465
