from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.moments import BLOCKS, LossMoments, Pair, grid
from discreet.trajectory import Trajectory


@given(st.integers(1, 200_000))
@settings(max_examples=60, deadline=None)
def test_grid_covers_every_sample_once_and_every_block(n: int) -> None:
    pieces = grid(n)
    assert pieces[0][1].start == 0
    assert pieces[-1][1].stop == n
    assert all(a.stop == b.start < b.stop for (_, a), (_, b) in itertools.pairwise(pieces))
    assert {block for block, _ in pieces} == set(range(min(BLOCKS, n)))


@pytest.mark.parametrize("n", [2, 3, 33, 1000, 9001])
def test_one_pass_equals_two_passes(n: int) -> None:
    rng = np.random.default_rng(n)
    losses = rng.exponential(size=(1, n)) + 0.01 * rng.standard_normal((5, n))
    moments = LossMoments.of(losses)
    assert moments.n == n
    np.testing.assert_allclose(moments.losses, losses.mean(axis=1), rtol=1e-12)
    gap = losses - losses[moments.best]
    mean, variance = moments.pairs(moments.best).total()
    np.testing.assert_allclose(mean[0], gap.mean(axis=1), atol=1e-14)
    np.testing.assert_allclose(variance[0], gap.var(axis=1), rtol=1e-9)
    assert (
        moments.pairs(moments.best).status.tolist() == Trajectory(losses).pairs(moments.best).status.tolist()
    )


def test_merge_is_the_union_whatever_the_order() -> None:
    losses = np.random.default_rng(0).exponential(size=(4, 700))
    whole = LossMoments.of(losses)
    parts = [LossMoments.empty(4) for _ in range(3)]
    for position, (block, piece) in enumerate(grid(700)):
        worker = position % 3
        parts[worker] = parts[worker].updated(block, losses[:, piece], position=position)
    for order in ((0, 1, 2), (2, 0, 1)):
        a, b, c = (parts[i] for i in order)
        merged = a.merge(b).merge(c)
        np.testing.assert_array_equal(merged.digest, whole.digest)
        np.testing.assert_array_equal(merged.count, whole.count)
        np.testing.assert_allclose(merged.comoment, whole.comoment, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(merged.losses, whole.losses, rtol=1e-13)


def test_merge_of_other_checkpoints_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(32, 2\) and \(32, 3\) \[block, checkpoint\] do not merge"):
        LossMoments.empty(2).merge(LossMoments.empty(3))


def test_equal_losses_have_equal_digests_and_are_one_configuration() -> None:
    losses = np.random.default_rng(1).exponential(size=(4, 300)).astype(np.float32)
    losses[3] = losses[1]
    moments = LossMoments.of(losses)
    assert moments.digest[3] == moments.digest[1] != moments.digest[0]
    assert moments.pairs(1).status.tolist() == [Pair.PLAIN, Pair.SAME, Pair.PLAIN, Pair.SAME]


def test_a_constant_difference_is_infinite_in_one_pass_too() -> None:
    base = np.random.default_rng(2).integers(0, 50, size=200).astype(float)
    ratios = LossMoments.of(np.array([base, base + 2, base + np.arange(200)])).pairs(0).ratios()[0]
    assert np.isnan(ratios[0])
    assert np.isinf(ratios[1])
    assert np.isfinite(ratios[2])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_is_refused_with_step_and_count(bad: float) -> None:
    losses = np.ones((3, 50), np.float32)
    losses[1, [7, 40]] = bad
    with pytest.raises(ValueError, match="checkpoint 1 has 2 of 50 losses that are NaN or infinite"):
        LossMoments.of(losses)


def test_weights_count_blocks_as_repetition_does() -> None:
    losses = np.random.default_rng(3).exponential(size=(3, 640))
    pair = LossMoments.of(losses).pairs(0)
    times = np.random.default_rng(4).multinomial(32, np.full(32, 1 / 32)).astype(float)
    block = np.empty(640, int)
    for j, piece in grid(640):
        block[piece] = j
    repeated = np.repeat(losses - losses[0], times[block].astype(int), axis=1)
    mean, variance = pair.total(times[None])
    np.testing.assert_allclose(mean[0], repeated.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(variance[0], repeated.var(axis=1), rtol=1e-12)
