"""Epsilon bounds: randomised response is bounded and nearly reached, noise proves nothing, theorem by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from discreet.advantage import halves
from discreet.epsilon import _guess, one_run_p_value
from discreet.labelled import split_classes
from discreet.stats import clopper_pearson, difference, epsilon_many_runs, epsilon_one_run, wilson


def response(rng: np.random.Generator, n: int, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Coins and their randomised responses, which are exactly epsilon-private."""
    member = rng.random(n) < 0.5
    honest = rng.random(n) < 1 / (1 + math.exp(-epsilon))
    return np.where(honest, member, ~member).astype(float), member


def test_many_runs_by_hand() -> None:
    scores, member = np.arange(2000.0), np.arange(2000) >= 1000
    low, high = clopper_pearson(500, 500)[0], clopper_pearson(0, 500)[1]
    bound = epsilon_many_runs(scores, member)
    assert bound.ceiling == pytest.approx(math.log(low / high))
    assert bound.ceiling - 1 < bound.value <= bound.ceiling
    assert epsilon_many_runs(-scores, member).value == 0.0, "an inverted attack proves nothing"
    with_delta = epsilon_many_runs(scores, member, delta=0.5)
    assert with_delta.ceiling == pytest.approx(math.log((low - 0.5) / high))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_randomised_response(epsilon: float) -> None:
    rng = np.random.default_rng(3)
    scores, member = response(rng, 20_000, epsilon)
    many = epsilon_many_runs(scores, member)
    one = epsilon_one_run(scores + 0.1 * rng.random(20_000), member, guesses=20_000)
    for bound in (many, one):
        assert 0.8 * epsilon - 0.1 < bound.value <= epsilon
        assert bound.value < bound.ceiling


def test_order_does_not_matter() -> None:
    scores, member = response(np.random.default_rng(5), 500, 1.0)
    order = np.random.default_rng(1).permutation(500)
    assert epsilon_many_runs(scores, member) == epsilon_many_runs(scores[order], member[order])
    assert epsilon_one_run(scores, member, guesses=100) == epsilon_one_run(
        scores[order], member[order], guesses=100
    )


def test_one_run_theorem_by_loops() -> None:
    m, r, v, delta = 50, 20, 17, 1e-3
    for epsilon in (0.0, 0.7, 2.0):
        q = 1 / (1 + math.exp(-epsilon))
        pmf = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
        near = max(sum(pmf[v - i : v]) / i for i in range(1, v + 1))
        expected = min(1.0, sum(pmf[v:]) + 2 * m * delta * near)
        assert one_run_p_value(m, r, v, epsilon, delta) == pytest.approx(expected)


def test_one_run_inverts_the_p_value() -> None:
    scores, member = response(np.random.default_rng(0), 1000, 2.0)
    scores = scores + 0.1 * np.random.default_rng(1).random(1000)
    bound = epsilon_one_run(scores, member, guesses=200, delta=1e-5)
    right = int(member[np.argsort(scores)[-100:]].sum() + (~member)[np.argsort(scores)[:100]].sum())
    assert one_run_p_value(1000, 200, right, bound.value, 1e-5) == pytest.approx(0.05)
    several = epsilon_one_run(scores, member, guesses=(100, 200), delta=1e-5)
    assert several.value >= 0.5 * bound.value


def test_one_half_chooses_and_the_other_judges() -> None:
    scores, member = response(np.random.default_rng(2), 300, 3.0)
    scores = scores + 0.3 * np.random.default_rng(3).normal(size=300)
    choose, judge = halves(split_classes(scores, member), 4)

    def bounds(parts, t: float) -> list[float]:
        m, n = len(parts.members), len(parts.others)
        tp, fp = int((parts.members > t).sum()), int((parts.others > t).sum())
        sides = [(tp, m, fp, n), (n - fp, n, m - tp, m)]
        return [
            math.log(max(clopper_pearson(a, b)[0] - 0.01, 1e-300) / clopper_pearson(c, d)[1])
            for a, b, c, d in sides
        ]

    _, side, threshold = max(
        (bound, side, t)
        for t in scores[np.isin(scores, np.r_[choose.members, choose.others])]
        for side, bound in enumerate(bounds(choose, t))
    )
    expected = bounds(judge, threshold)[side]
    assert expected > 0
    assert epsilon_many_runs(scores, member, seed=4, delta=0.01).value == pytest.approx(expected)


def test_several_guess_counts_share_the_error() -> None:
    scores, member = response(np.random.default_rng(0), 1000, 2.0)
    scores = scores + 0.1 * np.random.default_rng(1).random(1000)
    right = int(member[np.argsort(scores)[-100:]].sum() + (~member)[np.argsort(scores)[:100]].sum())
    bound = epsilon_one_run(scores, member, guesses=(200, 200))
    assert one_run_p_value(1000, 200, right, bound.value, 0.0) == pytest.approx(0.025)


def test_ties_at_the_cut_are_not_guessed() -> None:
    member = np.arange(100) % 2 == 0
    assert epsilon_one_run(np.zeros(100), member, guesses=50).value == 0.0
    scores = np.where(np.arange(100) < 4, 1.0, 0.0)
    for sign in (1, -1):
        top, bottom = _guess(sign * scores, 20)
        assert int((top | bottom).sum()) == 4
        assert int((top & member).sum() + (bottom & ~member).sum()) == 2
    bound = epsilon_one_run(scores, member, guesses=20)
    assert bound.value == 0.0, "only the four on top are told apart, and two of them are wrong"


@pytest.mark.slow
def test_noise_proves_nothing() -> None:
    rng = np.random.default_rng(8)
    false = np.zeros(2)
    for _ in range(150):
        scores, member = rng.normal(size=400), rng.random(400) < 0.5
        false += [
            epsilon_many_runs(scores, member).value > 0,
            epsilon_one_run(scores, member, guesses=(40, 80)).value > 0,
        ]
    assert (false <= 15).all(), false


@pytest.mark.slow
def test_holds_for_private_responses() -> None:
    rng = np.random.default_rng(9)
    false = np.zeros(2)
    for _ in range(150):
        scores, member = response(rng, 400, 1.0)
        scores = scores + 0.1 * rng.random(400)
        false += [
            epsilon_many_runs(scores, member).value > 1,
            epsilon_one_run(scores, member, guesses=80).value > 1,
        ]
    assert (false <= 15).all(), false


def test_bad_input() -> None:
    scores, member = np.arange(10.0), np.arange(10) > 4
    with pytest.raises(ValueError, match=r"delta: expected a number in \[0, 1\), got 1"):
        epsilon_many_runs(scores, member, delta=1.0)
    with pytest.raises(ValueError, match=r"guesses: expected numbers from 2 to 10, got \[11\]"):
        epsilon_one_run(scores, member, guesses=11)
    with pytest.raises(ValueError, match=r"guesses: expected numbers from 2 to 10, got \[\]"):
        epsilon_one_run(scores, member, guesses=())
    with pytest.raises(ValueError, match="expected at least two of each class, got one member"):
        epsilon_many_runs(scores, np.arange(10) > 8)
    with pytest.raises(ValueError, match=r"scores: expected shape \[sample\], got \[1, 10\]"):
        epsilon_one_run(scores[None], member[None])


def test_difference_of_proportions() -> None:
    """Newcombe (1998), Table II, contrasts (a) and (h), method 10."""
    assert difference(56, 70, 48, 80) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert difference(10, 10, 0, 10) == pytest.approx((0.6075, 1.0), abs=5e-5)
    low, high = wilson(0, 10)
    assert (low, high) == (0.0, pytest.approx(0.2775, abs=5e-5))
    assert wilson(10, 10)[1] == 1.0


def test_clopper_pearson() -> None:
    assert clopper_pearson(0, 5000)[1] == pytest.approx(0.000738, abs=1e-6)
    low, high = clopper_pearson(7, 20, level=0.9)
    assert scipy_stats.binom.sf(6, 20, low) == pytest.approx(0.05)
    assert scipy_stats.binom.cdf(7, 20, high) == pytest.approx(0.05)
    with pytest.raises(ValueError, match="hits: expected a number from 0 to n = 5, got 6"):
        clopper_pearson(6, 5)
    with pytest.raises(ValueError, match="n: expected a positive number of trials, got 0"):
        clopper_pearson(0, 0)
