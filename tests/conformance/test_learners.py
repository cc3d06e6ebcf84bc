"""What every quantile learner must do, found by listing the folder: a new file is under test at once."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
import torch
from scipy.special import ndtri
from scipy.stats import spearmanr

from discreet import _find
from discreet.learners import Choice, Predictor, QuantileLearner, names, parse

# Heads that take another path through the code, beside each learner's default.
VARIED = (
    "pinball(head='gaussian')",
    "pinball(head='robust')",
    "catboost(head='levels')",
    "ensemble(learner='pinball', size=2)",
)
LEARNERS = (*(name for name in names() if isinstance(parse(name), QuantileLearner)), *VARIED)
LEVELS = np.array([0.2, 0.5, 0.9, 0.95, 0.99])


def closed_form(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, scores that are normal given them, and their true mean and deviation."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    mu, sigma = 1 + 2 * x[:, 0], np.exp(0.7 * x[:, 1])
    return x, mu + sigma * rng.normal(size=n), mu, sigma


@cache
def fitted(spec: str, rows: int, seed: int = 0) -> Predictor:
    x, s, _, _ = closed_form(0, rows)
    return parse(spec).fit(x, None, s, levels=LEVELS, seed=seed)


@pytest.mark.parametrize("spec", LEARNERS)
def test_recovers_conditional_quantiles(spec: str) -> None:
    x, s, mu, sigma = closed_form(1, 5000)
    found = fitted(spec, 2000)
    q = found.quantiles(x, None)
    off = np.abs((q - mu[:, None]) / sigma[:, None] - ndtri(LEVELS)).mean(axis=0)
    assert (off < [0.35, 0.25, 0.35, 0.45, 0.7]).all(), off
    exceeded = (s[:, None] > q).mean(axis=0)
    assert exceeded == pytest.approx(1 - LEVELS, abs=0.05)
    assert spearmanr(found.score(x, None, s), (s - mu) / sigma).statistic > 0.95


@pytest.mark.parametrize("spec", LEARNERS)
def test_sorted_finite_and_rising(spec: str) -> None:
    x, s, _, _ = closed_form(2, 50)
    far = np.concatenate([x, 100 * x])
    found = fitted(spec, 150)
    assert isinstance(found, Predictor)
    q = found.quantiles(far, None)
    assert q.shape == (100, len(LEVELS))
    assert np.isfinite(q).all()
    assert (np.diff(q, axis=1) >= 0).all()
    assert 0 <= found.crossed(far, None) <= 1
    grid = np.linspace(-20, 20, 81)
    one = found.score(np.tile(x[:1], (81, 1)), None, grid)
    assert (np.diff(one) > 0).all()
    assert np.isfinite(found.score(far, None, np.concatenate([s, 1e6 * s]))).all()


@pytest.mark.parametrize("spec", LEARNERS)
def test_same_seed_same_bytes(spec: str) -> None:
    """And the process's own generators are left alone."""
    x, s, _, _ = closed_form(3, 40)
    first = fitted(spec, 150)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    again = fitted.__wrapped__(spec, 150)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    assert np.array_equal(again.quantiles(x, None), first.quantiles(x, None))
    assert np.array_equal(again.score(x, None, s), first.score(x, None, s))


@pytest.mark.parametrize("spec", LEARNERS)
def test_rows_are_predicted_by_themselves(spec: str) -> None:
    x, s, _, _ = closed_form(4, 60)
    found = fitted(spec, 150)
    whole, scores = found.quantiles(x, None), found.score(x, None, s)
    order = np.random.default_rng(0).permutation(60)
    assert found.quantiles(x[order], None) == pytest.approx(whole[order], rel=1e-9, abs=1e-9)
    assert found.score(x[order], None, s[order]) == pytest.approx(scores[order], rel=1e-9, abs=1e-9)
    assert found.quantiles(x[7:8], None)[0] == pytest.approx(whole[7], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("spec", LEARNERS)
def test_labels(spec: str) -> None:
    x, s, _, _ = closed_form(5, 200)
    y = np.array(["cat", "dog"])[np.arange(200) % 2]
    raised = s + 6.0 * (np.arange(200) % 2)
    before = x.copy(), y.copy(), raised.copy()
    found = parse(spec).fit(x, y, raised, levels=LEVELS, seed=0)
    assert all(np.array_equal(a, b) for a, b in zip(before, (x, y, raised), strict=True))
    middle = found.quantiles(x, y)[:, 1]
    assert middle[1::2].mean() - middle[::2].mean() > 4
    wrong = y.copy()
    wrong[4:6] = "cow"
    with pytest.raises(ValueError, match=r"label 'cow' was not seen .* saw cat, dog \(2 such rows\)"):
        found.quantiles(x, wrong)
    with pytest.raises(ValueError, match="one label for each of the 200 rows, got none"):
        found.quantiles(x, None)


@pytest.mark.parametrize("spec", LEARNERS)
@pytest.mark.parametrize("constant", ["x", "s", "both"])
def test_nothing_to_learn(spec: str, constant: str) -> None:
    x, s, _, _ = closed_form(6, 60)
    x = np.full_like(x, 3.0) if constant != "s" else x
    s = np.full_like(s, -2.5) if constant != "x" else s
    found = parse(spec).fit(x, None, s, levels=LEVELS, seed=0)
    assert np.isfinite(found.quantiles(x, None)).all()
    if constant == "x":  # then there is one distribution for all
        assert found.quantiles(x, None)[0, 1:4] == pytest.approx(
            np.quantile(s, LEVELS[1:4]), abs=s.std() + 1e-9
        )
    apart = found.score(x[:2] * 0 + x[0], None, np.array([-2.5, 0.0]))
    assert np.isfinite(apart).all()
    assert apart[1] > apart[0]


@pytest.mark.parametrize("spec", LEARNERS)
def test_refusals(spec: str) -> None:
    x, s, _, _ = closed_form(7, 30)
    learner = parse(spec)

    def refused(
        match: str,
        x: np.ndarray = x,
        s: np.ndarray = s,
        y: np.ndarray | None = None,
        levels: np.ndarray = LEVELS,
    ) -> None:
        with pytest.raises(ValueError, match=match):
            learner.fit(x, y, s, levels=levels, seed=0)

    bad = s.copy()
    bad[[3, 9]] = np.nan, np.inf
    refused(r"s: row 3 is NaN or infinite \(2 such rows\)", s=bad)
    refused(r"x: row 3 is NaN or infinite", x=np.where(np.arange(30)[:, None] == 3, np.inf, x))
    refused(r"x: expected 30 rows of at least one feature", x=x[:, :0])
    refused(r"s: expected a list of at least 2 scores, got shape \(1,\)", x=x[:1], s=s[:1])
    refused(r"y: expected one label for each of the 30 rows, got shape \(29,\)", y=np.zeros(29, int))
    refused(r"y: expected class labels, .* got float64", y=s)
    refused(r"levels: expected a number above 0 and below 1, got 0.0", levels=np.array([0.0, 0.5]))
    refused(r"levels: expected a number above 0 and below 1, got 1.0", levels=np.array([0.5, 1.0]))
    refused(r"levels: expected rising numbers", levels=np.array([0.9, 0.5]))
    refused(r"levels: expected at least one level", levels=np.array([]))
    with pytest.raises(ValueError, match=r"x: expected \(2,\) features a row as in fitting, got \(3,\)"):
        fitted(spec, 150).quantiles(np.ones((4, 3)), None)


@pytest.mark.parametrize("spec", LEARNERS)
def test_space_and_spec(spec: str) -> None:
    learner = parse(spec)
    assert parse(_find.spec(learner, "discreet.learners")) == learner
    known = {field.name for field in fields(learner)}
    space = learner.space()
    assert set(space) <= known
    for pick in (0, -1):
        ends = {
            name: where.options[pick] if isinstance(where, Choice) else (where.low, where.high)[pick]
            for name, where in space.items()
        }
        replace(learner, **ends)
