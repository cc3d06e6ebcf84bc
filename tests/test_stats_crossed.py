"""Runs that share samples: the two-way variance by hand, pairs, clusters, copies that teach nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.crossed import cluster_sums, complement_pairs, crossed
from discreet.stats import auc, tpr_at_fpr


def test_two_way_variance_by_hand() -> None:
    """A table of run + sample + noise effects, whose grand mean has a textbook variance estimate."""
    rng = np.random.default_rng(0)
    runs, samples = 7, 30
    table = rng.normal(size=(runs, 1)) + rng.normal(size=samples) + rng.normal(size=(runs, samples))
    values = table.mean(axis=1)
    # Each sample's share of its run's mean, such that the squares sum to the run's squared standard error.
    influence = (table - values[:, None]) / math.sqrt(samples * (samples - 1))
    grand = table.mean()
    rows = ((values - grand) ** 2).sum() / (runs - 1)
    columns = ((table.mean(axis=0) - grand) ** 2).sum() / (samples - 1)
    rest = table - values[:, None] - table.mean(axis=0) + grand
    noise = (rest**2).sum() / ((runs - 1) * (samples - 1))
    expected = rows / runs + columns / samples - noise / (runs * samples)
    found = crossed(values, influence, np.arange(runs))
    assert found.variance == pytest.approx(expected)
    dof = expected**2 / ((rows / runs) ** 2 / (runs - 1) + (columns / samples) ** 2 / (samples - 1))
    assert found.dof == pytest.approx(max(dof, runs - 1))


def test_never_less_than_either_part() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(5, 40))
    alike = crossed(np.full(5, 0.3), np.tile(noise[0] / 40, (5, 1)), np.arange(5))
    assert alike.variance == pytest.approx(((noise[0] / 40) ** 2).sum()), "copies of a run teach nothing"
    apart = crossed(np.arange(5.0), np.zeros((5, 40)), np.arange(5))
    assert apart.variance == pytest.approx(2.5 / 5)
    assert apart.dof == 4
    single = crossed(np.array([0.3]), noise[:1], np.arange(1))
    assert (single.variance, single.dof) == (pytest.approx((noise[0] ** 2).sum()), math.inf)


def test_copies_of_a_run_keep_its_interval() -> None:
    rng = np.random.default_rng(2)
    scores, member = rng.normal(size=200), np.arange(200) < 80
    copies, truth = np.tile(scores, (4, 1)), np.tile(member, (4, 1))
    one, four = auc(scores, member), auc(copies, truth)
    assert four.high - four.low == pytest.approx(one.high - one.low, rel=0.03)
    one, four = tpr_at_fpr(scores, member, 0.1).tpr, tpr_at_fpr(copies, truth, 0.1).tpr
    assert four.high - four.low == pytest.approx(one.high - one.low, rel=0.03)


def test_eight_pairs_count_as_draws() -> None:
    values = np.arange(16.0)
    pairs = np.repeat(np.arange(8), 2)
    together = crossed(values, np.zeros((16, 3)), pairs)
    assert together.variance == pytest.approx(np.var(values.reshape(8, 2).mean(axis=1), ddof=1) / 8)
    assert together.dof == 7
    fewer = crossed(values[:6], np.zeros((6, 3)), pairs[:6])
    assert fewer.variance == pytest.approx(np.var(values[:6], ddof=1) / 6)


def test_pairs_are_found_among_samples_that_anyone_trained_on() -> None:
    rng = np.random.default_rng(3)
    half = rng.random((3, 20)) < 0.5
    never = np.zeros((6, 5), bool)
    member = np.hstack([np.stack([half[0], half[1], ~half[0], half[2], ~half[2], half[1]]), never])
    assert complement_pairs(member).tolist() == [0, 1, 0, 3, 3, 5]


def test_cluster_sums_by_hand() -> None:
    influence = np.array([[1.0, 2.0, 4.0, 8.0]])
    sums = cluster_sums(influence, np.array(["b", "a", "b", "a"]))
    assert sums == pytest.approx(np.array([[10.0, 5.0]]) * math.sqrt(2))
    assert cluster_sums(influence, None) is influence
