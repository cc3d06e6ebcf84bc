"""Learners by hand: small cases of each formula, selection against naive loops, messages."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtri

from discreet._find import SpecError
from discreet.learners import (
    LEVELS,
    check_level,
    deal,
    held_out_pinball,
    parse,
    pinball_loss,
    quantile_learner,
    select,
)
from discreet.learners._attained import attained
from discreet.learners._design import Design, Scale, check_fit
from discreet.learners._levels import resolvable
from discreet.learners._predictors import LocationScale
from discreet.learners.ridge import _log_scale, _weighted_ridge, _with_constant

SIX = np.array([0.1, 0.25, 0.5, 0.75, 0.9, 0.99])


def linear(seed: int, n: int, columns: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, columns))
    return x, x[:, 0] + np.exp(0.3 * x[:, -1]) * rng.normal(size=n)


def test_levels_are_the_papers_without_zero() -> None:
    assert pytest.approx(1 - 10.0 ** (np.arange(-1, -41, -1) / 10)) == LEVELS
    assert len(LEVELS) == 40
    assert LEVELS.min() > 0
    assert LEVELS.max() == pytest.approx(0.9999)
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        LEVELS[0] = 0.0


@pytest.mark.parametrize(
    ("q", "expected"), [(99.0, 0.495), (99.5, 0.495), (100.0, 0.495), (98.0, 0.505), (101.0, 0.505)]
)
def test_pinball_elicits_the_quantile(q: float, expected: float) -> None:
    assert pinball_loss(q, np.arange(1.0, 101), 0.99).mean() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
def test_levels_of_no_quantile_are_refused(level: float) -> None:
    for call in (
        lambda: check_level(level),
        lambda: pinball_loss(0.0, np.zeros(3), level),
        lambda: held_out_pinball(parse("ridge"), *linear(0, 20)[:1], None, linear(0, 20)[1], level=level),
    ):
        with pytest.raises(ValueError, match="expected a number above 0 and below 1"):
            call()


def test_sorting_lowers_the_summed_loss_by_hand() -> None:
    levels, s = np.array([0.9, 0.95, 0.99]), np.array([0.0, 0.9, 1.1, 2.0])
    sums = [
        pinball_loss(np.tile(q, (4, 1)), s, levels).sum(axis=1).mean()
        for q in (np.array([1.0, 0.8, 1.3]), np.array([0.8, 1.0, 1.3]))
    ]
    assert sums[1] < sums[0]
    assert sums == pytest.approx([0.843, 0.833], abs=1e-9)


@given(
    q=arrays(np.float64, (5, 6), elements=st.floats(-50, 50)),
    s=arrays(np.float64, 5, elements=st.floats(-50, 50)),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_sorting_never_raises_the_summed_loss(q: np.ndarray, s: np.ndarray) -> None:
    before, after = (pinball_loss(each, s, SIX).sum(axis=1) for each in (q, np.sort(q, axis=1)))
    assert (after <= before + 1e-9).all()


def test_gaussian_head_by_hand() -> None:
    found = LocationScale(
        np.array([0.99, 0.999]), Scale(np.array(0.0), np.array(1.0)), lambda x, y: np.array([[1.0, 0.5]])
    )
    one = np.zeros((1, 1))
    assert found.quantiles(one, None)[0] == pytest.approx([4.8355, 6.0949], abs=1e-4)
    assert found.score(one, None, np.array([4.8355]))[0] == pytest.approx(ndtri(0.99), abs=1e-4)


def test_gaussian_likelihood_by_hand() -> None:
    import torch

    from discreet.learners.pinball import _head

    _, loss = _head("gaussian", np.arange(4.0), SIX)
    assert float(loss(torch.tensor([[1.0, 0.5]]), torch.tensor([2.0]))) == pytest.approx(0.68394, abs=1e-5)


def test_attained_is_the_inverse_of_the_quantiles() -> None:
    z = np.linspace(-4, 4, 33)
    q = np.tile(3 + 2 * ndtri(SIX), (33, 1))
    assert attained(SIX, q, 3 + 2 * z, 1e-3) == pytest.approx(z, abs=1e-9)


@given(
    q=arrays(np.float64, 6, elements=st.integers(-3, 3).map(float)),
    s=arrays(np.float64, 8, elements=st.integers(-16, 16).map(lambda k: k / 4), unique=True),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_attained_makes_no_ties(q: np.ndarray, s: np.ndarray) -> None:
    s = np.sort(s)
    found = attained(SIX, np.tile(np.sort(q), (8, 1)), s, 0.01)
    assert np.isfinite(found).all()
    assert (np.diff(found) > 0).all()


def test_attained_with_one_level_and_tied_quantiles() -> None:
    assert attained(np.array([0.5]), np.zeros((3, 1)), np.array([-1.0, 0.0, 2.0]), 0.5) == pytest.approx(
        [-2, 0, 4]
    )
    z = ndtri(SIX)
    tied = attained(SIX, np.array([[0.0, 1, 1, 1, 2, 3]]), np.array([1.0]), 0.1)
    assert tied[0] == pytest.approx((z[1] + z[3]) / 2)


def test_resolvable_levels() -> None:
    assert resolvable(10**6, 0.99) == pytest.approx(LEVELS)
    few = resolvable(100, 0.999)
    assert few[-1] == 0.999
    assert few[-2] == pytest.approx(0.99)
    assert (100 * (1 - few[:-1]) >= 1 - 1e-9).all()


def test_deal_keeps_every_class_out_of_any_one_fold() -> None:
    rng = np.random.default_rng(0)
    y = rng.choice(["a", "b", "c"], 200, p=[0.9, 0.08, 0.02])
    fold = deal(rng.permutation(200), y, 5)
    assert np.bincount(fold).tolist() == [40] * 5
    for each in range(5):
        assert set(y[fold != each]) == {"a", "b", "c"}
    two = deal(np.arange(10), np.array(list("daaaadaaaa")), 5)
    assert two[0] != two[5]
    with pytest.raises(ValueError, match="y: label 'd' has one row only"):
        deal(np.arange(7), np.array(list("aabbccd")), 3)
    with pytest.raises(ValueError, match="at least 5 rows for 5 folds, got 4"):
        deal(np.arange(4), None, 5)
    with pytest.raises(ValueError, match="folds: expected at least 2, got 1"):
        deal(np.arange(4), None, 1)


def test_held_out_pinball_against_a_loop() -> None:
    x, s = linear(1, 30)
    y = np.arange(30) % 2
    fold = deal(np.random.default_rng(3).permutation(30), y, 5)
    losses = np.empty(30)
    for row in range(30):
        others = fold != fold[row]
        fitted = parse("ridge").fit(x[others], y[others], s[others], levels=np.array([0.9]), seed=0)
        q = fitted.quantiles(x[row : row + 1], y[row : row + 1])[0, 0]
        losses[row] = 0.9 * (s[row] - q) if s[row] > q else 0.1 * (q - s[row])
    assert held_out_pinball(parse("ridge"), x, y, s, level=0.9, seed=3) == pytest.approx(
        losses.mean(), rel=1e-9
    )
    chosen = select([parse("ridge")], x, y, s, fold, level=0.9)
    assert chosen.best.pinball == pytest.approx(losses.mean(), rel=1e-9)
    assert chosen.best.error == pytest.approx(losses.std(ddof=1) / math.sqrt(30), rel=1e-9)


def test_the_better_learner_is_chosen() -> None:
    x, s = linear(2, 400)
    fold = deal(np.arange(400), None, 4)
    blunt, sharp = parse("ridge(penalty=1e6)"), parse("ridge")
    found = select([blunt, sharp, blunt], x, None, s, fold)
    assert [each.spec for each in found.candidates] == [
        "ridge(penalty=1000000.0, rounds=3)",
        "ridge(penalty=3.0, rounds=3)",
    ]
    assert found.best.learner == sharp
    assert found.best.pinball < found.candidates[0].pinball
    with pytest.raises(ValueError, match="learners: expected at least one, got none"):
        select([], x, None, s, fold)
    with pytest.raises(ValueError, match=r"level: expected one of the levels, got 0\.5"):
        select([sharp], x, None, s, fold, level=0.5, levels=np.array([0.9]))


def test_search_is_seeded_and_only_adds() -> None:
    x, s = linear(4, 120)
    fold = deal(np.arange(120), None, 3)
    start = [parse("ridge(penalty=900.0)"), parse("lightgbm(trees=5)")]
    few = np.array([0.5, 0.99])
    one, two = (select(start, x, None, s, fold, levels=few, trials=5, seed=7) for _ in range(2))
    assert [c.spec for c in one.candidates] == [c.spec for c in two.candidates]
    assert [c.pinball for c in one.candidates] == [c.pinball for c in two.candidates]
    assert [c.learner for c in one.candidates[:2]] == start
    assert 3 <= len(one.candidates) <= 7
    assert one.best.pinball == min(c.pinball for c in one.candidates)


def test_search_without_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    x, s = linear(5, 30)
    with pytest.raises(SpecError, match="trials needs the module 'optuna', which is not installed"):
        select([parse("ridge")], x, None, s, deal(np.arange(30), None, 3), trials=2)


def test_learners_that_learn_something_else() -> None:
    with pytest.raises(SpecError, match="unknown learner 'rigde'; did you mean 'ridge'"):
        quantile_learner("rigde")
    with pytest.raises(SpecError, match="'neural_blackbox' does not predict quantiles"):
        quantile_learner("neural_blackbox")


def test_rows_must_match() -> None:
    with pytest.raises(ValueError, match=r"x: expected 30 rows .* got shape \(29, 2\)"):
        check_fit(np.ones((29, 2)), None, np.ones(30), SIX)
    with pytest.raises(ValueError, match=r"x: expected 30 rows .* got shape \(30,\)"):
        check_fit(np.ones(30), None, np.ones(30), SIX)


def test_labels_are_read_as_they_were_fitted() -> None:
    x = np.zeros((3, 1))
    assert Design.of(x, np.array([7, 3, 7])).one_hot(np.array([3, 7, 3]), 3).tolist() == [
        [1, 0],
        [0, 1],
        [1, 0],
    ]
    assert Design.of(x, np.array([0.0, 1.0, 1.0])).one_hot(np.array([1.0, 0.0]), 2).tolist() == [
        [0, 1],
        [1, 0],
    ]
    assert Design.of(x, None).one_hot(None, 3).shape == (3, 0)
    with pytest.raises(ValueError, match="label '5' was not seen in fitting, which saw 3, 7"):
        Design.of(x, np.array([7, 3, 7])).one_hot(np.array([3, 5]), 2)


def test_images_are_scaled_by_channel() -> None:
    images = np.random.default_rng(0).normal(size=(20, 2, 5, 5)) * [[[3.0]], [[0.1]]] + 4
    scaled = Scale.of(images)(images)
    assert scaled.mean(axis=(0, 2, 3)) == pytest.approx([0, 0], abs=1e-12)
    assert scaled.std(axis=(0, 2, 3)) == pytest.approx([1, 1])


def test_a_network_reads_images() -> None:
    """Where a bright spot is decides the score; flattened into a straight line it could not be seen twice."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 0.1, (300, 1, 8, 8))
    right = np.arange(300) % 2
    x[np.arange(300), 0, rng.integers(0, 8, 300), rng.integers(0, 4, 300) + 4 * right] += 2
    s = 3.0 * right + 0.3 * rng.normal(size=300)
    learner = parse("pinball(hidden=(16,), epochs=40)")
    found = learner.fit(x[:200], None, s[:200], levels=SIX, seed=0)
    middle = found.quantiles(x[200:], None)[:, 2]
    assert np.corrcoef(middle, right[200:])[0, 1] > 0.8
    with pytest.raises(ValueError, match=r"x: expected \(1, 8, 8\) features a row"):
        found.quantiles(x[:, :, :4], None)


def test_catboost_scale_is_a_deviation_and_not_a_variance() -> None:
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=(800, 1)), 5 + 0.2 * rng.normal(size=800)
    q = (
        parse("catboost(trees=50)")
        .fit(x, None, s, levels=np.array([0.5, 0.8413447]), seed=0)
        .quantiles(x, None)
    )
    assert q[:, 0].mean() == pytest.approx(5, abs=0.03)
    assert (q[:, 1] - q[:, 0]).mean() == pytest.approx(0.2, rel=0.15)


def test_ridge_residuals_are_those_of_fits_without_the_row() -> None:
    x, s = linear(6, 25, 4)
    table, weight = _with_constant(x), np.exp(x[:, 1])
    _, residual = _weighted_ridge(table, s, weight, 2.0)
    scaled = weight / weight.mean()
    for row in range(25):
        keep = np.arange(25) != row
        gram = (table[keep].T * scaled[keep]) @ table[keep] + np.diag([25e-9, 2, 2, 2, 2])
        mean = np.linalg.solve(gram, (table[keep].T * scaled[keep]) @ s[keep])
        assert residual[row] == pytest.approx(s[row] - table[row] @ mean, rel=1e-6)


def test_ridge_log_scale_is_stationary() -> None:
    x, s = linear(7, 200)
    table, squares = _with_constant(x), s**2
    b = _log_scale(table, squares, 2.0, np.zeros(3))
    slope = table.T @ (1 - squares * np.exp(-2 * (table @ b))) + np.diag([2e-7, 2, 2]) @ b
    assert slope == pytest.approx(np.zeros(3), abs=1e-3)


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("ridge(penalty=0.0)", "penalty: expected a positive number, got 0.0"),
        ("ridge(rounds=0)", "rounds: expected at least 1, got 0"),
        ("pinball(head='normal')", "head: expected one of levels, gaussian, robust, got 'normal'"),
        ("pinball(hidden=())", "hidden: expected at least one width"),
        ("pinball(epochs=0)", "epochs: expected at least 1, got 0"),
        ("pinball(lr=0.0)", "lr and weight_decay"),
        ("pinball(held_out=1.0)", "held_out: expected a share"),
        ("lightgbm(leaves=1)", "leaves: expected at least 2, got 1"),
        ("lightgbm(learning_rate=0.0)", "learning_rate and l2"),
        ("catboost(head='x')", "head: expected one of gaussian, levels, got 'x'"),
        ("catboost(depth=17)", "trees and depth"),
        ("catboost(l2=-1.0)", "learning_rate and l2"),
    ],
)
def test_fields_are_checked(spec: str, match: str) -> None:
    with pytest.raises(SpecError, match=match):
        parse(spec)
