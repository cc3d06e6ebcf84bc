"""The screened r against the full one: equal where it must be, cheaper where it can be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.indicator import measure_run
from discreet.screening import Screened, screened
from discreet.trajectory import Trajectory


def walk(rng: np.random.Generator, checkpoints: int, samples: int, tails: float) -> np.ndarray:
    """Losses along a path: each sample has its own optimum and curvature; the lower ``tails``, the heavier."""
    t = np.linspace(0, 1, checkpoints)[:, None]
    curvature = rng.gamma(2.0, 0.5, samples)
    own = 0.6 + 0.3 * rng.standard_t(tails, samples)
    return curvature * (t - own) ** 2


def run(losses: np.ndarray, **options) -> Screened:
    return screened(lambda k, i: losses[np.ix_(k, i)], *losses.shape, **options)


def naive(losses: np.ndarray) -> tuple[float, int, int]:
    best = int(losses.mean(axis=1).argmin())
    gaps = np.delete(losses - losses[best], best, axis=0)
    ratios = gaps.mean(axis=1) ** 2 / gaps.var(axis=1) / 2
    others = np.delete(np.arange(len(losses)), best)
    return float(ratios.min()), best, int(others[ratios.argmin()])


@pytest.mark.parametrize("tails", [30.0, 4.0])
def test_the_same_r_for_a_fifth_of_the_work(tails: float) -> None:
    losses = walk(np.random.default_rng(1), 40, 60_000, tails)
    found, (r, best, decider) = run(losses), naive(losses)
    assert found.r == pytest.approx(r, rel=1e-9)
    assert (found.best, found.decider) == (best, decider)
    assert found.work < 0.2
    full = measure_run(Trajectory(losses))
    assert full.low <= found.r <= full.high
    np.testing.assert_array_equal(found.losses, losses[found.kept])
    share = sum(
        k * n
        for k, n in zip(
            [k for _, k in found.stages], np.diff([0, *(n for n, _ in found.stages)]), strict=True
        )
    )
    assert found.work == pytest.approx(share / losses.size)


@pytest.mark.parametrize("tails", [30.0, 3.0])
def test_the_deciding_pair_is_lost_no_more_often_than_promised(tails: float) -> None:
    lost = 0
    for seed in range(25):
        losses = walk(np.random.default_rng(seed), 12, 3_000, tails)
        found = run(losses, first=100, alpha=0.05, seed=seed)
        lost += found.r != pytest.approx(naive(losses)[0], rel=1e-9)
    assert lost <= 4  # 1.25 expected at most; more than 4 in less than 1 % of such tests


def test_nothing_is_left_out_where_nothing_can_be_told_apart() -> None:
    rng = np.random.default_rng(0)
    losses = rng.normal(size=(10, 1_000))
    found = run(losses)
    assert found.kept.tolist() == list(range(10))
    assert found.work == 1
    assert found.r == pytest.approx(naive(losses)[0], rel=1e-9)


@given(st.integers(2, 6), st.integers(2, 400), st.integers(0, 50))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_small_cases_are_measured_whole_or_agree(checkpoints: int, samples: int, seed: int) -> None:
    losses = (
        np.random.default_rng(seed).normal(size=(checkpoints, samples))
        + np.arange(checkpoints)[:, None] * 0.2
    )
    found = run(losses, first=2, alpha=1e-6)
    assert found.r == pytest.approx(naive(losses)[0], rel=1e-9)
    assert found.work <= 1


def test_losses_that_differ_on_few_samples_are_not_left_out() -> None:
    losses = np.zeros((3, 2_000))
    losses[1] = 1.0
    losses[2, ::500] = 1e-3  # equal to the best one on nearly every small sample
    found = run(losses, first=20)
    assert 2 in found.kept
    assert found.decider == 2


def test_a_constant_difference_on_a_small_sample_proves_nothing() -> None:
    losses = np.zeros((3, 2_000))
    losses[1] = 1 + 0.5 * np.random.default_rng(0).normal(size=2_000)
    losses[2] = 0.1
    losses[2, ::500] = -5.0
    assert run(losses, first=20).decider == naive(losses)[2] == 2


def test_equal_parameters_are_measured_once() -> None:
    losses = walk(np.random.default_rng(0), 6, 500, 30.0)[[0, 1, 1, 2, 3, 3, 4, 5]]
    asked: set[int] = set()

    def evaluate(k: np.ndarray, i: np.ndarray) -> np.ndarray:
        asked.update(k.tolist())
        return losses[np.ix_(k, i)]

    found = screened(evaluate, 8, 500, twin=np.array([5, 9, 9, 1, 7, 7, 3, 4]))
    assert asked == {0, 1, 3, 4, 6, 7}
    assert found.r == pytest.approx(naive(losses[[0, 1, 3, 4, 6, 7]])[0], rel=1e-9)


def test_the_seed_fixes_everything() -> None:
    losses = walk(np.random.default_rng(0), 20, 5_000, 30.0)
    one, again = run(losses, seed=3), run(losses, seed=3)
    assert one.stages == again.stages
    assert one.r == again.r


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_checkpoints": 1}, "at least 2 checkpoints"),
        ({"n_samples": 1}, "2 samples"),
        ({"first": 1}, "a first sample of 2"),
        ({"growth": 1.0}, "growth above 1"),
        ({"alpha": 0.0}, r"alpha in \(0, 1\), got 5, 300, 256, 1.5 and 0.0"),
    ],
)
def test_sizes_out_of_range_are_refused(options: dict, message: str) -> None:
    arguments = {"n_checkpoints": 5, "n_samples": 300, "first": 256} | options
    with pytest.raises(ValueError, match=message):
        screened(lambda k, i: np.zeros((len(k), len(i))), **arguments)


def test_losses_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"evaluate: expected losses of shape \[3, 10\], got \[10, 3\]"):
        screened(lambda k, i: np.zeros((len(i), len(k))), 3, 10)
    with pytest.raises(ValueError, match="evaluate: expected finite losses, got 30 others"):
        screened(lambda k, i: np.full((len(k), len(i)), np.nan), 3, 10)
