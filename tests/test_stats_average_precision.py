"""Average precision: scikit-learn's value, its null level, ties, and intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.stats import average_precision


def drawn(seed: int, n: int = 200, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    member = np.arange(n) < n // 2
    return rng.standard_normal(n) + shift * member, member


@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_it_is_scikit_learns_with_ties(seed: int, n: int, steps: int) -> None:
    from sklearn.metrics import average_precision_score

    rng = np.random.default_rng(seed)
    member = rng.permutation(np.arange(n) < max(1, n // 3))
    scores = rng.integers(0, steps, n).astype(float)
    assert average_precision(scores, member).value == pytest.approx(average_precision_score(member, scores))


def test_order_changes_no_byte_and_nothing_to_tell_gives_the_share_of_members() -> None:
    scores, member = drawn(0)
    order = np.random.default_rng(1).permutation(len(scores))
    assert average_precision(scores[order], member[order]) == average_precision(scores, member)
    assert average_precision(np.zeros(200), np.arange(200) < 50).value == 0.25


def test_the_influence_is_that_of_leaving_one_out() -> None:
    from discreet.average_precision import _one

    scores, member = drawn(2, 400)
    value, effect = _one(scores, member)
    without = np.array([_one(np.delete(scores, i), np.delete(member, i))[0] for i in range(400)])
    for kind in (
        member,
        ~member,
    ):  # one less of a kind also changes the share of members, which is held fixed
        change = value - without[kind] - (value - without[kind]).mean()
        assert np.corrcoef(change, effect[kind])[0, 1] > 0.99
        assert np.sum(change**2) == pytest.approx(np.sum(effect[kind] ** 2), rel=0.1)


def test_a_perfect_attack_has_an_interval() -> None:
    found = average_precision(np.arange(40.0), np.arange(40) >= 20)
    assert found.value == found.high == 1
    assert found.low == pytest.approx(0.025 ** (1 / 20))


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(ValueError, match="expected both classes, got no non-member"):
        average_precision(np.arange(3.0), np.ones(3, bool))


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_intervals_cover(shift: float) -> None:
    truth = np.mean([average_precision(*drawn(10**6 + seed, 4000, shift)).value for seed in range(200)])
    found = [average_precision(*drawn(seed, 300, shift)) for seed in range(600)]
    covered = np.mean([each.low <= truth <= each.high for each in found])
    assert covered >= 0.92
