from __future__ import annotations

import numpy as np
import pytest

from discreet.stability import rank_until_stable, runs_needed, stability


def test_noise_agrees_with_itself_only_as_a_subset_of_itself() -> None:
    table = np.random.default_rng(0).random((40, 8))
    found = stability(table)
    assert found.subset_vs_all.runs[-1] == 40
    assert found.subset_vs_all.spearman[-1] == pytest.approx(1.0)
    assert found.subset_vs_all.spearman[-2] > 0.7
    assert max(map(abs, found.disjoint_halves.spearman)) < 0.35
    assert runs_needed(found).runs is None


def test_a_clear_order_needs_few_runs() -> None:
    rng = np.random.default_rng(1)
    table = np.arange(8.0) + 2.0 * rng.standard_normal((64, 8))
    found = stability(table)
    needed = runs_needed(found, 0.9)
    assert needed.runs is not None
    assert 2 <= needed.runs <= 16
    assert needed.reached is not None
    assert needed.reached > 0.9
    stricter = runs_needed(found, 0.99).runs
    assert stricter is None or stricter >= needed.runs


def test_an_inverted_half_is_seen_by_halves() -> None:
    table = np.concatenate([np.arange(6.0) + np.zeros((1, 6)), -np.arange(6.0) + np.zeros((1, 6))])
    assert stability(table).disjoint_halves.spearman == (-1.0,)


def test_undefined_entries_are_left_out_run_by_run() -> None:
    table = np.arange(5.0) + np.zeros((10, 5))
    table[:9, 2] = np.nan
    assert stability(table).disjoint_halves.spearman[-1] > 0.99


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)])
def test_too_little_to_draw_is_empty_and_says_nothing(shape: tuple[int, int]) -> None:
    found = stability(np.ones(shape))
    assert found.subset_vs_all.runs == ()
    assert runs_needed(found).reached is None


def test_a_target_that_is_no_correlation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"target must be a correlation in \(0, 1\], got 1.2"):
        runs_needed(stability(np.ones((4, 4))), 1.2)


def losses(rng: np.random.Generator, scale: float) -> dict[str, np.ndarray]:
    noise = 0.1 * rng.standard_normal((4, 3, 200))
    return {
        name: noise[i] + scale * s * np.array([[3.0], [0.0], [1.0]])
        for i, (name, s) in enumerate(zip("abcd", (0.05, 0.1, 0.2, 0.4), strict=True))
    }


def test_sequential_mode_asks_for_no_more_runs_than_it_needs() -> None:
    rng = np.random.default_rng(2)
    asked = []

    def runs():
        for i in range(100):
            asked.append(i)
            yield losses(rng, 1.0)

    found, stable = rank_until_stable(runs())
    assert stable
    assert len(asked) == found["a"].runs == 10  # the least 8, held 3 times


def test_sequential_mode_says_when_it_ran_out() -> None:
    rng = np.random.default_rng(3)
    found, stable = rank_until_stable(losses(rng, 0.0) for _ in range(12))
    assert not stable
    assert found["a"].runs == 12


def test_sequential_mode_refuses_nothing_and_strangers() -> None:
    with pytest.raises(ValueError, match="no run to rank"):
        rank_until_stable([])
    with pytest.raises(ValueError, match=r"run 1 has variants \['b'\], the first had \['a'\]"):
        rank_until_stable([{"a": np.random.default_rng(0).random((2, 9))}, {"b": np.ones((2, 9))}])
