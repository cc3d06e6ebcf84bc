"""Splits: nothing related crosses them, halves are exact complements, seeds decide everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.data.splits import complementary_halves, first_of_each, split_groups

groups = st.lists(st.integers(0, 30), min_size=40, max_size=200).map(np.array)


@settings(max_examples=50, deadline=None)
@given(groups, st.integers(0, 5))
def test_no_group_is_cut_and_no_sample_lost(group: np.ndarray, seed: int) -> None:
    if len(np.unique(group)) < 10:
        return
    parts = split_groups(group, (0.5, 0.1, 0.4), seed=seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(group)))
    held = [set(group[part].tolist()) for part in parts]
    assert sum(map(len, held)) == len(set().union(*held))


def test_shares_are_of_groups() -> None:
    parts = split_groups(np.repeat(np.arange(100), 3), (0.5, 0.1, 0.4), seed=1)
    assert [len(part) for part in parts] == [150, 30, 120]


def test_the_seed_decides() -> None:
    group = np.arange(50)
    first, again, other = (split_groups(group, (0.5, 0.5), seed=seed)[0].tolist() for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("shares", [(), (0.5,), (1.5, -0.5), (0.5, 0.4)])
def test_shares_must_add_up(shares: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="positive shares that add up to 1"):
        split_groups(np.arange(10), shares, seed=0)


def test_too_few_groups() -> None:
    with pytest.raises(ValueError, match="enough groups for 3 parts, got 2"):
        split_groups(np.array([0, 0, 1]), (0.4, 0.3, 0.3), seed=0)


def test_first_of_each_keeps_one_a_group() -> None:
    group = np.array([9, 9, 4, 4, 4, 7])
    assert first_of_each(group, np.array([1, 2, 3, 4, 5])).tolist() == [1, 2, 5]


@settings(max_examples=50, deadline=None)
@given(groups, st.integers(0, 5))
def test_halves_are_equal_complements_of_whole_groups(group: np.ndarray, seed: int) -> None:
    group = np.concatenate([group, np.arange(100, 140 + len(group) % 2)])  # single samples fill the gaps
    halves = complementary_halves(group, 3, seed=seed)
    assert (halves.sum(axis=1) == len(group) // 2).all()
    for name in np.unique(group):
        of_group = halves[:, group == name]
        assert (of_group == of_group[:, :1]).all()
    assert (halves[0::2] ^ halves[1::2]).all()
    assert (halves.sum(axis=0) == 3).all()


def test_more_pairs_start_with_the_same_ones() -> None:
    group = np.arange(40)
    np.testing.assert_array_equal(
        complementary_halves(group, 4, seed=3)[:4], complementary_halves(group, 2, seed=3)
    )
    assert (complementary_halves(group, 2, seed=3)[0] != complementary_halves(group, 2, seed=3)[2]).any()


def test_halves_cover_each_sample_evenly_over_seeds() -> None:
    group = np.repeat(np.arange(20), [1] * 16 + [4] * 4)
    shares = np.mean([complementary_halves(group, 1, seed=seed)[0] for seed in range(400)], axis=0)
    assert np.abs(shares - 0.5).max() < 0.12  # binomial, 4 standard errors, and the greedy fill's slight tilt


def test_an_odd_number_of_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="even number of samples, got 3"):
        complementary_halves(np.arange(3), 1, seed=0)


def test_groups_too_large_to_halve_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot fill a half, 2 of 2 samples are missing"):
        complementary_halves(np.array([0, 0, 0, 0]), 1, seed=0)
