"""Exact security of finite classes: brute force over all attacks, closed forms, the rate of Theorem 3.4."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from discreet.baseline import Prior
from discreet.theorem import FiniteClass, law


def coin(tilt: float) -> FiniteClass:
    """Two parameters, each right about one of two values."""
    return FiniteClass(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.5 + tilt, 0.5 - tilt]))


def drawn(seed: int, parameters: int, values: int) -> FiniteClass:
    rng = np.random.default_rng(seed)
    chance = rng.dirichlet(np.full(values, 2.0))
    return FiniteClass(rng.integers(0, 5, (parameters, values)) / 4, chance / chance.sum())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([(0.5, 1.0), (0.3, 1.0), (0.2, 6.0)]))
def test_no_attack_beats_the_exact_mis_and_one_attains_it(seed: int, n: int, at: tuple[float, float]) -> None:
    """Every attack on every training set, one by one (eqs. 4 and 6 against eqs. 7 and 10)."""
    finite, prior = drawn(seed, 2, 3), Prior(*at)
    apart, together = np.zeros((2, 3)), np.zeros((2, 3))
    for samples in product(range(3), repeat=n):
        chance = math.prod(finite.chance[z] for z in samples)
        learned = int(finite.loss[:, list(samples)].sum(axis=1).argmin())
        apart[learned] += chance * finite.chance
        together[learned, samples[0]] += chance
    found = law(finite, n)
    assert np.allclose(found.apart, apart)
    assert np.allclose(found.together, together)
    attacks = np.array(list(product([False, True], repeat=6))).reshape(-1, 2, 3)
    tpr, tnr = (attacks * together).sum((1, 2)), (~attacks * apart).sum((1, 2))
    best = float(np.max(prior.accuracy(tpr, tnr)))
    assert found.mis(prior.gamma) == pytest.approx(prior.mis(best), abs=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(0.1, 10))
@settings(deadline=None)
def test_the_forms_of_the_divergence_agree(seed: int, n: int, gamma: float) -> None:
    """Eq. 10 (absolute values), eq. 11 (sample by sample) and Proposition 8.1 (below total variation)."""
    found = law(drawn(seed, 3, 3), n)
    p, q = found.apart, found.together
    top = max(1.0, gamma)
    joint = top * (np.abs(gamma * p - q).sum() / (2 * gamma) - abs(1 - 1 / gamma) / 2)
    each = p.sum(axis=0)
    given_z = [np.abs(gamma * p[:, z] / each[z] - q[:, z] / each[z]).sum() / (2 * gamma) for z in range(3)]
    by_sample = sum(each[z] * top * (given_z[z] - abs(1 - 1 / gamma) / 2) for z in range(3))
    assert found.leak(gamma) == pytest.approx(joint, abs=1e-12)
    assert found.leak(gamma) == pytest.approx(by_sample, abs=1e-12)
    assert 0 <= found.leak(gamma) <= found.leak() + 1e-12


@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(0.2, 5))
@settings(deadline=None)
def test_fewer_attacks_leave_more_security(seed: int, n: int, gamma: float) -> None:
    finite = drawn(seed, 3, 3)
    found = law(finite, n)
    rounded = np.round(finite.loss)  # what a label-only answer may give away
    ladder = [
        found.mis(gamma),
        found.mis(gamma, finite.loss),
        found.mis(gamma, rounded),
        found.mis(gamma, np.zeros_like(rounded)),
    ]
    assert all(low <= high + 1e-12 for low, high in pairwise(ladder))
    assert ladder[-1] == pytest.approx(1.0)


@pytest.mark.parametrize(("n", "tilt"), [(1, 0.1), (2, 0.1), (25, 0.05), (100, 0.2), (2001, 0.1)])
def test_two_values_have_a_closed_form(n: int, tilt: float) -> None:
    """The mean deviation of a binomial: sum over c <= m of (np - c) b(c; n, p) = n p q b(m; n - 1, p)."""
    p = 0.5 + tilt
    half = (n - 1) // 2  # the other parameter is learned from fewer than n / 2 of the likelier value
    assert law(coin(tilt), n).leak() == pytest.approx(2 * p * (1 - p) * binom.pmf(half, n - 1, p), rel=1e-9)


def test_one_sample_that_is_learned_by_heart() -> None:
    values = np.array([0.2, 0.3, 0.5])
    assert law(FiniteClass(1 - np.eye(3), values), 1).leak() == pytest.approx(1 - (values**2).sum())


def test_the_indicator_by_hand_and_as_estimated_from_many_samples() -> None:
    finite = coin(0.1)
    assert finite.best == 0
    assert finite.gap.tolist() == pytest.approx([0.0, 0.2])
    assert finite.variance.tolist() == pytest.approx([0.0, 1 - 0.2**2])
    assert finite.r == pytest.approx(0.2**2 / (2 * 0.96))
    assert finite.large_deviation == pytest.approx(-0.5 * math.log(1 - 4 * 0.1**2))
    from discreet.indicator import measure_run
    from discreet.trajectory import Trajectory

    samples = np.repeat([0, 1], [60, 40])
    assert measure_run(Trajectory(finite.loss[:, samples])).r == pytest.approx(finite.r)
    assert FiniteClass(np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([0.5, 0.5])).r == math.inf
    assert FiniteClass(np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([0.5, 0.5])).large_deviation == math.inf


def test_equal_parameters_are_one_configuration() -> None:
    """They are never learned instead of each other, so r, the rate and the law are those without the second."""
    chance = np.array([0.6, 0.4])
    one = FiniteClass(np.array([[0.0, 1.0], [1.0, 0.0]]), chance)
    for rows in ([0, 0, 1], [1, 0, 0], [0, 1, 1]):
        more = FiniteClass(one.loss[rows], chance)
        assert more.r == one.r == pytest.approx(0.0208, abs=5e-5)
        assert more.large_deviation == pytest.approx(one.large_deviation)
        assert law(more, 25).leak() == pytest.approx(law(one, 25).leak())
    alone = FiniteClass(one.loss[[0, 0]], chance)
    assert alone.r == alone.large_deviation == math.inf
    assert law(alone, 25).leak() == 0


def test_the_rate_is_the_indicator_where_gaps_shrink_and_less_where_they_do_not() -> None:
    """Theorem 3.4: -log(1 - MIS)/n is at least r in the limit, under A1; a fixed class keeps its own rate."""
    fixed = coin(0.2)
    rates = [-math.log(law(fixed, n).leak()) / n for n in (201, 801, 3201)]
    assert rates[0] > rates[1] > rates[2] > fixed.large_deviation
    assert rates[2] == pytest.approx(fixed.large_deviation, rel=0.03)
    assert fixed.large_deviation < 0.95 * fixed.r
    for n in (10**3, 10**4, 10**5):  # delta_2 = n^(-1/4): to 0, and sqrt(n) delta_2 to infinity
        shrinking = coin(0.5 * n**-0.25)
        assert -math.log(law(shrinking, n).leak()) > n * shrinking.r
    assert shrinking.large_deviation == pytest.approx(shrinking.r, rel=0.01)


def test_small_leaks_keep_their_digits() -> None:
    """Far below the rounding of the probabilities that they are differences of."""
    found = law(coin(0.2), 2001)
    exact = 2 * 0.7 * 0.3 * binom.pmf(1000, 2000, 0.7)
    assert found.leak() < 1e-70
    assert found.leak() == pytest.approx(exact, rel=1e-9)


def test_what_does_not_fit_is_refused() -> None:
    two = np.array([0.5, 0.5])
    with pytest.raises(ValueError, match=r"loss, chance: expected shapes .* got \[1, 2\] and \[2\]"):
        FiniteClass(np.zeros((1, 2)), two)
    with pytest.raises(ValueError, match=r"chance: expected positive numbers with sum 1, got \[0.5, 0.6\]"):
        FiniteClass(np.zeros((2, 2)), np.array([0.5, 0.6]))
    with pytest.raises(ValueError, match="loss: expected finite numbers"):
        FiniteClass(np.full((2, 2), np.inf), two)
    with pytest.raises(ValueError, match="n: expected at least 1, and at most 6,000,000 ways to split it"):
        law(coin(0.1), 0)
    with pytest.raises(ValueError, match="over 3 values, got 10000"):
        law(FiniteClass(np.eye(3), np.full(3, 1 / 3)), 10_000)
    with pytest.raises(ValueError, match="gamma: expected a positive number, got 0"):
        law(coin(0.1), 3).leak(0.0)
    with pytest.raises(ValueError, match=r"sees: expected shape \[2, 2\], got \[2\]"):
        law(coin(0.1), 3).leak(1.0, two)
