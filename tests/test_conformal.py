"""Conformal p-values: the small cases, a naive count, the band of the realised rate, and the null."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from discreet.conformal import _finite, calibrate, needs, p_values, realised_band

FIVE = np.array([-1.0, 0.0, 0.0, 1.0, 2.0])


def test_small_case() -> None:
    got = p_values(np.array([3.0, 2.0, 0.0, -5.0]), FIVE)
    assert got == pytest.approx([1 / 6, 2 / 6, 5 / 6, 1.0])


def test_below_the_resolution_nobody_is_accused() -> None:
    found = calibrate(FIVE, 0.01)
    assert not found.resolvable
    assert found.threshold == math.inf
    assert (found.low, found.high) == (0.0, 0.0)
    assert str(found) == "FPR 0.01 is not resolvable (needs 99 calibration rows, has 5)"


@pytest.mark.parametrize(("alpha", "rows"), [(0.01, 99), (0.001, 999), (0.5, 1), (0.3, 3), (1.0, 1)])
def test_needs(alpha: float, rows: int) -> None:
    assert needs(alpha) == rows
    assert calibrate(np.arange(float(rows)), alpha).resolvable
    if rows > 1:
        assert not calibrate(np.arange(float(rows - 1)), alpha).resolvable


def test_exact_arithmetic() -> None:
    """29 of 100 at 0.29; floats give 28.999999999999996."""
    found = calibrate(np.arange(99.0), 0.29)
    assert found.threshold == 99 - 29
    assert (np.arange(99.0) > found.threshold).sum() == 28


whole = st.integers(-4, 4)


@given(
    st.lists(whole, min_size=1, max_size=30), st.lists(whole, min_size=1, max_size=10), st.integers(1, 1000)
)
def test_naive_count_and_threshold_agree(known: list[int], asked: list[int], thousandths: int) -> None:
    alpha = thousandths / 1000
    calibration, scores = np.array(known, float), np.array(asked, float)
    exact = [Fraction(1 + sum(c >= s for c in known), len(known) + 1) for s in asked]
    got = p_values(scores, calibration)
    assert got.tolist() == [float(p) for p in exact]
    found = calibrate(calibration, alpha)
    by_hand = [p <= Fraction(thousandths, 1000) for p in exact]
    assert (scores > found.threshold).tolist() == by_hand
    assert (got <= alpha).tolist() == by_hand
    assert np.array_equal(p_values(scores, calibration[::-1]), got)


@pytest.mark.parametrize(
    ("n", "alpha", "percent"),
    [
        (1000, 0.01, (0.48, 1.70)),
        (5000, 0.01, (0.74, 1.29)),
        (5000, 0.001, (0.03, 0.20)),
        (50_000, 0.001, (0.074, 0.130)),
    ],
)
def test_band_of_the_realised_rate(n: int, alpha: float, percent: tuple[float, float]) -> None:
    assert np.array(realised_band(n, alpha)) * 100 == pytest.approx(percent, abs=0.006)


def test_band_of_a_share_is_wider_and_meets_the_law() -> None:
    low, high = realised_band(1000, 0.01, judged=2000)
    assert (low, high) == pytest.approx(tuple(stats.betabinom(2000, 10, 991).ppf([0.025, 0.975]) / 2000))
    assert low < realised_band(1000, 0.01)[0]
    assert high > realised_band(1000, 0.01)[1]
    assert realised_band(1000, 0.01, judged=200_000) == pytest.approx(realised_band(1000, 0.01), rel=0.02)
    assert realised_band(3, 1.0) == (1.0, 1.0)


@pytest.mark.parametrize("alpha", [0.01, 0.001])
def test_null(alpha: float) -> None:
    rng = np.random.default_rng(0)
    found = calibrate(rng.normal(size=50_000), alpha)
    share = (rng.normal(size=20_000) > found.threshold).mean()
    low, high = realised_band(50_000, alpha, level=0.999, judged=20_000)
    assert low <= share <= high
    assert high < 2.1 * alpha


def test_a_shifted_null_falls_out_of_the_band() -> None:
    rng = np.random.default_rng(0)
    found = calibrate(rng.normal(size=50_000), 0.01)
    share = (rng.normal(0.15, 1.0, size=20_000) > found.threshold).mean()
    assert share > realised_band(50_000, 0.01, level=0.999, judged=20_000)[1]


@pytest.mark.slow
def test_band_covers() -> None:
    """Over draws of the calibration rows the realised rate is in the 95 % band 95 % of the time, its mean alpha."""
    rng = np.random.default_rng(1)
    low, high = realised_band(999, 0.02)
    rates = np.array([stats.norm.sf(calibrate(rng.normal(size=999), 0.02).threshold) for _ in range(4000)])
    assert ((rates >= low) & (rates <= high)).mean() == pytest.approx(0.95, abs=0.015)
    assert rates.mean() == pytest.approx(0.02, abs=4 * rates.std() / math.sqrt(4000))


def test_messages() -> None:
    with pytest.raises(
        ValueError, match=r"^calibration: expected at least one score of a non-member, got none$"
    ):
        p_values(FIVE, np.array([]))
    with pytest.raises(
        ValueError, match=r"^scores: expected finite numbers, got nan at 1 \(2 such scores\)$"
    ):
        p_values(np.array([0.0, np.nan, np.inf]), FIVE)
    with pytest.raises(ValueError, match=r"^calibration: expected one score a sample, got shape \[1, 5\]$"):
        _finite("calibration", FIVE[None])
    with pytest.raises(ValueError, match=r"^fpr: expected a rate in \(0, 1\], got 0.0$"):
        calibrate(FIVE, 0.0)
    with pytest.raises(ValueError, match=r"^judged: expected at least one non-member, got 0$"):
        realised_band(100, 0.1, judged=0)
    with pytest.raises(ValueError, match=r"^n: expected at least one calibration row, got 0$"):
        realised_band(0, 0.1)
