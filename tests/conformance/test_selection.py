"""What every selection rule must do, whichever files are in its room."""

from __future__ import annotations

import numpy as np
import pytest

from discreet import selection_rules
from discreet.estimate import Estimate
from discreet.selection_rules import Candidate, choose, parse


def candidate(name: str, task: float, leak: float, r: float | None = 0.1) -> Candidate:
    return Candidate(name, Estimate(task, task, task, 100, 0.95), leak, 0.01, r)


FOUR = tuple(
    candidate(name, task, leak, r)
    for name, task, leak, r in (
        ("a", 0.80, 0.60, 0.01),
        ("b", 0.79, 0.55, 0.03),
        ("c", 0.5, 0.5, 0.5),
        ("d", 0.7, 0.7, 0.0),
    )
)


@pytest.mark.parametrize("name", selection_rules.names())
def test_one_finite_order_and_the_same_for_the_same_draws(name: str) -> None:
    rule = parse(name)
    worth = rule.worth(FOUR, np.random.default_rng(0))
    assert worth.shape == (4,)
    assert not np.isnan(worth).any()
    assert choose(rule, FOUR, np.random.default_rng(7)) == choose(rule, FOUR, np.random.default_rng(7))


@pytest.mark.parametrize("name", [name for name in selection_rules.names() if name != "random"])
def test_of_equals_the_first_and_it_says_so(name: str) -> None:
    same = tuple(candidate(each, 0.8, 0.6) for each in "abcd")
    assert choose(parse(name), same, np.random.default_rng(0)) == (0, False)


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        ("tm", "b"),  # 1.333, 1.436, 1.0, 1.0
        ("tm(power=20)", "a"),
        ("least", "c"),
        ("constrained(delta=0.01)", "b"),
        ("constrained(delta=0.0)", "a"),
        ("constrained(delta=0.5)", "c"),
        ("indicator", "b"),
        ("indicator(delta=1)", "c"),
    ],
)
def test_who_goes_on(rule: str, chosen: str) -> None:
    at, told = choose(parse(rule), FOUR, np.random.default_rng(0))
    assert (FOUR[at].name, told) == (chosen, True)


def test_lots_fall_evenly() -> None:
    rng = np.random.default_rng(0)
    many = np.bincount([choose(parse("random"), FOUR, rng)[0] for _ in range(400)])
    assert np.abs(many - 100).max() < 40


def test_lots_tell_nothing_apart() -> None:
    assert not any(choose(parse("random"), FOUR, np.random.default_rng(seed))[1] for seed in range(20))


def test_of_poor_fits_the_one_that_leaks_less_and_fits_better_is_worth_more() -> None:
    leaky, tight = candidate("a", -0.5, 0.9), candidate("b", -0.5, 0.6)
    assert choose(parse("tm"), (leaky, tight), np.random.default_rng(0)) == (1, True)
    better = candidate("c", -0.1, 0.6), candidate("d", 0.0, 0.9), candidate("e", 0.1, 0.9)
    assert np.all(np.diff(parse("tm").worth((tight, *better), np.random.default_rng(0))) > 0)


def test_a_candidate_without_indicator_comes_last() -> None:
    pair = candidate("a", 0.8, 0.6, None), candidate("b", 0.8, 0.6, 0.0)
    assert choose(parse("indicator"), pair, np.random.default_rng(0))[0] == 1
