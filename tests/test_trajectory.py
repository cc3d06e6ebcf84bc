from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from discreet.moments import Pair
from discreet.trajectory import Trajectory
from tests.oracles import exact_ratios

finite = st.floats(-50, 50, allow_nan=False, width=32).map(lambda x: round(x, 3))


@given(hnp.arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(2, 40)), elements=finite))
@settings(max_examples=150, deadline=None)
def test_ratios_equal_exact_rational_arithmetic(losses: np.ndarray) -> None:
    trajectory = Trajectory(losses)
    best, exact = exact_ratios(losses)
    assert trajectory.losses[trajectory.best] == pytest.approx(trajectory.losses[best], abs=1e-12)
    if (
        trajectory.best != best
    ):  # rounding of decimals may break an exact tie; the ratios are then those of that tie
        return
    for k, (got, true) in enumerate(zip(trajectory.ratios, exact, strict=True)):
        if true is None:
            assert np.isnan(got), k
        elif true > 10**20:
            assert np.isinf(got), k
        elif not np.isinf(got):  # a constant to within 4 ulp is infinite though its variance is not exactly 0
            assert got == pytest.approx(float(true), rel=1e-7, abs=1e-20), k


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_large_offsets_and_every_float_type_keep_the_digits(dtype: type, offset: float) -> None:
    rng = np.random.default_rng(5)
    losses = (offset + rng.exponential(size=(1, 500)) + 0.1 * rng.standard_normal((4, 500))).astype(dtype)
    best, exact = exact_ratios(losses)
    trajectory = Trajectory(losses)
    assert trajectory.best == best
    for got, true in zip(trajectory.ratios, exact, strict=True):
        assert (np.isnan(got) and true is None) or got == pytest.approx(float(true), rel=1e-9)  # type: ignore[arg-type]


def test_differences_in_the_twelfth_digit_are_seen() -> None:
    rng = np.random.default_rng(6)
    base = 1 + rng.random(200)
    losses = np.array([base, base + 1e-12 * (1 + rng.standard_normal(200))])
    _, exact = exact_ratios(losses)
    got = Trajectory(losses).ratios
    assert got[1] == pytest.approx(float(exact[1]), rel=1e-6)  # type: ignore[arg-type]


def test_agreement_within_four_ulp_is_one_configuration_and_five_is_not() -> None:
    base = np.random.default_rng(7).exponential(size=300).astype(np.float32)
    four = base + 4 * np.spacing(base) * np.resize([1, -1], 300).astype(np.float32)
    six = base + 6 * np.spacing(base) * np.resize([1, -1, 1], 300).astype(np.float32)
    pair = Trajectory(np.array([base, four, six])).pairs(0)
    assert pair.status.tolist() == [Pair.SAME, Pair.SAME, Pair.PLAIN]


def test_float32_numbers_stored_as_float64_are_judged_as_float32() -> None:
    base = np.random.default_rng(8).exponential(size=300).astype(np.float32)
    near = np.nextafter(base, np.float32(9))
    as_single = Trajectory(np.array([base, near]))
    as_double = Trajectory(np.array([base, near]).astype(np.float64))
    assert as_single.pairs(0).status.tolist() == as_double.pairs(0).status.tolist() == [Pair.SAME] * 2


def test_equal_means_of_different_losses_give_exactly_zero() -> None:
    row = np.array([0.1, 0.2, 0.3, 0.7])
    ratios = Trajectory(np.array([row, row[::-1]])).ratios
    assert ratios[1] == 0.0


def test_equal_parameters_are_no_candidates_though_losses_differ() -> None:
    losses = np.array([[1.0, 2.0, 3.0], [1.0, 2.1, 3.3], [2.0, 2.0, 4.0]])
    twin = np.array([7, 7, 9], np.int64)
    assert np.isnan(Trajectory(losses, twin).ratios).tolist() == [True, True, False]


def test_first_checkpoint_wins_exact_ties() -> None:
    assert Trajectory(np.array([[2.0, 2.0], [1.0, 3.0], [1.0, 3.0]])).best == 0


def test_losses_whose_squares_overflow_float32_are_fine_and_float64_are_refused() -> None:
    losses = np.array([[1e30, 2e30, 4e30], [3e30, 1e30, 9e30]], np.float32)
    assert np.isfinite(Trajectory(losses).ratios[1])
    with pytest.raises(ValueError, match="too large to be squared"):
        Trajectory(losses.astype(np.float64) * 1e150).ratios  # noqa: B018


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        (np.ones((1, 5)), "1 checkpoint: at least 2 are needed"),
        (np.ones((5, 1)), "1 evaluation sample: at least 2 are needed"),
        (np.ones((2, 3), int), r"float array \[checkpoint, sample\], got int64"),
        (np.ones(4), r"of shape \(4,\)"),
    ],
)
def test_what_cannot_be_measured_is_refused(losses: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trajectory(losses)


def test_not_finite_names_the_step() -> None:
    losses = np.ones((2, 3000))
    losses[1, 2500:] = np.nan
    with pytest.raises(ValueError, match=r"step 0\.5 has 500 of 3000 losses that are NaN"):
        Trajectory(losses, steps=("0", "0.5")).best  # noqa: B018


@pytest.mark.parametrize("n", [5, 40, 700, 5000])
def test_pieces_and_all_at_once_agree(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(n)
    losses = rng.exponential(size=(1, n)) + np.array([0.0, 1e-5, 0.1, 3.0])[:, None] * rng.random((4, n))
    at_once = Trajectory(losses).pairs(1)
    monkeypatch.setattr("discreet.trajectory._AT_ONCE", 0)
    pieces = Trajectory(losses).pairs(1)
    np.testing.assert_allclose(at_once.mean, pieces.mean, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(at_once.scatter, pieces.scatter, rtol=1e-8, atol=1e-14)
    np.testing.assert_array_equal(at_once.status, pieces.status)
