from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet
from discreet.diagnostics import ADVICE
from discreet.indicator import indicator, measure_run
from discreet.moments import LossMoments
from discreet.noncentral import resolution, within_run
from discreet.trajectory import Trajectory
from tests.oracles import exact_ratios


def gaussian(runs: int, gaps: list[float], n: int, seed: int = 0, sd: float = 0.1) -> np.ndarray:
    """Losses whose checkpoint k exceeds the first by gaps[k] on average, with independent noise."""
    rng = np.random.default_rng(seed)
    base = rng.exponential(size=(1, 1, n))
    noise = sd * rng.standard_normal((runs, len(gaps), n))
    noise[:, 0] = 0.0
    return base + np.array(gaps)[None, :, None] + noise


def test_mean_over_runs_equals_exact_arithmetic() -> None:
    losses = gaussian(6, [0.0, 0.05, 0.2, 0.3], 300)
    true = [min(float(r) for r in exact_ratios(run)[1] if r is not None) for run in losses]
    found = indicator(losses, n_train=1000)
    assert found.r == pytest.approx(np.mean(true), rel=1e-9)
    assert found.r_median == pytest.approx(np.median(true), rel=1e-9)
    assert found.n_train_r == pytest.approx(1000 * np.mean(true), rel=1e-9)
    assert [run.r for run in found.per_run.values()] == pytest.approx(true, rel=1e-9)
    assert (found.runs, found.checkpoints, found.candidates, found.samples) == (6, 4, 3, 300)


def test_planted_signal_orders_and_is_covered() -> None:
    weak, strong = indicator(gaussian(8, [0, 0.02], 2000)), indicator(gaussian(8, [0, 0.05], 2000))
    assert weak.high is not None
    assert strong.low is not None
    assert weak.high < strong.low
    for found, gap in ((weak, 0.02), (strong, 0.05)):
        assert found.low <= 0.5 * (gap / 0.1) ** 2 <= found.high


def test_no_signal_covers_zero() -> None:
    found = indicator(gaussian(8, [0, 0, 0], 500))
    assert found.low == 0.0
    assert "below-resolution" in found.diagnostics


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_order_of_samples_changes_r_by_rounding_only_and_constants_not_at_all(seed: int) -> None:
    losses = gaussian(2, [0, 0.1, 0.3], 120, seed % 1000)
    found = indicator(losses).r
    shuffled = np.random.default_rng(seed).permutation(120)
    assert indicator(losses[:, :, shuffled]).r == pytest.approx(found, rel=1e-10)
    assert indicator(losses[:, ::-1]).r == pytest.approx(found, rel=1e-10)
    assert indicator(losses + np.arange(120.0)).r == pytest.approx(found, rel=1e-9)
    assert indicator(losses * 4).r == pytest.approx(found, rel=1e-12)


def test_the_same_seed_gives_the_same_bytes() -> None:
    losses = gaussian(3, [0, 0.1, 0.3], 200)
    assert repr(indicator(losses, seed=3).to_json()) == repr(indicator(losses, seed=3).to_json())


def test_a_run_without_alternatives_is_undefined_and_never_safe() -> None:
    losses = gaussian(3, [0, 0.1], 200)
    losses[1, 1] = losses[1, 0]
    found = indicator(losses)
    assert (found.runs, found.runs_undefined) == (2, 1)
    assert "runs-undefined" in found.diagnostics
    losses[:, 1] = losses[:, 0]
    collapsed = indicator(losses)
    assert (collapsed.status, collapsed.r, collapsed.low, collapsed.high) == ("undefined", None, None, None)
    assert collapsed.candidates == 0


def test_infinite_runs_are_counted_and_left_out() -> None:
    losses = gaussian(3, [0, 0.1], 200)
    losses[0, 1] = losses[0, 0] + 0.5
    found = indicator(losses)
    assert (found.status, found.runs, found.runs_infinite) == ("ok", 2, 1)
    assert np.isfinite(found.r)
    losses[:, 1] = losses[:, 0] + 0.5
    assert indicator(losses).status == "infinite"
    assert indicator(losses).r is None


def test_kept_checkpoints_are_no_candidates() -> None:
    losses = gaussian(1, [0, 0.1, 0.3], 200)
    twice = losses[:, [0, 0, 1, 1, 2]]
    assert indicator(twice).r == indicator(losses).r
    assert indicator(twice).candidates == 2


def test_one_pass_moments_give_the_same_run() -> None:
    losses = gaussian(1, [0.3, 0.0, 0.1, 0.2], 900)[0]
    two, one = measure_run(Trajectory(losses)), measure_run(LossMoments.of(losses))
    assert (one.best, one.decider, one.candidates) == (two.best, two.decider, two.candidates)
    assert one.r == pytest.approx(two.r, rel=1e-9)
    np.testing.assert_allclose(one.drawn, two.drawn, rtol=1e-8)


def test_negative_losses_are_allowed() -> None:
    losses = gaussian(2, [0, 0.1, 0.3], 200)
    assert indicator(losses - 100).r == pytest.approx(indicator(losses).r, rel=1e-9)


def shaped(best: int, checkpoints: int = 12, runs: int = 16) -> np.ndarray:
    gaps = [0.02 * abs(k - best) for k in range(checkpoints)]
    rng = np.random.default_rng(0)
    return np.array(gaps)[None, :, None] + 0.05 * rng.standard_normal((runs, checkpoints, 400)) + 1


@pytest.mark.parametrize(
    ("name", "losses", "n_train"),
    [
        ("not-converged", shaped(11), None),
        ("optimum-early", shaped(0), None),
        ("optimum-late", shaped(8), None),
        ("below-resolution", shaped(5) * 0 + np.random.default_rng(1).random((16, 12, 400)), None),
        ("theorem-silent", shaped(5), 2),
        ("few-runs", shaped(5, runs=14), None),
        ("decided-by-tie", np.array([[[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]]), None),
        (
            "one-run-dominates",
            np.concatenate([shaped(5), gaussian(1, [0.0] + [5.0] * 11, 400)]),
            None,
        ),
    ],
)
def test_diagnostics_are_raised_and_have_advice(name: str, losses: np.ndarray, n_train: int | None) -> None:
    assert name in indicator(losses, n_train=n_train).diagnostics
    assert all(len(text) > 20 for text in ADVICE[name])


@pytest.mark.parametrize("best", [6, 11])
def test_an_optimum_in_the_middle_is_not_late_nor_is_one_at_the_end(best: int) -> None:
    assert "optimum-late" not in indicator(shaped(best)).diagnostics


def test_a_sound_trajectory_has_no_diagnostics() -> None:
    assert indicator(shaped(5), n_train=10_000).diagnostics == ()


def test_full_precision_is_marked_a_reference() -> None:
    assert indicator(shaped(5), variant="full").diagnostics == ("full-precision-reference",)


@pytest.mark.parametrize(
    ("losses", "kwargs", "message"),
    [
        (
            np.ones(3),
            {},
            r"numbers \[run, checkpoint, sample\] or .*, got float64 of shape \(3,\)",
        ),
        (np.array([["a"]]), {}, "must be numbers"),
        (np.ones((0, 2, 2)), {}, "hold no run"),
        (np.ones((1, 1, 5)), {}, "variant 'losses', run '0': 1 checkpoint: at least 2"),
        (np.ones((1, 2, 1)), {}, "1 evaluation sample"),
        (np.ones((2, 3)), {"level": 1.0}, "level must lie between 0 and 1"),
        (np.ones((2, 3)), {"statistic": "mode"}, "statistic must be 'mean' or 'median', got 'mode'"),
        (np.full((2, 2, 3), np.nan), {}, "run '0': checkpoint 0 has 3 of 3 losses that are NaN or infinite"),
    ],
)
def test_bad_input_is_one_clear_error(losses: np.ndarray, kwargs: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        discreet.indicator(losses, **kwargs)


def test_resolution_is_where_a_single_pair_stops_covering_zero() -> None:
    n = 1000
    edge = resolution(n, 0.9)  # two-sided 90 % at z = 1.645
    assert within_run(np.array([edge * 0.8]), n, 0.9)[0] == 0.0
    assert within_run(np.array([edge * 2.0]), n, 0.9)[0] > 0.0


def test_within_run_is_wider_with_more_candidates_and_holds_the_least() -> None:
    one = within_run(np.array([0.01]), 500, 0.95)
    many = within_run(np.array([0.01, 0.0101, 0.0102]), 500, 0.95)
    assert one[0] <= 0.01 <= one[1] < many[1]


def test_no_interval_has_width_zero_because_runs_agree() -> None:
    swapped = np.array([[[0.0, 1, 0, 1], [1, 0, 1, 0], [5, 6, 7, 9]]] * 3)
    found = indicator(swapped)
    assert found.r == found.low == 0.0
    assert found.high > 0.1
    one = gaussian(1, [0, 0.1], 50)
    twice = indicator(np.concatenate([one, one]))
    assert twice.high >= indicator(one).high > 0.0
